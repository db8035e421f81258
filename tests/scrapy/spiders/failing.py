"""Spiders whose pages fail, with and without somebody who deals with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from tests.support.workers.recorder import path_of


class Failing(Spider):
    """`/flaky` fails on its first attempt, `/always` on each."""

    name = "failing"
    site = ""

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.site + "/flaky", self.parse_flaky)
        yield Request(self.site + "/always", self.parse_always)
        yield Request(self.site + "/gone", self.parse_child)
        yield Request(self.site + "/rescued", self.parse_child, errback=self.rescue)
        yield Request(self.site + "/rescued-503", self.parse_child, errback=self.rescue)

    def parse_flaky(self, response: Response) -> Iterator[Any]:
        yield {"id": "flaky"}
        yield Request(self.site + "/flaky/child", self.parse_child)
        if "first" in response.text:
            raise ValueError("the first time it fails")

    def parse_always(self, response: Response) -> Iterator[Any]:
        yield {"id": "always"}
        raise ValueError("it always fails")

    def parse_child(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield {"id": path_of(response.request)}

    def rescue(self, failure: Any) -> None:
        self.crawler.recorder.note("mark", f"rescued {path_of(failure.request)}")  # type: ignore[attr-defined]


class Ruled(CrawlSpider):
    """One rule with an errback, one without."""

    name = "ruled"
    site = ""
    rules = (
        Rule(LinkExtractor(allow="/with/"), callback="parse_page", errback="rescue"),
        Rule(LinkExtractor(allow="/without/"), callback="parse_page"),
    )

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.site + "/links")

    def parse_page(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield {"id": path_of(response.request)}

    def rescue(self, failure: Any) -> None:
        self.crawler.recorder.note("mark", f"rescued {path_of(failure.request)}")  # type: ignore[attr-defined]


class Large(Spider):
    """One page with more children and items than a call of the frontier holds."""

    name = "large"
    site = ""
    lanes = ("later",)
    children, items = 6_000, 3_000

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.site + "/large")

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(self.children):
            yield Request(f"{self.site}/{number}", meta={"lane": "later"}, dont_filter=number % 2 == 0)
        for number in range(self.items):
            yield {"id": str(number)}
