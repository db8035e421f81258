"""One spider that goes through every order in which a page can end. Each path of the site is one of them; every item and every
child says which page it comes from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.http import HtmlResponse, Response
from scrapy.utils.defer import maybe_deferred_to_future
from tests.support.workers.recorder import path_of
from twisted.internet.defer import Deferred

BEACON = "/beacon"
SLOW = ("async-pipeline", "deferred-pipeline", "several-2")
"""Items that stay in the pipelines until the beacon's page is settled, which is not before all of them are there."""


class Pipeline:
    """What an item's field `do` says."""

    def __init__(self, crawler: Any) -> None:
        self.recorder = crawler.recorder

    @classmethod
    def from_crawler(cls, crawler: Any) -> Pipeline:
        return cls(crawler)

    def process_item(self, item: Any, spider: Any = None) -> Any:
        if item.get("do") == "drop":
            raise DropItem("on purpose")
        if item.get("do") == "raise":
            raise ValueError("the pipeline fails on purpose")
        if item.get("do") == "deferred":
            self.recorder.note("mark", f"in {item['id']}")
            deferred = self.recorder.happened(("answered", BEACON))
            return deferred.addCallback(lambda _: item)
        return item


class AsyncPipeline(Pipeline):
    async def process_item(self, item: Any, spider: Any = None) -> Any:
        if item.get("do") == "async":
            self.recorder.note("mark", f"in {item['id']}")
            await self.recorder.wait(("answered", BEACON))
        return item


class Middleware:
    """A downloader middleware that answers, replaces or refuses requests by their path."""

    def process_request(self, request: Request, spider: Any = None) -> Any:
        path = path_of(request)
        if path == "/ignored":
            raise IgnoreRequest("on purpose")
        if path == "/made":
            return HtmlResponse(request.url, body=b"<html></html>", request=request)
        if path == "/unstorable":
            request.cb_kwargs["browser"] = object()
        if path == "/retried":
            request.meta["browser"] = object()  # the next try gets another
        if path == "/replaced":
            return request.replace(url=request.url + "/by-another")
        return None

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Any:
        if path_of(request) == "/again" and not request.meta.get("second"):
            request.meta["second"] = True
            request.dont_filter = True
            return request
        if path_of(request) == "/after":
            return Request(request.url + "/then", callback=request.callback, meta={"from": "/after"})
        if path_of(request) == "/after-ignored":
            raise IgnoreRequest("too late for it")
        return response


class SpiderMiddleware:
    def process_spider_input(self, response: Response, spider: Any = None) -> None:
        if response.url.endswith("/input-raises"):
            raise RuntimeError("the spider middleware fails on purpose")

    def process_spider_exception(self, response: Response, exception: Exception, spider: Any = None) -> Any:
        if response.url.endswith("/rescued"):
            return [{"id": "rescued-2", "page": "/rescued"}]
        return None


