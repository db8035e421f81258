"""An item as rows and JSON that any tool reads. Pure.

What JSON lacks becomes text: dates and times in ISO 8601, decimals and UUIDs as they are written, bytes as UTF-8 or else in base64;
sets and tuples become lists, and numbers that are not finite become null. `gossamer export --items` keeps the exact types.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from math import isfinite
from typing import Any

from gossamer.errors import DecodingError
from gossamer.frontier import codec


def fields(data: bytes) -> dict[str, Any]:
    """The fields of an item; of a value that has none, one called `value`, and of other bytes one called `payload`."""
    try:
        value = codec.decode(data)
    except DecodingError:
        return {"payload": data}
    if isinstance(value, dict):
        return {str(name): content for name, content in value.items() if name != codec.CLASS}
    return {"value": value}


def simple(value: Any) -> Any:
    """A value in the types of JSON."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): simple(content) for name, content in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(simple, value), key=repr)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [simple(content) for content in value]
    return text(value)


def text(value: Any) -> str:
    """A single value that JSON lacks, as text."""
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return b64encode(data).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return repr(value.total_seconds())
    return str(value)


def line(item: Mapping[str, Any]) -> bytes:
    """An item as one line of JSON."""
    return _json(simple(item)).encode() + b"\n"


def cell(value: Any) -> str:
    """A value as a cell of a table: empty for None, JSON for what has parts."""
    plain = simple(value)
    if plain is None:
        return ""
    return plain.encode("utf-8", "backslashreplace").decode() if isinstance(plain, str) else _json(plain)


def _json(plain: Any) -> str:
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            # Half a surrogate pair, which UTF-8 cannot hold.
            return json.dumps(plain, separators=(",", ":"))
    return text
