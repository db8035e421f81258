"""Single values to MessagePack with extension tags and back, exactly.

Both directions have a first pass, which is one call of the packer and knows only what it carries without loss, and a
second pass in Python, which knows everything: nested tuples, keys that are not text, lone surrogates, and the path to
a culprit. Callers try the first and fall back to the second.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import ormsgpack
from ormsgpack import Ext, packb, unpackb

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

# Without these the packer would turn tuples into lists, dates and UUIDs into text, and dataclasses into dicts.
# OPT_NON_STR_KEYS stays off: it turns keys that are dates, UUIDs or enums into text.
_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)

# The unpacker ignores what follows a value. A payload is therefore read as the first of two values, the second
# being this one: bytes left over would be found in its place.
_PAIR, _END, _END_PACKED = b"\x92", "\x00end", b"\xa4\x00end"

_INT, _STR, _TUPLE, _SET, _FROZENSET, _DICT = 1, 2, 3, 4, 5, 6
_DATETIME, _DATE, _TIME, _TIMEDELTA, _DECIMAL, _UUID, _PATH, _COMPLEX = 7, 8, 9, 10, 11, 12, 13, 14
_OBJECT = 15

Store = Callable[[Any], StoredObject | None]
"""Returns what to store of an object; None if the object cannot be stored that way. May raise `NotEncodable`."""
Build = Callable[[StoredObject], Any]
"""Makes the object again. May raise `NotEncodable`."""


def pairs(row: list[Any]) -> zip[tuple[Any, Any]]:
    """A flat row of key, value, key, value as pairs; ValueError when iterated and one is missing."""
    items = iter(row)
    return zip(items, items, strict=True)


def _ext_int(value: int) -> Ext:
    return Ext(_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _ext_flat(tag: int) -> Callable[[Any], Ext]:
    def pack(value: Any) -> Ext:
        if not flat(value):
            raise TypeError("holds more than scalars")
        return Ext(tag, packb(list(value), None, _OPTIONS))

    return pack


def _clock(value: datetime | time) -> list[Any]:
    value = in_known_zone(value)
    parts: list[Any] = [value.hour, value.minute, value.second, value.microsecond]
    if value.fold or value.tzinfo is not None:
        parts += value.fold, zone_parts(value.tzinfo)
    return parts


def _ext_text(tag: int, text: Any) -> Ext:
    return Ext(tag, str(text).encode("utf-8", "surrogatepass"))


_PACK: dict[type, Callable[[Any], Any]] = {
    int: _ext_int,
    tuple: _ext_flat(_TUPLE),
    set: _ext_flat(_SET),
    frozenset: _ext_flat(_FROZENSET),
    datetime: lambda v: Ext(_DATETIME, packb([v.year, v.month, v.day, *_clock(v)])),
    date: lambda v: Ext(_DATE, packb([v.year, v.month, v.day])),
    time: lambda v: Ext(_TIME, packb(_clock(v))),
    timedelta: lambda v: Ext(_TIMEDELTA, packb([v.days, v.seconds, v.microseconds])),
    Decimal: lambda v: _ext_text(_DECIMAL, v),
    UUID: lambda v: Ext(_UUID, v.bytes),
    complex: lambda v: Ext(_COMPLEX, struct.pack(">dd", v.real, v.imag)),
    memoryview: bytes,
}
_PACK.update(dict.fromkeys(PATHS, lambda v: _ext_text(_PATH, v)))


_KINDS = frozenset(_PACK) | {type(None), bool, float, str, bytes, bytearray, list, dict, StoredObject}

# The bytes that open no list and no dict. Without them, a payload is at least as long as its value is deep.
_NOT_OPENING = bytes(byte for byte in range(256) if not (0x80 <= byte <= 0x9F or 0xDC <= byte <= 0xDF))


def pack(value: Any, *, builtin: bool = True) -> bytes:
    """The first pass: the packed value. Raises any Exception for what only the second pass can judge; with `builtin` off, also for
    what would become the builtin that its class is made of."""
    data = packb(value, _pack_rare if builtin else _pack_known, _OPTIONS)
    if len(data) > MAX_DEPTH and _deep(value, data):
        raise too_deep()
    return data


def pack_slowly(lowered: Any) -> bytes:
    """The packed form of what `lower` made."""
    return packb(lowered, None, _OPTIONS)


def _deep(value: Any, data: bytes) -> bool:
    if len(data.translate(None, _NOT_OPENING)) <= MAX_DEPTH:
        return False
    level: list[Any] = [value] if isinstance(value, (list, dict)) else []
    for _ in range(MAX_DEPTH):
        inner = [item for one in level for item in (dict.values(one) if isinstance(one, dict) else list.__iter__(one))]
        level = [item for item in inner if isinstance(item, (list, dict))]
        if not level:
            return False
    return True


def _pack_rare(value: Any) -> Any:
    """The packer's hook for what it does not carry itself. Whatever it raises leads to the second pass."""
    pack = _PACK.get(type(value))
    return base(value) if pack is None else pack(value)


