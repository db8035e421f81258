"""Counters on their way to the frontier: changes are joined here and ride along with the next exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gossamer.model import CounterChange, CounterOp

_JOIN: dict[CounterOp, Callable[[float, float], float]] = {
    CounterOp.ADD: lambda old, new: old + new,
    CounterOp.SET: lambda old, new: new,
    CounterOp.MAX: max,
    CounterOp.MIN: min,
}


class Counters:
    """What one group's counters changed by since they were last taken."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._changes: dict[str | tuple[str, CounterOp], float] = {}
        """By name for what is added, since that is the commonest by far; by name and kind for the others."""

    def add(self, name: str, value: float = 1) -> None:
        """Add to a counter. Kept apart from `change`: this is called for every response."""
        if name.__class__ is not str:
            name = str(name)
        self._changes[name] = self._changes.get(name, 0) + value

    def add_all(self, added: Iterable[tuple[str, float]]) -> None:
        """Add to many counters, each by its name."""
        changes = self._changes
        for name, value in added:
            changes[name] = changes.get(name, 0) + value

    def change(self, name: str, value: float, op: CounterOp) -> None:
        """Change a counter; the changes of one kind are joined, different kinds go in the order of their first use."""
        if op is CounterOp.SET:
            # Earlier changes are overwritten; what is added afterwards counts from this value.
            for other in (CounterOp.ADD, CounterOp.MAX, CounterOp.MIN):
                self._changes.pop(_key(name, other), None)
        key = _key(name, op)
        self._changes[key] = _JOIN[op](self._changes[key], value) if key in self._changes else value

    def take(self) -> list[CounterChange]:
        """What can be kept of the changes: numbers that are finite. No counter may keep a worker from its pages."""
        changes, self._changes = self._changes, {}
        taken = []
        for key, value in changes.items():
            name, op = key if isinstance(key, tuple) else (key, CounterOp.ADD)
            number = _number(value)
            if number is not None:
                text = name.encode("utf-8", "replace").decode()
                taken.append(CounterChange(self.group, text, number, op))
        return taken

    def __bool__(self) -> bool:
        return bool(self._changes)


def _key(name: str, op: CounterOp) -> str | tuple[str, CounterOp]:
    # Of spiders, whose counters need not have names of text.
    return str(name) if op is CounterOp.ADD else (str(name), op)


def _number(value: float) -> float | None:
    if type(value) is int and -(2**53) < value < 2**53:
        return value
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -1e300 < number < 1e300 else None
