"""Pages of sites with `engine: scrapy`, fetched by Scrapy; all others by another fetcher. Both share their sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from time import perf_counter
from typing import Any

from gossamer.engine.http import encoding
from gossamer.engine.http.deadline import STUCK
from gossamer.engine.http.fetcher import Fetcher
from gossamer.engine.http.response import cut
from gossamer.engine.http.sessions import Outgoing
from gossamer.model.fetch import PROTOCOL, FetchError, FetchOptions
from gossamer.model.page import PageRequest, Record, Response
from gossamer.sites.downloader import Downloader, PageDropped

ROOM = 32 * 2**20
"""Bytes to take of a body that is to be cut: Scrapy can only reject a body, not cut it."""


class ScrapyFetcher:
    """`open_downloader` returns the downloader; it is called for the first page, since Scrapy takes long to load."""

    def __init__(self, open_downloader: Callable[[], Downloader], others: Fetcher) -> None:
        self._others, self._open_downloader = others, open_downloader
        self.sessions = others.sessions
        self._downloader: Downloader | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def downloader(self) -> Downloader:
        if self._downloader is None:
            self._downloader = self._open_downloader()
        return self._downloader

    async def begin(self, name: str, all_options: Iterable[FetchOptions]) -> None:
        """Make sure that pages with such options can be fetched at all; SiteError says why they cannot."""
        for verify, browser in {(options.verify, options.browser) for options in all_options}:
            await self.downloader.begin(name, verify, browser)

    def forget(self, site: str) -> None:
        self._others.forget(site)
        if self._downloader is not None:
            task = asyncio.ensure_future(self._downloader.forget(site))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=STUCK)
        if self._downloader is not None:
            await self._downloader.close()
        await self._others.close()

    async def through(self, site: str, url: str, records: list[Record]) -> list[Record]:
        """What a site's project makes of its records, in the shape in which items lie in the stream. Raises ItemFailed."""
        kept = []
        for record in records:
            with suppress(PageDropped):
                made = await self.downloader.item(site, {"layer": record.layer, "url": url, **record.fields})
                own = record.fields.keys()
                fields = {name: value for name, value in made.items() if name not in ("layer", "url") or name in own}
                kept.append(Record(record.layer, fields))
        return kept

    def fetch(self, request: PageRequest) -> Coroutine[Any, Any, Response]:
        return self._fetch(request) if request.options.fetched_by_scrapy else self._others.fetch(request)

    async def _fetch(self, request: PageRequest) -> Response:
        outgoing = self.sessions.outgoing(request, self.sessions.prepared(request.options))
        if request.options.proxy:
            return await self.sessions.through_proxy(request, outgoing, self._send)
        return await self._send(request, outgoing)

    async def _send(self, request: PageRequest, outgoing: Outgoing) -> Response:
        options, proxy, headers = request.options, outgoing.proxy, dict(outgoing.headers)
        if request.body and "Content-Type" not in outgoing.headers:
            # As aiohttp does.
            headers["Content-Type"] = "application/octet-stream"
        if proxy is not None and proxy.authorization and outgoing.url.scheme == "https":
            headers["Proxy-Authorization"] = proxy.authorization
        to_scrapy = options._replace(
            max_size=max(options.max_size, ROOM) if options.cut else options.max_size,
            proxy="" if proxy is None else proxy.url,
            # Only robots.txt is cut, and that is no page for a browser.
            render=options.render and not options.cut,
        )
        wrote = sum(len(name) + len(value) + 4 for name, value in headers.items())
        wrote += len(request.method) + len(request.url) + len(request.body)
        started = perf_counter()
        response = await self.downloader.download(
            request._replace(url=str(outgoing.url), headers=headers, options=to_scrapy)
        )
        seconds = perf_counter() - started
        if response.status < 200:
            raise FetchError(PROTOCOL, f"the response is a {response.status}, which was not requested")
        body = _decoded(response, options)
        if len(body) > options.max_size:
            body = cut(body, options)
        self.sessions.take_cookies(request, response.cookies)
        return response._replace(
            # A browser may have gone on by itself.
            url=response.url if options.render else request.url,
            body=body,
            inherited=request.inherited,
            turn=request.turn,
            depth=request.depth,
            seconds=seconds,
            size=len(response.body),
            wrote=wrote,
            proxy=to_scrapy.proxy,
        )


def _decoded(response: Response, options: FetchOptions) -> bytes:
    """The body without the encodings that Scrapy could not undo."""
    body, encodings = response.body, response.headers.get("content-encoding")
    undo = encoding.decoder(encodings) if body and encodings else None
    if undo is None:
        return body
    body = undo.feed(body, options.max_size)
    if len(body) <= options.max_size:
        undo.end()
    return body