def _pack_known(value: Any) -> Any:
    return _PACK[type(value)](value)


def lower(value: Any, depth: int, hashed: bool = False, store: Store | None = None) -> Any:
    """The second pass: the value in the packer's own types and extensions; `NotEncodable` for what cannot be carried.

    `depth` containers stand around it; `hashed` says that one of them is a key or a set, where no list may stand.
    """
    kind = type(value)
    if kind not in _KINDS:
        stored = None if store is None else store(value)
        value = base(value) if stored is None else stored
        kind = type(value)
    if kind is str:
        return value if value.isascii() or not _has_surrogate(value) else _ext_text(_STR, value)
    if kind is int:
        return value if -(1 << 63) <= value < 1 << 64 else _ext_int(value)
    if kind in (list, dict, tuple, set, frozenset):
        return _lower_container(value, depth, hashed, store)
    if kind is StoredObject:
        return _lower_object(value, depth, store)
    pack = _PACK.get(kind)
    return value if pack is None else pack(value)


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _lower_container(value: Any, depth: int, hashed: bool, store: Store | None) -> Any:
    kind = type(value)
    if kind in (tuple, set, frozenset) and flat(value):
        try:
            return _PACK[kind](value)
        except TypeError:
            pass  # a scalar that needs an extension: a lone surrogate, a large int
    if depth >= MAX_DEPTH:
        raise too_deep()
    depth += 1
    if kind is dict:
        if hashed:
            raise unhashable()
        return _lower_dict(value, depth, store)
    if kind is list and hashed:
        raise unhashable()
    unordered = kind in (set, frozenset)
    lowered = []
    for index, item in enumerate(value):
        try:
            lowered.append(lower(item, depth, hashed or unordered, store))
        except NotEncodable as refused:
            raise refused.at(MEMBER_STEP if unordered else step(index)) from None
    if kind is list:
        return lowered
    tag = _TUPLE if kind is tuple else _SET if kind is set else _FROZENSET
    return Ext(tag, packb(lowered, None, _OPTIONS))


def _lower_object(value: StoredObject, depth: int, store: Store | None) -> Ext:
    if depth >= MAX_DEPTH:
        raise too_deep()
    # Steps of a path go through its values as through those of a dict or list: an object is one step with them.
    row = [value.form, value.name, *(lower(part, depth + 1, False, store) for part in value.values)]
    return Ext(_OBJECT, packb(row, None, _OPTIONS))


def _lower_dict(value: dict[Any, Any], depth: int, store: Store | None) -> Any:
    row: list[Any] = []
    textual = True
    for key, item in value.items():
        try:
            lowered = lower(key, depth, True, store)
        except NotEncodable as refused:
            raise refused.at(KEY_STEP) from None
        textual = textual and type(lowered) is str
        try:
            row += lowered, lower(item, depth, False, store)
        except NotEncodable as refused:
            raise refused.at(step(key)) from None
    return dict(pairs(row)) if textual else Ext(_DICT, packb(row, None, _OPTIONS))


class _Extension(NamedTuple):
    """An extension that the second pass has yet to revive."""

    tag: int
    data: bytes


def unpack(data: bytes) -> Any:
    """The first pass: the value of packed bytes, unless extensions stand inside extensions. Raises any Exception."""
    value, end = unpackb(_PAIR + data + _END_PACKED, ext_hook=_revive)
    if end != _END or (len(data) > MAX_DEPTH and _deep(value, data)):
        raise ValueError("left to the second pass")
    return value


