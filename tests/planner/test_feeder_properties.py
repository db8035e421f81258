"""Cycles of the feeder on lanes at random, some of which nobody serves: the limit holds, and nobody who is served starves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gossamer.frontier.contract import Frontier
from gossamer.model import DueLane, LaneFeed
from gossamer.planner.feeder import POLICIES, STARVED, Feeder

CYCLES = 60


class LaneKind(NamedTuple):
    """What is due at first and in each cycle, what workers take in each (0: nobody serves it), and from which cycle on."""

    weight: float
    due: int
    more: int
    taken: int
    since: int


class Lanes:
    """What the feeder asks of a frontier, of lanes that are mere numbers; each is on one of the partitions."""

    def __init__(self, kinds: Sequence[LaneKind], limit: int, partitions: int = 1) -> None:
        self.kinds, self.limit, self.partitions = kinds, limit, partitions
        self.due = [0] * len(kinds)
        self.queued = [0] * len(kinds)
        self.fetched: list[list[int]] = [[] for _ in kinds]

    def due_lanes(self, partition: int) -> list[DueLane]:
        return [
            DueLane(f"s{n}.page", 1.0, kind.weight, "", self.due[n], self.queued[n])
            for n, kind in enumerate(self.kinds)
            if n % self.partitions == partition
        ]

    def feed(
        self, partition: int, given: Sequence[tuple[str, int, int, int]], *, term: int, log: Any = None
    ) -> list[LaneFeed]:
        rows = []
        for lane, most, limit, _ in given:
            n = int(lane[1:].partition(".")[0])
            moved = max(0, min(most, limit - self.queued[n], self.due[n]))
            self.due[n] -= moved
            self.queued[n] += moved
            rows.append(LaneFeed(moved, self.due[n], self.queued[n]))
        return rows

    def work(self, cycle: int) -> None:
        """Pages are found, and workers take what is queued."""
        for n, kind in enumerate(self.kinds):
            if cycle >= kind.since:
                self.due[n] += kind.more if cycle > kind.since else kind.due
            taken = min(kind.taken, self.queued[n])
            self.queued[n] -= taken
            self.fetched[n].append(taken)


KINDS = st.lists(
    st.builds(
        LaneKind, st.sampled_from([0.5, 1.0, 2.0, 6.0]), st.integers(0, 500), st.integers(0, 50), st.integers(0, 60), st.integers(0, 30)
    ),
    min_size=1,
    max_size=6,
)  # fmt: skip


@pytest.mark.parametrize("policy", sorted(POLICIES))
@given(kinds=KINDS, limit=st.integers(100, 400))
def test_the_limit_holds_and_who_is_served_and_has_due_pages_goes_on(
    policy: str, kinds: list[LaneKind], limit: int
) -> None:
    lanes = Lanes(kinds, limit)
    feeder = Feeder(cast(Frontier, lanes), limit, POLICIES[policy])
    waited = [0] * len(kinds)
    for cycle in range(CYCLES):
        lanes.work(cycle)
        due = list(lanes.due)
        feeder.feed(1)
        assert sum(lanes.queued) <= limit
        for n, kind in enumerate(kinds):
            hungry = kind.taken and due[n] and not lanes.queued[n]
            waited[n] = waited[n] + 1 if hungry else 0
            # The lightest of six has a part of 1 in 61; with rooms of at least one page it waits no longer than that.
            assert waited[n] <= 61, f"lane {n} got nothing for {waited[n]} cycles: {lanes.queued} of {limit} are queued"


@pytest.mark.parametrize("policy", sorted(POLICIES))
@given(kinds=KINDS, limit=st.integers(1, 40), partitions=st.integers(1, 3))
def test_who_is_served_goes_on_also_where_others_hold_all_of_a_small_limit(
    policy: str, kinds: list[LaneKind], limit: int, partitions: int
) -> None:
    """As a host that blocks its pages does, or a site whose workers are gone. Each lane has one page beyond the limit at most."""
    lanes = Lanes(kinds, limit, partitions)
    feeder = Feeder(cast(Frontier, lanes), limit, POLICIES[policy])
    waited = [0] * len(kinds)
    for cycle in range(2 * CYCLES):
        lanes.work(cycle)
        due = list(lanes.due)
        feeder.feed(1)
        assert sum(lanes.queued) <= limit + len(kinds)
        for n, kind in enumerate(kinds):
            hungry = kind.taken and due[n] and not lanes.queued[n]
            waited[n] = waited[n] + 1 if hungry else 0
            assert waited[n] <= 61 + STARVED, f"lane {n} got nothing for {waited[n]} cycles: {lanes.queued} of {limit}"


@pytest.mark.parametrize("policy", sorted(POLICIES))
@given(kinds=KINDS, limit=st.integers(1, 6), partitions=st.integers(2, 9))
@example(
    [LaneKind(6.0, 0, 1, 0, 0), *[LaneKind(0.5, 0, more, 0, 0) for more in (0, 0, 1)], LaneKind(6.0, 0, 1, 0, 0)], 1, 2
)
def test_a_limit_near_the_number_of_partitions_gives_everybody_a_turn(
    policy: str, kinds: list[LaneKind], limit: int, partitions: int
) -> None:
    """Who waits for 30 cycles, as a light lane among heavy ones does at a limit of 1, has one page beyond it."""
    kinds = [kind._replace(due=kind.due + 1, taken=kind.taken + 1) for kind in kinds]
    lanes = Lanes(kinds, limit, partitions)
    feeder = Feeder(cast(Frontier, lanes), limit, POLICIES[policy])
    for cycle in range(CYCLES + 61):
        lanes.work(cycle)
        feeder.feed(1)
        assert sum(lanes.queued) <= limit + len(kinds)
    assert all(map(sum, lanes.fetched)), f"{lanes.fetched} with {limit} places on {partitions} partitions"


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_lanes_that_nobody_serves_do_not_take_all_the_room(policy: str) -> None:
    """Three of them come one after the other, each while it is alone; then one that is served."""
    dead = [LaneKind(1.0, 10_000, 0, 0, since) for since in (0, 5, 10)]
    lanes = Lanes([*dead, LaneKind(1.0, 100, 20, 20, 15)], 1000)
    feeder = Feeder(cast(Frontier, lanes), 1000, POLICIES[policy])
    for cycle in range(CYCLES):
        lanes.work(cycle)
        feeder.feed(1)
    assert [sum(row) for row in lanes.fetched[:3]] == [0, 0, 0]
    assert sum(lanes.fetched[3]) >= 20 * (CYCLES - 17), f"{lanes.queued} are queued"
