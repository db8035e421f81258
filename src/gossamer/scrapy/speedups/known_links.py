"""Links that are known to be known are let go where they are found.

Most links of a page were seen before. Scrapy carries each through all spider middlewares, a signal and its receivers, only to
have it refused. Here it is refused at once, if nothing on that way could have made anything else of it: only Scrapy's
own middlewares, no limit of depth to be counted, and no receiver. What is counted and logged is the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from scrapy import Request, signals
from scrapy.http import Response

from gossamer.scrapy.speedups.signals import has_receivers

BUILT_IN = "scrapy.spidermiddlewares."
LISTENERS = "scrapy.downloadermiddlewares.offsite"
"""Listens for every request, and does nothing for one that it let pass before."""


def possible(crawler: Any) -> bool:
    """Whether a known request surely comes to nothing in this project."""
    settings, engine = crawler.settings, crawler.engine
    middlewares = engine.scraper.spidermw.middlewares
    return (
        not settings.getint("DEPTH_LIMIT")
        and not settings.getbool("DEPTH_STATS_VERBOSE")
        and all(type(middleware).__module__.startswith(BUILT_IN) for middleware in middlewares)
        and hasattr(engine.scraper, "call_spider_async")
        and not _others_listen(crawler)
    )


def _others_listen(crawler: Any) -> bool:
    from pydispatch.dispatcher import getAllReceivers, liveReceivers

    for signal in (signals.request_scheduled, signals.request_dropped):
        for receiver in liveReceivers(getAllReceivers(crawler, signal)):
            if type(getattr(receiver, "__self__", None)).__module__ != LISTENERS:
                return True
    return False


def attach(crawler: Any, known: Callable[[Request, Response], bool]) -> None:
    """From now on callbacks' requests are looked at where they are yielded. `known` says whether a request to which a response
    led would be refused as a duplicate, and counts it as one."""
    scraper, stats = crawler.engine.scraper, crawler.stats
    original = scraper.call_spider_async
    counts_depth = any(type(mw).__name__ == "DepthMiddleware" for mw in scraper.spidermw.middlewares)

    def new(output: Any, response: Response) -> bool:
        if not isinstance(output, Request) or output.dont_filter or "depth_reset" in output.meta:
            return True
        return not known(output, response)

    def depth_of(response: Response) -> None:
        if counts_depth:
            stats.max_value("request_depth_max", response.meta.get("depth", 0) + 1)

    def fresh(outputs: Iterable[Any], response: Response) -> Iterator[Any]:
        dropped = False
        for output in outputs:
            if new(output, response):
                yield output
            elif not dropped:
                dropped = True
                depth_of(response)

    async def fresh_async(outputs: AsyncIterator[Any], response: Response) -> AsyncIterator[Any]:
        dropped = False
        async for output in outputs:
            if new(output, response):
                yield output
            elif not dropped:
                dropped = True
                depth_of(response)

    async def call_spider_async(result: Any, request: Request) -> Any:
        output = await original(result, request)
        # A receiver may have been connected since.
        if not isinstance(result, Response) or has_receivers(crawler, signals.request_dropped):
            return output
        if isinstance(output, AsyncIterator):
            return fresh_async(output, result)
        return fresh(output, result)

    scraper.call_spider_async = call_spider_async
