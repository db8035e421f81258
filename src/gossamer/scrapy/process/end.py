"""When a worker ends, and what it reports to the frontier before it does."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from scrapy import Spider
from scrapy.exceptions import CloseSpider, DontCloseSpider

from gossamer.courier import DRAINING
from gossamer.errors import GossamerError, RoundUnfinished
from gossamer.frontier.contract import Frontier
from gossamer.model import PartitionState
from gossamer.model.plural import counted
from gossamer.model.reply import CLOSED
from gossamer.scrapy.feeds.stream import STREAM, item_destination
from gossamer.scrapy.process import rounds
from gossamer.scrapy.process.exit_code import drained, fail
from gossamer.scrapy.process.reactor import Promise

if TYPE_CHECKING:
    from gossamer.scrapy.scheduler import FleetScheduler

logger = logging.getLogger(__name__)


class WorkerEnd:
    """The end of one worker."""

    def __init__(self, scheduler: FleetScheduler) -> None:
        self._scheduler = scheduler
        self.begun = False
        """Scrapy has closed the scheduler."""
        self.drained = False
        """It ends because the group has nothing left to do."""
        self.idled = False
        """It ends because the group had nothing to do for GOSSAMER_IDLE_SECONDS."""
        self._then: dict[int, PartitionState] = {}
        """The states in which the frontier answered drained."""
        self._paused = ""

    # When.

    def on_idle(self, spider: Spider) -> None:
        """The group is drained, as far as this worker knows; other handlers may have found more for it."""
        scheduler = self._scheduler
        if getattr(spider, "decides_when_to_close", False):
            scheduler.idle.hold()
            return
        forever, limit = scheduler.join.forever, scheduler.join.idle_seconds
        reason = self.reason()
        if reason:
            self.idled, self.drained, self._then = forever, not forever, scheduler.courier.states
            if forever:
                raise CloseSpider(reason)
            return  # The engine closes it, with the reason of another handler (CloseSpider) if there is one.
        if not scheduler.membership.lacks_tasks():
            scheduler.membership.note_end()
        if forever and limit > 0:
            scheduler.idle.look_in(limit - scheduler.idle_seconds())
        raise DontCloseSpider

    def reason(self) -> str:
        """While `spider_idle` is sent: why this worker ends now, by GOSSAMER_MODE and GOSSAMER_IDLE_SECONDS; "" if it waits."""
        scheduler = self._scheduler
        scheduler.idle.hold()
        if not scheduler.join.forever:
            goes_on = scheduler.has_pending_requests() or scheduler.membership.lacks_tasks()
            return "" if goes_on else "finished"
        return "idle" if 0 < scheduler.join.idle_seconds <= scheduler.idle_seconds() else ""

    def goes_on(self) -> None:
        """There is something to do again: another handler has kept the spider open (DontCloseSpider). Nothing changes for a spider that
        is closing already."""
        slot = self._scheduler.engine._slot
        if slot is not None and not slot.closing:
            self.drained = self.idled = False

    def note_pause(self) -> None:
        """Log why nothing is leased to this worker; end it if an operator asked for that."""
        courier = self._scheduler.courier
        paused = courier.hints.paused if courier.hints else ""
        if paused != self._paused:
            self._paused = paused
            if paused:
                logger.warning("Nothing is leased to this worker now: %s.%s", paused, _REMEDY.get(paused, ""))
        if paused == DRAINING and not self._scheduler.pages and not courier.inbox:
            self._scheduler.end(DRAINING)

    # How.

    async def close(self) -> None:
        """Report everything that is finished, and give the rest back."""
        scheduler, courier, calls = self._scheduler, self._scheduler.courier, self._scheduler.calls
        scheduler.stopping.over = True
        for task_intake in scheduler.task_intakes:
            await calls.until(task_intake.stop)
        if scheduler.start.carrying and not courier.in_outage:
            await calls.until(partial(scheduler.request_adder.below, 0))
        if scheduler.start.burying and not courier.in_outage:
            await calls.until(scheduler.start.when_buried)
        if scheduler.cookies is not None:
            scheduler.cookies.flush()
        await scheduler.start.give_back()
        courier.tell({**scheduler.info(), CLOSED: "1"})
        courier.plan = replace(courier.plan, close_seconds=scheduler.stopping.patience())
        finished = Promise()
        courier.finish(finished.keep)
        await finished
        if self.drained:
            drained(scheduler.crawler)
        if self.drained and not courier.in_outage:
            await rounds.end(calls.ask, scheduler.group, courier.token)
        if not courier.in_outage:
            await rounds.log_dead_letters(calls.ask, scheduler.group)
        self._say_where_items_are()

    def _say_where_items_are(self) -> None:
        """A project that has asked for neither a feed nor a pipeline may not know of the stream."""
        scheduler, stats = self._scheduler, self._scheduler.crawler.stats
        worker_config = scheduler.join
        scraped = stats.get_value("item_scraped_count", 0) if stats is not None else 0
        chosen = worker_config.settings["GOSSAMER_ITEMS"] != "auto"
        if scraped and not chosen and item_destination(worker_config) == STREAM and not worker_config.for_others:
            logger.info(
                "%s of this worker %s in the item stream on the server, since the project has neither a feed nor ITEM_PIPELINES: "
                "`gossamer items export %s FILE` writes them to a file. GOSSAMER_ITEMS=off keeps none.",
                counted(scraped, "item"), "is" if scraped == 1 else "are", scheduler.group,
            )  # fmt: skip

    async def closed(self) -> None:
        """Report what extensions counted after the scheduler was closed, and that this worker has ended; then close the connection."""
        scheduler, courier, calls = self._scheduler, self._scheduler.courier, self._scheduler.calls
        counters = scheduler.pending_counters.take()
        if counters and not courier.in_outage:
            try:
                await calls.ask(Frontier.exchange, courier.token.next(), counters=counters)
            except GossamerError as error:
                logger.warning("The last counters could not be reported: %s", error)
        if self.drained and (
            left := await rounds.left(calls.ask, calls.sleep, courier, self._then, scheduler.stopping.patience())
        ):
            # A spider that is closed cannot go on; another one has to.
            why = f"Start a worker of {scheduler.group} again: {left}"
            logger.error("%s", why)
            fail(scheduler.crawler, scheduler.engine, RoundUnfinished(why))
        if not courier.in_outage:
            try:
                await calls.ask(Frontier.leave, courier.token.incarnation)
            except GossamerError as error:
                logger.warning("The end of this worker could not be reported: %s", error)
        scheduler.link.close()


_REMEDY = {
    "items_full": " Nobody has written its items: `gossamer items export` writes them, and `gossamer items drop` drops them. If `gossamer items consumers` names a feed that never comes back, "
    "`gossamer items forget` gives it up. To put no more into the stream, start the workers again with GOSSAMER_ITEMS=off.",
    "dead_full": " Look at `gossamer dead list`; replay or drop some.",
    "pages_full": " The group has crawled as many pages as it may.",
    "memory": " The server is at its memory limit: few requests are leased at a time. Raise maxmemory.",
    "draining": " An operator asked it to end.",
}
