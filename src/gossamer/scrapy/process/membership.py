"""A worker's part in the rounds of its group: how it joins, whether a round is one of its arguments, how it joins again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gossamer.errors import FrontierUnavailable, GossamerError, GroupDropping, OtherArguments
from gossamer.model import StartState, Token
from gossamer.scrapy.feeds.position import waiting
from gossamer.scrapy.feeds.stream import agree
from gossamer.scrapy.process import rounds
from gossamer.scrapy.process.admission import enter, repair, without_gone
from gossamer.scrapy.process.exit_code import fail
from gossamer.scrapy.process.reactor import in_thread

if TYPE_CHECKING:
    from gossamer.scrapy.scheduler import FleetScheduler

logger = logging.getLogger(__name__)

AGAIN = 5.0
"""Seconds between two attempts to join again."""


class RoundMembership:
    """Of one worker."""

    def __init__(self, scheduler: FleetScheduler) -> None:
        self._scheduler = scheduler
        self.takes_part = False
        """Whether the round is one of this worker's arguments. Before, it sends nothing and has no feed."""
        self.settled = -1
        """The number of the round whose arguments are settled."""

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
        # The worker that runs a start notes its arguments, whatever the note says now.
        if number != self.settled or state is StartState.GRANTED:
            mine, same = scheduler.join.arguments, scheduler.join.same_arguments
            try:
                sure = await rounds.claim(scheduler.calls.ask, scheduler.group, number, state, mine, same=same)
            except OtherArguments as error:
                logger.error("%s", error)
                fail(scheduler.crawler, scheduler.engine, error)
                scheduler.end(type(error).__name__)
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

    async def rejoin(self) -> None:
        """The frontier may have an older state: one without this group, or in which its start has not run yet."""
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
        if scheduler.start.over:
            scheduler.start.again()
