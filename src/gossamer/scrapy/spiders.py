"""Spiders that are fed by tasks: what outside producers push to a key, in any language, while the crawl runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from scrapy import Request, Spider
from scrapy.spiders import CrawlSpider, SitemapSpider

from gossamer.scrapy.request.task import request_of


class TaskSpiderMixin:
    """Mixed into a spider class.

    `tasks` are the keys that producers push to (lists, sets or sorted sets; `%(name)s` is the spider's name). `mode` says
    when its workers end: `drained` (when the whole group has nothing left) or `forever`; GOSSAMER_MODE overrides it.
    """

    tasks: str | tuple[str, ...] = ("%(name)s:start_urls",)
    mode = "drained"

    def make_requests(self, data: bytes) -> Request | Iterable[Request] | None:
        """The requests of one task. Override it for tasks of another form; what it raises becomes a dead letter."""
        assert isinstance(self, Spider)
        return request_of(self, data)


class FleetSpider(TaskSpiderMixin, Spider):
    """A spider fed by tasks; `start_urls` and `start()` work too, once per round."""


class FleetCrawlSpider(TaskSpiderMixin, CrawlSpider):
    """A CrawlSpider fed by tasks: its rules apply to what the tasks bring."""

    def make_requests(self, data: bytes) -> Request | Iterable[Request] | None:
        # As Scrapy does for start_urls of a CrawlSpider.
        return _called_back(request_of(self, data), self._parse)


class FleetSitemapSpider(TaskSpiderMixin, SitemapSpider):
    """A SitemapSpider fed by tasks: each names a sitemap, a sitemap index or a robots.txt."""

    def make_requests(self, data: bytes) -> Request | Iterable[Request] | None:
        return _called_back(request_of(self, data), self._parse_sitemap)

    async def start(self) -> AsyncIterator[Any]:
        for url in self.sitemap_urls:
            yield Request(url, self._parse_sitemap)


def _called_back(request: Request, callback: Callable[..., Any]) -> Request:
    """The request, with this callback unless it names one."""
    return request if request.callback is not None else request.replace(callback=callback)
