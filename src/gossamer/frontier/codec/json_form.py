"""The readable form: the codec's values as JSON that people can read, edit and keep in files.

Text, numbers, lists and dicts stand as themselves. What JSON lacks is an object with one key that starts with `$`:
`{"$bytes": "abc"}`, `{"$tuple": [1, 2]}`. `from_json` is the exact inverse of `to_json`, also after the value went
through `json.dumps` and `json.loads`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from gossamer.errors import DecodingError
from gossamer.frontier.codec.types import (
    KEY_STEP,
    MAX_DEPTH,
    MEMBER_STEP,
    PATHS,
    NotEncodable,
    StoredObject,
    base,
    flat,
    in_known_zone,
    step,
    too_deep,
    unhashable,
    zone_from,
    zone_parts,
)

# Past it other JSON readers round.
_EXACT_INT = 1 << 53
# Past it Python refuses to read decimal digits, and takes quadratic time to write them.
_DECIMAL_BITS = 1024
_LONE_SURROGATE = re.compile("([\ud800-\udfff])")
_NOT_PRINTABLE = re.compile(rb"[^\x20-\x7e]")

_Moment = TypeVar("_Moment", datetime, time)


def to_json(value: Any) -> Any:
    """The value in the types that JSON knows; `EncodingError` with the path to what cannot be carried."""
    try:
        return _tagged(value, 0, False)
    except NotEncodable as refused:
        raise refused.error("value") from None
    except RecursionError:
        raise too_deep().error("value") from None


def from_json(value: Any) -> Any:
    """The value that `to_json` was given; `DecodingError` for a tag that is unknown or holds the wrong thing."""
    try:
        return _untagged(value)
    except RecursionError:
        raise DecodingError("The JSON value is nested too deep.") from None


def _tagged(value: Any, depth: int, hashed: bool) -> Any:
    kind = type(value)
    if kind not in _KINDS:
        value = base(value)
        kind = type(value)
    if kind is list or kind is dict or kind in _COLLECTIONS:
        return _tagged_container(value, depth, hashed)
    if kind is StoredObject:
        if depth >= MAX_DEPTH:
            raise too_deep()
        return {"$object": [value.form, value.name, *(_tagged(part, depth + 1, False) for part in value.values)]}
    write = _WRITERS.get(kind)
    return value if write is None else write(value)


def _tagged_container(value: Any, depth: int, hashed: bool) -> Any:
    kind = type(value)
    if kind in (list, dict) and hashed:
        raise unhashable()
    if depth >= MAX_DEPTH and not (kind in _COLLECTIONS and flat(value)):
        raise too_deep()
    if kind is dict:
        return _tagged_dict(value, depth + 1)
    unordered = kind in (set, frozenset)
    items = []
    for index, item in enumerate(value):
        try:
            items.append(_tagged(item, depth + 1, hashed or unordered))
        except NotEncodable as refused:
            raise refused.at(MEMBER_STEP if unordered else step(index)) from None
    return items if kind is list else {_COLLECTIONS[kind]: items}


def _tagged_dict(value: dict[Any, Any], depth: int) -> Any:
    pairs: list[list[Any]] = []
    plain = True
    for key, item in value.items():
        try:
            tagged = _tagged(key, depth, True)
        except NotEncodable as refused:
            raise refused.at(KEY_STEP) from None
        plain = plain and type(tagged) is str and not tagged.startswith("$")
        try:
            pairs.append([tagged, _tagged(item, depth, False)])
        except NotEncodable as refused:
            raise refused.at(step(key)) from None
    return dict(pairs) if plain else {"$dict": pairs}


def _write_str(value: str) -> Any:
    # JSON readers join two lone surrogates into one character, and UTF-8 files cannot hold any.
    parts = _LONE_SURROGATE.split(value)
    if len(parts) == 1:
        return value
    return {"$str": [ord(part) if index % 2 else part for index, part in enumerate(parts)]}


def _write_int(value: int) -> Any:
    if -_EXACT_INT <= value <= _EXACT_INT:
        return value
    return {"$int": str(value) if value.bit_length() <= _DECIMAL_BITS else hex(value)}


def _write_bytes(value: bytes | bytearray | memoryview) -> Any:
    data = bytes(value)
    if _NOT_PRINTABLE.search(data):
        return {"$base64": b64encode(data).decode("ascii")}
    return {"$bytes": data.decode("ascii")}


def _write_moment(tag: str) -> Callable[[datetime | time], Any]:
    def write(value: datetime | time) -> Any:
        value = in_known_zone(value)
        zone = zone_parts(value.tzinfo)
        extra: dict[str, Any] = {"fold": value.fold} if value.fold else {}
        if isinstance(zone, str):
            extra["zone"] = zone
            value = value.replace(tzinfo=None)
        elif zone and len(zone) == 2:
            extra["name"] = _write_str(zone[1])
        if isinstance(zone, list) and 0 < abs(zone[0]) < 1_000_000:
            # Python 3.11 reads an offset of less than a second as none.
            extra["offset"] = zone[0]
            value = value.replace(tzinfo=None)
        text = value.isoformat()
        return {tag: {"at": text, **extra} if extra else text}

    return write


_COLLECTIONS: dict[type, str] = {tuple: "$tuple", set: "$set", frozenset: "$frozenset"}
_WRITERS: dict[type, Callable[[Any], Any]] = {
    str: _write_str,
    int: _write_int,
    float: lambda v: v if isfinite(v) else {"$float": repr(v)},
    bytes: _write_bytes,
    bytearray: _write_bytes,
    memoryview: _write_bytes,
    datetime: _write_moment("$datetime"),
    date: lambda v: {"$date": v.isoformat()},
    time: _write_moment("$time"),
    timedelta: lambda v: {"$timedelta": [v.days, v.seconds, v.microseconds]},
    Decimal: lambda v: {"$decimal": str(v)},
    UUID: lambda v: {"$uuid": str(v)},
    complex: lambda v: {"$complex": [_WRITERS[float](v.real), _WRITERS[float](v.imag)]},
}
_WRITERS.update(dict.fromkeys(PATHS, lambda v: {"$path": _write_str(str(v))}))

_KINDS = frozenset(_WRITERS) | frozenset(_COLLECTIONS) | {type(None), bool, list, dict, StoredObject}


def _untagged(value: Any) -> Any:
    if type(value) is list:
        return [_untagged(item) for item in value]
    if type(value) is not dict:
        return value
    for key in value:
        if type(key) is not str:
            raise DecodingError(f"A key of the JSON object is {type(key).__name__}, not text.")
        if key.startswith("$"):
            break
    else:
        return {key: _untagged(item) for key, item in value.items()}
    read = _READERS.get(key)
    if read is None:
        raise DecodingError(f"{key!r} is not a tag of the readable form. A key that starts with $ belongs in $dict.")
    if len(value) != 1:
        raise DecodingError(f"The tag {key!r} must be the only key of its object.")
    try:
        return read(value[key])
    except (DecodingError, RecursionError):
        raise
    except Exception as error:
        raise DecodingError(f"The tag {key!r} holds something else: {error or type(error).__name__}.") from error


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("expected text")
    return value


def _items(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError("expected a list")
    return [_untagged(item) for item in value]


def _read_float(text: Any) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError("expected nan, inf or -inf")
    return float(text)


def _read_moment(kind: type[_Moment]) -> Callable[[Any], _Moment]:
    def read(parts: Any) -> _Moment:
        if isinstance(parts, str):
            return kind.fromisoformat(parts)
        extra = {**parts}
        moment = kind.fromisoformat(extra.pop("at"))
        zone, name, fold = extra.pop("zone", None), extra.pop("name", None), extra.pop("fold", 0)
        microseconds = extra.pop("offset", None)
        if extra:
            raise ValueError(f"{next(iter(extra))!r} is not known there")
        if zone is not None:
            moment = moment.replace(tzinfo=zone_from(_text(zone)))
        if microseconds is not None:
            moment = moment.replace(tzinfo=timezone(timedelta(microseconds=microseconds)))
        if name is not None:
            offset = moment.utcoffset()
            if offset is None:
                raise ValueError("a name needs an offset")
            moment = moment.replace(tzinfo=timezone(offset, _untagged(name)))
        return moment.replace(fold=fold)

    return read


def _read_object(parts: list[Any]) -> StoredObject:
    form, name, *values = parts
    return StoredObject(_text(form), _text(name), tuple(map(_untagged, values)))


_READERS: dict[str, Callable[[Any], Any]] = {
    "$str": lambda v: "".join(chr(part) if type(part) is int else _text(part) for part in v),
    "$int": lambda v: int(_text(v), 16 if "0x" in v else 10),
    "$float": _read_float,
    "$bytes": lambda v: _text(v).encode("ascii"),
    "$base64": lambda v: b64decode(_text(v), validate=True),
    "$tuple": lambda v: tuple(_items(v)),
    "$set": lambda v: set(_items(v)),
    "$frozenset": lambda v: frozenset(_items(v)),
    "$dict": lambda v: {_untagged(key): _untagged(item) for key, item in v},
    "$datetime": _read_moment(datetime),
    "$date": lambda v: date.fromisoformat(v),
    "$time": _read_moment(time),
    "$timedelta": lambda v: timedelta(*v),
    "$decimal": lambda v: Decimal(_text(v)),
    "$uuid": lambda v: UUID(_text(v)),
    "$path": lambda v: Path(_text(_untagged(v))),
    "$complex": lambda v: complex(*_items(v)),
    "$object": _read_object,
}
