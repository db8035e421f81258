"""What a pickle of plain data may name, and what is called in its place: constructors of plain data, and functions that make time zones
of what pytz, dateutil and zoneinfo say of theirs. No package is imported for them."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import pathlib
import uuid
from typing import Any

from gossamer.frontier.codec.types import zone_from

CLASSES = frozenset(
    {
        set, frozenset, bytearray, complex, range, slice, list, dict, tuple, str, bytes, int, float, bool,
        datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone,
        decimal.Decimal, fractions.Fraction, uuid.UUID, collections.OrderedDict, collections.deque, collections.Counter,
        collections.defaultdict,
    }
)  # fmt: skip
"""Those whose objects are plain data, and builtins that make the defaults of a `defaultdict`."""


class PickledZone(datetime.tzinfo):
    """A time zone of another package at one offset, as a date in it was pickled. No date keeps it: see `in_known_zone`."""

    def __init__(self, zone: str | None, offset: datetime.timedelta, name: str | None) -> None:
        # Checks the offset.
        self.zone, self._fixed, self._name = zone, datetime.timezone(offset), name

    def utcoffset(self, _moment: datetime.datetime | None) -> datetime.timedelta:
        return self._fixed.utcoffset(None)

    def tzname(self, _moment: datetime.datetime | None) -> str | None:
        return self._name

    def dst(self, _moment: datetime.datetime | None) -> None:
        return None


def _utc() -> PickledZone:
    return PickledZone(None, datetime.timedelta(), "UTC")


def _of_pytz(zone: str, offset: int = 0, dst: int = 0, name: str | None = None) -> PickledZone:
    return PickledZone(zone, datetime.timedelta(seconds=offset), name)


def _minutes(east: int) -> PickledZone:
    return PickledZone(None, datetime.timedelta(minutes=east), None)


def _of_dateutil(name: str | None, offset: datetime.timedelta | int) -> PickledZone:
    east = offset if isinstance(offset, datetime.timedelta) else datetime.timedelta(seconds=offset)
    return PickledZone(None, east, name)


def _of_zoneinfo(key: str, _cached: Any = True) -> datetime.tzinfo | None:
    return zone_from(str(key))


def _attribute(owner: Any, name: str) -> Any:
    """`getattr`, of which pickles need one only."""
    if owner is _of_zoneinfo and name == "_unpickle":
        return owner
    raise ValueError(f"it asks for the attribute {name!r:.80}")


def _encoded(text: str, encoding: str = "latin-1") -> bytes:
    return text.encode(encoding)


def _same(value: Any) -> Any:
    return value


NAMES: dict[tuple[str, str], Any] = {(kind.__module__, kind.__qualname__): kind for kind in CLASSES}
# What old Pythons called them, and how protocols below 3 spell bytes.
NAMES |= {("__builtin__", name): kind for (module, name), kind in NAMES.items() if module == "builtins"}
NAMES |= {("__builtin__", "xrange"): range, ("__builtin__", "unicode"): str, ("__builtin__", "long"): int}
NAMES |= {("_codecs", "encode"): _encoded, ("copy", "copy"): _same}
NAMES |= {("pathlib", name): pathlib.Path for name in ("Path", "PosixPath", "PurePosixPath")}
NAMES |= {("pathlib._local", name): pathlib.Path for name in ("Path", "PosixPath", "PurePosixPath")}
NAMES |= {("pytz", "_UTC"): _utc, ("pytz", "_p"): _of_pytz, ("pytz", "FixedOffset"): _minutes}
NAMES |= {("dateutil.tz.tz", "tzutc"): _utc, ("dateutil.tz.tz", "tzoffset"): _of_dateutil}
NAMES |= {("zoneinfo", "ZoneInfo"): _of_zoneinfo}
NAMES |= {("builtins", "getattr"): _attribute, ("__builtin__", "getattr"): _attribute}
