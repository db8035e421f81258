"""Values to bytes and back: versioned, exact, and unable to run anything.

`encode` and `decode` carry any plain value, `encode_request` and `decode_request` the fields of a request in a compact form
(`json_form` has the same values as readable JSON). A value comes back equal and of the same types; what cannot be carried is
refused with the path to it, and bytes that are no payload raise `DecodingError` and nothing else. The layout is described in
docs/reference/codec.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gossamer.errors import DecodingError, EncodingError, PayloadTooLarge, UnknownClass
from gossamer.frontier.codec.msgpack import (
    Build,
    Store,
    lower,
    pack,
    pack_slowly,
    pairs,
    unpack,
    unpack_row_slowly,
    unpack_slowly,
)
from gossamer.frontier.codec.types import NotEncodable

VERSION = 1
CLASS = "gossamer:class"
"""The key under which an item for a feed has the path of its class."""
_VALUE = bytes([VERSION])
_REQUEST = bytes([VERSION | 0x80])

_URL, _METHOD, _HEADERS, _BODY, _COOKIES, _META, _CB_KWARGS, _CALLBACK, _ERRBACK = range(9)
_ENCODING, _FLAGS, _DONT_FILTER, _HEADERS_AS_GIVEN = range(9, 13)
_NO_DEFAULT = object()
_FIELDS: dict[str, tuple[int, Any]] = {
    "url": (_URL, _NO_DEFAULT),
    "method": (_METHOD, "GET"),
    "headers": (_HEADERS, {}),
    "body": (_BODY, b""),
    "cookies": (_COOKIES, {}),
    "meta": (_META, {}),
    "cb_kwargs": (_CB_KWARGS, {}),
    "callback": (_CALLBACK, None),
    "errback": (_ERRBACK, None),
    "encoding": (_ENCODING, "utf-8"),
    "flags": (_FLAGS, []),
    "dont_filter": (_DONT_FILTER, False),
}
_NAMES: dict[Any, str] = {code: name for name, (code, _) in _FIELDS.items()} | {_HEADERS_AS_GIVEN: "headers"}


def encode(value: Any, *, limit: int | None = None) -> bytes:
    """The bytes of a value.

    Raises `EncodingError` naming the path and type of the first part that cannot be carried, and `PayloadTooLarge`
    when the bytes are more than `limit`. What it accepts, `decode` reads.
    """
    try:
        data = _VALUE + pack(value)
    except Exception:
        data = _VALUE + _pack_slowly(value)
    if limit is not None and len(data) > limit:
        raise _too_large(data, limit)
    return data


def decode(data: bytes) -> Any:
    """The value of bytes that `encode` made, of this version or an older one; `DecodingError` for any others."""
    if data[:1] != _VALUE:
        raise DecodingError(_wrong_form(data, "a value"))
    try:
        return unpack(data[1:])
    except Exception:
        return _unpack_slowly(data, "a value")


def encode_request(fields: Mapping[str, Any], *, limit: int | None = None, store: Store | None = None) -> bytes:
    """The bytes of a request's fields; errors as in `encode`, with paths such as `meta['a'][0]`.

    Known fields take one byte each, those at their default nothing; any other field is kept under its name. `store` gives what
    is kept of objects that are no plain data.
    """
    row: list[Any] = []
    for name, value in fields.items():
        known = _FIELDS.get(name)
        if known is None:
            if not isinstance(name, str):
                raise EncodingError(f"{name!r}: the name of a request's field must be text")
            row += name, value
            continue
        code, default = known
        if value is default or (type(value) is type(default) and value == default):
            continue
        if code == _HEADERS:
            headers = _header_pairs(value)
            if headers is None:
                code = _HEADERS_AS_GIVEN
            elif not headers:
                continue
            else:
                value = headers
        row += code, value
    try:
        data = _REQUEST + pack(row, builtin=store is None)
    except Exception:
        data = _REQUEST + _pack_row_slowly(row, store)
    if limit is not None and len(data) > limit:
        raise _too_large(data, limit)
    return data


def decode_request(data: bytes, *, build: Build | None = None) -> dict[str, Any]:
    """The fields of bytes that `encode_request` made, every known field present but `url` if it was not given.

    Containers are fresh, so a caller may change them. `DecodingError` for any other bytes. `build` makes objects again, and
    `UnknownClass` says where it refuses; without it they are `StoredObject`.
    """
    row = _row(data, build)
    fields: dict[str, Any] = {
        "method": "GET",
        "headers": {},
        "body": b"",
        "cookies": {},
        "meta": {},
        "cb_kwargs": {},
        "callback": None,
        "errback": None,
        "encoding": "utf-8",
        "flags": [],
        "dont_filter": False,
    }
    return _read_row(row, fields)


def given_fields(data: bytes) -> dict[str, Any]:
    """The fields that `encode_request` was given and that are not at their default, in that order; the method always."""
    fields = _read_row(_row(data), {})
    return fields if "method" in fields else {"method": "GET", **fields}


def _row(data: bytes, build: Build | None = None) -> list[Any]:
    if data[:1] != _REQUEST:
        raise DecodingError(_wrong_form(data, "a request"))
    try:
        row = unpack(data[1:])
    except Exception:
        row = _unpack_row_slowly(data, build)
    if type(row) is not list or len(row) % 2:
        raise DecodingError("Not a request: its fields are not pairs.")
    return row


def _read_row(row: list[Any], fields: dict[str, Any]) -> dict[str, Any]:
    for code, value in pairs(row):
        if type(code) is int:
            name = _NAMES.get(code)
            if name is None:
                raise DecodingError(f"Not a request of version {VERSION}: it has a field numbered {code}.")
            fields[name] = _headers_from(value) if code == _HEADERS else value
        elif type(code) is str:
            fields[code] = value
        else:
            raise DecodingError(f"Not a request: a field is named by {type(code).__name__}.")
    return fields


def _too_large(data: bytes, limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The payload takes {len(data)} bytes, the limit is {limit}. Send less, or raise GOSSAMER_PAYLOAD_MAX_BYTES."
    )


def _header_pairs(headers: Any) -> list[Any] | None:
    """Headers as name, value, name, value; several values as a list. None when they are not dict[bytes, list[bytes]]."""
    if not isinstance(headers, dict):
        return None
    row: list[Any] = []
    for name, values in dict.items(headers):
        if type(name) is not bytes or type(values) is not list:
            return None
        for value in values:
            if type(value) is not bytes:
                return None
        row += name, values[0] if len(values) == 1 else values
    return row


def _headers_from(row: Any) -> dict[bytes, list[bytes]]:
    if type(row) is not list or len(row) % 2:
        raise DecodingError("Not a request: its headers are not pairs.")
    headers: dict[bytes, list[bytes]] = {}
    for name, value in pairs(row):
        values = [value] if type(value) is bytes else value
        if type(name) is not bytes or type(values) is not list or any(type(one) is not bytes for one in values):
            raise DecodingError("Not a request: its headers are not bytes.")
        headers[name] = values
    return headers


def _pack_slowly(value: Any) -> bytes:
    try:
        return pack_slowly(lower(value, 0))
    except NotEncodable as refused:
        raise refused.error("value") from None
    except Exception as error:
        raise EncodingError(f"value: cannot be stored ({error})") from error


def _pack_row_slowly(row: list[Any], store: Store | None) -> bytes:
    lowered: list[Any] = []
    for code, value in pairs(row):
        try:
            lowered += lower(code, 1), lower(value, 1, False, store)
        except NotEncodable as refused:
            raise refused.error(_NAMES.get(code, code)) from None
        except Exception as error:
            raise EncodingError(f"{_NAMES.get(code, code)}: cannot be stored ({error})") from error
    try:
        return pack_slowly(lowered)
    except Exception as error:
        raise EncodingError(f"The request cannot be stored ({error})") from error


def _unpack_slowly(data: bytes, what: str) -> Any:
    try:
        return unpack_slowly(data[1:])
    except Exception as error:
        raise DecodingError(f"Not {what} of this codec: {error or type(error).__name__}.") from error


def _unpack_row_slowly(data: bytes, build: Build | None) -> list[Any]:
    row: list[Any] = []
    try:
        for code, value in unpack_row_slowly(data[1:], build):
            row += code, value
    except NotEncodable as refused:
        code = refused.steps.pop()
        raise UnknownClass(str(refused.error(str(_NAMES.get(code, code))))) from None
    except Exception as error:
        raise DecodingError(f"Not a request of this codec: {error or type(error).__name__}.") from error
    return row


def _wrong_form(data: bytes, what: str) -> str:
    if not data:
        return f"Not {what} of this codec: no bytes."
    version = data[0] & 0x7F
    if VERSION < version < 0x40:
        return f"Codec version {version} is newer than this one ({VERSION}); upgrade this worker."
    if version == VERSION:
        return f"Not {what} but {'a request' if data[0] & 0x80 else 'a value'}."
    return f"Not {what} of this codec: its first byte is {data[0]}."
