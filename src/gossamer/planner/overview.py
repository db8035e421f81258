"""One look at all that is planned: the present round of each group, what waits, and when the next round begins."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gossamer.frontier.contract import Frontier
from gossamer.model import GroupState, PlanState
from gossamer.model.reply import PAGES_FULL
from gossamer.planner.decider import is_late_now
from gossamer.planner.forecast import Event, forecast, next_decision, obstacle_to, usual_duration
from gossamer.planner.policy.rounds import Action
from gossamer.planner.schedules import PlannedGroup, Schedules
from gossamer.sites.file.load import uninterrupted
from gossamer.sites.file.params import Parameters, parameters
from gossamer.sites.format import SiteSpec
from gossamer.sites.plan import AGAIN, LISTINGS, DepthRow, LayerGraph, by_depth

NEW = "new"
RECENT = 5
"""The number of past rounds from which the length of the next is estimated."""


class PlannedRound(NamedTuple):
    """A group that is planned. `state`: new (no worker has served it yet), waiting, running, ending, draining (its file is to be removed), full (it has as many pages as it may)
    or paused, with the reason in `paused`. `next` is when its next round begins, None if `why` says what it waits for. Times are server
    time in seconds."""

    group: str
    kind: str
    file: str
    state: str
    round: int
    began: float | None
    ended: float | None
    next: float | None
    why: str
    late: bool
    paused: str
    waiting: int
    in_progress: int
    arguments: Mapping[str, str] = MappingProxyType({})
    tasks: str = ""
    """Where the tasks of each round come from, and the key that they go to."""
    depths: tuple[DepthRow, ...] = ()
    """What waits and is in progress at each distance from the seeds, where it was asked for and there is something."""


def overview(frontier: Frontier, *, depths: bool = False) -> tuple[PlanState, list[PlannedRound]]:
    """All groups that are planned, by name; with `depths` also what they have at each depth. One call for each partition, and those that read
    files."""
    state = frontier.plan_state(lanes=True)
    schedules = Schedules(frontier, keep_sites=depths)
    with uninterrupted():
        schedules.update(state.documents)
    sites = schedules.sites or {}
    rows = [
        _row(group, here, state.now if here is None else state.time_of(here))._replace(
            arguments=dict(group.arguments),
            tasks=task_source(group),
            depths=_depths(sites.get(name), here),
        )
        for name, group in sorted(schedules.groups.items())
        for here in [state.groups.get(name)]
    ]
    return state, rows


def _depths(site: SiteSpec | None, state: GroupState | None) -> tuple[DepthRow, ...]:
    counts: dict[str, tuple[int, int]] = {}
    for lane in state.lanes if state is not None else ():
        layer = lane.lane.rpartition(".")[2]
        if layer not in LISTINGS and (lane.queued or lane.delayed or lane.leased):
            waiting, leased = counts.get(layer := layer.removeprefix(AGAIN), (0, 0))
            counts[layer] = waiting + lane.queued + lane.delayed, leased + lane.leased
    if site is None or not counts:
        return ()
    known = parameters(site.params) if site.params else Parameters()
    return tuple(by_depth(LayerGraph(site, known).depths, counts))


def task_source(group: PlannedGroup) -> str:
    """Where the tasks of a spider's rounds come from, in a few words; "" if it has none."""
    return f"{group.tasks.key}: {group.tasks.source}" if group.tasks is not None else ""


def obstacles(frontier: Frontier) -> dict[str, str]:
    """What keeps a planner from what is due, by group; read without the files where nothing does."""
    state = frontier.plan_state()
    noted = {name: here for name, here in state.groups.items() if here.obstacle}
    if not noted:
        return {}
    schedules = Schedules(frontier)
    schedules.update(state.documents)
    found = {
        name: obstacle_to(group, here, state.time_of(here))
        for name, here in noted.items()
        if (group := schedules.groups.get(name)) is not None
    }
    return {name: why for name, why in found.items() if why}


def never_served(frontier: Frontier) -> list[PlannedRound]:
    """Sites and spiders that have a file and no group: no worker has served them."""
    return [row for row in overview(frontier)[1] if row.state == NEW]


def coming(frontier: Frontier, seconds: float) -> tuple[PlanState, list[Event], Mapping[str, PlannedGroup]]:
    """The rounds that begin in the next `seconds`, and all that is planned."""
    state = frontier.plan_state()
    schedules = Schedules(frontier)
    schedules.update(state.documents)
    known = [name for name, group in schedules.groups.items() if group.policy.schedule and name in state.groups]
    durations = {name: usual_duration(frontier.rounds(name, RECENT)) for name in known}
    return state, forecast(state, schedules.groups, durations, seconds), schedules.groups


def _row(group: PlannedGroup, state: GroupState | None, now: float) -> PlannedRound:
    if state is None:
        new = "no worker has served it yet"
        if group.kind == "site":
            new += f", or its group was dropped: `gossamer round new {group.group}` starts it again"
        word, why = ("paused", group.off) if group.off else (NEW, new)
        return PlannedRound(group.group, group.kind, group.file, word, 0, None, None, None, why, False, group.off, 0, 0)
    action, at, why = next_decision(group, state, now)
    obstacle = obstacle_to(group, state, now)
    late = state.late or (state.began is not None and is_late_now(group.policy, state, now))
    return PlannedRound(
        group.group,
        group.kind,
        group.file,
        "paused" if group.off else _state(state, draining=group.draining),
        state.round,
        state.began,
        state.ended,
        None if obstacle else at if action is Action.WAIT else now,
        group.off or ("its file is to be removed" if group.draining else obstacle or why),
        late,
        group.off or state.paused,
        sum(lane.queued + lane.delayed for lane in state.lanes),
        state.leased,
    )


def _state(state: GroupState, *, draining: bool) -> str:
    if state.paused == PAGES_FULL:
        return "full"
    if state.paused:
        return "paused"
    if draining:
        return "draining"
    if state.closed is not None:
        return "waiting"
    return "ending" if state.ended is not None else "running"
