"""Scrapy's scheduler on the frontier: a synchronous face over the courier.

The engine asks for requests and hands over new ones; both are only lists here. The courier speaks to the frontier beside it.
A request that was handed out is a page until everything it produced is through (see `hooks`); then it is settled as a whole.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gossamer.courier import (
    Counters,
    Courier,
    CourierConfig,
    Heartbeat,
    OmittedRequests,
    RequestAdder,
    TaskIntake,
    worker_info,
)
from gossamer.errors import (
    FrontierUnavailable,
    GossamerError,
    GroupDropping,
    InvalidRequest,
    OtherArguments,
    RoundUnfinished,
    WorkerFailed,
)
from gossamer.frontier.connection.url import server_of
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import AddOutcome, Ending, Lease, PartitionState, Settlement, SettleOutcome, StartState, Token
from gossamer.model.counter_names import ITEMS, LATENCY, SECONDS, TASKS, TASKS_BAD
from gossamer.model.reasons import GARBAGE, OVERDUE, PIPELINE, UNSERIALIZABLE
from gossamer.model.reply import CLOSED
from gossamer.scrapy.config import WorkerConfig
from gossamer.scrapy.download import cookies, robots
from gossamer.scrapy.download.slots import apart, loosen
from gossamer.scrapy.feeds import settings as feed_settings
from gossamer.scrapy.feeds.position import waiting
from gossamer.scrapy.feeds.stream import ITEMS as ITEMS_GO
from gossamer.scrapy.feeds.stream import agree, item_destination
from gossamer.scrapy.lanes import META
from gossamer.scrapy.metric import HistogramMetric
from gossamer.scrapy.page import engine_hooks
from gossamer.scrapy.page.page import LeasedPage, trace
from gossamer.scrapy.page.pages import LeasedPages
from gossamer.scrapy.process import commands, rounds
from gossamer.scrapy.process.admission import MODE, enter, repair, without_gone
from gossamer.scrapy.process.exit_code import fail
from gossamer.scrapy.process.idle import IdleCheck
from gossamer.scrapy.process.reactor import Promise, in_thread, link_for
from gossamer.scrapy.process.shutdown import Shutdown
from gossamer.scrapy.process.start import SpiderStart, feed, starts
from gossamer.scrapy.request.codec import ItemsLease, RequestCodec
from gossamer.scrapy.request.objects import ObjectCodec
from gossamer.scrapy.speedups import defaults, heap, known_links
from gossamer.scrapy.speedups.signals import skip_without_receivers
from gossamer.scrapy.speedups.urls import install_fast_path
from gossamer.scrapy.stats import FleetStatsMixin, numbers

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

TELL = 5.0
"""Seconds between two looks at itself: what people see of this worker, its start lease, whether the group is drained."""
REFUSED = 0.2


class FleetScheduler(BaseScheduler):
    """One worker of the fleet. Made by Scrapy; everything happens on Scrapy's own thread."""

    def __init__(self, crawler: Crawler, worker_config: WorkerConfig) -> None:
        self.crawler, self.join = crawler, worker_config
        self.group = worker_config.group
        self.stats = crawler.stats
        self.pending_counters = (
            self.stats.pending_counters if isinstance(self.stats, FleetStatsMixin) else Counters(self.group)
        )
        self.pending_counters.group = self.group
        self._task_intakes: list[TaskIntake] = []
        self._logged_duplicates = False
        self._paused = ""
        self._closing = self._opened = self._restarting = self._drained = self._denied = self._frozen = False
        self._then: dict[int, PartitionState] = {}
        """In which states the frontier has said drained."""
        self._carrying = self._burying = 0
        self._settled = -1
        self.takes_part = False
        """Whether the round is one of this worker's arguments. Before, it sends nothing and has no feed."""
        self._config = ""
        self._called: Token | None = None
        self.idled = False
        """It ends since the group had nothing to do for long enough."""
        self._all_buried: Promise | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        if commands.is_read_only():
            return commands.scheduler(crawler)
        return cls(crawler, WorkerConfig.from_crawler(crawler))

    # Opening.

    def open(self, spider: Spider) -> Deferred[None]:
        self.spider = spider
        return deferred_from_coro(self._open())

    async def _open(self) -> None:
        worker_config = self.join
        engine: Any = self.crawler.engine
        self._engine = engine
        self.link = link_for(worker_config.settings, worker_config.host)
        opened = Promise()
        try:
            where = server_of(worker_config.settings["GOSSAMER_URL"], worker_config.settings["GOSSAMER_DATA_DIR"])
            logger.info(
                "Worker of crawl %s, group %s, on %s.",
                worker_config.settings["GOSSAMER_CRAWL"],
                worker_config.group,
                where,
            )
            self._check_server()
            self.link.open(lambda answer, error: opened.keep(answer, error))
            await opened
            feed_settings.check(worker_config.settings, self.crawler)
            await self._worker_config()
            engine_hooks.check(engine)
        except GossamerError as error:
            logger.error("%s", error)
            self.link.close()
            fail(self.crawler, engine, error)
            # Not raised: most versions of Scrapy would make a long story of it.
            engine._start = self._refused(type(error).__name__)
            self._denied = True
            return
        self.request_codec = RequestCodec(
            self.spider,
            self.group,
            worker_config.lanes,
            worker_config.number,
            worker_config.settings["GOSSAMER_PAYLOAD_MAX_BYTES"],
            ObjectCodec.of(self.spider, worker_config.settings["GOSSAMER_OBJECT_MODULES"]),
        )
        self.courier = Courier(self.link, self, self._plan(), self.pending_counters)
        if self._called is not None:
            self.courier.token = self._called.next()
        # Into the crawl's totals only: in Scrapy's stats it would be a dozen lines that nobody asked for.
        latency = HistogramMetric(self.crawler, LATENCY, SECONDS, self.pending_counters.add)
        self.pages = LeasedPages(self.courier, worker_config, latency)
        self.cookies: cookies.SharedCookies | None = None
        if (middleware := cookies.of(self.crawler)) is not None and self._shares_cookies():
            most = worker_config.settings["GOSSAMER_COOKIES_MAX"]
            self.cookies = cookies.SharedCookies(middleware, self.link, self.group, most, self.wake)
            self.pages.settled_after = self.cookies.after
        self.idle = IdleCheck(self.courier, self.holds, self.wake, self._goes_on, engine._SLOT_HEARTBEAT_INTERVAL)
        self.request_adder = RequestAdder(self.link, self.added, self.failed)
        self.start = SpiderStart(self, self.request_adder)
        self._opened = True
        tunes = defaults.names(worker_config.settings["GOSSAMER_TUNING"])
        engine_hooks.attach(engine, self.pages, lean="output" in tunes)
        apart(engine, self.pages.__contains__)
        self.stopping = Shutdown(engine, self.link, self.pages, worker_config.settings)
        loosen(engine.downloader)
        if worker_config.policy.crawl_delay:
            robots.listen(engine.downloader, self.courier.crawl_delay)
        self._connect()
        rounds.log_limits(self.crawler.settings)
        if "urls" in tunes:
            install_fast_path(sys.modules["scrapy.http.request"])
        if "signals" in tunes:
            skip_without_receivers(self.crawler.signals)
        if "garbage" in tunes:
            heap.opened()
            self._frozen = True
        if "early" in tunes and worker_config.remembers and known_links.possible(self.crawler):
            known_links.attach(self.crawler, self._surely_known)
        engine._start = self._started(engine._start)
        self.courier.begin()
        Heartbeat(self.courier, self.link, self._keep_start).begin()
        for key in worker_config.tasks:
            self._begin_intake(key)
        self._pace = min(TELL, worker_config.settings["GOSSAMER_LEASE_SECONDS"] / 3)
        self.link.later(self._pace, self._look_after)

    def refuse(self, error: GossamerError) -> None:
        """End a worker that has joined, before it does anything: what it lacks was found while its spider was opened."""
        logger.error("%s", error)
        fail(self.crawler, self._engine, error)
        self._engine._start = self._refused(type(error).__name__)
        self._denied = True

    async def _refused(self, reason: str) -> AsyncIterator[Any]:
        """The start of a worker that may not join: its end, as soon as the engine is through with its start."""
        self.link.later(REFUSED, lambda: self.end(reason))
        return
        yield

    def _check_server(self) -> None:
        """FrontierUnavailable where it is known already that the server cannot be reached, SettingError where the spider's seeds are
        on another one."""
        if (check := getattr(self.spider, "check_server", None)) is not None and hasattr(self.spider, "redis_key"):
            check(self.join.settings)

    async def _worker_config(self) -> None:
        self.join = await without_gone(self.ask, self.join, self.link.beside)
        self._settled = await enter(self.ask, self.sleep, self.join)
        self.takes_part = self._settled >= 0 or not self.join.same_arguments
        self.join, self._called = await agree(self.ask, self.sleep, self.join, self._info(), self._waiting_files)

    async def _waiting_files(self) -> list[str]:
        def look() -> list[str]:
            with self.link.beside() as frontier:
                return waiting(frontier, self.group)

        return await in_thread(look)

    def _plan(self) -> CourierConfig:
        settings, worker_config = self.join.settings, self.join
        most = self._engine.downloader.total_concurrency or 1000
        return CourierConfig.of(
            settings,
            self.group,
            worker_config.selection,
            # As many as Scrapy itself would have in hand: a page in slow pipelines keeps no other from being fetched.
            most=most + self.crawler.settings.getint("SCRAPER_SLOT_MAX_ACTIVE_SIZE") // 1024,
            ahead=max(2, most // 4),
            session=self.group if self._shares_cookies() else "",
            info=self._info(),
        )

    def _shares_cookies(self) -> bool:
        return self.join.settings["GOSSAMER_COOKIES"] == "shared" and cookies.of(self.crawler) is not None

    def _info(self) -> dict[str, str]:
        return worker_info(
            group=self.group,
            spider=self.join.spider_class,
            stats=json.dumps(numbers(self.stats)) if self.stats is not None else "{}",
            **{MODE: "forever" if self.join.forever else "drained", ITEMS_GO: item_destination(self.join)},
        )

    def _connect(self) -> None:
        connect = self.crawler.signals.connect
        connect(self._on_idle, signals.spider_idle)
        connect(self.pages.answered, signals.response_downloaded)
        connect(self._on_item, signals.item_scraped)
        connect(self._on_item_dropped, signals.item_dropped)
        connect(self._on_item_error, signals.item_error)
        connect(self._on_closed, signals.spider_closed)

    async def _started(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for output in self.start.run(start):
            yield output
        self.wake()

    def _begin_intake(self, key: str) -> None:
        task_intake = TaskIntake(
            self.link,
            key,
            self.group,
            lambda data: self._requests_of(key, data),
            batch=self.join.settings["GOSSAMER_TASKS_BATCH"],
            lease_seconds=self.join.settings["GOSSAMER_LEASE_SECONDS"],
            taken=lambda count: self._count(TASKS, count),
            bad=lambda _: self._count(TASKS_BAD),
            failed=self.failed,
        )
        self._task_intakes.append(task_intake)
        task_intake.begin()

    def _requests_of(self, key: str, data: bytes) -> list[Any]:
        """What a task of the list `key` asks for."""
        made = self.join.requests_of(self.spider, data)
        return [self._encode(request, self.request_codec.lane_of(request)) for request in made]

    # What the engine asks of a scheduler.

    def has_pending_requests(self) -> bool:
        """Whether the group has anything to do, here or elsewhere; where that is not known yet, it has."""
        # One that is refused ends by itself; nobody needs to hear that it is idle.
        return self._denied or (self._opened and self.idle.pending())

    def holds(self) -> bool:
        """Whether this worker has something to hand out, or to tell."""
        return self._opened and bool(
            self.courier.inbox or self.courier.waiting or len(self.request_adder) or self._burying
        )

    def next_request(self) -> Request | None:
        if (
            self._denied
            or not (self._opened and self.takes_part)
            or (self.cookies is not None and self._lacks_cookies(self.cookies))
        ):
            return None
        while (lease := self.courier.take()) is not None:
            try:
                request = self.request_codec.decode(lease)
            except ItemsLease as items_lease:
                self.courier.settle(Settlement(lease, Ending.REPLACED, items=items_lease.items), None)
                continue
            except GossamerError as error:
                self._unreadable(lease, error)
                continue
            self.pages.begin(lease, request)
            self.idle.worked()
            self._count("scheduler/dequeued")
            return request
        return None

    def _lacks_cookies(self, shared: cookies.SharedCookies) -> bool:
        """Whether what was leased came with cookies that are still on their way here."""
        hints = self.courier.hints
        return hints is not None and shared.behind(hints.session)

    def _unreadable(self, lease: Lease, error: GossamerError) -> None:
        reason = getattr(error, "reason", GARBAGE)
        logger.error("A request of lane %s became a dead letter (%s): %s", lease.lane, reason, error)
        self.courier.settle(Settlement(lease, Ending.FAILED, reason=reason, detail=str(error)), None)

    def enqueue_request(self, request: Request) -> bool:
        if not self._opened:
            return False
        self.idle.worked()
        page = self.pages.claim(request)
        try:
            if page is not None and page.replaced and META not in request.meta:
                lane = page.lease.lane
            else:
                lane = self.request_codec.lane_of(request)
            number = self.request_codec.number(request)
            if not request.dont_filter and page is not None and self._known(page, request, lane, number):
                self._filtered(request)
                return False
            asked = self._encode(request, lane, number, page)
        except InvalidRequest as error:
            self._refuse(request, error, page)
            return False
        if page is not None:
            page.children.append(request)
            page.asked.append(asked)
            if not request.dont_filter:
                page.fingerprints.add((lane, number))
        elif (place := self.start.place_of(request)) is not None:
            self.start.put(asked, place, request)
        else:
            self.courier.add(asked, request)
        return True

    def _refuse(self, request: Request, error: InvalidRequest, page: LeasedPage | None = None) -> None:
        """It cannot be stored: its page is not done then, and without a page it is a dead letter itself."""
        self._count("scheduler/unserializable")
        logger.error("Request %s was not queued: %s", request, error)
        if page is not None:
            page.misses(f"{request}: {error}")
            return
        self._burying += 1
        deferred_from_coro(self._bury(self.start.refused(request, self.request_codec.address(request), str(error))))

    async def _bury(self, burying: Coroutine[Any, Any, None]) -> None:
        try:
            await burying
        except GossamerError as error:
            self.failed(error)
        finally:
            self._burying -= 1
            self._all_buried.keep() if self._all_buried is not None and not self._burying else self.wake()

    def _known(self, page: LeasedPage, request: Request, lane: str, number: int) -> bool:
        if (lane, number) in page.fingerprints:
            return lane not in self.join.forgetful
        return self.join.remembers and self._withheld(page, request, lane, number)

    def _withheld(self, page: LeasedPage, request: Request, lane: str, number: int) -> bool:
        """Whether a request need not be sent, since the frontier knows it; the page keeps it, should that turn out to be wrong."""
        known = self.courier.known
        if not known.has(lane, number):
            return False
        if page.withheld is None:
            page.withheld = OmittedRequests(known.edition, partial(self._encoded, page, page.left_out))
        page.left_out += request, lane, number
        return True

    def _encoded(self, page: LeasedPage, left_out: Sequence[Any]) -> list[Any]:
        requests = []
        for request, lane, number in zip(left_out[::3], left_out[1::3], left_out[2::3], strict=True):
            try:
                requests.append(self._encode(request, lane, number, page))
            except InvalidRequest as error:
                self._refuse(request, error)
        return requests

    def _surely_known(self, request: Request, response: Response) -> bool:
        page = self.pages.of(response)
        if page is None:
            return False
        try:
            known = self._withheld(
                page, request, self.request_codec.lane_of(request), self.request_codec.number(request)
            )
        except InvalidRequest:
            return False  # it is refused where that is said
        if known:
            self._filtered(request)
        return known

    def _encode(self, request: Request, lane: str, number: int | None = None, page: LeasedPage | None = None) -> Any:
        if number is None:
            number = self.request_codec.number(request)
        return self.request_codec.encode(request, lane, number, page.slot if page is not None else None)

    def close(self, reason: str) -> Deferred[None] | None:
        self._closing = True
        if self._frozen:
            heap.closed()
            self._frozen = False
        # Where it was not opened, there is nothing to say, and nobody to say it to.
        return deferred_from_coro(self._close()) if self._opened else None

    async def _close(self) -> None:
        self.stopping.over = True
        for task_intake in self._task_intakes:
            stopped = Promise()
            task_intake.stop(stopped.keep)
            self.link.later(self.stopping.patience(), stopped.keep)
            await stopped
        if self._carrying and not self.courier.away:
            items_lease = Promise()
            self.request_adder.below(0, items_lease.keep)
            self.link.later(self.stopping.patience(), items_lease.keep)
            await items_lease
        if self._burying and not self.courier.away:
            self._all_buried = Promise()
            self.link.later(self.stopping.patience(), self._all_buried.keep)
            await self._all_buried
        if self.cookies is not None:
            self.cookies.flush()
        await self.start.give_back()
        self.courier.tell({**self._info(), CLOSED: "1"})
        self.courier.plan = replace(self.courier.plan, close_seconds=self.stopping.patience())
        finished = Promise()
        self.courier.finish(finished.keep)
        await finished
        if self._drained and not self.courier.away:
            await rounds.end(self.ask, self.group, self.token)
        if not self.courier.away:
            await rounds.log_dead_letters(self.ask, self.group)

    async def _on_closed(self) -> None:
        """What extensions counted after the scheduler was closed; then this worker is no more, and the connection goes."""
        counters = self.pending_counters.take()
        if counters and not self.courier.away:
            try:
                await self.ask("exchange", self.courier.token.next(), counters=counters)
            except GossamerError as error:
                logger.warning("The last counters could not be told: %s", error)
        if self._drained and (
            left := await rounds.left(self.ask, self.sleep, self.courier, self._then, self.stopping.patience())
        ):
            # A spider that is closed cannot go on; another one has to.
            logger.error("Start a worker of %s again: %s", self.group, left)
            fail(self.crawler, self._engine, RoundUnfinished(f"Start a worker of {self.group} again: {left}"))
        if not self.courier.away:
            try:
                await self.ask("leave", self.courier.token.incarnation)
            except GossamerError as error:
                logger.warning("That this worker has ended could not be told: %s", error)
        self.link.close()

    # Items.

    def page_of(self, response: Response | Failure | None) -> LeasedPage | None:
        """The page that a response or failure belongs to while its output is handled."""
        return self.pages.of(response)

    def _on_item(self, item: Any, response: Any) -> None:
        page = self.page_of(response)
        if not self.join.streams:
            # Kept by a pipeline or a feed, or not at all; it was scraped.
            if page is not None:
                page.kept += 1
            else:
                self.pending_counters.add(ITEMS)
                self.start.item(None)
            return
        try:
            data = self.join.encode_item(item)
        except Exception as error:
            self._refuse_item(error, page)
            return
        if page is None:
            self.start.item(data)
        else:
            page.items.append(data)

    def _refuse_item(self, error: Exception, page: LeasedPage | None) -> None:
        """It cannot be stored: its page is not done then, and without a page it is a dead letter itself."""
        self._count("gossamer/items_refused")
        why = str(error) if isinstance(error, InvalidRequest) else f"{type(error).__name__}: {error}"
        of = f" of {page.request}" if page is not None else ""
        logger.error("An item%s was not put into the stream: %s", of, why)
        if page is not None:
            page.misses(f"an item: {why}")
        else:
            deferred_from_coro(self.start.item_failed(UNSERIALIZABLE, f"an item: {why}"))

    def _on_item_dropped(self, response: Any) -> None:
        if self.page_of(response) is None:
            self.start.item(None)

    def _on_item_error(self, response: Any, failure: Failure) -> None:
        page = self.page_of(response)
        if page is not None:
            page.failed(PIPELINE, failure)
        else:
            deferred_from_coro(self.start.item_failed(PIPELINE, trace(failure)))

    # What the courier says.

    def room(self) -> int:
        engine = self._engine
        slot, scraping = engine._slot, engine.scraper.slot
        if engine.paused or slot is None or slot.closing or scraping is None or scraping.needs_backout():
            return 0
        downloader = engine.downloader
        return (downloader.total_concurrency or 1000) - len(downloader.active)

    def arrived(self) -> None:
        self._note_pause()
        hints = self.courier.hints
        if hints is not None and hints.open:
            self.idle.forget()
        if self.courier.inbox:
            self.wake()
        else:
            self.idle.look()

    def wake(self) -> None:
        slot = self._engine._slot
        if slot is not None and not slot.closing:
            slot.nextcall.schedule()

    def settled(self, page: Any, outcome: SettleOutcome, children: Sequence[AddOutcome]) -> None:
        if page is None:
            return
        if outcome is SettleOutcome.LOST:
            self._count("gossamer/lost")
            logger.warning(
                "The lease of %s was lost before its page was settled; another worker does it.", page.request
            )
        for request, answer in zip(page.children, children, strict=False):
            self.added(request, answer, "")

    def added(self, ticket: Any, outcome: AddOutcome, reason: str) -> None:
        if ticket is None:
            self._carrying -= 1  # it brings an item
            return
        request: Request = ticket
        if outcome is AddOutcome.ADDED:
            self._count("scheduler/enqueued")
        elif outcome is AddOutcome.DUPLICATE:
            self._filtered(request)
            self.crawler.signals.send_catch_log(signals.request_dropped, request=request, spider=self.spider)
        elif outcome is not AddOutcome.LOST:
            self._count(f"scheduler/refused/{outcome.name.lower()}")
            logger.error("Request %s was refused by the frontier: %s", request, reason or outcome.name.lower())
            self.crawler.signals.send_catch_log(signals.request_dropped, request=request, spider=self.spider)

    def lost(self, lease: Lease, reason: str) -> None:
        self._count("gossamer/leases_lost")
        logger.warning(
            "The lease of request %d of %s is gone (%s); what comes of it will not count.", lease.id, lease.lane, reason
        )
        if reason == OVERDUE:
            self.pages.give_up(lease)

    def rolled_back(self) -> None:
        self.idle.forget()
        if self.cookies is not None:
            self.cookies.rolled_back()
        deferred_from_coro(self._rejoin())

    async def _rejoin(self) -> None:
        """The frontier may have an older state: one without this group, or in which its start has not run yet."""
        while not self._closing:
            try:
                await repair(self.ask, self.join)
                break
            except (FrontierUnavailable, GroupDropping):
                await self.sleep(TELL)
            except GossamerError as error:
                self.failed(error)
                return
        if self.cookies is not None:
            self.cookies.recover()
        if self.start.over:
            self.start_again()

    def failed(self, error: BaseException) -> None:
        logger.error("The frontier refuses this worker: %s", error)
        fail(self.crawler, self._engine, error if isinstance(error, GossamerError) else WorkerFailed(str(error)))
        self.end(type(error).__name__)

    def end(self, reason: str) -> None:
        engine = self._engine
        if self._closing or engine.spider is None:
            return
        if hasattr(engine, "close_spider_async"):
            deferred_from_coro(engine.close_spider_async(reason=reason))
        else:
            engine.close_spider(self.spider, reason)

    # Idle, drained, paused.

    def _on_idle(self, spider: Spider) -> None:
        """The group is drained, as far as this worker knows; other handlers may have found more for it."""
        if getattr(spider, "decides_when_to_close", False):
            self.idle.hold()
            return
        reason = self.ends()
        if reason:
            self.idled, self._drained, self._then = self.join.forever, not self.join.forever, self.courier.states
            raise CloseSpider(reason)
        if self.join.forever and (limit := self.join.idle_seconds) > 0:
            self.idle.look_in(limit - self.idle_seconds())
        raise DontCloseSpider

    def _goes_on(self) -> None:
        """There is something to do again: another handler has kept the spider open (DontCloseSpider). One that closes is over."""
        slot = self._engine._slot
        if slot is not None and not slot.closing:
            self._drained = self.idled = False

    def ends(self) -> str:
        """While `spider_idle` is sent: why this worker ends now, by GOSSAMER_MODE and GOSSAMER_IDLE_SECONDS; "" if it waits."""
        self.idle.hold()
        if not self.join.forever:
            return "" if self.has_pending_requests() else "finished"
        return "idle" if 0 < self.join.idle_seconds <= self.idle_seconds() else ""

    def idle_seconds(self) -> float:
        """For how long the whole group has had nothing to do."""
        return self.idle.seconds

    def _note_pause(self) -> None:
        paused = self.courier.hints.paused if self.courier.hints else ""
        if paused != self._paused:
            self._paused = paused
            if paused:
                logger.warning("Nothing is leased to this worker now: %s.%s", paused, _REMEDY.get(paused, ""))
        if paused == "draining" and not self.pages and not self.courier.inbox:
            self.end("draining")

    def _look_after(self) -> None:
        if self._closing:
            return
        self.link.later(self._pace, self._look_after)
        self._note_pause()
        self._note_change()
        self.courier.tell(self._info())
        if self.start.granted:
            deferred_from_coro(self.start.renew())

    def _note_change(self) -> None:
        """A new round may have begun, by an operator or by a worker that left: its start is owed by those who are there."""
        hints = self.courier.hints
        if hints is not None and hints.config_version != self._config and self.start.over:
            self._config = hints.config_version
            self.start_again()

    def _keep_start(self, frontier: ValkeyFrontier, token: Token) -> None:
        if self.start.granted:
            frontier.renew_start(self.group, token)

    # What a start needs.

    def start_again(self) -> None:
        """Look whether `start()` has to run once more, and run it."""
        if not self._closing and not self._restarting:
            self._restarting = True
            deferred_from_coro(self._start_again())

    async def _start_again(self) -> None:
        try:
            while self.start.over and not self._closing:
                async for output in self._started(await starts(self._engine, self.spider)):
                    await feed(self._engine, output)
                    if self._closing:
                        return
                if self.start.through:
                    return
        except GossamerError as error:
            self.failed(error)
        except Exception:
            logger.exception("Error while reading start items and requests.")
        finally:
            self._restarting = False

    async def claims(self, number: int, state: StartState) -> bool:
        """Whether this worker may take part in a round whose start is in that state; if not, it says why and ends."""
        # Whoever runs a start says for which arguments, whatever has become of the note.
        if number != self._settled or state is StartState.GRANTED:
            try:
                worker_config = self.join
                sure = await rounds.claim(
                    self.ask, self.group, number, state, worker_config.arguments, same=worker_config.same_arguments
                )
                if sure and not self.takes_part:
                    self.takes_part = True
                    self.wake()
                if state is not StartState.BUSY:
                    self._settled = number
            except OtherArguments as error:
                logger.error("%s", error)
                fail(self.crawler, self._engine, error)
                self.end(type(error).__name__)
                return False
        if state is StartState.GRANTED and self.cookies is not None:
            # A start that logs in by itself begins with the cookies of its round, not with those of the last one.
            learned = Promise()
            self.cookies.learn(learned.keep)
            await learned
        return True

    def awaits(self, what: str) -> None:
        self.courier.awaits = {self.group: what} if what else {}

    @property
    def closing(self) -> bool:
        slot = self._engine._slot
        return self._closing or (slot is not None and slot.closing is not None)

    def carry(self, item: bytes, key: str) -> Any:
        self._carrying += 1
        return self.request_codec.carry(item, key)

    @property
    def token(self) -> Token:
        return self.courier.token

    async def ask(self, verb: str, /, *args: Any, **kwargs: Any) -> Any:
        promise = Promise()
        self.link.call(verb, promise.keep, *args, **kwargs)
        if not (self._closing and self._opened):
            return await promise
        # One that ends waits only so long, also where it is not known yet that nobody answers.
        late = FrontierUnavailable(f"The frontier did not answer {verb} in the time that is left for the worker's end.")
        timer = self.link.later(self.stopping.patience(), lambda: promise.keep(None, late))
        try:
            return await promise
        finally:
            timer.cancel()

    async def sleep(self, seconds: float) -> None:
        promise = Promise()
        self.link.later(seconds, promise.keep)
        await promise

    async def below(self, request_adder: RequestAdder, count: int) -> None:
        if len(request_adder) > count:
            promise = Promise()
            request_adder.below(count, promise.keep)
            await promise

    # Counting.

    def _count(self, name: str, count: int = 1) -> None:
        if self.stats is not None:
            self.stats.inc_value(name, count)

    def _filtered(self, request: Request) -> None:
        self._count("dupefilter/filtered")
        if self.join.debug_duplicates:
            logger.debug("Filtered duplicate request: %s", request)
        elif not self._logged_duplicates:
            self._logged_duplicates = True
            logger.debug(
                "Filtered duplicate request: %s - no more duplicates will be shown (see DUPEFILTER_DEBUG to show all duplicates)",
                request,
            )


_REMEDY = {
    "items_full": " `gossamer items consumers` names who has not kept its items: run a worker with that feed again, or `gossamer items export`; "
    "`gossamer items forget --drop` gives up a consumer that never comes back, with the items that only it lacks. To stream no more after that, start the workers again with GOSSAMER_ITEMS=off.",
    "dead_full": " Look at `gossamer dead list`; replay or drop some.",
    "pages_full": " The group has crawled as many pages as it may.",
    "memory": " The server is at its memory limit: few requests are leased at a time. Raise maxmemory.",
    "draining": " An operator asked it to end.",
}
