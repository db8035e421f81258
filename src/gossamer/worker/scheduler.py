"""Scrapy's scheduler on the frontier: a synchronous face over the courier.

The engine asks for requests and hands over new ones; both are only lists here. The courier speaks to the frontier beside it.
A request that was handed out is a page until everything it produced is through (see `hooks`); then it is settled as a whole.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider, DontCloseSpider, IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gossamer import __version__
from gossamer.courier import OVERDUE, Adder, Courier, Intake, Plan, Tally
from gossamer.errors import GossamerError, GroupOwned, InvalidRequest
from gossamer.model import (
    AddOutcome,
    Drained,
    Ending,
    Feedback,
    Fetched,
    Lease,
    Settlement,
    SettleOutcome,
    Token,
    Verdict,
    WorkerInfo,
)
from gossamer.worker import early, hooks, robots, tuning
from gossamer.worker.join import Join
from gossamer.worker.lanes import META
from gossamer.worker.metric import Metrics
from gossamer.worker.page import Page, feedback_of, trace
from gossamer.worker.quiet import quiet
from gossamer.worker.reactor import Promise, link_for
from gossamer.worker.request import Carried, Carrier
from gossamer.worker.starting import Start
from gossamer.worker.stats import Fleet, numbers
from gossamer.worker.urls import short_cut

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

TELL = 5.0
"""Seconds between two looks at itself: what people see of this worker, its start lease, whether the group is drained."""
DRAINED_AGAIN = 0.5
REFUSED = 0.2
SILENT = 15.0
"""Seconds after which a worker that says nothing is no more, if its leases have run out too."""
CLOSED = "closed"
"""What a worker's description says when it has ended in good order."""


