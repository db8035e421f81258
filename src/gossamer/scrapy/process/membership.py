"""A worker's part in the rounds of its group: how it joins, whether a round has its arguments, how it joins again."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from scrapy.utils.defer import deferred_from_coro

from gossamer.courier.outage import pause
from gossamer.errors import FrontierUnavailable, GossamerError, GroupDropping, OtherArguments, SiteError
from gossamer.frontier.contract import Frontier
from gossamer.model import StartState, Token
from gossamer.scrapy import spider_file
from gossamer.scrapy.feeds.position import waiting
from gossamer.scrapy.feeds.stream import agree
from gossamer.scrapy.process import rounds
from gossamer.scrapy.process.admission import enter, repair, without_gone
from gossamer.scrapy.process.exit_code import fail
from gossamer.scrapy.process.reactor import in_thread
from gossamer.sites.format import Schedule
from gossamer.sites.format.spider import SpiderPlan

if TYPE_CHECKING:
    from gossamer.scrapy.scheduler import FleetScheduler

logger = logging.getLogger(__name__)

AGAIN = 5.0
"""Seconds between two attempts to join again."""
TASKS_POLL = 0.5
"""Seconds between two looks for the tasks of a round."""
WAITS = (
    "Round %d of %s waits for its tasks, which the planner pushes. If that takes long, the log of the planner says why."
)
CANNOT = "Round %d of %s waits for its tasks, and so does this worker: the planner cannot push them. %s"
NO_PLANNER = (
    "Round %d of %s has none of the tasks in its spider file: a planner pushes them, and none leads the crawl. Start `gossamer plan`: the next "
    "round begins with them."
)


class RoundMembership:
    """The part of one worker."""

    def __init__(self, scheduler: FleetScheduler) -> None:
        self._scheduler = scheduler
        self.takes_part = False
        """Whether the round has this worker's arguments. Until then the worker sends no requests and writes no feed."""
        self.settled = -1
        """The number of the round whose arguments are settled."""
        self.plan: SpiderPlan | None = None
        """What the crawl's spider file says about the spider, as last read."""
        self._compared = -1
        """The round for which the spider's arguments were compared with those of its file."""
        self._ended = -1
        """The last round whose end this worker has noted while it stays."""
        self._ending = False
        self.compares = False
        """A round may have begun: until it is known whether this worker has its arguments, it hands out no pages."""
        self._with_tasks = -1
        """The last round whose tasks this worker does not wait for: they have arrived, or there is no planner."""
        self._awaiting = self._leaves = False

    async def join(self) -> Token | None:
        """Enter the group, and agree with its other workers on where items go; returns the last token that was used for that."""
        scheduler, calls = self._scheduler, self._scheduler.calls
        scheduler.join = await without_gone(calls.ask, scheduler.join, scheduler.link.beside)
        self.settled = await enter(calls.ask, calls.sleep, scheduler.join)
        self.takes_part = self.settled >= 0 or not scheduler.join.same_arguments
        scheduler.join, token = await agree(
            calls.ask, calls.sleep, scheduler.join, scheduler.info(), self._waiting_files
        )
        return token

    async def _waiting_files(self) -> list[str]:
        def look() -> list[str]:
            with self._scheduler.link.beside() as frontier:
                return waiting(frontier, self._scheduler.group)

        return await in_thread(look)

    async def claims(self, number: int, state: StartState) -> bool:
        """Whether this worker may take part in a round whose start is in that state; if not, it says why and ends."""
        scheduler = self._scheduler
        if not await self._has_its_arguments(number, state):
            return False
        self.compared()
        # The worker that runs a start notes its arguments, whatever the note says now.
        if number != self.settled or state is StartState.GRANTED:
            config = scheduler.join
            try:
                sure = await rounds.claim(
                    scheduler.calls.ask, scheduler.group, number, state, config.arguments, same=config.same_arguments
                )
            except OtherArguments as error:
                self._refuse(error)
                return False
            if sure and not self.takes_part:
                self.takes_part = True
                scheduler.wake()
            if state is not StartState.BUSY:
                self.settled = number
        if state is StartState.GRANTED and scheduler.cookies is not None:
            # A start that logs in by itself begins with the cookies of its round, not with those of the last one.
            await scheduler.calls.until(scheduler.cookies.learn)
        return True

    async def owes_start(self, number: int) -> bool:
        """Whether this worker's start() has to run in a round whose start ran with other arguments."""
        config = self._scheduler.join
        return await rounds.owes_start(
            self._scheduler.calls.ask,
            self._scheduler.group,
            number,
            config.arguments,
            config.settings["GOSSAMER_ROUND"],
        )

    async def _has_its_arguments(self, number: int, state: StartState) -> bool:
        """Whether the spider has the arguments of its spider file; if not, the worker ends before the round, and begins again with them if it
        can. They count from one round to the next."""
        scheduler = self._scheduler
        try:
            found = await spider_file.read_plan(scheduler.calls.ask, scheduler.group)
        except SiteError as error:
            logger.error("A spider file of the crawl cannot be used; this worker goes on as before: %s", error)
            return True
        self.plan = found[1] if found is not None else None
        if number == self._compared and state is not StartState.GRANTED:
            return True
        self._compared = number
        if not (names := self._changed()):
            return True
        self._leave(found[0] if found is not None else "", names)
        return False

    def _changed(self) -> list[str]:
        now = self.plan.arguments if self.plan is not None else {}
        return spider_file.changed(now, self._scheduler.join.given, spider_file.by_hand(self._scheduler.crawler))

    def _leave(self, file: str, names: list[str]) -> None:
        """End, to begin again with the arguments that the spider file has now, if this worker can do that."""
        scheduler, self._leaves = self._scheduler, True
        if spider_file.by_hand(scheduler.crawler) is None:
            now = self.plan.arguments if self.plan is not None else {}
            self._refuse(spider_file.refusal(scheduler.group, file, names, now))
            return
        logger.info("Arguments in the spider file are others now (%s): this worker begins again.", ", ".join(names))
        scheduler.end(spider_file.AGAIN)

    def compared(self) -> None:
        """It is known whether this worker has the arguments of the present round."""
        if self.compares and not self._leaves:
            self.compares = False
            self._scheduler.wake()

    async def may_take_tasks(self) -> bool:
        """Whether tasks that have come are for this worker's arguments. Those that come after a round are for the next one, which begins with
        the arguments that the spider file has now: if this worker has others, it ends and says why."""
        scheduler = self._scheduler
        while not (self._leaves or scheduler.closing):
            try:
                found = await spider_file.read_plan(scheduler.calls.ask, scheduler.group)
                last = await scheduler.calls.ask(Frontier.rounds, scheduler.group, 1)
            except SiteError:
                return True  # see `_has_its_arguments`
            except FrontierUnavailable:
                await scheduler.calls.sleep(pause())
                continue
            except GossamerError as error:
                scheduler.failed(error)
                return False
            if [(info.round, info.ended) for info in last] == [(self.settled, None)]:
                return True
            self.plan = found[1] if found is not None else None
            if not (names := self._changed()):
                return True
            self._leave(found[0] if found is not None else "", names)
        return False

    def lacks_tasks(self) -> bool:
        """The group is drained; but its round is not over before the planner has pushed the tasks that it begins with, whoever began it.
        This worker then finds out when they are there."""
        if self.plan is None or self.plan.tasks is None or self._with_tasks == self.settled:
            return False
        if not self._awaiting:
            self._awaiting = True
            deferred_from_coro(self._await_tasks(self.settled))
        return True

    async def _await_tasks(self, number: int) -> None:
        scheduler, said, led_at = self._scheduler, "", time.monotonic()
        patience = scheduler.join.settings["GOSSAMER_PLAN_LEAD_SECONDS"] + TASKS_POLL
        ask, sleep, group = scheduler.calls.ask, scheduler.calls.sleep, scheduler.group
        try:
            while not scheduler.closing:
                try:
                    here = [info for info in await ask(Frontier.rounds, group, 1) if info.round == number]
                    owed = [info for info in here if await spider_file.owes_tasks(ask, group, info)]
                    led = (await ask(Frontier.counts, group)).led
                except FrontierUnavailable:
                    await sleep(pause())
                    continue
                if not owed:
                    # Of a round that has begun since, this worker learns before long.
                    self._with_tasks = number if here else self._with_tasks
                    break
                led_at = time.monotonic() if led else led_at
                if time.monotonic() - led_at > patience:
                    logger.warning(NO_PLANNER, number, group)
                    self._with_tasks = number
                    break
                if led and (owed[0].obstacle or WAITS) != said:
                    said = owed[0].obstacle or WAITS
                    if owed[0].obstacle:
                        logger.warning(CANNOT, number, group, said)
                    else:
                        logger.info(WAITS, number, group)
                await sleep(TASKS_POLL)
        except GossamerError as error:
            scheduler.failed(error)
        finally:
            self._awaiting = False
        # What was pushed meanwhile counts: whether the group is drained is asked again.
        scheduler.idle.look_in(0 if self._with_tasks == number else TASKS_POLL)

    def note_end(self) -> None:
        """Note that the round of a planned spider is over, with or without a planner: the group is drained, and this worker stays."""
        if self.plan is not None and self._ended != self.settled and not self._ending:
            self._ending = True
            deferred_from_coro(self._note_end(self.settled, self.plan.schedule))

    async def _note_end(self, number: int, schedule: Schedule) -> None:
        scheduler = self._scheduler
        try:
            if await rounds.end(scheduler.calls.ask, scheduler.group, scheduler.courier.token, schedule, only=number):
                self._ended = number
        finally:
            self._ending = False

    def _refuse(self, error: OtherArguments) -> None:
        scheduler = self._scheduler
        logger.error("%s", error)
        fail(scheduler.crawler, scheduler.engine, error)
        scheduler.end(type(error).__name__)

    async def rejoin(self) -> None:
        """Join again after the frontier went back to an older state: one without this group, or before its start ran."""
        scheduler = self._scheduler
        while not scheduler.ending.begun:
            try:
                await repair(scheduler.calls.ask, scheduler.join)
                break
            except (FrontierUnavailable, GroupDropping):
                await scheduler.calls.sleep(AGAIN)
            except GossamerError as error:
                scheduler.failed(error)
                return
        if scheduler.cookies is not None:
            scheduler.cookies.recover()
        scheduler.start.forget()
        if scheduler.start.over:
            scheduler.start.again()
