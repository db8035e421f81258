"""What a robots.txt says. All requests that waited for it get the answer, where Scrapy gives it to the first alone. The delay that it asks for, which Scrapy
leaves aside, counts for the whole fleet, if GOSSAMER_ROBOTS_CRAWL_DELAY says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scrapy import Request
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

from gossamer.model import host_of
from gossamer.model.politeness import crawl_delay

Told = dict[str, float]
"""The delays that were reported, by host."""


def tell_all(downloader: Any) -> None:
    """Judge every request by the robots.txt that it waited for. From Scrapy 2.14 on, only the first of those that wait for the file gets it:
    the others are fetched as if there were none."""
    for middleware in downloader.middleware.middlewares:
        if isinstance(middleware, RobotsTxtMiddleware):
            _look_again(middleware)


def _look_again(middleware: Any) -> None:
    original = middleware.process_request_2

    def process_request_2(parser: Any, request: Request, *more: Any) -> Any:
        if parser is None:
            # None, too, if the file could not be fetched.
            found = middleware._parsers.get(urlparse_cached(request).netloc)
            parser = None if isinstance(found, Deferred) else found
        return original(parser, request, *more)

    middleware.process_request_2 = process_request_2


def listen(downloader: Any, asked: Callable[[str, float], None]) -> Told:
    """Call `asked(host, seconds)` once for each host whose robots.txt was read; 0: it names no crawl delay for us. Returns what was
    reported: what is removed from it is reported again with the next request for that host."""
    told: Told = {}
    for middleware in downloader.middleware.middlewares:
        if isinstance(middleware, RobotsTxtMiddleware):
            _wrap(middleware, asked, told)
    return told


def _wrap(middleware: Any, asked: Callable[[str, float], None], told: Told) -> None:
    original = middleware.process_request_2

    def process_request_2(parser: Any, request: Request, *more: Any) -> Any:
        host = host_of(request.url)
        if parser is not None and host not in told:
            agent = middleware._robotstxt_useragent or request.headers.get(b"User-Agent", middleware._default_useragent)
            name = agent.decode("latin-1") if isinstance(agent, bytes) else str(agent)
            # Scrapy's parsers can be asked from 2.19; before, the one inside.
            rules = parser if hasattr(parser, "crawl_delay") else getattr(parser, "rp", None)
            told[host] = crawl_delay(rules, name)
            asked(host, told[host])
        return original(parser, request, *more)

    middleware.process_request_2 = process_request_2
