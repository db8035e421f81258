"""Pages that change at their own pace, visited again by the rules to which the tests hold the server, on a simulated clock."""

from __future__ import annotations

import random
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from tests.support.model.page_rules import PageRecord, Visit, visited

from gossamer.model.plan.page_record import PageState, RevisitRules

HOUR, DAY = 3600.0, 86400.0
FASTEST, SLOWEST = 3 * HOUR, 90 * DAY
"""The fastest page changes every few hours, the slowest every few months, on average; as many in each range."""
RULES = {
    "every: 1d": RevisitRules(every=DAY),
    "every: 10h": RevisitRules(every=10 * HOUR),
    "every: 1d, adaptive, min: 1h, max: 7d": RevisitRules(every=DAY, min=HOUR, max=7 * DAY, adaptive=True),
}


class RevisitOutcome(NamedTuple):
    """What came of visits by one rule. `stale` is how many of a hundred pages had changed since their last visit, day by day; the other
    figures leave the first third of the time out, in which intervals settle."""

    name: str
    visits_a_day: float
    useful: float
    out_of_date: float
    stale: list[tuple[float, float]]
    earliest: float
    """The least time between two visits of a page."""


class RevisitedPage:
    """When a page changes, at random, `mean` seconds apart on average."""

    def __init__(self, chance: random.Random, mean: float) -> None:
        self._chance, self._mean = chance, mean
        self.changes, self.changed_first, self._next = 0, 0.0, chance.expovariate(1 / mean)
        self.record = PageRecord(PageState.FETCHING, 0.0)
        self.last = 0.0

    def until(self, now: float) -> float | None:
        """Let time pass: when it changed first since the last visit, or None."""
        first = None
        while self._next <= now:
            if first is None:
                first = self._next
            self.changes += 1
            self._next += self._chance.expovariate(1 / self._mean)
        return first


def revisited(name: str, rules: RevisitRules, pages: int, days: float, seed: int = 1) -> RevisitOutcome:
    chance = random.Random(seed)
    known = [RevisitedPage(chance, FASTEST * (SLOWEST / FASTEST) ** chance.random()) for _ in range(pages)]
    due = [(chance.random() * DAY, number) for number in range(pages)]
    heapify(due)
    settled, ends, earliest = days / 3 * DAY, days * DAY, float("inf")
    visits = useful = 0
    stale = [0.0] * (int(days) + 1)
    while due[0][0] < ends:
        now, number = heappop(due)
        page = known[number]
        changed = page.until(now)
        if changed is not None:
            _add(stale, changed, now)
        if page.last:
            earliest = min(earliest, now - page.last)
        page.record, again = visited(page.record, rules, Visit.READ, page.changes + 1, now)
        page.last = now
        if now >= settled:
            visits += 1
            useful += changed is not None
        assert again is not None
        heappush(due, (again, number))
    for page in known:
        if (changed := page.until(ends)) is not None:
            _add(stale, changed, ends)
    daily = [(day + 0.5, 100 * seconds / (DAY * pages)) for day, seconds in enumerate(stale[: int(days)])]
    late = [value for day, value in daily if day * DAY >= settled]
    return RevisitOutcome(
        name,
        visits / ((ends - settled) / DAY),
        useful / max(visits, 1),
        sum(late) / max(len(late), 1) / 100,
        daily,
        earliest,
    )


def _add(stale: list[float], first: float, last: float) -> None:
    """A copy was out of date from one time to another."""
    for day in range(int(first / DAY), min(int(last / DAY) + 1, len(stale))):
        stale[day] += max(0.0, min(last, (day + 1) * DAY) - max(first, day * DAY))
