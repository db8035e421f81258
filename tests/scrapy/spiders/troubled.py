"""Spiders that do what they should not."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.statscollectors import MemoryStatsCollector
from tests.support.workers.recorder import path_of

PAGES = 12


def without_inprogress() -> None:
    """An engine whose requests in progress are not a set any more."""
    from scrapy.core import engine

    for name in ("_Slot", "Slot"):
        if hasattr(engine, name):
            slot = getattr(engine, name)
            original = slot.__init__

            def init(self: Any, *args: Any, _original: Any = original, **named: Any) -> None:
                _original(self, *args, **named)
                self.inprogress = []

            slot.__init__ = init


def newer_store() -> None:
    """This worker finds a store that a newer version has written: its own is older."""
    from gossamer.frontier.server import library

    library.SCHEMA -= 1


class Base(Spider):
    site = ""

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.site + "/start", dont_filter=True)

    def parse_leaf(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield {"id": path_of(response.request)}


class Unserialisable(Base):
    """Yields what no other worker could use, among what it could."""

    name = "unserialisable"
    verbatim = ""

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.site + "/seed", cb_kwargs={"bad": Other()})
        yield Request(self.site + "/start", dont_filter=True)

    def parse(self, response: Response) -> Iterator[Any]:
        url, leaf = response.url, self.parse_leaf
        loop: dict[str, Any] = {}
        loop["again"] = loop
        deep: list[Any] = []
        for _ in range(sys.getrecursionlimit() * 2):
            deep = [deep]
        yield Request(url + "/1", leaf)
        yield Request(url + "/2", leaf, meta={"bad": sys.stdout})
        anonymous: Any = lambda response: None  # noqa: E731
        foreign: Any = Other().parse_leaf
        yield Request(url + "/bad", anonymous)
        yield Request(url + "/bad", leaf, errback=foreign)
        yield Request(url + "/bad", leaf, meta={"deep": {"er": [0, sys.stdout]}})
        yield Request(url + "/bad", leaf, cb_kwargs={"of": {"thing": Other()}})
        yield Request(url + "/bad", leaf, meta={"loop": loop})
        yield Request(url + "/bad", leaf, meta={"deep": deep})
        yield Request(url + "/bad", leaf, meta={"big": "x" * 2_000_000})
        if self.verbatim:
            yield Request("http://host.example:99999/bad", leaf, meta={"verbatim_url": True})
        yield Request("http://" + "a" * 300 + "/bad", leaf)
        yield {"id": "plain"}
        yield {"id": "bad", "file": sys.stdout}
        yield {"id": "bad", "loop": loop}
        yield Request(url + "/2", leaf)


class Other(Base):
    name = "other"

    def parse(self, response: Response) -> Iterator[Any]:
        yield from self.parse_leaf(response)


class Same(Other):
    """Another class of the same name."""


class Endless(Base):
    """One callback that never comes to an end, beside others that do."""

    name = "endless"

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request(self.site + "/endless", self.parse_endless)
        for number in range(5):
            yield Request(f"{self.site}/{number}", self.parse_leaf)

    async def parse_endless(self, response: Response) -> None:
        self.crawler.recorder.note("mark", "endless")  # type: ignore[attr-defined]
        await self.crawler.recorder.wait(("mark", "never"))  # type: ignore[attr-defined]


class Batches:
    """A pipeline that keeps items until it has many, and then lets all go."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> Batches:
        pipeline = cls()
        pipeline.recorder = crawler.recorder  # type: ignore[attr-defined]
        return pipeline

    async def process_item(self, item: Any, spider: Any = None) -> Any:
        recorder: Any = self.recorder  # type: ignore[attr-defined]
        recorder.note("mark", f"in {item['id']}")
        await recorder.wait(*(("mark", f"in /{number}") for number in range(PAGES)))
        return item


class Batching(Base):
    name = "batching"
    custom_settings = {"ITEM_PIPELINES": {Batches: 1}, "CONCURRENT_REQUESTS": 2}  # noqa: RUF012

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(PAGES):
            yield Request(f"{self.site}/{number}", self.parse_leaf)


class Collector(MemoryStatsCollector):
    """A project's own collector, which adds in a way of its own."""

    def inc_value(self, key: str, count: int = 1, start: int = 0, spider: Any = None) -> None:
        self.set_value(key, self.get_value(key, start) + count)

    def get_value(self, key: str, default: Any = None, spider: Any = None) -> Any:
        return self._stats.get(key, default)


class Counting(Base):
    """Counts all kinds of things for every page."""

    name = "counting"

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(PAGES):
            yield Request(f"{self.site}/{number}", self.parse_page)

    def parse_page(self, response: Response) -> Iterator[Any]:
        number = int(response.url.rpartition("/")[2])
        stats: Any = self.crawler.stats
        stats.inc_value("own/pages")
        stats.inc_value("own/sum", number)
        stats.inc_value("own/part", 0.5)
        stats.inc_value("own/ünïcode")
        stats.inc_value("own/decimal", Decimal("1.5"))
        stats.inc_value("own/huge", 2**70)
        stats.inc_value("own/flag", True)
        stats.max_value("own/largest", number)
        stats.min_value("own/smallest", number)
        stats.set_value("own/text", "not a number")
        stats.inc_value("own/nothing", float("nan"))
        stats.inc_value("own/infinite", float("inf"))
        stats.inc_value("own/\udcff")
        stats.inc_value(("own", "pair"))
        yield {"id": str(number)}