class Scheduler(BaseScheduler):
    """One worker of the fleet. Made by Scrapy; everything happens on Scrapy's own thread."""

    def __init__(self, crawler: Crawler, join: Join) -> None:
        self.crawler, self.join = crawler, join
        self.group = join.group
        self.stats = crawler.stats
        self.tally = self.stats.tally if isinstance(self.stats, Fleet) else Tally(self.group)
        self.tally.group = self.group
        self._pages: dict[int, Page] = {}
        self._parents: dict[int, Page] = {}
        self._intakes: list[Intake] = []
        self._drained: Drained | None = None
        self._asking_drained = False
        self._idle_since: float | None = None
        self._logged_duplicates = False
        self._paused = ""
        self._closing = self._opened = False
        self._carrying = 0
        self._latency = Metrics(crawler, "gossamer/metric/").histogram("fetch_latency_seconds")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Join.from_crawler(crawler))

    # Opening.

    def open(self, spider: Spider) -> Deferred[None]:
        self.spider = spider
        return deferred_from_coro(self._open())

    async def _open(self) -> None:
        join = self.join
        engine: Any = self.crawler.engine
        self._engine = engine
        self.link = link_for(join.settings, join.host)
        opened = Promise()
        self.link.open(lambda answer, error: opened.keep(answer, error))
        try:
            await opened
            await self._join()
            hooks.check(engine)
        except GossamerError as error:
            logger.error("%s", error)
            self.link.close()
            # Not raised: most versions of Scrapy would make a long story of it.
            engine._start = self._refused(type(error).__name__)
            self.crawler.signals.connect(self._stay, signals.spider_idle)
            return
        self.carrier = Carrier(
            self.spider, self.group, join.lanes, join.number, join.settings["GOSSAMER_PAYLOAD_MAX_BYTES"]
        )
        self.courier = Courier(self.link, self, self._plan(), self.tally)
        self.adder = Adder(self.link, self.added, self.failed)
        self.start = Start(self, self.adder)
        self._opened = True
        tunes = tuning.names(join.settings["GOSSAMER_TUNING"])
        hooks.attach(engine, self, lean="output" in tunes)
        hooks.apart(engine, lambda request: id(request) in self._pages)
        join.loosen(engine.downloader)
        robots.listen(engine.downloader, self._crawl_delay)
        self._connect()
        if "urls" in tunes:
            short_cut(sys.modules["scrapy.http.request"])
        if "signals" in tunes:
            quiet(self.crawler.signals)
        if "early" in tunes and join.remembers and early.possible(self.crawler):
            early.attach(self.crawler, self._surely_known, self._filtered)
        engine._start = self._started(engine._start)
        self.courier.begin()
        for key in join.tasks:
            self._begin_intake(key)
        self._pace = min(TELL, join.settings["GOSSAMER_LEASE_SECONDS"] / 3)
        self.link.later(self._pace, self._look_after)

    async def _refused(self, reason: str) -> AsyncIterator[Any]:
        """The start of a worker that may not join: its end, as soon as the engine is through with its start."""
        self.link.later(REFUSED, lambda: self.end(reason))
        return
        yield

    def _stay(self) -> None:
        raise DontCloseSpider

    async def _join(self) -> None:
        join = self.join
        join.check_lanes()
        await self.ask("define", self.group, join.lanes, join.policy)
        await self.ask("set_host", "", join.host)
        for name, policy in join.hosts.items():
            await self.ask("set_host", name, policy)
        self._check_owner(await self.ask("workers"), (await self.ask("counts", self.group)).now)
        if join.new_round:
            await self._new_round()

    async def _new_round(self) -> None:
        # The round is read first: of several workers that find it drained, all ask for the same next one.
        counts = await self.ask("counts", self.group)
        row = next(row for row in counts.groups if row.group == self.group)
        if (await self.ask("drained", self.group)).drained:
            number = await self.ask("new_round", self.group, row.round + 1)
            logger.info("Round %d of %s begins.", number, self.group)

    def _check_owner(self, workers: Sequence[WorkerInfo], now: float) -> None:
        for worker in workers:
            other = worker.info.get("spider", "")
            # Who lives is heard of now and then; what a dead one holds runs out.
            recent = now - worker.seen < max(SILENT, self.join.settings["GOSSAMER_LEASE_SECONDS"])
            alive = recent and CLOSED not in worker.info
            if worker.info.get("group") == self.group and other and other != self.join.spider_class and alive:
                raise GroupOwned(
                    f"The group {self.group} is worked on by {other} (worker {worker.incarnation} on "
                    f"{worker.info.get('host', '?')}); this spider is {self.join.spider_class}. "
                    "Give one of them another name, or set GOSSAMER_GROUP or GOSSAMER_CRAWL."
                )

    def _plan(self) -> Plan:
        settings, join = self.join.settings, self.join
        most = self._engine.downloader.total_concurrency or 1000
        return Plan(
            self.group,
            join.selection,
            # As many as Scrapy itself would have in hand: a page in slow pipelines keeps no other from being fetched.
            most=most + self.crawler.settings.getint("SCRAPER_SLOT_MAX_ACTIVE_SIZE") // 1024,
            ahead=max(2, most // 4),
            lease_seconds=settings["GOSSAMER_LEASE_SECONDS"],
            renew_max=settings["GOSSAMER_RENEW_MAX_SECONDS"],
            close_seconds=settings["GOSSAMER_CLOSE_SECONDS"],
            info=self._info(),
        )

    def _info(self) -> dict[str, str]:
        return {
            "group": self.group,
            "spider": self.join.spider_class,
            "host": socket.gethostname(),
            "pid": str(os.getpid()),
            "version": __version__,
            "stats": json.dumps(numbers(self.stats)) if self.stats is not None else "{}",
        }

    def _connect(self) -> None:
        connect = self.crawler.signals.connect
        connect(self._on_idle, signals.spider_idle)
        connect(self._on_response, signals.response_downloaded)
        connect(self._on_item, signals.item_scraped)
        connect(self._on_item_dropped, signals.item_dropped)
        connect(self._on_item_error, signals.item_error)
        connect(self._on_closed, signals.spider_closed)

    async def _started(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for output in self.start.run(start):
            yield output
        self.wake()

    def _begin_intake(self, key: str) -> None:
        intake = Intake(
            self.link,
            key,
            self.group,
            self._requests_of,
            batch=self.join.settings["GOSSAMER_TASKS_BATCH"],
            lease_seconds=self.join.settings["GOSSAMER_LEASE_SECONDS"],
            taken=lambda count: self._count("gossamer/tasks", count),
            bad=lambda _: self._count("gossamer/tasks_bad"),
            failed=self.failed,
        )
        self._intakes.append(intake)
        intake.begin()

    def _requests_of(self, data: bytes) -> list[Any]:
        made = self.join.requests_of(self.spider, data)
        return [self._encode(request, self.carrier.lane_of(request)) for request in made]

    # What the engine asks of a scheduler.

    def has_pending_requests(self) -> bool:
        return self._opened and bool(self.courier.inbox or self.courier.waiting or len(self.adder))

    def next_request(self) -> Request | None:
        if not self._opened:
            return None
        while (lease := self.courier.take()) is not None:
            try:
                request = self.carrier.decode(lease)
            except Carried as carried:
                self.courier.settle(Settlement(lease, Ending.REPLACED, items=carried.items), None)
                continue
            except GossamerError as error:
                self._unreadable(lease, error)
                continue
            self._pages[id(request)] = Page(lease, request)
            self._count("scheduler/dequeued")
            return request
        return None

    def _unreadable(self, lease: Lease, error: GossamerError) -> None:
        reason = getattr(error, "reason", "garbage")
        logger.error("A request of lane %s became a dead letter (%s): %s", lease.lane, reason, error)
        self.courier.settle(Settlement(lease, Ending.FAILED, reason=reason, detail=str(error)), None)

    def enqueue_request(self, request: Request) -> bool:
        if not self._opened:
            return False
        page = self._parents.pop(id(request), None)
        try:
            if page is not None and page.replaced and META not in request.meta:
                lane = page.lease.lane
            else:
                lane = self.carrier.lane_of(request)
            number = self.carrier.number(request)
            if not request.dont_filter and self._known(page, lane, number):
                self._filtered(request)
                return False
            asked = self._encode(request, lane, number, page)
        except InvalidRequest as error:
            self._count("scheduler/unserializable")
            logger.error("Request %s was not queued: %s", request, error)
            if page is not None and page.replaced:
                # It was to stand for the page, which would be gone with it.
                page.failed("unserializable", error)
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

    def _known(self, page: Page | None, lane: str, number: int) -> bool:
        if page is not None and (lane, number) in page.fingerprints:
            return lane not in self.join.forgetful
        return self.join.remembers and self.courier.known.has(lane, number)

    def _surely_known(self, request: Request) -> bool:
        try:
            return self.courier.known.has(self.carrier.lane_of(request), self.carrier.number(request))
        except InvalidRequest:
            return False  # it is refused where that is said

    def _encode(self, request: Request, lane: str, number: int | None = None, page: Page | None = None) -> Any:
        if number is None:
            number = self.carrier.number(request)
        return self.carrier.encode(request, lane, number, page.slot if page is not None else None)

    def close(self, reason: str) -> Deferred[None] | None:
        self._closing = True
        # Where it was not opened, there is nothing to say, and nobody to say it to.
        return deferred_from_coro(self._close()) if self._opened else None

    async def _close(self) -> None:
        for intake in self._intakes:
            stopped = Promise()
            intake.stop(stopped.keep)
            self.link.later(self.join.settings["GOSSAMER_CLOSE_SECONDS"], stopped.keep)
            await stopped
        if self._carrying and not self.courier.away:
            carried = Promise()
            self.adder.below(0, carried.keep)
            self.link.later(self.join.settings["GOSSAMER_CLOSE_SECONDS"], carried.keep)
            await carried
        await self.start.give_back()
        self.courier.tell({**self._info(), CLOSED: "1"})
        finished = Promise()
        self.courier.finish(finished.keep)
        await finished

    async def _on_closed(self) -> None:
        """What extensions counted after the scheduler was closed; then the connection goes."""
        counters = self.tally.take()
        if counters and not self.courier.away:
            try:
                await self.ask("exchange", self.courier.token.next(), counters=counters)
            except GossamerError as error:
                logger.warning("The last counters could not be told: %s", error)
        self.link.close()

    # What the hooks see.

    def downloaded(self, request: Request, result: Request | Response | Failure) -> None:
        page = self._pages.get(id(request))
        if page is None:
            return
        if isinstance(result, Request):
            page.replaced = True
            self._parents[id(result)] = page
        if not page.told:
            page.told = True
            broken = isinstance(result, Request) or (
                isinstance(result, Failure) and not isinstance(result.value, IgnoreRequest)
            )
            self.courier.fetched(Fetched(page.lease, Feedback(Verdict.ERROR) if broken else None))

    def _crawl_delay(self, host: str, seconds: float) -> None:
        logger.info("robots.txt of %s asks for %g s between requests.", host, seconds)
        self.link.call("set_crawl_delay", lambda _answer, _error: None, host, seconds)

    def _on_response(self, response: Response, request: Request) -> None:
        page = self._pages.get(id(request))
        if page is not None and not page.told:
            page.told = True
            feedback = feedback_of(response, request.meta.get("download_latency"))
            if feedback.latency is not None:
                self._latency.observe(feedback.latency)
            self.courier.fetched(Fetched(page.lease, feedback))

    def scraping(self, request: Request, result: Response | Failure) -> None:
        page = self._pages.get(id(request))
        if page is not None:
            page.outcome = result
            self._parents[id(result)] = page

    def handling(self, request: Request, result: Response | Failure) -> None:
        page = self._pages.get(id(request))
        if page is not None:
            page.handled = isinstance(result, Response) or self.join.give_up.rescues(request)

    def yields(self, request: Request, child: Request) -> None:
        page = self._pages.get(id(request))
        if page is not None:
            self._parents[id(child)] = page

    def yielded(self, child: Request) -> None:
        self._parents.pop(id(child), None)

    def calling(self, request: Request, task: Any) -> None:
        page = self._pages.get(id(request))
        if page is not None:
            page.task = task

    def given_up(self, request: Request) -> bool:
        page = self._pages.get(id(request))
        return page is not None and page.given_up

    def raised(self, request: Request, failure: Failure) -> None:
        page = self._pages.get(id(request))
        if page is not None:
            page.failed("callback", failure)

    def through(self, request: Request) -> None:
        page = self._pages.pop(id(request), None)
        if page is None:
            return
        if page.outcome is not None:
            self._parents.pop(id(page.outcome), None)
        settings = self.join.settings
        self.courier.settle(
            page.settlement(settings["GOSSAMER_FAILURES"], settings["GOSSAMER_FAILURE_TRIES"], self.join.gave_up(page)),
            page,
        )

    def page_of(self, response: Response | Failure | None) -> Page | None:
        """The page that a response or failure belongs to while its output is handled."""
        return None if response is None else self._parents.get(id(response))

    def _on_item(self, item: Any, response: Any) -> None:
        page = self.page_of(response)
        data = self._encode_item(item) if self.join.streams else None
        if page is None:
            self.start.item(data)
        elif data is not None:
            page.items.append(data)

    def _encode_item(self, item: Any) -> bytes | None:
        try:
            return self.join.encode_item(item)
        except Exception as error:
            self._count("gossamer/items_refused")
            why = error if isinstance(error, InvalidRequest) else f"{type(error).__name__}: {error}"
            logger.error("An item was not put into the stream: %s", why)
            return None

    def _on_item_dropped(self, response: Any) -> None:
        if self.page_of(response) is None:
            self.start.item(None)

    def _on_item_error(self, response: Any, failure: Failure) -> None:
        page = self.page_of(response)
        if page is not None:
            page.failed("pipeline", failure)
        else:
            deferred_from_coro(self.start.item_failed(trace(failure)))

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
            self._drained = None
        self.wake()

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
            for page in [page for page in self._pages.values() if page.lease == lease and page.task is not None]:
                page.given_up = True
                page.task.cancel()

    def failed(self, error: BaseException) -> None:
        logger.error("The frontier refuses this worker: %s", error)
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
        if self.join.forever:
            self._maybe_idle_out()
            raise DontCloseSpider
        drained, self._drained = self._drained, None
        if drained is not None and drained.drained and self.courier.hints is not None and not self.courier.hints.open:
            raise CloseSpider("drained")
        self._ask_drained()
        raise DontCloseSpider

    def _maybe_idle_out(self) -> None:
        limit = self.join.settings["GOSSAMER_IDLE_SECONDS"]
        if limit <= 0:
            return
        self._ask_drained()
        if self._idle_since is not None and self.link.now() - self._idle_since >= limit:
            raise CloseSpider("idle")

    def _ask_drained(self) -> None:
        hints = self.courier.hints
        if self._asking_drained or hints is None or hints.open > 0 or self.has_pending_requests():
            if hints is not None and hints.open > 0:
                self._idle_since = None
            return
        self._asking_drained = True
        self.link.call("drained", self._drained_answered, self.group)

    def _drained_answered(self, answer: Drained | None, error: BaseException | None) -> None:
        self._drained = answer
        if answer is not None and answer.drained:
            self._idle_since = self._idle_since or self.link.now()
            self._asking_drained = False
            if not self.join.forever:
                self.wake()
                return
        else:
            self._idle_since = None
        self.link.later(DRAINED_AGAIN, self._ask_again)

    def _ask_again(self) -> None:
        self._asking_drained = False
        self.wake()

    def _note_pause(self) -> None:
        paused = self.courier.hints.paused if self.courier.hints else ""
        if paused != self._paused:
            self._paused = paused
            if paused:
                logger.warning("Nothing is leased to this worker now: %s.%s", paused, _REMEDY.get(paused, ""))
        if paused == "draining" and not self._pages and not self.courier.inbox:
            self.end("draining")

    def _look_after(self) -> None:
        if self._closing:
            return
        self.link.later(self._pace, self._look_after)
        self._note_pause()
        self.courier.tell(self._info())
        if self.start.granted:
            deferred_from_coro(self.start.renew())

    # What a start needs.

    def carry(self, item: bytes, key: str) -> Any:
        self._carrying += 1
        return self.carrier.carry(item, key)

    @property
    def token(self) -> Token:
        return self.courier.token

    async def ask(self, verb: str, /, *args: Any, **kwargs: Any) -> Any:
        promise = Promise()
        self.link.call(verb, promise.keep, *args, **kwargs)
        return await promise

    async def sleep(self, seconds: float) -> None:
        promise = Promise()
        self.link.later(seconds, promise.keep)
        await promise

    async def below(self, adder: Adder, count: int) -> None:
        if len(adder) > count:
            promise = Promise()
            adder.below(count, promise.keep)
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
    "items_full": " Read the items with `gossamer items export`, or set GOSSAMER_ITEMS to off.",
    "dead_full": " Look at `gossamer dead list`; replay or drop some.",
    "pages_full": " The group has crawled as many pages as it may.",
    "memory": " The server is near its memory limit.",
    "draining": " An operator asked it to end.",
}
