"""Where Scrapy's insides are watched: when a request is through, what it produced, how it ended.

Scrapy has no signal that means "finished". The one place is the engine's set of requests in progress: a request leaves it
exactly when its callback's output is used up, its children went through the scheduler and its items through the pipelines,
or when a retry or redirect took its place. That set is replaced by one that reports, and four methods are wrapped to learn
what became of a request. All of it is checked when a crawl starts; a Scrapy without these insides is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from time import monotonic
from typing import Any, Protocol

from scrapy import Request
from scrapy.http import Response
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from gossamer.errors import UnsupportedScrapy
from gossamer.model import host_of
from gossamer.scrapy.process.reactor import on_asyncio

APART = "apart "
"""Before the host, the name of a slot for downloads that are no leases."""
PAUSE_EVERY, PAUSE_SECONDS = 100, 0.01
"""After so many requests of one callback, or so many seconds, other work gets its turn."""


class EngineWatcher(Protocol):
    """Who is told."""

    def downloaded(self, request: Request, result: Request | Response | Failure) -> None:
        """The downloader and its middlewares are through with a request."""

    def scraping(self, request: Request, result: Response | Failure) -> None:
        """Its callback or errback is about to be called."""

    def handling(self, request: Request, result: Response | Failure) -> None:
        """Its callback or errback has given output, which is about to be handled."""

    def yields(self, request: Request, child: Request) -> None:
        """The callback of a request yielded another one, which goes to the scheduler next."""

    def yielded(self, child: Request) -> None:
        """It has gone there, unless somebody refused it on the way."""

    def raised(self, request: Request, failure: Failure) -> None:
        """Its callback or errback raised."""

    def calling(self, request: Request, task: asyncio.Task[Any] | Deferred[Any] | None) -> None:
        """Its callback or errback is called in this task, or stands behind this Deferred, which can be cancelled."""

    def given_up(self, request: Request) -> bool:
        """Whether it was worked on for too long and is not waited for any more."""

    def through(self, request: Request) -> None:
        """Nothing of it is left in Scrapy."""


class ReportingSet(set[Request]):
    """A set of requests that tells when one is taken out."""

    def __init__(self, known: Iterable[Request], through: Callable[[Request], None]) -> None:
        super().__init__(known)
        self._through = through
        self._again: list[Request] = []

    def add(self, request: Request) -> None:
        if request in self:
            # A callback downloads its own request once more: that download's end is not the page's.
            self._again.append(request)
        else:
            super().add(request)

    def remove(self, request: Request) -> None:
        if self._again and request in self._again:
            self._again.remove(request)
            return
        super().remove(request)
        self._through(request)


def on_close(engine: Any, called: Callable[[], None]) -> None:
    """Call when the engine begins to close its spider, before it waits for what is in progress."""
    slot = engine._slot
    original = slot.close

    def close() -> Any:
        called()
        return original()

    slot.close = close


def abandon(engine: Any) -> None:
    """Wait no longer for anything in progress: an engine that closes its spider goes on with that. What comes after all is
    ignored."""
    slot, scraper, spider = engine._slot, engine.scraper, engine.spider

    def matters(record: logging.LogRecord) -> bool:
        # Downloads that end after the engine miss it, and say so at length.
        late = engine._slot is None and record.exc_info
        return not late or getattr(record, "spider", engine) not in (None, spider)

    for name in ("scrapy.core.engine", "scrapy.core.scraper"):
        logging.getLogger(name).addFilter(matters)
    slot.remove_request = lambda request: None
    slot.inprogress = set()
    if slot.closing is not None and not slot.closing.called:
        slot._maybe_fire_closing()
    working, check = scraper.slot, scraper._check_if_closing
    if working is None:
        return

    def once() -> None:
        if working.closing is not None and not working.closing.called:
            check()

    working.queue.clear()
    working.is_idle = lambda: True
    scraper._check_if_closing = once
    once()


def attach(engine: Any, watcher: EngineWatcher, *, lean: bool = True) -> None:
    """Watch an engine that was checked. `lean`: the output of callbacks is handled by `CallbackOutput` itself, where it can."""
    slot, scraper = engine._slot, engine.scraper
    slot.inprogress = ReportingSet(slot.inprogress, watcher.through)
    _wrap_downloads(engine, watcher)
    _wrap_scraper(scraper, watcher)
    scraper.handle_spider_output_async = CallbackOutput(engine, scraper, watcher, lean).handle


def check(engine: Any) -> None:
    """Refuse an engine with the names of what it lacks."""
    slot, scraper = engine._slot, engine.scraper
    needed = {
        "engine._slot.inprogress": isinstance(getattr(slot, "inprogress", None), set),
        "engine._slot.nextcall.schedule": callable(getattr(getattr(slot, "nextcall", None), "schedule", None)),
        "engine._handle_downloader_output": callable(getattr(engine, "_handle_downloader_output", None)),
        "engine._download": callable(getattr(engine, "_download", None)),
        "engine._start": hasattr(engine, "_start"),
        "engine._SLOT_HEARTBEAT_INTERVAL": hasattr(engine, "_SLOT_HEARTBEAT_INTERVAL"),
        "scraper.call_spider_async": callable(getattr(scraper, "call_spider_async", None)),
        "scraper.enqueue_scrape": callable(getattr(scraper, "enqueue_scrape", None)),
        "scraper.handle_spider_error": callable(getattr(scraper, "handle_spider_error", None)),
        "scraper.handle_spider_output_async": callable(getattr(scraper, "handle_spider_output_async", None)),
        "engine._slot.close": callable(getattr(slot, "close", None)),
        "engine._slot._maybe_fire_closing": callable(getattr(slot, "_maybe_fire_closing", None)),
        "engine._spider_closed_callback": callable(getattr(engine, "_spider_closed_callback", None)),
        "scraper._check_if_closing": callable(getattr(scraper, "_check_if_closing", None)),
        "downloader.active": isinstance(getattr(engine.downloader, "active", None), set),
    }
    missing = [name for name, there in needed.items() if not there]
    if missing:
        from scrapy import __version__

        raise UnsupportedScrapy(f"Scrapy {__version__} has no {', '.join(missing)}. Use Scrapy 2.13.4 to 2.19.")


def apart(engine: Any, leased: Callable[[Request], bool]) -> None:
    """Downloads that are no leases (inline downloads, media, robots.txt) keep Scrapy's own limits, in slots of their own:
    the frontier does not know of them."""
    original = engine._download

    def download(request: Request) -> Any:
        if not leased(request) and "download_slot" not in request.meta:
            request.meta["download_slot"] = f"{APART}{host_of(request.url)}"
        return original(request)

    engine._download = download


def _wrap_downloads(engine: Any, watcher: EngineWatcher) -> None:
    original = engine._handle_downloader_output

    def handle(result: Any, request: Request) -> Any:
        watcher.downloaded(request, result)
        done = original(result, request)
        if isinstance(result, Request):
            watcher.yielded(result)
        return done

    engine._handle_downloader_output = handle


def _wrap_scraper(scraper: Any, watcher: EngineWatcher) -> None:
    enqueue, error = scraper.enqueue_scrape, scraper.handle_spider_error

    def enqueue_scrape(result: Response | Failure, request: Request, *more: Any) -> Any:
        watcher.scraping(request, result)
        return enqueue(result, request, *more)

    def handle_spider_error(failure: Failure, request: Request, *more: Any, **named: Any) -> Any:
        watcher.raised(request, failure)
        return error(failure, request, *more, **named)

    call = scraper.call_spider_async

    async def call_spider_async(result: Response | Failure, request: Request) -> Any:
        called: Any = call(result, request)
        if on_asyncio():
            watcher.calling(request, asyncio.current_task())
        else:
            # Without tasks it is the Deferred that can be cancelled.
            called = Deferred.fromCoroutine(called)
            watcher.calling(request, called)
        try:
            return await called
        except (asyncio.CancelledError, CancelledError):
            if watcher.given_up(request):
                raise TimeoutError("worked on for longer than GOSSAMER_RENEW_MAX_SECONDS") from None
            raise

    scraper.enqueue_scrape, scraper.handle_spider_error = enqueue_scrape, handle_spider_error
    scraper.call_spider_async = call_spider_async


class CallbackOutput:
    """What callbacks yield. Requests go to the engine at once, in the order they are yielded; items go the way that Scrapy
    sends them, at most CONCURRENT_ITEMS at a time.

    Scrapy starts CONCURRENT_ITEMS tasks for every response, whatever it yields: most pages yield many requests and one item
    or none, which need none. Here each item that has company gets a task. Without asyncio, Scrapy's own way is kept.
    """

    def __init__(self, engine: Any, scraper: Any, watcher: EngineWatcher, lean: bool) -> None:
        self._engine, self._scraper, self._watcher = engine, scraper, watcher
        self._original = scraper.handle_spider_output_async
        # Scrapy 2.13 has only the form that makes a Deferred.
        self._process = getattr(scraper, "_process_spidermw_output_async", None) if lean else None

    async def handle(self, result: Any, request: Request, response: Response | Failure) -> None:
        self._watcher.handling(request, response)
        is_async = isinstance(result, AsyncIterator)
        if self._process is None or not on_asyncio():
            # Kept until all is done: another request at the same place in memory must not be taken for one of these.
            children: list[Request] = []
            mark = self._marked_async if is_async else self._marked
            await self._original(mark(result, request, children), request, response)
            for child in children:
                self._watcher.yielded(child)
            return
        tasks = _ItemTasks(self._process, response, self._scraper.concurrent_items)
        try:
            try:
                if is_async:
                    await self._take_async(result, request, tasks)
                else:
                    await self._take(result, request, tasks)
            except Exception:
                self._scraper.handle_spider_error(Failure(), request, response)  # type: ignore[no-untyped-call]
            await tasks.finish()
        except asyncio.CancelledError:
            tasks.cancel()
            if not self._watcher.given_up(request):
                raise

    async def _take(self, result: Iterable[Any], request: Request, tasks: _ItemTasks) -> None:
        put, count, until = self._put, 0, monotonic() + PAUSE_SECONDS
        for output in result:
            if isinstance(output, Request):
                put(request, output)
                count += 1
            elif output is not None:
                await tasks.put(output)
            if count >= PAUSE_EVERY or monotonic() > until:
                # Its next step may take as long again: nobody else would get a turn before its last.
                await asyncio.sleep(0)
                count, until = 0, monotonic() + PAUSE_SECONDS

    async def _take_async(self, result: AsyncIterator[Any], request: Request, tasks: _ItemTasks) -> None:
        put, count, until = self._put, 0, monotonic() + PAUSE_SECONDS
        async for output in result:
            if isinstance(output, Request):
                put(request, output)
                count += 1
            elif output is not None:
                await tasks.put(output)
            if count >= PAUSE_EVERY or monotonic() > until:
                await asyncio.sleep(0)
                count, until = 0, monotonic() + PAUSE_SECONDS

    def _put(self, request: Request, child: Request) -> None:
        self._watcher.yields(request, child)
        self._engine.crawl(child)
        self._watcher.yielded(child)

    def _marked(self, result: Iterable[Any], request: Request, children: list[Request]) -> Iterator[Any]:
        for output in result:
            if isinstance(output, Request):
                children.append(output)
                self._watcher.yields(request, output)
            yield output

    async def _marked_async(
        self, result: AsyncIterator[Any], request: Request, children: list[Request]
    ) -> AsyncIterator[Any]:
        async for output in result:
            if isinstance(output, Request):
                children.append(output)
                self._watcher.yields(request, output)
            yield output


class _ItemTasks:
    """Items of one page in the pipelines, at most `most` at a time, begun in the order they were yielded. The last one is held
    back: if it stays alone, it is awaited without a task."""

    def __init__(self, process: Callable[[Any, Any], Awaitable[None]], response: Any, most: int) -> None:
        self._process, self._response, self._most = process, response, max(1, most)
        self._running: set[asyncio.Future[None]] = set()
        self._last: Any = None

    async def put(self, item: Any) -> None:
        if self._last is not None:
            await self._begin()
        self._last = item

    async def _begin(self) -> None:
        if len(self._running) >= self._most:
            await self._some(asyncio.FIRST_COMPLETED)
        self._running.add(asyncio.ensure_future(self._process(self._last, self._response)))

    async def finish(self) -> None:
        try:
            if self._running:
                # Awaited here, it would go before those whose tasks have not had a turn yet.
                await self._begin()
            elif self._last is not None:
                await self._process(self._last, self._response)
        except asyncio.CancelledError:
            raise
        except BaseException:
            await self._rest()
            raise
        await self._rest()

    async def _rest(self) -> None:
        while self._running:
            await self._some(asyncio.ALL_COMPLETED)

    def cancel(self) -> None:
        for task in self._running:
            task.cancel()

    async def _some(self, when: str) -> None:
        done, self._running = await asyncio.wait(self._running, return_when=when)
        for task in done:
            task.result()