def unpack_slowly(data: bytes, build: Build | None = None) -> Any:
    """The second pass. Raises any Exception, with a message that tells people what is wrong; `NotEncodable` as `build` does."""
    return _raise_parts(_segment(data, _Extension), 0, build)


def unpack_row_slowly(data: bytes, build: Build | None = None) -> Iterator[tuple[Any, Any]]:
    """The second pass over a row of key, value, key, value: pair by pair."""
    row = _segment(data, _Extension)
    if type(row) is not list or len(row) % 2:
        raise ValueError("its fields are not pairs")
    for key, value in pairs(row):
        name = _raise_parts(key, 1, None)
        try:
            yield name, _raise_parts(value, 1, build)
        except NotEncodable as refused:
            raise refused.at(name) from None


def _segment(data: bytes, hook: Callable[[int, bytes], Any] | None = None) -> Any:
    value, end = unpackb(_PAIR + data + _END_PACKED, ext_hook=hook)
    if end != _END:
        raise ValueError("bytes are left over")
    return value


def _items(data: bytes, hook: Callable[[int, bytes], Any] | None = None) -> list[Any]:
    items = _segment(data, hook)
    if type(items) is not list:
        raise ValueError("an extension does not hold a list")
    return items


_CONTAINERS: dict[int, Callable[[list[Any]], Any]] = {
    _TUPLE: tuple,
    _SET: set,
    _FROZENSET: frozenset,
    _DICT: lambda row: dict(pairs(row)),
}


def _time_from(hour: int, minute: int, second: int, microsecond: int, fold: int = 0, zone: Any = None) -> time:
    return time(hour, minute, second, microsecond, zone_from(zone), fold=fold)


def _datetime_from(year: int, month: int, day: int, *clock: Any) -> datetime:
    return datetime.combine(date(year, month, day), _time_from(*clock))


_SCALARS: dict[int, Callable[[bytes], Any]] = {
    _INT: lambda data: int.from_bytes(data, "big", signed=True),
    _STR: lambda data: data.decode("utf-8", "surrogatepass"),
    _DATETIME: lambda data: _datetime_from(*_items(data)),
    _DATE: lambda data: date(*_items(data)),
    _TIME: lambda data: _time_from(*_items(data)),
    _TIMEDELTA: lambda data: timedelta(*_items(data)),
    _DECIMAL: lambda data: Decimal(data.decode("ascii")),
    _UUID: lambda data: UUID(bytes=data),
    _PATH: lambda data: Path(data.decode("utf-8", "surrogatepass")),
    _COMPLEX: lambda data: complex(*struct.unpack(">dd", data)),
}


def _revive(tag: int, data: bytes) -> Any:
    """The unpacker's hook. It leaves whatever nests to the second pass, lest hostile bytes use up the C stack."""
    make = _SCALARS.get(tag)
    if make is not None:
        return make(data)
    items = _items(data)
    if not flat(items):
        raise ValueError("holds more than scalars")
    return _CONTAINERS[tag](items)


def _raise_parts(value: Any, depth: int, build: Build | None) -> Any:
    """The second pass: the value with its extensions revived, level by level."""
    kind = type(value)
    if kind is _Extension:
        return _raise_part(value, depth, build)
    if kind is not list and kind is not dict:
        return value
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if kind is list:
        return [_raise_at(index, item, depth, build) for index, item in enumerate(value)]
    return {key: _raise_at(key, item, depth, build) for key, item in value.items()}


def _raise_at(key: Any, value: Any, depth: int, build: Build | None) -> Any:
    try:
        return _raise_parts(value, depth + 1, build)
    except NotEncodable as refused:
        raise refused.at(step(key)) from None


def _raise_part(part: _Extension, depth: int, build: Build | None) -> Any:
    make = _SCALARS.get(part.tag)
    if make is not None:
        return make(part.data)
    container = _CONTAINERS.get(part.tag)
    if container is not None:
        return container(_raise_parts(_items(part.data, _Extension), depth, build))
    if part.tag != _OBJECT:
        raise ValueError(f"extension {part.tag} is not known")
    form, name, *values = _items(part.data, _Extension)
    if type(form) is not str or type(name) is not str:
        raise ValueError("an object has no name")
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    stored = StoredObject(form, name, tuple(_raise_parts(each, depth + 1, build) for each in values))
    return stored if build is None else build(stored)
