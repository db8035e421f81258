"""What the frontier tells planners. Times are server time in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Leader(NamedTuple):
    """Who leads the planners of a crawl, until when (in the past: nobody does), and in which term. `granted`: it is whoever asked.
    Terms grow with every change of the leader."""

    granted: bool
    term: int
    name: str
    until: float
    now: float

    @property
    def present(self) -> bool:
        """Whether somebody leads."""
        return self.until > self.now


class DueLane(NamedTuple):
    """A lane that keeps page records, on one partition: its weight and that of its group, why nothing is leased from it, how many pages
    are due, and what is queued and delayed."""

    lane: str
    weight: float
    group_weight: float
    paused: str
    due: int
    queued: int

    @property
    def group(self) -> str:
        return self.lane.rpartition(".")[0]


class LaneShare(NamedTuple):
    """What a lane got in a cycle: its share of the room, the pages of it that were `taken`, and the due pages that were left."""

    lane: str
    share: int
    taken: int
    left: int


class PlanCycle(NamedTuple):
    """What a planner's cycle came to on one partition: how many requests may be queued there, how many were, and what each lane
    with due pages got of the room between the two."""

    at: float
    partition: int
    term: int
    limit: int
    scheduled: int
    lanes: tuple[LaneShare, ...]

    @property
    def room(self) -> int:
        return max(0, self.limit - self.scheduled)


class LaneState(NamedTuple):
    """What waits in a lane."""

    lane: str
    queued: int
    delayed: int
    leased: int


class GroupState(NamedTuple):
    """The present round of a group and what waits for it. `has_start`: a round begins with a start, which workers run; its state is
    none, owed, leased or done. `paused` is why nothing is leased, by hand or for now. `began`, `ended` (when it was found drained) and
    `closed` (when all was done that comes after it) are None where unknown. `lanes` are there if they were asked for."""

    group: str
    has_start: bool
    round: int
    start: str
    paused: str
    open: int
    leased: int
    began: float | None
    ended: float | None
    closed: float | None
    late: bool
    trigger: str
    lanes: tuple[LaneState, ...]
    home: int = 0
    """The partition that notes its rounds."""
    tasks: bool = False
    """Whether a planner has pushed the tasks of the round."""
    obstacle: str = ""
    """Why a planner could not do what was due."""
    pages: int = 0
    failed: int = 0
    """What a round that has ended has brought: its pages with those that failed, and these."""


class PlanState(NamedTuple):
    """What planners decide by. `documents` is the version of the crawl's documents, `clocks` the time of each partition. `epoch` is another one
    after the server may have gone back to an older state: other documents may then have the versions of those it has lost."""

    now: float
    documents: int
    leader: Leader
    groups: Mapping[str, GroupState]
    clocks: tuple[float, ...] = ()
    epoch: str = ""

    def time_of(self, group: GroupState) -> float:
        """The time by which the rounds of a group are noted: partitions on several servers have several clocks."""
        return self.clocks[group.home] if group.home < len(self.clocks) else self.now
