"""Spiders whose `start()` is long, fails, is interrupted, or yields items."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider, DropItem, IgnoreRequest
from scrapy.http import Response
from tests.support.workers.recorder import path_of

COUNT = 10


def renewals() -> None:
    """Let the recorder see how often the start lease was renewed."""
    from gossamer.scrapy.process.start import SpiderStart

    renew, times = SpiderStart.renew, iter(range(1, 1000))

    async def noted(self: Any) -> None:
        await renew(self)
        self._scheduler.crawler.recorder.note("mark", f"renewed {next(times)}")

    SpiderStart.renew = noted  # type: ignore[method-assign]


class Base(Spider):
    site = ""

    @property
    def recorder(self) -> Any:
        return self.crawler.recorder  # type: ignore[attr-defined]

    def page(self, path: str, **more: Any) -> Request:
        return Request(self.site + path, dont_filter=True, **more)

    def parse(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield {"id": path_of(response.request)}


class Starts(Base):
    """Ten unfiltered requests. `stop` says after how many it waits for an event that may never come; `then` which one."""

    name = "starts"
    stop = ""
    then = "never"
    items = ""

    async def start(self) -> AsyncIterator[Any]:
        for number in range(COUNT):
            if str(number) == self.stop:
                self.recorder.note("mark", "waiting")
                await self.recorder.wait(("mark", self.then))
            if self.items:
                yield {"id": f"item-{number}"}
            yield self.page(f"/{number}")
        self.recorder.note("mark", "started")


class Other(Starts):
    name = "other"


class Broken(Base):
    """Fails in the middle."""

    name = "broken"

    async def start(self) -> AsyncIterator[Any]:
        yield self.page("/before")
        yield {"id": "item-before"}
        raise ValueError("start() fails on purpose")
        yield self.page("/after")


class Closing(Base):
    """Ends its worker from within."""

    name = "closing"
    ends = "yes"

    async def start(self) -> AsyncIterator[Any]:
        yield self.page("/before")
        if self.ends == "yes":
            raise CloseSpider("enough")
        yield self.page("/after")


class Pipeline:
    @classmethod
    def from_crawler(cls, crawler: Any) -> Pipeline:
        pipeline = cls()
        pipeline.recorder = crawler.recorder  # type: ignore[attr-defined]
        return pipeline

    async def process_item(self, item: Any, spider: Any = None) -> Any:
        if item["id"] == "item-slow":
            await self.recorder.wait(("mark", "all yielded"))  # type: ignore[attr-defined]
        if item["id"] == "item-dropped":
            raise DropItem("on purpose")
        if item["id"] == "item-raises":
            raise ValueError("on purpose")
        return {**item, "through": True}


class OnlyItems(Base):
    """Never asks a site for anything."""

    name = "onlyitems"
    custom_settings = {"ITEM_PIPELINES": {Pipeline: 1}}  # noqa: RUF012

    async def start(self) -> AsyncIterator[Any]:
        for which in ("slow", "dropped", "raises", "quick", "quick"):
            yield {"id": f"item-{which}"}
        self.recorder.note("mark", "all yielded")


class Refusing(Base):
    """Requests are refused on their way to the scheduler before further ones come, at the same places in memory."""

    name = "refusing"

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Refusing:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.unschedule, signals.request_scheduled)
        return spider

    def unschedule(self, request: Request) -> None:
        if request.url.endswith("/refused"):
            raise IgnoreRequest("not to be scheduled")

    async def start(self) -> AsyncIterator[Any]:
        yield self.page("/first", callback=self.parse_first)
        await self.recorder.wait(("answered", "/first"))
        for number in range(100):
            yield self.page(f"/{number}")

    def parse_first(self, response: Response) -> Iterator[Any]:
        for number in range(100):
            yield self.page(f"/{number}/refused")


class Idle(Base):
    """Has one more idea whenever it is idle, three times; then it closes itself."""

    name = "idle"
    ideas = 0

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Idle:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.on_idle, signals.spider_idle)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        yield self.page("/0")

    def on_idle(self) -> None:
        engine: Any = self.crawler.engine
        if self.ideas < 3:
            self.ideas += 1
            engine.crawl(self.page(f"/{self.ideas}"))
            for tenths in range(1, 5):
                asyncio.get_running_loop().call_later(tenths / 10, self.look, engine)
        else:
            left = len(engine._slot.scheduler)
            raise CloseSpider(f"no more ideas, {left} left")

    def look(self, engine: Any) -> None:
        """Let the engine see whether there is something to do, while there is not yet."""
        if engine._slot is not None:
            engine._slot.nextcall.schedule()
