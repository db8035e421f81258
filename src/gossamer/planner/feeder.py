"""Which due pages are queued next: in each cycle, every lane that keeps page records gets its share of the room.

The room is what may be queued less what is. A lane's rate is its part of its site's weight; how the room is divided by the rates is a policy
(`planner.policy.shares`). Each partition has its part of the limit, and what a lane is given there it cannot exceed, so no
leader, and no two of them, ever queue more than the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from gossamer.frontier.contract import Frontier
from gossamer.model import DueLane
from gossamer.planner.policy.shares import Claim, Policy, Share, rated_shares, weighted_shares

POLICIES: Mapping[str, Policy] = {"weights": weighted_shares, "neocrawler": rated_shares}
MILLION = 1_000_000


def rates(lanes: Sequence[DueLane]) -> dict[str, Fraction]:
    """The rate of each lane: the weight of its site, divided among the lanes of that site by theirs. Nothing is fed to a lane that is paused: it
    would keep room from the others."""
    totals: dict[str, float] = {}
    for lane in lanes:
        totals[lane.group] = totals.get(lane.group, 0.0) + lane.weight
    # In whole millionths: sums of many fractions of their own would have endless denominators.
    return {
        lane.lane: Fraction(
            0 if lane.paused else max(1, round(MILLION * lane.group_weight * lane.weight / totals[lane.group]))
        )
        for lane in lanes
    }


class Feeder:
    """Feeds the lanes of a crawl, up to `limit` queued requests in all. `keep` is called between calls, to keep the lead."""

    def __init__(self, frontier: Frontier, limit: int, policy: Policy, keep: Callable[[], None] = lambda: None) -> None:
        self._frontier, self._policy, self._keep = frontier, policy, keep
        self._limit = -(-limit // frontier.partitions)
        self._owed: dict[tuple[int, str], Share] = {}

    def feed(self, term: int) -> int:
        """Queue what is due, as far as there is room; answers how many pages. What is found waits for a planner that has called lately:
        each partition is called in every cycle."""
        owed: dict[tuple[int, str], Share] = {}
        moved = 0
        for partition in range(self._frontier.partitions):
            self._keep()
            lanes = self._frontier.due_lanes(partition)
            scheduled = sum(lane.queued for lane in lanes)
            shares = {
                share.rule: share
                for share in self._policy(max(0, self._limit - scheduled), self._claims(partition, lanes))
            }
            owed.update(((partition, lane), share) for lane, share in shares.items())
            given = [(x.lane, shares[x.lane].taken, x.queued + shares[x.lane].taken) for x in lanes if x.due]
            log = (self._limit, scheduled) if given else None
            moved += sum(row.moved for row in self._frontier.feed(partition, given, term=term, log=log))
        self._owed = owed
        return moved

    def _claims(self, partition: int, lanes: Sequence[DueLane]) -> list[Claim]:
        found, claims = rates(lanes), []
        for lane in lanes:
            before = self._owed.get((partition, lane.lane))
            waited, credit = (before.waited, before.credit) if before is not None else (0, Fraction(0))
            credit = Fraction(round(credit * MILLION), MILLION)
            claims.append(Claim(lane.lane, found[lane.lane], lane.due, waited, credit))
        return claims
