"""The end of a worker in Scrapy: how long it may take."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextvars import ContextVar
from functools import partial
from typing import Any

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from gossamer.errors import WorkerFailed
from gossamer.model.plural import counted_were
from gossamer.scrapy.page import engine_hooks
from gossamer.scrapy.page.engine_hooks import is_closing
from gossamer.scrapy.page.pages import LeasedPages
from gossamer.scrapy.process.exit_code import fail
from gossamer.scrapy.process.reactor import Promise, later
from gossamer.settings import Settings
from gossamer.shutdown import CALLS_SHARE, PAGES_SHARE

logger = logging.getLogger(__name__)

LEAST = 0.1
"""Seconds that a call to the frontier has to be answered, however late it is."""

SELF = 25.0
"""Seconds that a stop waits for the close of a spider which may wait for that stop, where GOSSAMER_STOP_SECONDS is 0."""
POLL_SECONDS = 0.1
"""Seconds between two checks whether a spider is open."""
_closing: ContextVar[Any] = ContextVar("closing", default=None)
"""The engine of which this code is part of the close."""


class Opening:
    """Lets a stop of the crawler that comes while its spider is being opened wait until that is through, and close the spider then, before it
    does anything. Scrapy itself ignores such a stop, and a signal ends the process in the middle of the opening."""

    def __init__(self, crawler: Any, settings: Settings) -> None:
        self._crawler, self._engine = crawler, crawler.engine
        self._limit = settings["GOSSAMER_STOP_SECONDS"] or SELF
        self._woken: Promise | None = None
        on_coroutines = hasattr(crawler, "stop_async")
        original = crawler.stop_async if on_coroutines else crawler.stop

        async def stop() -> None:
            await self._wait()
            await (original() if on_coroutines else maybe_deferred_to_future(original()))

        if on_coroutines:
            crawler.stop_async = stop
        else:  # Scrapy 2.13
            crawler.stop = lambda: deferred_from_coro(stop())

    @property
    def stops(self) -> bool:
        """Whether the spider is to be closed as soon as it is open."""
        return self._woken is not None

    async def before(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """The spider's start; nothing of it comes where a stop has waited for the end of the opening: that one cancels it."""
        if self._woken is not None:
            later(0, self._woken.keep)
            await Promise()
        async for output in start:
            yield output

    async def _wait(self) -> None:
        waited = 0.0
        while self._is_opening() and waited < self._limit:
            self._woken = Promise()
            later(POLL_SECONDS, self._woken.keep)
            await self._woken
            waited += POLL_SECONDS
        if self._is_opening():
            logger.error("The spider was not opened in time (GOSSAMER_STOP_SECONDS): it is closed as it is.")
            await _closed(self._engine)

    def _is_opening(self) -> bool:
        engine = self._engine
        return self._crawler.crawling and not engine.running and engine.spider is not None and not is_closing(engine)


async def _closed(engine: Any) -> None:
    if hasattr(engine, "close_spider_async"):
        await engine.close_spider_async(reason="shutdown")
    else:
        await maybe_deferred_to_future(engine.close_spider(engine.spider, reason="shutdown"))


class Shutdown:
    """Looks after an engine that closes its spider: after a while the pages in progress are given back to the frontier, and the
    engine waits for them no longer. A signal that comes meanwhile does not cut the close off, as it does in Scrapy: feeds are
    written, and the frontier knows that they are."""

    def __init__(self, engine: Any, link: Any, pages: LeasedPages, settings: Settings) -> None:
        self._engine, self._link, self._pages = engine, link, pages
        self._limit: float = settings["GOSSAMER_STOP_SECONDS"]
        self._close: float = settings["GOSSAMER_CLOSE_SECONDS"]
        self._until = float("inf")
        self.over = False
        """Set when the engine has no page in progress any more."""
        self._waiting: list[Promise] = []
        """Those who have stopped an engine that closes its spider."""
        engine_hooks.on_close(engine, self._begin)
        engine_hooks.on_closed(engine, self._closed)
        engine_hooks.on_stop(engine, self._wait)

    def _begin(self) -> None:
        _closing.set(self._engine)
        if self._limit:
            self._until = self._link.now() + self._limit * CALLS_SHARE
            self._link.later(self._limit * PAGES_SHARE, self._give_back)

    async def _wait(self) -> None:
        """Until a close that has begun is through. A handler of `spider_closed` may wait for the stop itself, and a signal that interrupts
        one looks like that: neither is waited for without end."""
        if not is_closing(self._engine):
            return
        closed = Promise()
        self._waiting.append(closed)
        if _closing.get() is self._engine:
            later(self._limit or SELF, partial(closed.keep, False))
        if not await closed:
            why = (
                "The spider's close was not through in time (GOSSAMER_STOP_SECONDS), and is cut off. This worker fails."
            )
            logger.error("%s", why)
            fail(self._engine.crawler, self._engine, WorkerFailed(why))
            self._engine.crawler.spider = None

    def _closed(self) -> None:
        for closed in self._waiting:
            closed.keep(True)

    def _give_back(self) -> None:
        if self.over:
            return
        count = self._pages.give_back()
        if count:
            logger.warning(
                "%s not through in time (GOSSAMER_STOP_SECONDS): given back, and done by others.",
                counted_were(count, "page"),
            )
        else:
            logger.warning(
                "The spider's close takes long (GOSSAMER_STOP_SECONDS): its pages are done, but the project's pipelines or downloads are not. "
                "They are waited for; a second signal cuts them off.",
            )
        engine_hooks.abandon(self._engine)

    def patience(self) -> float:
        """Seconds that the end may still wait for the frontier."""
        return min(self._close, max(LEAST, self._until - float(self._link.now())))
