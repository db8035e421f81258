"""What was planned against what the sites recorded: every round begun once and in time, and every page of it fetched once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

EARLY = 0.01
"""Seconds by which a round may seem to begin too early: times are kept in milliseconds."""


class Begun(NamedTuple):
    """A round as the crawl has logged it; `ended` is None if it is not over, `cut` is whether the next one cut it short. Times are seconds
    of one clock, the fetches' as well."""

    number: int
    began: float
    ended: float | None
    cut: bool = False


class Fetch(NamedTuple):
    """A request as a site recorded it."""

    at: float
    path: str


class Planned(NamedTuple):
    """What is planned for a site: `every` from which time on, `paths` that each round fetches, and whether it is seeded again while the
    last round goes on, skips times at which one goes on, or replaces that one. `once`: paths of which each is fetched once in all rounds
    together."""

    every: Sequence[tuple[float, float]]
    paths: Sequence[str]
    reseeds: bool = False
    once: Sequence[str] = ()
    skips: bool = False
    replaces: bool = False

    def interval(self, at: float) -> float:
        return next(seconds for since, seconds in reversed(self.every) if since <= at or since == self.every[0][0])


def rounds(name: str, plan: Planned, begun: Sequence[Begun], slack: float) -> Iterator[str]:
    """What is wrong about when rounds began. One may be late by `slack`. In the slack after a file was pushed, either interval holds."""
    numbers = [one.number for one in begun]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        yield f"{name}: the rounds are {numbers}"
    if not plan.replaces:
        yield from (f"{name}: round {one.number} was cut short" for one in begun if one.cut)
    for last, following in pairwise(begun):
        either = plan.interval(last.began), plan.interval(following.began)
        if following.began < last.began + min(either) - EARLY:
            yield f"{name}: round {following.number} began {following.began - last.began:.2f} s after the last one"
        over = last.began if last.ended is None else last.ended
        due = max(last.began + max(either), 0.0 if plan.reseeds else over)
        if plan.skips and over >= last.began + min(either):
            # The next time after it was over; that it is over is known a moment later.
            due = over + max(either)
        if following.began > due + slack:
            yield (
                f"{name}: round {following.number} began {following.began - due:.2f} s late; the last one took "
                f"{over - last.began:.2f} s"
            )


def fetches(
    name: str, plan: Planned, begun: Sequence[Begun], fetched: Sequence[Fetch], *, last: bool = False
) -> Iterator[str]:
    """What is wrong about what was fetched. `last`: the last of these rounds is to be complete, too."""
    windows = [*(one.began for one in begun), float("inf")]
    if plan.reseeds:
        # A list may be fetched after the next one was seeded.
        found = Counter(one.path for one in fetched if one.at >= windows[0] - EARLY)
        for path in plan.paths:
            if not len(begun) - (not last) <= found[path] <= len(begun):
                yield f"{name}: {path} was fetched {found[path]} times in {len(begun)} rounds"
    else:
        # What was in progress when a round was cut short may arrive in the next one.
        behind = 0
        for one, (since, until) in zip(begun, pairwise(windows), strict=True):
            found = Counter(fetch.path for fetch in fetched if since - EARLY <= fetch.at < until - EARLY)
            most, behind = 1 + behind, int(one.cut)
            whole = (last or until < windows[-1]) and not one.cut
            for path in plan.paths:
                if found[path] > most or (whole and not found[path]):
                    yield f"{name}: {path} was fetched {found[path]} times in round {one.number}"
    often = Counter(one.path for one in fetched)
    yield from (f"{name}: {path} was fetched {often[path]} times" for path in plan.once if often[path] != 1)
    unknown = set(often) - {*plan.paths, *plan.once, "/robots.txt"}
    if unknown:
        yield f"{name}: {sorted(unknown)} should not have been fetched"


def lateness(plans: Mapping[str, Planned], begun: Mapping[str, Sequence[Begun]]) -> list[float]:
    """By how many seconds each round began after its time, the least first."""
    found = []
    for name, log in begun.items():
        for last, following in pairwise(log):
            due = last.began + plans[name].interval(last.began)
            if not plans[name].reseeds and last.ended is not None:
                due = max(due, last.ended)
            found.append(max(0.0, following.began - due))
    return sorted(found)
