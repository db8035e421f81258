"""When the next exchange goes out: soon where the engine waits for requests, later where others can go with it.

Nothing here calls or waits: the courier says what has happened and asks when the next call is due.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from gossamer.courier.reports import PendingReports
from gossamer.courier.starts import FULL_PAUSE

SPACING, EASY_SPACING = 0.01, 0.03
"""Seconds from one exchange to the next at least: where the engine waits for requests, and where it has some."""
LINGER = 0.1
"""Seconds that a settlement may wait for others to go with it while the engine has enough to do."""
COUNTERS_LINGER = 2.0
MANY = 64
"""With this many settlements waiting, the exchange goes out at once."""
IDLE_FIRST, IDLE_LAST = 0.05, 1.0
"""How long to wait when there was nothing, at first and at last: other workers may find something at any time."""
PULSE = 5.0
"""Seconds without anything to report after which a worker calls the frontier all the same."""


class Need(NamedTuple):
    """What the courier has at hand when it asks."""

    reports: PendingReports
    counters: bool
    """Whether counters have changed."""
    leases: bool
    """Whether some are ready for the engine."""
    hungry: bool
    """Whether the engine could send more than it soon has."""
    closing: bool


class Pace:
    """The clock of the courier's calls; all times are the transport's."""

    def __init__(self, now: float) -> None:
        self._last = self._ready = self._add_after = now
        self._idle = IDLE_FIRST
        self._got_all = False

    def called(self, now: float) -> None:
        self._last = now

    def leased(self, want: int, got: int, ready_in: float | None, now: float) -> None:
        """`got` of the wanted leases came, and more may be ready in `ready_in` seconds."""
        self._got_all = 0 < want <= got
        soon = min(self._idle, IDLE_LAST if ready_in is None else ready_in)
        if got:
            self._idle = IDLE_FIRST
            self._ready = now if self._got_all else now + min(self._idle, soon)
        elif want:
            self._ready = now + soon * random.uniform(0.8, 1.2)
            self._idle = min(self._idle * 2, IDLE_LAST)

    def refused(self, now: float) -> None:
        """The frontier is full: adding may be tried again after a pause."""
        self._add_after = now + FULL_PAUSE

    def may_add(self, now: float) -> bool:
        return now >= self._add_after

    def due(self, need: Need, now: float) -> float | None:
        """When the next exchange should go out; None: when something happens."""
        reports = need.reports
        soonest = self._last + (EASY_SPACING if need.leases else SPACING)
        if need.closing:
            # The last word: also when there is nothing but counters.
            if reports.settle or reports.fetched or need.counters:
                return soonest
            return max(soonest, self._add_after) if reports.add else None
        dues = [self._last + PULSE]
        if reports.settle or reports.fetched:
            dues.append(soonest if len(reports.settle) >= MANY else reports.since + LINGER)
        if reports.add:
            dues.append(max(reports.since, self._add_after))
        if reports.paced_since is not None:
            # Its host gets nothing else before this one is reported as sent.
            dues.append(reports.paced_since + LINGER)
        if need.counters:
            dues.append(self._last + COUNTERS_LINGER)
        if need.hungry:
            # What was fetched or settled may have freed a host; and the last answer may not have been all there was.
            freed = self._got_all or reports.settle or reports.fetched
            dues.append(soonest if freed else max(self._ready, soonest))
        return max(min(dues), soonest, now)