class Orderings(Spider):
    name = "orderings"
    site = ""
    only = ""
    start_paths = (
        "/plain", "/async-pipeline", "/deferred-pipeline", "/several", "/redirect", "/retried", "/gives-up", "/broken",
        "/errback", "/errback-http", "/raises", "/drops", "/item-fails", "/inline", "/inline-self", "/asyncgen", "/missing",
        "/twice", "/ignored", "/made", "/replaced", "/again", "/after", "/after-ignored", "/coroutine", "/list", "/nothing",
        "/errback-raises", "/input-raises", "/rescued", "/asyncgen-raises", "/unscheduled", "/files", "/unstorable", BEACON,
    )  # fmt: skip
    custom_settings = {  # noqa: RUF012
        "ITEM_PIPELINES": {Pipeline: 1, AsyncPipeline: 2, "scrapy.pipelines.files.FilesPipeline": 3},
        "DOWNLOADER_MIDDLEWARES": {Middleware: 100},
        "SPIDER_MIDDLEWARES": {SpiderMiddleware: 100},
    }

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Orderings:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.unschedule, signals.request_scheduled)
        return spider

    def unschedule(self, request: Request) -> None:
        if request.url.endswith("/refused"):
            raise IgnoreRequest("not to be scheduled")

    async def start(self) -> AsyncIterator[Any]:
        for path in self.only.split(",") if self.only else self.start_paths:
            method = getattr(self, "on_" + path.strip("/").replace("-", "_"), self.parse)
            errback = self.rescue if path.startswith(("/errback", "/broken-but")) else None
            meta = {"dont_retry": True} if path.startswith("/errback") else {}
            yield Request(self.site + path, method, errback=errback, meta=meta, dont_filter=True)

    def child(self, page: str, name: str, **more: Any) -> Request:
        return Request(f"{self.site}{page}/{name}", meta={"from": page}, **more)

    def item(self, page: str, number: int, **more: Any) -> dict[str, Any]:
        return {"id": f"{page.strip('/')}-{number}", "page": page, **more}

    def parse(self, response: Response) -> Iterator[Any]:
        """A child, an item, another child. Children yield nothing."""
        assert response.request is not None
        page = path_of(response.request)
        if page.count("/") == 1:
            yield self.child(page, "a")
            yield self.item(page, 1)
            yield self.child(page, "b")

    def on_async_pipeline(self, response: Response) -> Iterator[Any]:
        yield {"id": "async-pipeline", "page": "/async-pipeline", "do": "async"}
        yield self.child("/async-pipeline", "a")

    def on_deferred_pipeline(self, response: Response) -> Iterator[Any]:
        yield {"id": "deferred-pipeline", "page": "/deferred-pipeline", "do": "deferred"}
        yield self.child("/deferred-pipeline", "a")

    def on_several(self, response: Response) -> Iterator[Any]:
        yield self.item("/several", 1)
        yield self.item("/several", 2, do="async")
        yield self.child("/several", "a")
        yield self.item("/several", 3)

    async def on_beacon(self, response: Response) -> None:
        await self.crawler.recorder.wait(*(("mark", f"in {name}") for name in SLOW))  # type: ignore[attr-defined]

    def rescue(self, failure: Any) -> Iterator[Any]:
        page = path_of(failure.request)
        if page == "/errback-raises":
            raise ValueError("the errback fails on purpose")
        yield self.item(page, 1)
        yield self.child(page, "a")

    def on_raises(self, response: Response) -> Iterator[Any]:
        yield self.child("/raises", "a")
        yield self.item("/raises", 1)
        raise ValueError("the callback fails on purpose")

    async def on_asyncgen_raises(self, response: Response) -> AsyncIterator[Any]:
        yield self.child("/asyncgen-raises", "a")
        yield self.item("/asyncgen-raises", 1)
        raise ValueError("the async callback fails on purpose")

    def on_rescued(self, response: Response) -> Iterator[Any]:
        yield self.item("/rescued", 1)
        raise ValueError("a middleware makes something of it")

    def on_drops(self, response: Response) -> Iterator[Any]:
        yield self.item("/drops", 1, do="drop")
        yield self.item("/drops", 2)

    def on_item_fails(self, response: Response) -> Iterator[Any]:
        yield self.item("/item-fails", 1)
        yield self.item("/item-fails", 2, do="raise")
        yield self.child("/item-fails", "a")

    async def _download(self, request: Request) -> Any:
        engine: Any = self.crawler.engine
        if hasattr(engine, "download_async"):
            return await engine.download_async(request)
        return await maybe_deferred_to_future(engine.download(request))

    async def on_inline(self, response: Response) -> list[Any]:
        inner = await self._download(Request(f"{self.site}/inline/inner"))
        again = Request(f"{self.site}/inline/b", meta={**inner.meta, "from": "/inline"})
        return [self.child("/inline", "a"), again, self.item("/inline", 1, inner=inner.status)]

    async def on_inline_self(self, response: Response) -> AsyncIterator[Any]:
        yield self.item("/inline-self", 1)
        await self._download(response.request)  # type: ignore[arg-type]
        yield self.child("/inline-self", "a")
        yield self.item("/inline-self", 2)

    def on_files(self, response: Response) -> Iterator[Any]:
        yield self.item("/files", 1, file_urls=[f"{self.site}/files/one", f"{self.site}/files/gone"], files=[])
        yield self.child("/files", "a")

    async def on_asyncgen(self, response: Response) -> AsyncIterator[Any]:
        yield self.child("/asyncgen", "a")
        await maybe_deferred_to_future(_soon())
        yield self.item("/asyncgen", 1)
        yield self.child("/asyncgen", "b")

    async def on_coroutine(self, response: Response) -> dict[str, Any]:
        await maybe_deferred_to_future(_soon())
        return self.item("/coroutine", 1)

    def on_list(self, response: Response) -> list[Any]:
        return [self.item("/list", 1), self.child("/list", "a"), None]

    def on_nothing(self, response: Response) -> None:
        return None

    def on_twice(self, response: Response) -> Iterator[Any]:
        yield self.child("/twice", "a")
        yield self.child("/twice", "a")
        yield self.child("/twice", "b", dont_filter=True)
        yield self.child("/twice", "b", dont_filter=True)

    def on_unscheduled(self, response: Response) -> Iterator[Any]:
        # Many, so that the memory of those refused is used again for those that are not.
        for number in range(30):
            yield self.child("/unscheduled", f"{number}/refused")
            yield self.child("/unscheduled", f"{number}/taken", dont_filter=True)
        yield self.item("/unscheduled", 1)


def _soon() -> Deferred[None]:
    deferred: Deferred[None] = Deferred()
    deferred.callback(None)
    return deferred
