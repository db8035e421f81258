"""Scrapy's scheduler on the frontier: a synchronous interface to the courier.

The engine takes requests and adds new ones without waiting: the courier exchanges them with the frontier in the background. A request
that the engine has taken is a page in progress until everything it produced is through (see `page.engine_hooks`); then the page is
settled as a whole.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred

from gossamer import heap
from gossamer.courier import Counters, Courier, CourierConfig, Heartbeat, RequestAdder, TaskIntake, worker_info
from gossamer.errors import GossamerError, WorkerFailed
from gossamer.frontier.connection.url import server_of
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import AddOutcome, Ending, Lease, Settlement, SettleOutcome, Token
from gossamer.model.counter_names import LATENCY, SECONDS, TASKS, TASKS_BAD
from gossamer.model.reply import GARBAGE, OVERDUE, selection_info
from gossamer.scrapy.config import WorkerConfig
from gossamer.scrapy.download import cookies, robots, slots
from gossamer.scrapy.feeds import settings as feed_settings
from gossamer.scrapy.feeds.stream import ITEMS as ITEMS_GO
from gossamer.scrapy.feeds.stream import item_destination
from gossamer.scrapy.metric import HistogramMetric
from gossamer.scrapy.page import engine_hooks
from gossamer.scrapy.page.items import ItemIntake
from gossamer.scrapy.page.pages import LeasedPages
from gossamer.scrapy.process import commands, rounds
from gossamer.scrapy.process.admission import MODE
from gossamer.scrapy.process.calls import FrontierCalls
from gossamer.scrapy.process.end import WorkerEnd
from gossamer.scrapy.process.exit_code import fail
from gossamer.scrapy.process.idle import IdleCheck
from gossamer.scrapy.process.membership import RoundMembership
from gossamer.scrapy.process.reactor import Promise, close_spider, link_for
from gossamer.scrapy.process.refusal import RefusedScheduler, refuse
from gossamer.scrapy.process.shutdown import Opening, Shutdown
from gossamer.scrapy.process.start import SpiderStart
from gossamer.scrapy.request.codec import ItemsLease, RequestCodec
from gossamer.scrapy.request.intake import RequestIntake
from gossamer.scrapy.request.objects import ObjectCodec
from gossamer.scrapy.request.shared_objects import SharedObjects
from gossamer.scrapy.seen import project_filter
from gossamer.scrapy.seen.duplicates import DuplicateLog
from gossamer.scrapy.speedups import defaults, known_links
from gossamer.scrapy.speedups.signals import skip_without_receivers
from gossamer.scrapy.speedups.urls import install_fast_path
from gossamer.scrapy.stats import FleetStatsMixin, numbers

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

TELL = 5.0
"""Seconds between two checks of the worker itself: its public info, its start lease, whether the group is drained."""


class FleetScheduler(BaseScheduler):
    """One worker of the fleet. Made by Scrapy; everything happens on Scrapy's own thread."""

    always_copied = False
    """Whether the project's requests came out of the queue as copies before it was moved here."""

    def __init__(self, crawler: Crawler, worker_config: WorkerConfig) -> None:
        self.crawler, self.join = crawler, worker_config
        self.group = worker_config.group
        self.stats = crawler.stats
        self.pending_counters = (
            self.stats.pending_counters if isinstance(self.stats, FleetStatsMixin) else Counters(self.group)
        )
        self.pending_counters.group = self.group
        self.task_intakes: list[TaskIntake] = []
        self.membership, self.ending = RoundMembership(self), WorkerEnd(self)
        self.duplicates = DuplicateLog(self.stats, worker_config.debug_duplicates, worker_config.own_filter)
        self._denied = self._frozen = False
        self.opened = False
        """Whether it has joined its group."""
        self._config = ""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        if commands.is_read_only():
            return commands.scheduler(crawler)
        try:
            return cls(crawler, WorkerConfig.from_crawler(crawler).with_filter(crawler))
        except GossamerError as error:
            if not crawler.crawling:
                raise  # it is made by the user's own code
            return RefusedScheduler(crawler, error)

    # Opening.

    def open(self, spider: Spider) -> Deferred[None]:
        self.spider = spider
        return deferred_from_coro(self._open())

    async def _open(self) -> None:
        settings = self.join.settings
        engine: Any = self.crawler.engine
        self.engine = engine
        self.opening = Opening(self.crawler, settings)
        self.link = link_for(settings, self.join.host)
        self.calls = FrontierCalls(self.link)
        self.ask = self.calls.ask
        opened = Promise()
        try:
            where = server_of(settings["GOSSAMER_URL"], settings["GOSSAMER_DATA_DIR"])
            logger.info("Worker of crawl %s, group %s, on %s.", settings["GOSSAMER_CRAWL"], self.group, where)
            self._check_server()
            self.link.open(lambda answer, error: opened.keep(answer, error))
            await opened
            feed_settings.check(settings, self.crawler)
            self._check_filter()
            slots.check(engine.downloader)
            token = await self._enter_group()
            engine_hooks.check(engine)
        except GossamerError as error:
            self.link.close()
            self.refuse(error)
            return
        worker_config = self.join
        self.request_codec = RequestCodec(
            self.spider,
            self.group,
            worker_config.lanes,
            worker_config.number,
            settings["GOSSAMER_PAYLOAD_MAX_BYTES"],
            ObjectCodec.of(self.spider, settings["GOSSAMER_OBJECT_MODULES"]),
            worker_config.hosts,
        )
        self.courier = Courier(self.link, self, self._plan(), self.pending_counters)
        if token is not None:
            self.courier.token = token.next()
        # Into the crawl's totals only: in Scrapy's stats it would be a dozen unwanted lines.
        latency = HistogramMetric(self.crawler, LATENCY, SECONDS, self.pending_counters.add)
        self.pages = LeasedPages(self.courier, worker_config, latency)
        self.cookies: cookies.SharedCookies | None = None
        if (middleware := cookies.of(self.crawler)) is not None and self._shares_cookies():
            most = settings["GOSSAMER_COOKIES_MAX"]
            self.cookies = cookies.SharedCookies(middleware, self.link, self.group, most, self.wake)
            self.pages.settled_after = self.cookies.after
        self.idle = IdleCheck(self.courier, self.holds, self.wake, self.ending.goes_on, engine._SLOT_HEARTBEAT_INTERVAL)
        self.request_adder = RequestAdder(self.link, self.added, self.failed)
        self.start = SpiderStart(self, self.request_adder)
        self.requests = RequestIntake(
            self.spider,
            worker_config,
            self.courier,
            self.pages,
            self.start,
            self.request_codec,
            self.duplicates,
            self._count,
            None if self.always_copied else SharedObjects(),
        )
        self.opened = True
        self._attach(engine, defaults.names(settings["GOSSAMER_TUNING"]))
        engine._start = self.opening.before(self.start.run(engine._start))
        self.courier.begin()
        Heartbeat(self.courier, self.link, self._keep_start).begin()
        for key in worker_config.tasks:
            self._begin_intake(key)
        self._pace = min(TELL, settings["GOSSAMER_LEASE_SECONDS"] / 3)
        self.link.later(self._pace, self._look_after)

    def _attach(self, engine: Any, tunes: frozenset[str]) -> None:
        """Hook into the engine, and make pages cheaper by what GOSSAMER_TUNING names."""
        engine_hooks.attach(engine, self.pages, lean="output" in tunes)
        slots.apart(engine, self.pages.__contains__)
        self.stopping = Shutdown(engine, self.link, self.pages, self.join.settings)
        slots.loosen(engine.downloader)
        robots.tell_all(engine.downloader)
        self._crawl_delays: robots.Told = {}
        if self.join.policy.crawl_delay:
            self._crawl_delays = robots.listen(engine.downloader, self.courier.crawl_delay)
        connect = self.crawler.signals.connect
        connect(self._on_idle, signals.spider_idle)
        connect(self.pages.answered, signals.response_downloaded)
        connect(self.ending.closed, signals.spider_closed)
        self.items = ItemIntake(self.join, self.pages, self.start, self._count, self.pending_counters)
        self.items.connect(self.crawler.signals)
        rounds.log_limits(self.crawler.settings)
        if "urls" in tunes:
            install_fast_path(sys.modules["scrapy.http.request"])
        if "signals" in tunes:
            skip_without_receivers(self.crawler.signals)
        if "garbage" in tunes:
            heap.begin_crawl()
            self._frozen = True
        if "early" in tunes and self.join.remembers and known_links.possible(self.crawler):
            known_links.attach(self.crawler, self.requests.is_known)

    def refuse(self, error: GossamerError) -> None:
        """End a worker before it does anything, because of an error that was found while its spider was opened."""
        refuse(self.crawler, self.engine, error)
        self._denied = True

    def _check_server(self) -> None:
        """FrontierUnavailable if the server is already known to be unreachable, SettingError if the spider's seeds are on another
        server."""
        if (check := getattr(self.spider, "check_server", None)) is not None and hasattr(self.spider, "redis_key"):
            check(self.join.settings)

    def _check_filter(self) -> None:
        """SettingError if the project has a dupefilter that a fleet cannot use."""
        project_filter.check(self.crawler.settings)
        project_filter.check_memory(self.join.own_filter)

    async def _enter_group(self) -> Token | None:
        return await self.membership.join()

    def _plan(self) -> CourierConfig:
        settings, worker_config = self.join.settings, self.join
        most = self.engine.downloader.total_concurrency or 1000
        return CourierConfig.of(
            settings,
            self.group,
            worker_config.selection,
            # As many as Scrapy itself would have in hand: a page in slow pipelines keeps no other from being fetched.
            most=most + self.crawler.settings.getint("SCRAPER_SLOT_MAX_ACTIVE_SIZE") // 1024,
            ahead=max(2, most // 4),
            session=self.group if self._shares_cookies() else "",
            info=self.info(),
        )

    def _shares_cookies(self) -> bool:
        return self.join.settings["GOSSAMER_COOKIES"] == "shared" and cookies.of(self.crawler) is not None

    def info(self) -> dict[str, str]:
        return worker_info(
            group=self.group,
            spider=self.join.spider_class,
            stats=json.dumps(numbers(self.stats)) if self.stats is not None else "{}",
            **{MODE: "forever" if self.join.forever else "drained", ITEMS_GO: item_destination(self.join)},
            **selection_info(self.join.selection),
        )

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
            mine=lambda told: deferred_from_coro(self._tell_whose(told)),
        )
        self.task_intakes.append(task_intake)
        task_intake.begin()

    async def _tell_whose(self, told: Callable[[bool], None]) -> None:
        told(await self.membership.may_take_tasks())

    def _requests_of(self, key: str, data: bytes) -> list[Any]:
        """What a task of the list `key` asks for."""
        made = self.join.requests_of(self.spider, data)
        return [self.requests.encode(request) for request in made]

    # What the engine asks of a scheduler.

    def __len__(self) -> int:
        """What is queued, delayed or in progress in the group, as of the last exchange."""
        hints = self.courier.hints if self.opened else None
        return hints.open if hints is not None else 0

    def __bool__(self) -> bool:
        return True

    def has_pending_requests(self) -> bool:
        """Whether the group has anything to do, here or elsewhere; True while that is not known."""
        # One that is refused ends by itself, without the signal that it is idle.
        return self._denied or (self.opened and self.idle.pending())

    def holds(self) -> bool:
        """Whether this worker has something to hand out, or to report."""
        return self.opened and bool(
            self.courier.inbox or self.courier.waiting or len(self.request_adder) or self.start.burying
        )

    def next_request(self) -> Request | None:
        if (
            self._denied
            or not (self.opened and self.membership.takes_part)
            or self.membership.compares
            or self.opening.stops
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
        if not self.opened:
            return False
        self.idle.worked()
        return self.requests.put(request)

    def close(self, reason: str) -> Deferred[None] | None:
        self.ending.begun = True
        if self._frozen:
            heap.end_crawl()
            self._frozen = False
        if not self.opened:
            return None  # there is nothing to report
        self.calls.patience = self.stopping.patience
        return deferred_from_coro(self._close())

    async def _close(self) -> None:
        await self.ending.close()

    # What the courier calls.

    def room(self) -> int:
        engine = self.engine
        slot, scraping = engine._slot, engine.scraper.slot
        if engine.paused or slot is None or slot.closing or scraping is None or scraping.needs_backout():
            return 0
        downloader = engine.downloader
        return (downloader.total_concurrency or 1000) - len(downloader.active)

    def arrived(self) -> None:
        self.ending.note_pause()
        if self.membership.plan is not None:
            # What came may be of a new round: for other arguments, perhaps.
            self._note_change()
        hints = self.courier.hints
        if hints is not None and hints.open:
            self.idle.forget()
        if self.courier.inbox:
            self.wake()
        else:
            self.idle.look()

    def wake(self) -> None:
        slot = self.engine._slot
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
            self.start.carrying -= 1  # it brings an item
            return
        request: Request = ticket
        if outcome is AddOutcome.ADDED:
            self._count("scheduler/enqueued")
        elif outcome is AddOutcome.DUPLICATE:
            self.duplicates.filtered(request, self.spider)
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
        # Reported again with the next request for each host.
        self._crawl_delays.clear()
        if self.cookies is not None:
            self.cookies.rolled_back()
        deferred_from_coro(self.membership.rejoin())

    def failed(self, error: BaseException) -> None:
        logger.error("The frontier refuses this worker: %s", error)
        fail(self.crawler, self.engine, error if isinstance(error, GossamerError) else WorkerFailed(str(error)))
        self.end(type(error).__name__)

    def end(self, reason: str) -> None:
        if not self.ending.begun:
            close_spider(self.engine, reason)

    # Idle, drained, paused.

    def _on_idle(self, spider: Spider) -> None:
        self.ending.on_idle(spider)

    def ends(self) -> str:
        """While `spider_idle` is sent: why this worker ends now; "" if it waits."""
        return self.ending.reason()

    def idle_seconds(self) -> float:
        """How many seconds the whole group has had nothing to do."""
        return self.idle.seconds

    def _look_after(self) -> None:
        if self.ending.begun:
            return
        self.link.later(self._pace, self._look_after)
        self.ending.note_pause()
        self._note_change()
        self.courier.tell(self.info())
        if self.start.granted:
            deferred_from_coro(self.start.renew())

    def _note_change(self) -> None:
        """A new round may have begun, by an operator or by a worker that left: its start is owed by those who are there."""
        hints = self.courier.hints
        if hints is not None and hints.config_version != self._config and self.start.over:
            self._config = hints.config_version
            self.membership.compares = self.membership.plan is not None
            self.start.again()

    def _keep_start(self, frontier: ValkeyFrontier, token: Token) -> None:
        if self.start.granted:
            frontier.renew_start(self.group, token)

    # What a start needs.

    def awaits(self, what: str) -> None:
        self.courier.awaits = {self.group: what} if what else {}

    @property
    def closing(self) -> bool:
        slot = self.engine._slot
        return self.ending.begun or (slot is not None and slot.closing is not None)

    # Counting.

    def _count(self, name: str, count: int = 1) -> None:
        if self.stats is not None:
            self.stats.inc_value(name, count)
