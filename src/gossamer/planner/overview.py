"""One look at all that is planned: the present round of each group, what waits, and when the next round begins."""

from __future__ import annotations

from typing import NamedTuple

from gossamer.frontier.contract import Frontier
from gossamer.model import GroupState, PlanState
from gossamer.model.reply import PAGES_FULL
from gossamer.planner.decider import last_round
from gossamer.planner.forecast import Event, forecast, next_decision, usual_duration
from gossamer.planner.policy.rounds import Action, is_overdue
from gossamer.planner.schedules import PlannedGroup, Schedules

RECENT = 5
"""By so many rounds it is judged how long they take."""


class PlannedRound(NamedTuple):
    """A group that is planned. `state`: new (no worker has served it yet), waiting, running, ending, full (it has as many pages as it may)
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


def overview(frontier: Frontier) -> tuple[PlanState, list[PlannedRound]]:
    """All groups that are planned, by name. One call for each partition, and those that read files."""
    state = frontier.plan_state(lanes=True)
    schedules = Schedules(frontier)
    schedules.update(state.documents)
    rows = [_row(group, state.groups.get(name), state.now) for name, group in sorted(schedules.groups.items())]
    return state, rows


def coming(frontier: Frontier, seconds: float) -> tuple[PlanState, list[Event]]:
    """The rounds that begin in the next so many seconds."""
    state = frontier.plan_state()
    schedules = Schedules(frontier)
    schedules.update(state.documents)
    known = [name for name, group in schedules.groups.items() if group.policy.schedule and name in state.groups]
    durations = {name: usual_duration(frontier.rounds(name, RECENT)) for name in known}
    return state, forecast(state, schedules.groups, durations, seconds)


def _row(group: PlannedGroup, state: GroupState | None, now: float) -> PlannedRound:
    if state is None:
        why = "no worker has served it yet"
        return PlannedRound(group.group, group.kind, group.file, "new", 0, None, None, None, why, False, "", 0, 0)
    action, at, why = next_decision(group, state, now)
    late = state.late or (state.began is not None and is_overdue(group.policy, last_round(state, now), now))
    return PlannedRound(
        group.group,
        group.kind,
        group.file,
        _state(state),
        state.round,
        state.began,
        state.ended,
        at if action is Action.WAIT else now,
        why,
        late,
        state.paused,
        sum(lane.queued + lane.delayed for lane in state.lanes),
        state.leased,
    )


def _state(state: GroupState) -> str:
    if state.paused == PAGES_FULL:
        return "full"
    if state.paused:
        return "paused"
    if state.closed is not None:
        return "waiting"
    return "ending" if state.ended is not None else "running"
