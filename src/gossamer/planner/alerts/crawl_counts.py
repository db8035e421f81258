"""What alert rules look at, read from the frontier: as much as the rules in force need, in O(sites)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from gossamer.errors import FrontierUnavailable, GossamerError, NotLeader
from gossamer.frontier.server.info import ServerInfo
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import FieldCoverage, GroupState, PlanState, WorkerInfo
from gossamer.model.plural import counted
from gossamer.model.reply import REMOVED, Counts, HostInfo
from gossamer.planner.alerts.history import SampledTotals
from gossamer.planner.alerts.rules import (
    AlertRule,
    BlockedPages,
    DeadLetters,
    HostBlocked,
    ItemRate,
    LowCoverage,
    NoItems,
    NoWorkers,
    Paused,
    QueueGrowth,
    ServerMemory,
    TaskBacklog,
    TaskDrain,
    WorkerLost,
)
from gossamer.planner.decider import last_round
from gossamer.planner.forecast import obstacle_to
from gossamer.planner.schedules import PlannedGroup
from gossamer.status.overview import WORKERS_READ, blocked_hosts, is_alive
from gossamer.status.pools import ServedLanes, stage_of
from gossamer.status.tasks import TaskCounts, task_counts, task_queues

FORGOTTEN = 3600.0
"""Seconds of silence after which a worker is left out: the frontier forgets it."""
NO_COUNTS = Counts(0.0, "", "", [], [], {}, {})
T = TypeVar("T")
_COUNTED: Collection[type[AlertRule]] = (
    NoItems, ItemRate, QueueGrowth, TaskBacklog, TaskDrain, DeadLetters, NoWorkers, Paused,
)  # fmt: skip


class RunningRound(NamedTuple):
    """A round that runs: for how long, and what its schedule allows (None: it says nothing)."""

    number: int
    seconds: float
    deadline: float | None


class EndedRound(NamedTuple):
    """A round that is over: its pages with those that failed, and these."""

    number: int
    pages: int
    failed: int


class CrawlReading(NamedTuple):
    """A crawl at a time. What no rule needs is empty."""

    now: float
    totals: Mapping[str, SampledTotals]
    tasks: Mapping[str, TaskCounts]
    rounds: Mapping[str, RunningRound]
    unserved: Mapping[str, str]
    """The groups that are not paused and have work that no living worker takes, and why."""
    paused: Mapping[str, str]
    lost: Sequence[WorkerInfo]
    blocked: Sequence[HostInfo]
    servers: Sequence[ServerInfo]
    unread: Mapping[type[AlertRule], str] = MappingProxyType({})
    """The kinds of rules for which something could not be read, and why: of these nothing is known."""
    held_rounds: Mapping[str, str] = MappingProxyType({})
    """The groups for whose rounds a planner cannot do what is due, and why."""
    last_rounds: Mapping[str, EndedRound | None] = MappingProxyType({})
    """The last round of each planned group; None: it runs."""
    coverage: Mapping[str, Sequence[FieldCoverage]] = MappingProxyType({})
    """What the fields of each group had in its last rounds."""


class _Parts:
    """Reads one part after the other, as far as a rule needs it. One that cannot be read keeps the others from nothing."""

    def __init__(self, rules: Collection[AlertRule]) -> None:
        self._kinds = {type(rule) for rule in rules}
        self.unread: dict[type[AlertRule], str] = {}

    def read(self, kinds: Collection[type[AlertRule]], part: Callable[[], T], nothing: T) -> T:
        if self._kinds.isdisjoint(kinds):
            return nothing
        try:
            return part()
        except (FrontierUnavailable, NotLeader):
            raise
        except GossamerError as error:
            self.unread.update(dict.fromkeys(kinds, str(error)))
            return nothing


def read_crawl(
    frontier: ValkeyFrontier, state: PlanState, planned: Mapping[str, PlannedGroup], rules: Collection[AlertRule]
) -> CrawlReading:
    """Read what these rules need. `state` was read just now."""
    # What is left of a site that somebody removed waits by intent, and is nobody's trouble.
    state = state._replace(groups={name: group for name, group in state.groups.items() if group.paused != REMOVED})
    parts, groups = _Parts(rules), state.groups.items()
    silent = min((rule.silent for rule in rules if isinstance(rule, WorkerLost)), default=0.0)
    counts = parts.read(_COUNTED, lambda: frontier.counts(brief=True), NO_COUNTS)
    tasks = parts.read((TaskBacklog, TaskDrain), lambda: task_counts(task_queues(frontier, counts)), list[TaskCounts]())
    by_group = {one.group: one for one in tasks if one.group in state.groups}
    workers = parts.read((NoWorkers,), lambda: frontier.workers(WORKERS_READ), list[WorkerInfo]())
    whole = f"the whole crawl: {counts.paused}" if counts.paused else ""
    lost = parts.read((WorkerLost,), lambda: frontier.silent_workers(silent, FORGOTTEN)[1], list[WorkerInfo]())
    return CrawlReading(
        state.now,
        _totals(counts, by_group),
        by_group,
        _rounds(state, planned),
        _unserved(state, counts, workers),
        {name: why for name, group in groups if (why := group.paused or whole)},
        # A client without worker info is a tool, not a worker.
        [worker for worker in lost if worker.info and not worker.closed],
        parts.read((HostBlocked,), lambda: blocked_hosts(frontier), list[HostInfo]()),
        parts.read((ServerMemory,), frontier.connection.server_infos, tuple[ServerInfo, ...]()),
        parts.unread,
        _held(state, planned),
        {name: _ended(group) for name, group in groups if name in planned and not planned[name].off},
        _by_group(parts.read((LowCoverage, BlockedPages), lambda: frontier.coverage([*state.groups]), [])),
    )


def _by_group(rows: Sequence[FieldCoverage]) -> dict[str, list[FieldCoverage]]:
    found: dict[str, list[FieldCoverage]] = {}
    for row in rows:
        if row.asked or row.blocked:
            found.setdefault(row.group, []).append(row)
    return found


def _totals(counts: Counts, tasks: Mapping[str, TaskCounts]) -> dict[str, SampledTotals]:
    waiting: dict[str, int] = {}
    for lane in counts.lanes:
        group = lane.lane.rpartition(".")[0]
        waiting[group] = waiting.get(group, 0) + lane.waiting
    return {
        x.group: SampledTotals(
            x.pages, x.items, x.dead, waiting.get(x.group, 0), tasks[x.group].waiting if x.group in tasks else 0
        )
        for x in counts.groups
    }


def _unserved(state: PlanState, counts: Counts, workers: Sequence[WorkerInfo]) -> dict[str, str]:
    served = ServedLanes(worker for worker in workers if is_alive(worker, state.now))
    running = {name: group for name, group in state.groups.items() if not group.paused}
    found = {}
    for lane in counts.lanes:
        name, _, layer = lane.lane.rpartition(".")
        if name in running and lane.waiting and not lane.paused:
            why = served.lane_obstacle(lane.lane, stage_of(counts, lane.lane))
            if why:
                found[name] = f"{counted(lane.waiting, 'page')} of {layer} open, and {why}"
    for name, group in running.items():
        if group.open > 0 and (why := served.obstacle(name)):
            found[name] = f"{counted(group.open, 'request')} open, and {why}"
    return found


def _held(state: PlanState, planned: Mapping[str, PlannedGroup]) -> dict[str, str]:
    told = {
        name: obstacle_to(planned[name], group, state.time_of(group))
        for name, group in state.groups.items()
        if group.obstacle and name in planned
    }
    return {name: why for name, why in told.items() if why}


def _ended(group: GroupState) -> EndedRound | None:
    return None if group.closed is None else EndedRound(group.round, group.pages, group.failed)


def _rounds(state: PlanState, planned: Mapping[str, PlannedGroup]) -> dict[str, RunningRound]:
    found = {}
    for name, group in state.groups.items():
        last = last_round(group, state.now)
        # A spider's round may end without a note. One that has all pages it may have is over as far as it can be.
        if group.began is not None and last.ended is None and (group.open > 0 or last.seeding):
            schedule = planned[name].policy.schedule if name in planned else None
            deadline = schedule.deadline if schedule is not None else None
            found[name] = RunningRound(group.round, state.now - group.began, deadline)
    return found
