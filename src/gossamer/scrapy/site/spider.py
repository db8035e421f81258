"""`engine: scrapy`: the pages of a site fetched by Scrapy, through the project's middlewares, extensions and pipelines.

The site file is read, and its pages are asked for, judged, read and stored, by the same code as in the native engine. Scrapy
takes the place of its fetcher: each site has a crawler of its own, with a spider of the site's name that stays open as long as
the site is served.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from threading import Thread
from typing import Any

from itemadapter import ItemAdapter
from scrapy import Request, Spider, http, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, DropItem
from scrapy.utils.defer import maybe_deferred_to_future

from gossamer.errors import GossamerError, SiteError
from gossamer.model.fetch import FetchError
from gossamer.model.page import PageRequest, Response
from gossamer.scrapy.download.network import OF_SITE
from gossamer.scrapy.download.slots import UndelayedSlots
from gossamer.scrapy.item import plain
from gossamer.scrapy.site.failure import failure
from gossamer.scrapy.site.render import OF_THE_PROXY, rendered
from gossamer.scrapy.site.settings import settings_for
from gossamer.scrapy.site.wire import META
from gossamer.sites.downloader import ItemFailed, PageDropped

logger = logging.getLogger(__name__)

NO_LIMIT = 86400.0 * 365
PATIENCE = 30.0
"""Seconds that a spider may take to close."""
SITE, LAYER = "site", "layer"
"""Keys of a request's meta, for middlewares: which site and layer it belongs to."""

Key = tuple[str, bool | str, bool]


class SiteSpider(Spider):
    """Stands for a site in its crawler: `name` is the site's. It asks for nothing itself."""

    name = "site"

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self) -> AsyncIterator[Any]:
        # Here the engine has begun, and everything that waits for that (browsers) is there.
        if not self.ready.done():
            self.ready.set_result(None)
        return
        yield


class ScrapyDownloader:
    """The crawlers of a worker, each begun with the first page that is asked of it. Made inside a running event loop.
    `given` are settings as after `-s`; `concurrency` is the number of pages at a time."""

    def __init__(self, given: Mapping[str, Any], concurrency: int) -> None:
        _install_reactor()
        self._given, self._concurrency = dict(given), concurrency
        self._runs: dict[Key, asyncio.Task[_SiteCrawler]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._proven: set[tuple[bool | str, bool]] = set()

    async def begin(self, site: str, verify: bool | str, browser: bool) -> None:
        """Begin the first crawler of a kind, which shows whether the project can be used; SiteError says why it cannot."""
        if (verify, browser) not in self._proven:
            await self._run((site, verify, browser))
            self._proven.add((verify, browser))

    async def download(self, request: PageRequest) -> Response:
        """FetchError for what the network does, PageDropped for what the project wants nothing of; what else is raised is a
        mistake in the project's code."""
        options = request.options
        try:
            run = await self._run((request.site, options.verify, options.browser))
        except GossamerError as error:
            raise FetchError("scrapy", str(error)) from error
        try:
            return await run.download(request)
        except Exception as error:
            other = failure(error, options.timeout, options.max_size, bool(options.proxy))
            if other is error:
                raise
            raise other from error

    async def item(self, site: str, item: Mapping[str, Any]) -> dict[str, Any]:
        keys = [key for key in self._runs if key[0] == site]
        run = await self._run(keys[0] if keys else (site, True, False))
        return await run.item(dict(item))

    async def forget(self, site: str) -> None:
        for key in [key for key in self._runs if key[0] == site]:
            ending = asyncio.ensure_future(_ended(self._runs.pop(key)))
            done, _ = await asyncio.wait([ending], timeout=PATIENCE)
            if not done:
                logger.warning("The spider of the site %s does not end; it is left behind.", site)

    async def close(self) -> None:
        await asyncio.gather(*(self.forget(site) for site in {key[0] for key in self._runs}))
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=PATIENCE)

    async def _run(self, key: Key) -> _SiteCrawler:
        task = self._runs.get(key)
        if task is not None and task.done() and (task.cancelled() or task.exception() or task.result().over):
            leaving = asyncio.ensure_future(_ended(task))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            task = None
        if task is None:
            task = self._runs[key] = asyncio.ensure_future(self._begin(key))
        # Who gives up waiting does not spoil it for the others.
        return await asyncio.shield(task)

    async def _begin(self, key: Key) -> _SiteCrawler:
        site, verify, browser = key
        try:
            settings = await asyncio.to_thread(settings_for, self._given, verify, browser)
            run = _SiteCrawler(Crawler(SiteSpider, settings), site, self._concurrency)
            await run.begin()
        except GossamerError:
            raise
        except Exception as error:
            logger.exception("No spider of the site %s could be opened.", site)
            raise SiteError(
                f"Scrapy cannot fetch pages of the site {site} with the project here: {type(error).__name__}: {error}"
            ) from error
        return run


async def _ended(begun: asyncio.Task[_SiteCrawler]) -> None:
    with suppress(Exception):
        await (await begun).close()


