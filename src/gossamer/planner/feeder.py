"""Which due pages are queued next: in each cycle, every lane that keeps page records gets its share of the room.

The room is what may be queued less what is. A lane's rate is its part of its site's weight; how the room is divided by the rates is a policy
(`planner.policy.shares`). Each partition has its part of the limit, and what a lane is given there it cannot exceed, so no
leader, and no two of them, ever queue more than the limit, but for a page of a lane that would starve. Where the limit is smaller than the number of partitions, those with due
pages have its places in turn.

A lane that no worker serves would take its share in every cycle and give nothing back, until it had all the room. So a
lane from which nothing was taken since the last cycle has at most half of what the others leave. One that was served,
took all of the room and is served no more holds what it has: a part of the room is kept for lanes that have nothing
queued when there is no other. Where that is taken, too, or the limit is so small that there is none, a lane that has waited for long
has one page queued beyond the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from fractions import Fraction

from gossamer.frontier.contract import Frontier
from gossamer.model import DueLane
from gossamer.planner.policy.shares import Claim, Policy, Share, rated_shares, weighted_shares

POLICIES: Mapping[str, Policy] = {"weights": weighted_shares, "neocrawler": rated_shares}
MILLION = 1_000_000
KEPT = 32
"""One place in this many is kept for lanes that have nothing queued while others hold the rest."""
OFF = "its file turns it off"
STARVED = 30
"""After this many cycles in which a lane with due pages had nothing queued for lack of room, it has one page in each, whatever the limit."""


def rates(lanes: Sequence[DueLane]) -> dict[str, Fraction]:
    """The rate of each lane: the weight of its site, divided among the lanes of that site that are not paused by theirs. Nothing is fed to a lane that is paused: it
    would keep room from the others."""
    totals: dict[str, float] = {}
    for lane in lanes:
        if not lane.paused:
            totals[lane.group] = totals.get(lane.group, 0.0) + lane.weight
    # In whole millionths: sums of many fractions of their own would have endless denominators.
    return {
        lane.lane: Fraction(
            0 if lane.paused else max(1, round(MILLION * lane.group_weight * lane.weight / totals[lane.group]))
        )
        for lane in lanes
    }


def scheduled_in(lanes: Sequence[DueLane]) -> int:
    """What is queued in these lanes. What a paused one has is no room that it keeps from the others."""
    return sum(lane.queued for lane in lanes if not lane.paused)


class Feeder:
    """Feeds the lanes of a crawl, up to `limit` queued requests in all. `keep` is called between calls, to keep the lead."""

    def __init__(self, frontier: Frontier, limit: int, policy: Policy, keep: Callable[[], None] = lambda: None) -> None:
        self._frontier, self._policy, self._keep = frontier, policy, keep
        self._limit, (each, more) = limit, divmod(limit, frontier.partitions)
        self._limits = [each + (partition < more) for partition in range(frontier.partitions)]
        """How many requests may be queued on each partition, if that is one at least."""
        self._turn = 0
        """The partition that has the next place, where there are fewer places than partitions."""
        self._owed: dict[tuple[int, str], Share] = {}
        self._queued: dict[tuple[int, str], int] = {}
        """What was queued of each lane, on each partition, at the end of the last cycle."""

    def feed(self, term: int, off: Container[str] = ()) -> int:
        """Queue what is due, as far as there is room; answers how many pages. What is found waits for a planner that has called lately:
        each partition is called in every cycle. `off`: sites that their file turns off, which are as good as paused."""
        owed: dict[tuple[int, str], Share] = {}
        queued: dict[tuple[int, str], int] = {}
        moved, limits = 0, self._limits if self._limits[-1] else self._in_turn(off)
        for partition in range(self._frontier.partitions):
            self._keep()
            lanes, limit = self._due(partition, off), limits[partition]
            scheduled = scheduled_in(lanes)
            room = limit - limit // KEPT - scheduled
            claims = self._claims(partition, lanes, room)
            shares = {share.rule: share for share in self._policy(max(0, room), claims)}
            if room <= 0:
                shares.update(kept_shares(claims, lanes, limit - scheduled))
            owed.update(((partition, lane), share) for lane, share in shares.items())
            given = [(x.lane, shares[x.lane].taken, x.queued + shares[x.lane].taken, x.due) for x in lanes if x.due]
            log = (limit, scheduled) if given else None
            rows = self._frontier.feed(partition, given, term=term, log=log)
            moved += sum(row.moved for row in rows)
            queued.update(((partition, lane.lane), lane.queued) for lane in lanes)
            queued.update(((partition, lane), row.queued) for (lane, *_), row in zip(given, rows, strict=True))
        self._owed, self._queued = owed, queued
        return moved

    def _due(self, partition: int, off: Container[str]) -> list[DueLane]:
        lanes = self._frontier.due_lanes(partition)
        return [lane._replace(paused=lane.paused or OFF) if lane.group in off else lane for lane in lanes]

    def _in_turn(self, off: Container[str]) -> list[int]:
        """What may be queued on each partition: what is, and a place more where there are due pages, as far as the limit goes."""
        number = self._frontier.partitions
        found = [self._due(partition, off) for partition in range(number)]
        limits = [scheduled_in(lanes) for lanes in found]
        for partition in [(self._turn + step) % number for step in range(number)]:
            if sum(limits) < self._limit and any(lane.due and not lane.paused for lane in found[partition]):
                limits[partition] += 1
                self._turn = (partition + 1) % number
        return limits

    def _claims(self, partition: int, lanes: Sequence[DueLane], room: int) -> list[Claim]:
        found, claims = rates(lanes), []
        for lane in lanes:
            before = self._owed.get((partition, lane.lane))
            ready = lane.due
            if lane.queued >= self._queued.get((partition, lane.lane), 0):
                most = (room + lane.queued + 1) // 2
                ready = min(ready, max(0, most - lane.queued))
            waited, credit = (before.waited, before.credit) if before is not None else (0, 0)
            claims.append(Claim(lane.lane, found[lane.lane], ready, waited, credit))
        return claims


def kept_shares(claims: Sequence[Claim], lanes: Sequence[DueLane], left: int) -> Iterator[tuple[str, Share]]:
    """What is kept of the room, `left` places, for lanes that have nothing queued: an even part for each, who waited longest first. Who
    would starve has one in any case."""
    part = max(1, left // max(1, len(lanes)))
    empty = [
        (claim, lane.due)
        for claim, lane in zip(claims, lanes, strict=True)
        if lane.due and not lane.queued and not lane.paused
    ]
    for claim, due in sorted(empty, key=lambda one: -one[0].waited):
        number, waited = max(0, min(part, due, left)), 0
        left -= number
        if not number:
            number, waited = int(claim.waited >= STARVED), claim.waited + 1
        yield claim.rule, Share(claim.rule, number, number, due - number, waited, claim.credit)
