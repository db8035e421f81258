"""Values to bytes and to JSON, and back: versioned, exact, and unable to run anything."""

from gossamer.frontier.codec.binary import (
    CLASS,
    VERSION,
    StoredObject,
    decode,
    decode_request,
    encode,
    encode_request,
    from_json,
    given_fields,
    to_json,
)

__all__ = [
    "CLASS", "VERSION", "StoredObject", "decode", "decode_request", "encode", "encode_request", "from_json",
    "given_fields", "to_json",
]  # fmt: skip
