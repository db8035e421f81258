"""What one process has counted since its last report to the server, and the totals with it. Pure, no I/O."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

_WHOLE = re.compile(r"-?\d+\Z")
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?\Z", re.IGNORECASE)


class StatChange(NamedTuple):
    """One change of one value: `op` is set, add, max or min. `start` is what an add begins with if there is no value."""

    op: str
    value: Any
    start: Any = 0


def applied(change: StatChange, old: Any) -> Any:
    """The value after a change, as Scrapy's own collector has it. None is no value."""
    if change.op == "add":
        return (old if isinstance(old, int | float) else change.start) + change.value
    if change.op == "set" or old is None:
        return change.value
    try:
        return max(old, change.value) if change.op == "max" else min(old, change.value)
    except TypeError:
        return change.value


def merged(first: StatChange, then: StatChange) -> StatChange | None:
    """One change that does what both do, or None if there is none."""
    if then.op == "set":
        return then
    if first.op == "set" and first.value is not None:
        return StatChange("set", applied(then, first.value))
    if first.op == then.op == "add":
        return StatChange("add", first.value + then.value, first.start)
    if first.op == then.op:
        return StatChange(first.op, applied(then, first.value))
    return None


class StatChanges:
    """The values of one hash as this process sees them: `view`, and `pending` changes by name, oldest first.

    `known` says whether the server has been heard of, `in_arrears` that there is more to send after what was taken.
    """

    def __init__(self) -> None:
        self.view: dict[str, Any] = {}
        self.pending: dict[str, list[StatChange]] = {}
        self.number = 0
        self.known = self.in_arrears = False
        self._in_flight: dict[str, list[StatChange]] = {}
        self._originals: dict[str, tuple[str, Any]] = {}

    def change(self, name: str, change: StatChange) -> None:
        value = applied(change, self.view.get(name))
        changes = self.pending.setdefault(name, [])
        both = merged(changes[-1], change) if changes else None
        if both is None:
            changes.append(change)
        else:
            changes[-1] = both
        self.view[name] = value
        if change.op != "add":
            self._originals[name] = written(change.value), change.value

    def take(self) -> list[tuple[str, StatChange]]:
        """The changes to send now, as call `number`. Until `heard` both stay, so that a repeat sends the same."""
        if not self._in_flight:
            self._in_flight, self.pending = self.pending, {}
            self.number += 1
        self.in_arrears = bool(self.pending)
        return [(name, change) for name, changes in self._in_flight.items() for change in changes]

    def heard(self, stored: Mapping[str, str]) -> None:
        """The server has taken the changes and holds these values now."""
        self._in_flight, self.known = {}, True
        view = {name: self._read(name, text) for name, text in stored.items()}
        for name, changes in self.pending.items():
            for change in changes:
                view[name] = applied(change, view.get(name))
        # In place: Scrapy's extensions may hold on to the dict.
        self.view.clear()
        self.view.update(view)

    def forget(self) -> None:
        self.view.clear()
        self.pending.clear()
        self._in_flight = {}

    def _read(self, name: str, text: str) -> Any:
        original = self._originals.get(name)
        if original is not None and original[0] == text:
            return original[1]
        value = read(text)
        # Another process set it; code of this process expects the type that is set here.
        if original is not None and isinstance(original[1], datetime) and isinstance(value, int | float):
            return datetime.fromtimestamp(value, original[1].tzinfo)
        return value


def written(value: Any) -> str:
    """A value as it stands in the hash: dates as seconds, as scrapy-redis writes them."""
    if isinstance(value, datetime):
        value = value.timestamp()
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool | int | float):
        return "" if value is None else str(value)
    return json.dumps(value, default=str)


def read(text: str) -> Any:
    """A stored value: a number if it looks like one, else the text."""
    if _WHOLE.match(text):
        return int(text)
    number = float(text) if _NUMBER.match(text) else math.nan
    return number if math.isfinite(number) else text


def arguments(changes: Iterable[tuple[str, StatChange]]) -> list[str]:
    """Changes as the arguments of the script in `stats`: op, name, value, start for each."""
    flat: list[str] = []
    for name, change in changes:
        op = "del" if change.op == "set" and change.value is None else change.op
        flat += op, name, written(change.value), written(change.start)
    return flat