class _SiteCrawler:
    """One crawler, from its beginning to its end."""

    def __init__(self, crawler: Crawler, site: str, concurrency: int) -> None:
        self._crawler, self._site, self._concurrency = crawler, site, concurrency
        self._crawl: asyncio.Future[Any] | None = None

    @property
    def over(self) -> bool:
        """Whether an extension has ended it, or is about to."""
        if self._crawl is None or self._crawl.done():
            return self._crawl is not None
        slot = getattr(self._crawler.engine, "_slot", None)
        return slot is None or bool(slot.closing)

    async def begin(self) -> None:
        crawler = self._crawler
        crawler.signals.connect(self._stay, signals.spider_idle)
        # The old form of it, which every supported Scrapy has.
        crawl = crawler.crawl(name=self._site)
        self._crawl = asyncio.ensure_future(maybe_deferred_to_future(crawl))
        ready = crawler.spider.ready if isinstance(crawler.spider, SiteSpider) else None
        await asyncio.wait([self._crawl, *([ready] if ready else [])], return_when=asyncio.FIRST_COMPLETED)
        if self._crawl.done():
            await self._crawl
            raise RuntimeError(
                f"The spider of the site {self._site} was closed as soon as it was opened; its log says why."
            )
        downloader: Any = crawler.engine.downloader
        downloader.per_slot_settings = UndelayedSlots(self._concurrency, {})

    def _stay(self) -> None:
        raise DontCloseSpider

    async def close(self) -> None:
        if self._crawl is not None:
            if not self._crawl.done():
                stop = getattr(self._crawler, "stop_async", None)
                await (stop() if stop is not None else maybe_deferred_to_future(self._crawler.stop()))
            with suppress(Exception):
                await self._crawl

    async def download(self, wanted: PageRequest) -> Response:
        wire: list[bytes] = []
        render = wanted.options.render
        request = Request(
            wanted.url,
            method=wanted.method,
            headers=[one for one in wanted.headers.items() if not (render and one[0].lower() == OF_THE_PROXY)],
            body=wanted.body,
            meta=_meta(wanted, wire),
            dont_filter=True,
        )
        engine: Any = self._crawler.engine
        fetch = getattr(engine, "download_async", None)
        response: http.Response = await (
            fetch(request) if fetch else maybe_deferred_to_future(engine.download(request))
        )
        lines = _header_lines(response)
        headers: dict[str, str] = {}
        for name, value in lines:
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        cookies = tuple(value for name, value in lines if name.lower() == "set-cookie")
        made = Response(response.url, response.status, headers, response.body, cookies=cookies)
        if not wanted.options.raw:
            return made
        sent, raw = wire or (b"", _written(response, lines))
        return made._replace(sent=sent, raw=raw)

    async def item(self, item: dict[str, Any]) -> dict[str, Any]:
        """Through the project's pipelines; extensions hear of it as of any spider's items."""
        crawler, spider = self._crawler, self._crawler.spider
        pipelines: Any = crawler.engine.scraper.itemproc
        process = getattr(pipelines, "process_item_async", None)
        try:
            made = await (process(item) if process else maybe_deferred_to_future(pipelines.process_item(item, spider)))
        except DropItem as error:
            await self._tell(signals.item_dropped, item=item, exception=error)
            raise PageDropped(str(error)) from error
        except Exception as error:
            await self._tell(signals.item_error, item=item, failure=None)
            raise ItemFailed("".join(traceback.format_exception(error))) from error
        await self._tell(signals.item_scraped, item=made)
        found: Any = plain(made)
        if not ItemAdapter.is_item(made) or not isinstance(found, dict):
            raise ItemFailed(f"A pipeline of {self._site} returned {type(made).__name__}; it must return an item.")
        return found

    async def _tell(self, signal: Any, **named: Any) -> None:
        named |= {"response": None, "spider": self._crawler.spider}
        manager: Any = self._crawler.signals
        if hasattr(manager, "send_catch_log_async"):
            await manager.send_catch_log_async(signal, **named)
        else:
            await maybe_deferred_to_future(manager.send_catch_log_deferred(signal, **named))


def _meta(wanted: PageRequest, wire: list[bytes]) -> dict[str, Any]:
    options = wanted.options
    meta: dict[str, Any] = {
        SITE: wanted.site,
        LAYER: options.fetched_by_scrapy,
        "download_timeout": options.timeout or NO_LIMIT,
        "download_maxsize": options.max_size,
        # The engine judges statuses, and knows the URL as it is to be sent.
        "handle_httpstatus_all": True,
        "verbatim_url": True,
        OF_SITE: options.guard,
    }
    if options.proxy:
        meta["proxy"] = options.proxy
    if options.raw:
        meta[META] = wire
    if options.render:
        meta.update(rendered(wanted))
    return meta


def _header_lines(response: http.Response) -> list[tuple[str, str]]:
    found = []
    for name in response.headers:
        for value in response.headers.getlist(name):
            # Browsers give cookies together, a line each.
            lines = value.split(b"\n") if name.lower() == b"set-cookie" else [value]
            found += [(name.decode("latin-1"), line.decode("utf-8", "replace")) for line in lines]
    return found


def _written(response: http.Response, lines: list[tuple[str, str]]) -> bytes:
    """A response whose way over the wire is not known, as if it were."""
    phrase = next((one.phrase for one in HTTPStatus if one == response.status), "")
    head = [f"HTTP/1.1 {response.status} {phrase}", *(f"{name}: {value}" for name, value in lines), "", ""]
    return "\r\n".join(head).encode() + response.body


def _install_reactor() -> None:
    """Twisted on the loop that runs already."""
    if "twisted.internet.reactor" not in sys.modules:
        from twisted.internet import asyncioreactor

        asyncioreactor.install(asyncio.get_running_loop())  # type: ignore[no-untyped-call]
        _reactor().startRunning(installSignalHandlers=False)
        # Nobody stops this reactor, whose loop is another's: a thread that looks a name up must not keep the process.
        _reactor().getThreadPool().threadFactory = partial(Thread, daemon=True)


def _reactor() -> Any:
    from twisted.internet import reactor

    return reactor
