"""What to do about the rounds of all groups, from what the frontier tells of them. Pure but for what it remembers to decide less often."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from gossamer.model import GroupState, PlanState
from gossamer.model.reply import PAGES_FULL
from gossamer.planner.policy.rounds import Action, LastRound, RoundPolicy, decide_round, is_overdue
from gossamer.planner.schedules import PlannedGroup


class Decision(NamedTuple):
    """What to do for a group now. `round` is the present one. `late`: note that it runs longer than it may."""

    group: str
    round: int
    action: Action
    why: str
    late: bool = False


def last_round(state: GroupState, now: float) -> LastRound:
    """The present round as the policy wants it. One that has all pages it may have is over as far as it can be."""
    began = now if state.began is None else state.began
    full = state.paused == PAGES_FULL and not any(lane.leased for lane in state.lanes)
    ended = began if full else state.ended if state.closed is not None else None
    return LastRound(state.round, began, ended, seeding=state.start in ("owed", "leased"))


def is_paused(state: GroupState) -> bool:
    return state.paused not in ("", PAGES_FULL)


class Decider:
    """Decides about a group when something about it has changed, or when its time has come."""

    def __init__(self) -> None:
        self._waits: dict[str, tuple[RoundPolicy, LastRound, bool, float]] = {}

    def decide(self, state: PlanState, planned: Mapping[str, PlannedGroup]) -> list[Decision]:
        found = []
        for name, group in planned.items():
            here = state.groups.get(name)
            # A group that no worker has made yet begins its first round when one does.
            if here is not None and here.has_start and (decision := self._decide(group, here, state.now)):
                found.append(decision)
        self._waits = {name: known for name, known in self._waits.items() if name in planned}
        return found

    def _decide(self, group: PlannedGroup, state: GroupState, now: float) -> Decision | None:
        last, paused, name = last_round(state, now), is_paused(state), group.group
        late = state.began is not None and state.closed is None and not state.late
        late = late and is_overdue(group.policy, last, now)
        known = self._waits.get(name)
        if known is not None and known[:3] == (group.policy, last, paused) and now < known[3]:
            return Decision(name, last.number, Action.WAIT, "", late) if late else None
        action, at, why = decide_round(name, group.policy, last, now, paused=paused)
        if action is Action.WAIT:
            self._waits[name] = group.policy, last, paused, inf if at is None else at
            return Decision(name, last.number, action, why, late) if late else None
        return Decision(name, last.number, action, why, late)
