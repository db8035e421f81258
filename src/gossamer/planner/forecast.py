"""What planners will do, as far as it can be known: the policy run on a simulated clock from the present state. Pure.

How long rounds take is not known: each is taken to last as long as those before it. A round that already runs longer than that is taken to
end now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from statistics import median
from typing import NamedTuple

from gossamer.model import GroupState, PlanState, RoundInfo
from gossamer.planner.decider import is_paused, last_round
from gossamer.planner.policy.rounds import Action, LastRound, RoundDecision, decide_round
from gossamer.planner.schedules import PlannedGroup

MOST = 10_000
"""The most events of one group that are listed."""


class Event(NamedTuple):
    """A round that begins at a time, and why."""

    at: float
    group: str
    round: int
    action: Action
    why: str


def usual_duration(rounds: Sequence[RoundInfo]) -> float:
    """How long the rounds of a group take, with what comes after them: the median of the last ones that ended; 0 if none has."""
    ends = [(info.began, info.ended if info.closed is None else info.closed) for info in rounds]
    return median([end - began for began, end in ends if began is not None and end is not None] or [0.0])


def next_decision(group: PlannedGroup, state: GroupState, now: float) -> RoundDecision:
    """What is to be done about a group's rounds now, or when to look again."""
    if not state.has_start:
        return RoundDecision(
            Action.WAIT, None, "it has nothing to begin a round with: tasks, or links of other sites, bring its pages"
        )
    return decide_round(group.group, group.policy, last_round(state, now), now, paused=is_paused(state))


def obstacle_to(group: PlannedGroup, state: GroupState, now: float) -> str:
    """What keeps a planner from doing what is due for a group; "" if nothing does. Of what is no more to be done, it may still be noted that
    it could not be done."""
    wants_tasks = group.tasks is not None and state.began is not None and state.closed is None and not state.tasks
    if not state.obstacle or wants_tasks:
        return state.obstacle
    return state.obstacle if next_decision(group, state, now)[0] is not Action.WAIT else ""


def forecast(
    state: PlanState, planned: Mapping[str, PlannedGroup], durations: Mapping[str, float], seconds: float
) -> list[Event]:
    """The rounds that begin in the next `seconds`, of all groups, in their order."""
    found = [
        islice(_events(group, here, durations.get(name, 0.0), (now := state.time_of(here)), now + seconds), MOST)
        for name, group in sorted(planned.items())
        if (here := state.groups.get(name)) is not None and here.has_start and not is_paused(here)
    ]
    return list(merge(*found))


def _events(group: PlannedGroup, state: GroupState, duration: float, now: float, until: float) -> Iterator[Event]:
    last = last_round(state, now)._replace(seeding=False)
    running = last.number if last.ended is None else None
    obstacle = obstacle_to(group, state, now)
    while now < until:
        over = max(last.began + duration, now) if last.ended is None else None
        if over is not None and over <= now:
            last, over = last._replace(ended=now), None
        action, at, why = decide_round(group.group, group.policy, last, now)
        if action is Action.WAIT:
            moments = [moment for moment in (at, over) if moment is not None]
            if not moments:
                return
            now = max(min(moments), now)
            if over is not None and now >= over:
                last = last._replace(ended=over)
            continue
        if running == last.number and action is Action.BEGIN:
            why = f"{why}, if round {running} is over by then"
        if obstacle:
            why, obstacle = f"{why}, as soon as this is mended: {obstacle}", ""
        yield Event(now, group.group, last.number + 1, action, why)
        last = LastRound(last.number + 1, now)
        if duration == 0:
            last = last._replace(ended=now)
