"""Values to bytes and to JSON, and back: versioned, exact, and unable to run anything."""

from gossamer.frontier.codec.binary import CLASS, VERSION, decode, decode_request, encode, encode_request, given_fields
from gossamer.frontier.codec.json_form import from_json, to_json
from gossamer.frontier.codec.types import StoredObject

__all__ = [
    "CLASS",
    "VERSION",
    "StoredObject",
    "decode",
    "decode_request",
    "encode",
    "encode_request",
    "from_json",
    "given_fields",
    "to_json",
]
