"""The delay that a robots.txt asks for counts for the whole fleet, if GOSSAMER_ROBOTS_CRAWL_DELAY says so. Scrapy reads the
file and leaves the delay aside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scrapy import Request
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware

from gossamer.model import host_of
from gossamer.model.politeness import crawl_delay

Told = dict[str, float]
"""The delays that were reported, by host."""


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
