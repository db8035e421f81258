"""What groups had counted at past times, so that rules can compare. Pure.

For each window that a rule compares over there is a ring of samples, a twelfth of the window apart: 14 of them, whatever the window. Each is
one entry on the frontier, so that a planner that takes over compares with the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import ormsgpack

PREFIX = "sample|"
STEPS = 12
SLOTS = STEPS + 2
STALE = 1.5
"""A sample older than this number of windows says nothing about the window."""


class SampledTotals(NamedTuple):
    """What is sampled of a group."""

    pages: int
    items: int
    dead: int
    waiting: int
    tasks: int


NOTHING = SampledTotals(0, 0, 0, 0, 0)


class CountSample(NamedTuple):
    """What all groups had counted at a time."""

    at: float
    totals: Mapping[str, SampledTotals]


class Span(NamedTuple):
    """A group over a window: what it had counted `seconds` ago."""

    then: SampledTotals
    seconds: float


class CountHistory:
    """The samples, by window and slot."""

    def __init__(self, entries: Mapping[str, bytes] | None = None) -> None:
        self._rings: dict[int, dict[int, CountSample]] = {}
        for name, value in (entries or {}).items():
            if name.startswith(PREFIX):
                window, slot = map(int, name.removeprefix(PREFIX).split("|"))
                at, totals = ormsgpack.unpackb(value)
                rows = {group: SampledTotals(*row) for group, row in totals.items()}
                self._rings.setdefault(window, {})[slot] = CountSample(at, rows)

    def take(
        self, windows: Iterable[float], now: float, totals: Mapping[str, SampledTotals]
    ) -> dict[str, bytes | None]:
        """Sample where it is time to; return the entries that have changed. Windows that no rule compares over any more are dropped."""
        wanted = {round(window) for window in windows}
        changed: dict[str, bytes | None] = {}
        for window in [window for window in self._rings if window not in wanted]:
            changed.update(dict.fromkeys(_entry(window, slot) for slot in self._rings.pop(window)))
        for window in wanted:
            ring, number = self._rings.setdefault(window, {}), int(now // (window / STEPS))
            slot = number % SLOTS
            known = ring.get(slot)
            if known is None or known.at > now or int(known.at // (window / STEPS)) != number:
                ring[slot] = CountSample(now, dict(totals))
                changed[_entry(window, slot)] = ormsgpack.packb(
                    (now, {name: list(row) for name, row in totals.items()})
                )
        return changed

    def span(self, window: float, group: str, now: float) -> Span | None:
        """The group a whole window ago; None if that is not known."""
        old = [x for x in self._rings.get(round(window), {}).values() if window <= now - x.at <= STALE * window]
        return _span(max(old, key=lambda sample: sample.at), group, now) if old else None

    def highest(self, window: float, group: str, what: str, now: float) -> int:
        """The most that the group had of something (`waiting`, `tasks`) in the window, as far as it is known."""
        near = [x for x in self._rings.get(round(window), {}).values() if 0 <= now - x.at <= window]
        return max((getattr(sample.totals.get(group, NOTHING), what) for sample in near), default=0)

    def lowest_dead(self, window: float, group: str, now: float) -> int | None:
        """The fewest dead letters that the group had in the window, as far as it is known; None if nothing is."""
        near = [x for x in self._rings.get(round(window), {}).values() if 0 <= now - x.at <= window * (1 + 1 / STEPS)]
        return min((sample.totals.get(group, NOTHING).dead for sample in near), default=None)


def _entry(window: int, slot: int) -> str:
    return f"{PREFIX}{window}|{slot}"


def _span(sample: CountSample, group: str, now: float) -> Span:
    # A group that was not there had counted nothing.
    return Span(sample.totals.get(group, NOTHING), now - sample.at)
