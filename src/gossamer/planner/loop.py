"""The loop of a planner: lead, look, decide, do.

Any number of planners run; one leads, and the others wait. Each cycle reads the state of the crawl again, and everything that is done carries
the leader's term: a leader that was frozen, or cut off, does nothing any more once another has taken over. The time is the server's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from gossamer.errors import FrontierUnavailable, GossamerError, NotLeader, UnknownGroup
from gossamer.frontier.contract import Frontier
from gossamer.model import EndState, Leader, PlanState, RoundInfo, Token
from gossamer.planner.alerts.watch import AlertWatch
from gossamer.planner.decider import Decider, Decision
from gossamer.planner.feeder import POLICIES, Feeder
from gossamer.planner.policy.rounds import Action
from gossamer.planner.round_tasks import RoundTasks
from gossamer.planner.schedules import PlannedGroup, Schedules, ServedGroups
from gossamer.sites.schedule import is_late

logger = logging.getLogger(__name__)

RENEW = 0.25
"""A leader that is busy says that it still leads when so much of its time has passed."""
TRIGGER = "schedule"
RECENT = 100
"""How many rounds of a group are looked through for one that began lately."""
TASKS = " tasks"
"""What a complaint is about that is of no single group. No group has such a name."""
OBSTACLE = 500
"""Characters that are noted of what is in the way of a round."""
LIMIT = 100_000
"""The most requests of lanes with page records that are queued, unless a setting says otherwise."""
DROP = 0.2
"""Seconds in which waiting requests of one group are dropped in a cycle."""


class Cycle(NamedTuple):
    """What one cycle came to: who leads, what was done, and how many due pages were queued."""

    leader: Leader
    done: Sequence[Decision] = ()
    fed: int = 0


class Planner:
    """One planner of a crawl, called `name`. `seconds` is how long it leads after it has said so last. `limit` is how many requests of
    lanes that keep page records it queues, and `shares` by which policy these have their part of it. `served`: begin rounds only of
    groups that a living worker serves."""

    def __init__(
        self,
        frontier: Frontier,
        name: str,
        *,
        seconds: float,
        limit: int = LIMIT,
        shares: str = "weights",
        tasks: RoundTasks | None = None,
        alerts: AlertWatch | None = None,
        served: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tasks, self._alerts = tasks, alerts
        self._complaints: dict[str, str] = {}
        """What is wrong and was logged, by what it is about."""
        self._checked: tuple[str, int] | None = None
        """The last round whose tasks were found to be readable."""
        self._served = ServedGroups(frontier) if served else None
        self._frontier, self.name, self._seconds, self._clock = frontier, name, seconds, clock
        self._token = Token.fresh()
        self.term = 0
        """The term in which it leads; 0: it does not."""
        self._followed: str | None = None
        self._renewed = 0.0
        self._schedules, self._decider = Schedules(frontier), Decider()
        self._limit, self._policy = limit, POLICIES[shares]
        self._feeder = self._new_feeder()

    def _new_feeder(self) -> Feeder:
        return Feeder(self._frontier, self._limit, self._policy, self._keep_leading)

    def cycle(self) -> Cycle:
        """Lead if no other planner does, and do what is due now. Raises `FrontierUnavailable` if the server cannot be reached."""
        leader = self._lead()
        if not leader.granted:
            # Of what it pushed while it led, it alone knows.
            self._look_after_tasks(lambda: None)
            return Cycle(leader)
        state = self._frontier.plan_state()
        try:
            changed = self._schedules.update(state.documents, self._keep_leading, epoch=state.epoch)
        except NotLeader:
            self._lost()
            return Cycle(leader)
        if changed:
            scheduled = sum(one.policy.schedule is not None for one in self._schedules.groups.values())
            logger.info("%d groups are planned, %d of them with a schedule.", len(self._schedules.groups), scheduled)
        done, fed = [], 0
        planned: Mapping[str, PlannedGroup] = self._schedules.groups
        if self._served is not None:
            planned = self._served.of(planned, state.now)
        try:
            for decision in self._decider.decide(state, planned):
                self._keep_leading()
                if self._done(decision, state.groups[decision.group].obstacle):
                    done.append(decision)
            off = {name for name, group in self._schedules.groups.items() if group.off}
            fed = self._feeder.feed(self.term, off)
            self._watch(state)
            self._look_after_tasks(self._keep_leading)
        except NotLeader:
            self._lost()
        return Cycle(leader, done, fed)

    def _look_after_tasks(self, between: Callable[[], None]) -> None:
        """Push again what a server has lost. One that does not answer, or a file that cannot be read, is tried again in the next cycle."""
        if self._tasks is None:
            return
        try:
            self._tasks.push_lost(self._has_tasks, between)
        except NotLeader:
            raise
        except GossamerError as error:
            self._complain(TASKS, f"Whether the tasks of the last rounds are all there is not known: {error}")
        else:
            self._complaints.pop(TASKS, None)

    def _watch(self, state: PlanState) -> None:
        """Evaluate alerts. Whatever goes wrong there, rounds go on."""
        if self._alerts is None:
            return
        self._keep_leading()
        try:
            self._alerts.cycle(state, self._schedules.groups, self.term, self._leads)
        except (NotLeader, FrontierUnavailable):
            raise
        except Exception as error:
            self._complain("", f"Alerts could not be evaluated: {type(error).__name__}: {error}", error)

    def _leads(self) -> bool:
        """Whether it leads at this moment, as far as it can know."""
        return bool(self.term) and self._clock() - self._renewed < self._seconds

    def resign(self) -> None:
        """Leave the lead to another planner."""
        if self.term and self._alerts is not None:
            self._alerts.close(self.term)
        if self.term:
            term, self.term = self.term, 0
            self._frontier.resign(self._token, term)
            logger.info("This planner (%s) does not lead any more: it ends.", self.name)

    def _lead(self) -> Leader:
        before, self._renewed = self.term, self._clock()
        leader = self._frontier.lead(self._token, self.name, self._seconds, self.term)
        if before and not leader.granted:
            self._lost()
            leader = self._frontier.lead(self._token, self.name, self._seconds)
        self.term = leader.term if leader.granted else 0
        if leader.granted and leader.term != before:
            logger.info("This planner (%s) leads the crawl, in term %d.", self.name, leader.term)
            # What it knows may be as old as its last term.
            self._schedules, self._decider = Schedules(self._frontier), Decider()
            self._feeder = self._new_feeder()
        elif not leader.granted and leader.name != self._followed:
            logger.info("The planner %s leads the crawl; this one (%s) waits.", leader.name, self.name)
        self._followed = None if leader.granted else leader.name
        return leader

    def _keep_leading(self) -> None:
        if self._clock() - self._renewed < self._seconds * RENEW:
            return
        self._renewed = self._clock()
        if not (leader := self._frontier.lead(self._token, self.name, self._seconds, self.term)).granted:
            raise NotLeader
        self.term = leader.term

    def _lost(self) -> None:
        if self.term:
            logger.warning("This planner (%s) does not lead any more: its term %d is over.", self.name, self.term)
        self.term = 0

    def _done(self, decision: Decision, obstacle: str) -> bool:
        """Do what was decided; whether that is anything. `obstacle` is what was noted to be in the way of it."""
        group, number = decision.group, decision.round
        try:
            did = self._apply(decision)
        except (NotLeader, FrontierUnavailable):
            raise
        except GossamerError as error:
            self._complain(group, f"Nothing could be done about the rounds of {group}: {error}")
            did, said = False, str(error)[:OBSTACLE]
        else:
            self._complaints.pop(group, None)
            said = ""
        if said != obstacle:
            # For who asks what the group waits for, and for its workers. It may have been dropped meanwhile.
            with suppress(UnknownGroup):
                self._frontier.round_note(group, number, {"obstacle": said})
        return did

    def _apply(self, decision: Decision) -> bool:
        group, number = decision.group, decision.round
        if decision.tasks:
            self._push_tasks(group, number)
            self._frontier.round_note(group, number, {"tasks": True})
        if decision.over and self._ended(decision):
            return True
        if decision.late and self._frontier.round_note(group, number, {"late": True}):
            logger.warning("Round %d of %s is late: it runs longer than its deadline.", number, group)
        if decision.action is Action.WAIT:
            return decision.late or decision.tasks
        again = decision.action is Action.RESEED
        self._check_tasks(group, number + 1)
        if decision.action is Action.REPLACE and not (self._is_present(decision) and self._dropped(group, number)):
            return False
        begun = self._frontier.new_round(
            group, number + 1, trigger=TRIGGER, who=self.name, term=self.term, again=again, after=decision.began
        )
        if begun <= number:
            # The server went back meanwhile: what was decided is of rounds that it has lost.
            return False
        # Not before: workers of the last round would take them, with its arguments, and leave out what that round has seen.
        self._push_tasks(group, begun)
        if self._schedules.groups[group].tasks is not None:
            self._frontier.round_note(group, begun, {"tasks": True})
        how = ", while what the last one found is still fetched" if again else ""
        logger.info("Round %d of %s begins%s: %s.", begun, group, how, decision.why)
        return True

    def _complain(self, about: str, words: str, error: Exception | None = None) -> None:
        """Log what is wrong, once as long as it stays the same."""
        if self._complaints.get(about) != words:
            logger.error("%s", words, exc_info=error)
        self._complaints[about] = words

    def _check_tasks(self, group: str, number: int) -> None:
        """Find out whether what a round begins with can be read: once it has begun, it is too late to wait."""
        rule = self._schedules.groups[group].tasks
        if rule is not None and self._tasks is not None and self._checked != (group, number):
            self._tasks.check(rule, self._keep_leading)
            self._checked = group, number

    def _push_tasks(self, group: str, number: int) -> None:
        """Push what a round begins with, as soon as it has begun, whoever began it. Who takes over goes on with it."""
        rule = self._schedules.groups[group].tasks
        if rule is None or self._tasks is None:
            return
        pushed = self._tasks.push(_name(group, number, self._frontier.rounds(group, 2)), rule, self._keep_leading)
        logger.info("%d tasks of round %d of %s were pushed to %s.", pushed, number, group, rule.key)

    def _has_tasks(self, name: str) -> bool:
        """Whether the round of that name is there, and has its tasks as far as anybody knows."""
        group, number, _ = name.rsplit(":", 2)
        try:
            rounds = self._frontier.rounds(group, RECENT)
        except UnknownGroup:
            return False
        here = [info for info in rounds if info.round == int(number) and info.tasks]
        return bool(here) and _name(group, int(number), rounds) == name

    def _ended(self, decision: Decision) -> bool:
        """Note that a round is over, if nothing is left of it: also no task."""
        group, policy = decision.group, self._schedules.groups[decision.group].policy
        state, number = self._frontier.end_round(group, self._token)
        if state is not EndState.GRANTED:
            return False
        [info] = self._frontier.rounds(group, 1)
        late = info.began is not None and is_late(policy.schedule, info.began, info.ended or info.began)
        if self._frontier.ended(group, self._token, {"late": late}):
            logger.info("Round %d of %s is over.", number, group)
        return True

    def _is_present(self, decision: Decision) -> bool:
        """Whether the round that was decided about is still the last one: the server may have gone back, and lost it."""
        [info] = self._frontier.rounds(decision.group, 1)
        return (info.round, info.began) == (decision.round, decision.began)

    def _dropped(self, group: str, number: int) -> bool:
        """Drop what is left of a round; False: not all of it yet, since pages are in progress or there is too much for one cycle."""
        until = self._clock() + DROP
        while True:
            over, dropped = self._frontier.drop_round(group, number, term=self.term)
            if dropped:
                logger.info("%d waiting requests of round %d of %s are dropped.", dropped, number, group)
            if over or self._clock() >= until:
                return over
            self._keep_leading()


def _name(group: str, number: int, rounds: Sequence[RoundInfo]) -> str:
    """What the tasks of a round are known by. A group that was dropped has the same numbers again, at other times."""
    began = {info.round: info.began for info in rounds}
    return f"{group}:{number}:{began.get(max(number - 1, 0)) or 0:.3f}"


def run(
    planner: Planner, every: float, wait: Callable[[float], bool], clock: Callable[[], float] = time.monotonic
) -> None:
    """Run a cycle `every` so often, in seconds, until `wait` returns True. `wait` waits for the given seconds, or until
    the end."""
    in_outage = False
    while True:
        began = clock()
        try:
            planner.cycle()
            if in_outage:
                logger.info("The server answers again.")
            in_outage = False
        except FrontierUnavailable as error:
            if not in_outage:
                logger.warning("The planner waits for its server: %s", error)
            in_outage = True
        if wait(max(every - (clock() - began), 0.05)):
            break
    try:
        planner.resign()
    except GossamerError as error:
        logger.warning("The lead could not be given back; it runs out instead: %s", error)
