"""What callbacks yield, on its way to the scheduler and the pipelines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from gossamer.scrapy.process.reactor import on_asyncio

if TYPE_CHECKING:
    from gossamer.scrapy.page.pages import LeasedPages

PAUSE_EVERY, PAUSE_SECONDS = 100, 0.01
"""After this many requests of one callback, or seconds, other work gets its turn."""


class CallbackOutput:
    """What callbacks yield. Requests go to the engine at once, in the order they are yielded; items go the way that Scrapy
    sends them, at most CONCURRENT_ITEMS at a time.

    Scrapy starts CONCURRENT_ITEMS tasks for every response, whatever it yields: most pages yield many requests and one item
    or none, which need none. Here each item that has company gets a task. Without asyncio, Scrapy's own way is kept.
    """

    def __init__(self, engine: Any, scraper: Any, pages: LeasedPages, lean: bool) -> None:
        self._engine, self._scraper, self._pages = engine, scraper, pages
        self._original = scraper.handle_spider_output_async
        # Scrapy 2.13 has only the form that makes a Deferred.
        self._process = getattr(scraper, "_process_spidermw_output_async", None) if lean else None

    async def handle(self, result: Any, request: Request, response: Response | Failure) -> None:
        self._pages.handling(request, response)
        is_async = isinstance(result, AsyncIterator)
        if self._process is None or not on_asyncio():
            # Kept until all is done: another request at the same place in memory must not be taken for one of these.
            children: list[Request] = []
            mark = self._marked_async if is_async else self._marked
            await self._original(mark(result, request, children), request, response)
            for child in children:
                self._pages.yielded(child)
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
            if not self._pages.given_up(request):
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
                # Its next step may take as long again: without a pause, nothing else would run before its last.
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
        self._pages.yields(request, child)
        self._engine.crawl(child)
        self._pages.yielded(child)

    def _marked(self, result: Iterable[Any], request: Request, children: list[Request]) -> Iterator[Any]:
        for output in result:
            if isinstance(output, Request):
                children.append(output)
                self._pages.yields(request, output)
            yield output

    async def _marked_async(
        self, result: AsyncIterator[Any], request: Request, children: list[Request]
    ) -> AsyncIterator[Any]:
        async for output in result:
            if isinstance(output, Request):
                children.append(output)
                self._pages.yields(request, output)
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
