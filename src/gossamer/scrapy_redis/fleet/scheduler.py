"""The scheduler of scrapy-redis projects on the frontier: leases instead of pops, pages settled as a whole."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from scrapy import Spider
from scrapy.exceptions import CloseSpider

from gossamer.errors import FrontierUnavailable, LaneKept, UnknownGroup, UnknownLane
from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Token
from gossamer.model.plural import counted_were
from gossamer.model.reply import CLOSED
from gossamer.scrapy import scheduler as worker
from gossamer.scrapy.config import WorkerConfig
from gossamer.scrapy.lanes import META
from gossamer.scrapy.process import rounds
from gossamer.scrapy.process.admission import recent, without_gone
from gossamer.scrapy.setting_notes import delay_notes
from gossamer.scrapy_redis import connection
from gossamer.scrapy_redis.connection import Client, RedisError
from gossamer.scrapy_redis.fleet import item_page
from gossamer.scrapy_redis.fleet.config import seeds_lane, worker_config
from gossamer.scrapy_redis.fleet.filters import own_filter
from gossamer.scrapy_redis.fleet.views import QueueView, SeenView
from gossamer.scrapy_redis.shared.scheduler import log_resuming
from gossamer.scrapy_redis.shared.threads import in_thread

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

STEP = 0.02
"""Seconds between two steps of clearing of which the first found nothing."""
SILENT_SECONDS = 15.0
"""For how long a silent worker is waited for before it counts as alive: three times as long as a living one is silent."""
POLL_SECONDS = 0.5
"""Seconds between two questions whether silent workers have called again."""


class LeasingScheduler(worker.FleetScheduler):
    """One worker of the fleet, under the settings of scrapy-redis."""

    always_copied = True  # by pickle
    _error: RedisError | None = None

    def __init__(self, crawler: Crawler, worker_config: WorkerConfig, server: Client) -> None:
        super().__init__(crawler, worker_config)
        self.server = server
        self.persist = crawler.settings.getbool("SCHEDULER_PERSIST")
        self.flush_on_start = crawler.settings.getbool("SCHEDULER_FLUSH_ON_START")
        assert crawler.spider is not None
        self.duplicates.own = own_filter(crawler, crawler.spider)
        self.queue = QueueView(self)
        self.df = SeenView(self, self.duplicates.own)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        server = connection.reached(crawler.settings)
        if crawler.settings.get("SCHEDULER_SERIALIZER"):
            logger.warning(
                "SCHEDULER_SERIALIZER is not used: the frontier has a form of its own for requests. Take it out, or set "
                "SCHEDULER_QUEUE_CLASS to have it used on a queue of scrapy-redis."
            )
        for note in delay_notes(crawler.settings):
            logger.warning("%s", note)
        return cls(crawler, worker_config(crawler), server)

    @classmethod
    def unreached(cls, crawler: Crawler, error: RedisError) -> Self:
        """One that logs in one line why it cannot begin, and ends."""
        made = cls(crawler, worker_config(crawler), connection.from_settings(crawler.settings))
        made._error = error
        return made

    def _check_filter(self) -> None:
        """Where the frontier cannot ask it, the project is on a queue of scrapy-redis (see `backend`)."""

    def _check_server(self) -> None:
        if self._error is not None:
            raise FrontierUnavailable(str(self._error))

    async def _open(self) -> None:
        await super()._open()
        if self.opened:
            item_page.attach(self.engine.scraper, self.pages.of)

    async def _enter_group(self) -> Token | None:
        if self.flush_on_start:
            if await self._alone():
                await in_thread(self._drop_group)
            else:
                logger.warning("SCHEDULER_FLUSH_ON_START: nothing was cleared, since other workers are there.")
        token = await super()._enter_group()
        counts = await self.ask(Frontier.counts, self.group)
        count = sum(
            lane.queued + lane.delayed + lane.leased
            for lane in counts.lanes
            if lane.lane.rpartition(".")[0] == self.group
        )
        if count:
            log_resuming(self.spider, count)
        return token

    async def _close(self) -> None:
        await super()._close()
        try:
            await self._leave()
        except FrontierUnavailable as error:
            logger.warning("What is left of the crawl was not cleared: %s", error)

    async def _leave(self) -> None:
        """Say goodbye. Without SCHEDULER_PERSIST the last one throws away what is queued and what was seen."""
        # While this worker is there, no other one begins the next round on leaving.
        number = await self._present_round()
        self.courier.token = self.courier.token.next()
        await self.ask(Frontier.exchange, self.courier.token, info={**self.info(), CLOSED: "1"})
        if self.persist:
            # What is left stays. Where nothing is, seeds that come later are of the next round.
            if await self._nothing_left() and await self._alone():
                await rounds.end(self.ask, self.group, self.courier.token, only=number)
            return
        if not await self._alone():
            return
        whole = await self._nothing_left()
        if not whole:
            if await self._present_round() != number:
                return
            if dropped := await in_thread(self.drop_lanes):
                logger.warning(
                    "%s dropped from the queue of %s, since SCHEDULER_PERSIST is off and this is the last worker: the next run does not fetch what they led to.",
                    counted_were(dropped, "request"), self.group,
                )  # fmt: skip
            if not await self._nothing_left():
                # Its start has not run to its end, so the round cannot end: the next one forgets what was seen.
                await self.ask(Frontier.new_round, self.group, number + 1)
                return
        await rounds.end(self.ask, self.group, self.courier.token, only=number)
        if (self.join.waits or not whole) and await self._present_round() == number:
            # Otherwise the next worker begins the next round, which forgets it; one that waits for tasks may go on with this one.
            with suppress(UnknownGroup):  # what was seen went with the lanes
                await in_thread(self.df.clear)

    async def _nothing_left(self) -> bool:
        return bool((await self.ask(Frontier.drained, self.group)).drained)

    async def _present_round(self) -> int:
        counts = await self.ask(Frontier.counts, self.group)
        return next((row.round for row in counts.groups if row.group == self.group), 0)

    async def _alone(self) -> bool:
        """Whether no other worker of the group lives. Waits for a silent one until it calls again or is known to be gone."""
        config, began = self.join, None
        mine = self.courier.token.incarnation if hasattr(self, "courier") else ""
        while True:
            now, called = await self.ask(Frontier.silent_workers, 0.0, recent(config))
            listed = [
                worker
                for worker in called
                if worker.info.get("group") == self.group and not worker.closed and worker.incarnation != mine
            ]
            others = [worker for worker in listed if worker.incarnation not in config.gone]
            began = now if began is None else began
            if not others:
                for worker in listed:
                    # What it held would else keep its lanes from being cleared until its leases run out.
                    await self.ask(Frontier.gone, worker.incarnation, self.join.settings["GOSSAMER_GONE_SECONDS"])
                return True
            if any(worker.seen > began for worker in others) or now - began > SILENT_SECONDS:
                return False
            await self.calls.sleep(POLL_SECONDS)
            config = await without_gone(self.ask, config, self.link.beside)

    def flush(self) -> None:
        """Throw away what waits, and forget what was seen; waits for the server."""
        self.queue.clear()
        self.df.clear()

    def frontier(self) -> ValkeyFrontier:
        """One that waits for its answers, to be closed after use."""
        return ValkeyFrontier.find(self.join.settings)

    def drop_lanes(self) -> int:
        """How many requests were dropped. Waits for leases of workers that died as long as a close may take."""
        dropped = 0
        with self.frontier() as frontier:
            for name in self.join.lanes:
                try:
                    dropped += self._steps(frontier.drop_lane(f"{self.group}.{name}"))
                except UnknownLane:
                    continue
                except LaneKept as error:
                    logger.warning("%s", error)
        return dropped

    def _drop_group(self) -> None:
        with self.frontier() as frontier:
            try:
                # Of a worker that was killed, leases may be left: without them it is over in a moment.
                self._steps(frontier.drop_group(self.group), self.join.settings["GOSSAMER_LEASE_SECONDS"])
            except UnknownGroup:
                return

    def _steps(self, steps: Iterable[int], more: float = 0.0) -> int:
        dropped = 0
        until = time.monotonic() + self.join.settings["GOSSAMER_CLOSE_SECONDS"] + more
        for gone in steps:
            dropped += gone
            if time.monotonic() > until:
                logger.warning(
                    "The queue of %s was not cleared to its end: a worker that died still has leases.", self.group
                )
                break
            if not gone:
                time.sleep(STEP)
        return dropped

    # Seeds.

    def _requests_of(self, key: str, data: bytes) -> list[Any]:
        made = list(self.join.requests_of(self.spider, data))
        if len(self.join.tasks) > 1:
            lane = seeds_lane(self.join.tasks.index(key))
            for request in made:
                request.meta.setdefault(META, lane)
        self._count("scheduler/enqueued", len(made))
        return [self.requests.encode(request) for request in made]

    # Idle.

    def _on_idle(self, spider: Spider) -> None:
        try:
            super()._on_idle(spider)
        except CloseSpider:
            # What scrapy-redis's spiders end with, and what their `closed` may look for.
            raise CloseSpider("finished") from None

    def _count(self, name: str, count: int = 1) -> None:
        super()._count(name, count)
        if name in ("scheduler/enqueued", "scheduler/dequeued"):
            super()._count(f"{name}/redis", count)
