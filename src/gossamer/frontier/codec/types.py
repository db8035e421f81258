"""What the codec carries and how it refuses the rest: the rules that the stored and the readable form share."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from enum import Enum
from io import IOBase
from numbers import Integral, Rational, Real
from operator import index
from pathlib import Path, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gossamer.errors import EncodingError

MAX_DEPTH = 128
"""How many containers may stand inside one another: few enough for Python's stack, in every form and under any caller."""

PATHS: tuple[type, ...] = tuple({PurePosixPath, type(Path())})

_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})
_MICROSECOND = timedelta(microseconds=1)
_ZONE_KEY = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as the codec keeps it: what `form` it has (the worker's word), what it is called, and plain values. To the codec
    it is data and nothing more: only a worker makes an object of it."""

    form: str
    name: str
    values: tuple[Any, ...] = ()

    def __hash__(self) -> int:
        # Values may be lists and dicts.
        return hash((self.form, self.name))


class NotEncodable(Exception):
    """A value that cannot be carried, on its way up: every container that it leaves adds a step to its path."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[Any] = []

    def at(self, step: Any) -> NotEncodable:
        self.steps.append(step)
        return self

    def error(self, root: str) -> EncodingError:
        """The error for callers, with the path from `root` to the culprit."""
        steps = self.steps[::-1]
        if len(steps) > 16:
            steps = [*steps[:12], "…"]
        return EncodingError(f"{root}{''.join(steps)}: {self.reason}")


def step(key: object) -> str:
    """One step of a path. Keys get here only once they are known to be plain data."""
    try:
        text = repr(key)
    except ValueError:  # Python does not write an int of thousands of digits
        text = "…"
    return f"[{text}]" if len(text) <= 80 else f"[{text[:79]}…]"


KEY_STEP = " (a key)"
MEMBER_STEP = " (a member)"


def too_deep() -> NotEncodable:
    return NotEncodable(f"nested deeper than {MAX_DEPTH} levels; it may contain itself. Send a flatter value")


def unhashable() -> NotEncodable:
    return NotEncodable("a list or dict cannot be stored inside a key or a set; use a tuple")


def flat(value: Iterable[Any]) -> bool:
    """Whether it holds scalars only. A tuple or set that does counts as a scalar itself and adds no depth."""
    return all(type(item) in _SCALARS for item in value)


def base(value: Any) -> Any:
    """The builtin that stands for an instance of a subclass of str, bytes, int, float, list, dict, date or datetime, or for a number
    of another package.

    The builtin's own storage is read, never an overridden method: Scrapy's Headers keep all their values. Whatever
    else comes is refused with a hint.
    """
    kind = type(value)
    if not issubclass(kind, Enum):
        for builtin, plain in _BASES:
            if issubclass(kind, builtin):
                return plain(value)
        if issubclass(kind, Integral):
            return index(value)
        if issubclass(kind, Real) and not issubclass(kind, Rational) and float(value) == value:
            return float(value)
    raise NotEncodable(f"{name_of(kind)} cannot be stored; {_hint(value, kind)}")


# An OrderedDict keeps its order beside the dict's own, hence before it.
_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, lambda value: bytes(memoryview(value))),
    (bytearray, lambda value: bytes(memoryview(value))),
    (OrderedDict, lambda value: dict(OrderedDict.items(value))),
    (dict, lambda value: dict(dict.items(value))),
    (list, lambda value: list(list.__iter__(value))),
    (
        datetime,
        lambda value: datetime.combine(date(value.year, value.month, value.day), value.time(), value.tzinfo),
    ),
    (date, lambda value: date(value.year, value.month, value.day)),
)


def name_of(kind: type) -> str:
    """How messages call a class."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _hint(value: Any, kind: type) -> str:
    if issubclass(kind, Enum):
        return "send its .value"
    if issubclass(kind, tuple):
        return "send tuple(value), or value._asdict() to keep the names"
    if is_dataclass(kind):
        return "send dataclasses.asdict(value)"
    if issubclass(kind, tzinfo):
        return "use zoneinfo.ZoneInfo with a key, or datetime.timezone"
    if callable(value):
        return "send the name of a spider's method, or plain data"
    if issubclass(kind, IOBase):
        return "send its path or its content"
    if hasattr(kind, "model_dump"):
        return "send value.model_dump()"
    if hasattr(kind, "__next__"):
        return "send list(value)"
    if hasattr(kind, "keys") and hasattr(kind, "__getitem__"):
        return "send dict(value)"
    return "send plain data (text, numbers, bytes, dates, lists, tuples, sets, dicts) instead"


def zone_parts(zone: tzinfo | None) -> Any:
    """A time zone as plain data: None, the key of a ZoneInfo, or [microseconds east] with the name if it has one."""
    if zone is None:
        return None
    if type(zone) is ZoneInfo and zone.key is not None and _ZONE_KEY.fullmatch(zone.key):
        return zone.key
    if type(zone) is timezone:
        # The only place where a fixed offset tells a name that was given from one that it made up.
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
        return [offset // _MICROSECOND, *name]
    raise NotEncodable(f"tzinfo {name_of(type(zone))} cannot be stored; {_hint(zone, tzinfo)}")


def in_known_zone(moment: datetime | time) -> datetime | time:
    """The same moment in a zone that `zone_parts` takes, where it is in one of another kind, such as pytz's or dateutil's: in the zone
    of its key if that has the same offset then, else at that offset, with its name. As it is, if it has no offset."""
    zone = moment.tzinfo
    if zone is None or type(zone) is timezone or (type(zone) is ZoneInfo and zone.key is not None):
        return moment
    try:
        offset, name = moment.utcoffset(), moment.tzname()
    except NotImplementedError:
        return moment
    if offset is None:
        return moment
    key = getattr(zone, "zone", None) or getattr(zone, "key", None)
    if isinstance(key, str) and key != "UTC" and isinstance(moment, datetime) and _ZONE_KEY.fullmatch(key):
        for fold in (moment.fold, 1 - moment.fold):
            try:
                found = moment.replace(tzinfo=ZoneInfo(key), fold=fold)
            except (ZoneInfoNotFoundError, OSError):
                break
            if found.utcoffset() == offset:
                return found
    if not offset and name in ("UTC", None):
        return moment.replace(tzinfo=UTC)
    return moment.replace(tzinfo=timezone(offset, name) if name else timezone(offset))


def zone_from(parts: Any) -> tzinfo | None:
    """The inverse of `zone_parts`; ValueError when the parts make no zone, or none that this machine knows."""
    if parts is None:
        return None
    if isinstance(parts, str):
        # Checked before the lookup, which touches files and the package tzdata by this name.
        if not _ZONE_KEY.fullmatch(parts):
            raise ValueError(f"{parts!r} is not the key of a time zone")
        try:
            return ZoneInfo(parts)
        except (ZoneInfoNotFoundError, OSError):
            raise ValueError(f"time zone {parts!r} is not known here; install the package tzdata") from None
    offset, *name = parts
    if not name and offset == 0:
        return UTC
    return timezone(offset * _MICROSECOND, *name)
