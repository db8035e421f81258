"""A fleet as quantities, on a simulated clock: sites on which posts appear, hosts that allow a page every so often, workers as so many
pages a second. When rounds begin is decided by the planner's policy, and which due pages are queued by the planner's feeder: both are
the code that planners run. All else is a model, in steps of `tick` seconds: no page is a thing of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple, cast

from gossamer.frontier.contract import Frontier
from gossamer.model import DueLane, LaneFeed
from gossamer.planner.feeder import POLICIES, Feeder
from gossamer.planner.policy.rounds import Action, LastRound, RoundPolicy, decide_round


class SiteSpec(NamedTuple):
    """A site: each round reads `lists` pages, which show the posts that came since; `rate` posts come in a second. Its host allows a page
    every `delay` seconds, so many at a time as `concurrency` says."""

    name: str
    policy: RoundPolicy
    lists: int = 10
    rate: float = 0.1
    delay: float = 1.0
    weight: float = 1.0
    latency: float = 0.0
    """How long a page takes: of a round that has one page, and of the last one of any."""


class Begin(NamedTuple):
    """A round that began: when it was due, and when it began."""

    site: str
    number: int
    due: float
    at: float
    action: Action


class Sample(NamedTuple):
    """The state of the fleet at a time: what was queued when the planner had fed last, what waits for room, and what was fetched so far."""

    at: float
    queued: int
    waiting: int
    fetched: int
    appeared: int


class ModelSite:
    """The present state of a site."""

    __slots__ = ("due", "fetched", "found", "known", "last", "lists", "queued", "quota", "since", "spec", "wake")

    def __init__(self, spec: SiteSpec) -> None:
        self.spec = spec
        self.last: LastRound | None = None
        self.lists = self.found = self.queued = self.known = self.fetched = 0
        self.quota, self.since = 1.0, 0.0
        """Pages that its host allows now, and since when it has been busy."""
        self.due = self.wake = 0.0

    @property
    def open(self) -> bool:
        return bool(self.lists or self.found or self.queued)


class RoomFrontier:
    """What the feeder asks for, of the model. One partition."""

    partitions = 1

    def __init__(self, sites: Mapping[str, ModelSite]) -> None:
        self._sites = sites
        self.waiting: set[str] = set()
        """Sites that have found or queued posts."""

    def due_lanes(self, partition: int) -> list[DueLane]:
        sites = self._sites
        return [
            DueLane(f"{name}.post", 1.0, sites[name].spec.weight, "", sites[name].found, sites[name].queued)
            for name in sorted(self.waiting)
        ]

    def feed(self, partition: int, given: Sequence[tuple[Any, ...]], *, term: int, log: Any = None) -> list[LaneFeed]:
        rows = []
        for lane, most, limit, *_ in given:
            site = self._sites[lane.rpartition(".")[0]]
            moved = max(0, min(most, limit - site.queued, site.found))
            site.found -= moved
            site.queued += moved
            rows.append(LaneFeed(moved, site.found, site.queued))
        return rows


class Fleet:
    """`capacity` is how many pages all workers fetch in a second. `appeared(t)` is how many posts have come until `t` on a site of rate 1:
    it grows by 1 a second in ordinary times. `look` is how often planners look: a round begins up to so many seconds after its time."""

    def __init__(
        self,
        specs: Sequence[SiteSpec],
        *,
        capacity: float,
        limit: int,
        shares: str = "weights",
        tick: float = 60.0,
        look: float = 1.0,
        appeared: Callable[[float], float] = lambda t: t,
        seed: int = 1,
        begin: float = 0.0,
    ) -> None:
        self.sites = {spec.name: ModelSite(spec) for spec in specs}
        self._room = RoomFrontier(self.sites)
        self._feeder = Feeder(cast(Frontier, self._room), limit, POLICIES[shares])
        self._capacity, self._tick, self._look, self._appeared = capacity, tick, look, appeared
        self._random = random.Random(seed)
        self.now = begin
        self.begins: list[Begin] = []
        self.ends: list[tuple[str, int, float, float]] = []
        """Site, number, began, ended."""
        self._wakes: list[tuple[float, str]] = []
        self._busy: set[str] = set()
        """Sites that have anything open."""
        self.begin, self._fed = begin, 0
        for site in self.sites.values():
            self._wake(site, begin)

    def run(self, seconds: float, every: float) -> list[Sample]:
        """Let so much time pass. A sample for each `every` seconds."""
        samples, ends, following = [], self.now + seconds, self.now
        while self.now < ends - 1e-9:
            if self.now >= following - 1e-9:
                samples.append(self.sample())
                following += every
            self.step()
        return [*samples, self.sample()]

    def sample(self) -> Sample:
        sites = self.sites.values()
        return Sample(
            self.now - self.begin,
            self._fed,
            sum(site.found for site in sites),
            sum(site.fetched for site in sites),
            sum(self._shown(site, self.now) for site in sites),
        )

    def step(self) -> None:
        """One tick: rounds begin, lists are read, the planner feeds, posts are fetched, rounds end."""
        ends = self.now + self._tick
        while self._wakes and self._wakes[0][0] < ends:
            at, name = heappop(self._wakes)
            if at == self.sites[name].wake:
                self._decide(self.sites[name], at)
        budget = self._capacity * self._tick
        for name in self._busy:
            site = self.sites[name]
            # What a host has allowed and nobody has used is no more than the page that comes next.
            site.quota = min(site.quota, 1.0) + (ends - max(self.now, site.since)) / site.spec.delay
        budget -= self._fetch(budget, ends, lists=True)
        self._feeder.feed(0)
        self._fed = sum(self.sites[name].queued for name in self._busy)
        self._fetch(budget, ends, lists=False)
        self._end(ends)
        self.now = ends

    def _shown(self, site: ModelSite, at: float) -> int:
        return int(site.spec.rate * (self._appeared(at) - self._appeared(self.begin)))

    def _decide(self, site: ModelSite, at: float) -> None:
        spec, last = site.spec, site.last
        action, again, _ = decide_round(spec.name, spec.policy, last, at)
        if action is Action.WAIT:
            if again is not None:
                site.due = again
                self._wake(site, again + self._random.random() * self._look)
            return
        due = site.due if last is not None else at
        if last is not None and last.ended is not None:
            due = max(due, last.ended)
        if action is Action.REPLACE:
            site.lists = site.queued = 0
        site.lists += spec.lists
        site.last = LastRound(0 if last is None else last.number + 1, at)
        self.begins.append(Begin(spec.name, site.last.number, due, at, action))
        if spec.name not in self._busy:
            self._busy.add(spec.name)
            site.quota, site.since = 1.0 + max(0.0, self.now - at) / spec.delay, at
        self._decide(site, at)

    def _wake(self, site: ModelSite, at: float) -> None:
        site.wake = at
        heappush(self._wakes, (at, site.spec.name))

    def _fetch(self, budget: float, ends: float, *, lists: bool) -> int:
        """Fetch lists or posts, as far as hosts and workers allow; how many."""
        wanted: list[tuple[ModelSite, int]] = []
        for name in sorted(self._busy):
            site = self.sites[name]
            ready = site.lists if lists else site.queued
            if number := min(ready, int(site.quota + 1e-9)):
                wanted.append((site, number))
        done = 0
        for site, number in _divided(wanted, budget):
            site.quota -= number
            done += number
            if lists:
                site.lists -= number
                if not site.lists:
                    shown = self._shown(site, ends - max(0.0, site.quota - 1) * site.spec.delay)
                    site.found += shown - site.known
                    site.known = shown
            else:
                site.queued -= number
                site.fetched += number
            if site.found or site.queued:
                self._room.waiting.add(site.spec.name)
            else:
                self._room.waiting.discard(site.spec.name)
        return done

    def _end(self, ends: float) -> None:
        for name in [name for name in self._busy if not self.sites[name].open]:
            site = self.sites[name]
            self._busy.discard(name)
            self._room.waiting.discard(name)
            assert site.last is not None
            # It was over when its host had allowed the last page, and that had come.
            over = ends - max(0.0, site.quota - 1) * site.spec.delay + site.spec.latency
            site.last = site.last._replace(ended=over)
            self.ends.append((name, site.last.number, site.last.began, over))
            self._wake(site, over + self._random.random() * self._look)


def _divided(wanted: Sequence[tuple[ModelSite, int]], budget: float) -> list[tuple[ModelSite, int]]:
    """What of the wanted pages workers fetch: all of them, or so much as they can, in parts by weight as the queues give them out."""
    if sum(number for _, number in wanted) <= budget:
        return list(wanted)
    found, left = [], int(budget)
    weights = sum(site.spec.weight for site, _ in wanted)
    # Those that want little for their weight have all of it; what they leave goes to the others.
    for site, number in sorted(wanted, key=lambda row: row[1] / row[0].spec.weight):
        part = min(number, round(left * site.spec.weight / weights))
        weights -= site.spec.weight
        left -= part
        if part:
            found.append((site, part))
    return found
