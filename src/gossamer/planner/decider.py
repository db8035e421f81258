"""What to do about the rounds of all groups, from what the frontier tells of them. Pure but for what it remembers to decide less often."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from gossamer.model import GroupState, PlanState
from gossamer.model.reply import PAGES_FULL
from gossamer.planner.policy.rounds import Action, LastRound, RoundPolicy, decide_round, is_overdue
from gossamer.planner.schedules import SPIDER, PlannedGroup


class Decision(NamedTuple):
    """What to do for a group now. `round` is the present one. `tasks`: push what it begins with, since the client that
    began it did not. `over`: note that it has ended, as workers of spiders do only when they end themselves; where it
    has not, since tasks wait, go on with the rest. `late`: note that it runs longer than it may."""

    group: str
    round: int
    action: Action
    why: str
    late: bool = False
    over: bool = False
    tasks: bool = False
    began: float | None = None
    """When the present round began."""


def last_round(state: GroupState, now: float) -> LastRound:
    """The present round as the policy wants it. One that has all pages it may have is over as far as it can be."""
    began = now if state.began is None else state.began
    full = state.paused == PAGES_FULL and not state.leased
    # What comes after a round belongs to it: the next one waits for that, too.
    return LastRound(state.round, began, began if full else state.closed, seeding=state.start in ("owed", "leased"))


def is_late_now(policy: RoundPolicy, state: GroupState, now: float) -> bool:
    """Whether the present round runs, or ran until nothing was left of it, longer than its deadline."""
    last = last_round(state, now)
    return is_overdue(policy, last if state.ended is None else last._replace(ended=state.ended), now)


def is_paused(state: GroupState) -> bool:
    return state.paused not in ("", PAGES_FULL)


class Decider:
    """Decides about a group when something about it has changed, or when its time has come."""

    def __init__(self) -> None:
        self._waits: dict[str, tuple[RoundPolicy, LastRound, bool, float]] = {}
        self._known: tuple[object, object] = None, None
        self._quiet_until = 0.0

    def decide(self, state: PlanState, planned: Mapping[str, PlannedGroup]) -> list[Decision]:
        if self._known[0] is state.groups and self._known[1] is planned and state.now < self._quiet_until:
            return []
        self._known, self._quiet_until = (state.groups, planned), inf
        found = []
        for name, group in planned.items():
            here = state.groups.get(name)
            # A group that no worker has made yet begins its first round when one does.
            if here is None or not here.has_start:
                continue
            now = state.time_of(here)
            if decision := self._decide(group, here, now, state.now - now):
                found.append(decision)
                self._quiet_until = 0.0
        self._waits = {name: known for name, known in self._waits.items() if name in planned}
        return found

    def _decide(self, group: PlannedGroup, state: GroupState, now: float, behind: float) -> Decision | None:
        """`now` is the group's time, `behind` seconds behind that of the planner."""
        last, paused, name = last_round(state, now), is_paused(state), group.group
        runs = group.kind == SPIDER and state.closed is None
        tasks = runs and group.tasks is not None and state.began is not None and not state.tasks
        over = runs and not tasks and state.start == "done" and state.open == 0
        tasks = tasks and not paused
        late = state.began is not None and state.closed is None and not state.late
        if late and group.policy.schedule is not None and group.policy.schedule.deadline is not None:
            self._quiet_until = min(self._quiet_until, last.began + group.policy.schedule.deadline + behind)
        late = late and is_late_now(group.policy, state, now)
        action, why = self._next(group, last, paused, now, behind)
        if action is Action.WAIT and not (late or over or tasks):
            return None
        return Decision(name, last.number, action, why, late, over, tasks, state.began)

    def _next(
        self, group: PlannedGroup, last: LastRound, paused: bool, now: float, behind: float
    ) -> tuple[Action, str]:
        known = self._waits.get(group.group)
        if known is None or known[:3] != (group.policy, last, paused) or now >= known[3]:
            action, at, why = decide_round(group.group, group.policy, last, now, paused=paused)
            if action is not Action.WAIT:
                return action, why
            known = self._waits[group.group] = group.policy, last, paused, inf if at is None else at
        self._quiet_until = min(self._quiet_until, known[3] + behind)
        return Action.WAIT, ""
