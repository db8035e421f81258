"""Hooks in Scrapy's engine: when a request is done, what it produced, how it ended.

Scrapy has no signal that means "finished". The one place is the engine's set of requests in progress: a request leaves it
exactly when its callback's output is used up, its children went through the scheduler and its items through the pipelines,
or when a retry or redirect took its place. That set is replaced by one that reports, and four methods are wrapped to learn
what became of a request. All of it is checked when a crawl starts; a Scrapy without these insides is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy import __version__ as scrapy_version
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from gossamer.errors import UnsupportedScrapy
from gossamer.scrapy.page.callback_output import CallbackOutput
from gossamer.scrapy.process.reactor import on_asyncio

if TYPE_CHECKING:
    from gossamer.scrapy.page.pages import LeasedPages


class ReportingSet(set[Request]):
    """A set of requests that reports when one is taken out."""

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


def is_closing(engine: Any) -> bool:
    """Whether the engine has begun to close its spider and is not through with that."""
    return engine._slot is not None and engine._slot.closing is not None


def on_stop(engine: Any, wait: Callable[[], Awaitable[None]]) -> None:
    """Let the engine stop after `wait`. By itself it waits for no close that has begun before: whoever stops it then, as Ctrl-C does,
    ends the process in the middle of that."""
    on_coroutines = hasattr(engine, "stop_async")
    original = engine.stop_async if on_coroutines else engine.stop

    async def stop() -> None:
        running = engine.running
        await wait()
        if running and not engine.running:
            return  # what was waited for has stopped it
        await (original() if on_coroutines else maybe_deferred_to_future(original()))

    if on_coroutines:
        engine.stop_async = stop
    else:  # Scrapy 2.13
        engine.stop = lambda: deferred_from_coro(stop())


def on_closed(engine: Any, called: Callable[[], None]) -> None:
    """Call when the engine has closed its spider."""
    original = engine._spider_closed_callback

    def closed(spider: Any) -> Any:
        called()
        return original(spider)

    engine._spider_closed_callback = closed


def abandon(engine: Any) -> None:
    """Wait no longer for anything in progress: an engine that closes its spider goes on with that. What comes after all is
    ignored."""
    slot, scraper, spider = engine._slot, engine.scraper, engine.spider

    def matters(record: logging.LogRecord) -> bool:
        # Downloads that end after the engine log long errors.
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


def attach(engine: Any, pages: LeasedPages, *, lean: bool = True) -> None:
    """Watch an engine that was checked. `lean`: the output of callbacks is handled by `CallbackOutput` itself, where it can."""
    slot, scraper = engine._slot, engine.scraper
    slot.inprogress = ReportingSet(slot.inprogress, pages.through)
    _wrap_downloads(engine, pages)
    _wrap_scraper(scraper, pages)
    scraper.handle_spider_output_async = CallbackOutput(engine, scraper, pages, lean).handle


NEEDED: dict[str, Callable[[Any], bool]] = {
    "_slot.inprogress": lambda found: isinstance(found, set),
    "_slot.nextcall.schedule": callable,
    "_slot.close": callable,
    "_slot._maybe_fire_closing": callable,
    "_handle_downloader_output": callable,
    "_download": callable,
    "_start": lambda found: True,
    "_SLOT_HEARTBEAT_INTERVAL": lambda found: True,
    "stop": callable,
    "_spider_closed_callback": callable,
    "scraper.call_spider_async": callable,
    "scraper.enqueue_scrape": callable,
    "scraper.handle_spider_error": callable,
    "scraper.handle_spider_output_async": callable,
    "scraper._check_if_closing": callable,
    "downloader.active": lambda found: isinstance(found, set),
}
"""What is used of an engine, and whether it is as it must be."""


def check(engine: Any) -> None:
    """Refuse an engine with the names of what it lacks."""
    missing = [f"engine.{path}" for path, fits in NEEDED.items() if not _has(engine, path, fits)]
    if missing:
        raise UnsupportedScrapy(f"Scrapy {scrapy_version} has no {', '.join(missing)}. Use Scrapy 2.13.4 to 2.19.")


def _has(engine: Any, path: str, fits: Callable[[Any], bool]) -> bool:
    try:
        return fits(attrgetter(path)(engine))
    except AttributeError:
        return False


def _wrap_downloads(engine: Any, pages: LeasedPages) -> None:
    original = engine._handle_downloader_output

    def handle(result: Any, request: Request) -> Any:
        pages.downloaded(request, result)
        done = original(result, request)
        if isinstance(result, Request):
            pages.yielded(result)
        return done

    engine._handle_downloader_output = handle


def _wrap_scraper(scraper: Any, pages: LeasedPages) -> None:
    enqueue, error = scraper.enqueue_scrape, scraper.handle_spider_error

    def enqueue_scrape(result: Response | Failure, request: Request, *more: Any) -> Any:
        pages.scraping(request, result)
        return enqueue(result, request, *more)

    def handle_spider_error(failure: Failure, request: Request, *more: Any, **named: Any) -> Any:
        pages.raised(request, failure)
        return error(failure, request, *more, **named)

    call = scraper.call_spider_async

    async def call_spider_async(result: Response | Failure, request: Request) -> Any:
        called: Any = call(result, request)
        if on_asyncio():
            pages.calling(request, asyncio.current_task())
        else:
            # Without tasks it is the Deferred that can be cancelled.
            called = Deferred.fromCoroutine(called)
            pages.calling(request, called)
        try:
            return await called
        except (asyncio.CancelledError, CancelledError):
            if pages.given_up(request):
                raise TimeoutError("worked on for longer than GOSSAMER_RENEW_MAX_SECONDS") from None
            raise

    scraper.enqueue_scrape, scraper.handle_spider_error = enqueue_scrape, handle_spider_error
    scraper.call_spider_async = call_spider_async
