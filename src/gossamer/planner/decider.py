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
    """What to do for a group now. `round` is the present one. `late`: note that it runs longer than it may. `over`: note that it has
    ended, as workers of spiders do only when they end themselves."""

    group: str
    round: int
    action: Action
    why: str
    late: bool = False
    over: bool = False


def last_round(state: GroupState, now: float) -> LastRound:
    """The present round as the policy wants it. One that has all pages it may have is over as far as it can be."""
    began = now if state.began is None else state.began
    full = state.paused == PAGES_FULL and not state.leased
    ended = began if full else state.ended if state.closed is not None else None
    return LastRound(state.round, began, ended, seeding=state.start in ("owed", "leased"))


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
            if here is not None and here.has_start and (decision := self._decide(group, here, state.now)):
                found.append(decision)
                self._quiet_until = 0.0
        self._waits = {name: known for name, known in self._waits.items() if name in planned}
        return found

    def _decide(self, group: PlannedGroup, state: GroupState, now: float) -> Decision | None:
        last, paused, name = last_round(state, now), is_paused(state), group.group
        if group.kind == SPIDER and state.closed is None and state.start == "done" and state.open == 0:
            return Decision(name, last.number, Action.WAIT, "", over=True)
        late = state.began is not None and state.closed is None and not state.late
        if late and group.policy.schedule is not None and group.policy.schedule.deadline is not None:
            self._quiet_until = min(self._quiet_until, last.began + group.policy.schedule.deadline)
        late = late and is_overdue(group.policy, last, now)
        known = self._waits.get(name)
        if known is None or known[:3] != (group.policy, last, paused) or now >= known[3]:
            action, at, why = decide_round(name, group.policy, last, now, paused=paused)
            if action is not Action.WAIT:
                return Decision(name, last.number, action, why, late)
            known = self._waits[name] = group.policy, last, paused, inf if at is None else at
        self._quiet_until = min(self._quiet_until, known[3])
        return Decision(name, last.number, Action.WAIT, "", late) if late else None
