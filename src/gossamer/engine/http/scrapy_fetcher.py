"""A fetcher that lets somebody else's downloader fetch the pages of some sites (`engine: scrapy`).

Everything that makes a request what it is (headers, cookies, passwords, proxies in turn) and that follows from an answer
(cookies, votes on proxies, limits) is the same code for both; only the way over the wire is another one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from time import perf_counter
from typing import Any

from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from gossamer.engine.http import encoding
from gossamer.engine.http.connection.proxies import Proxy
from gossamer.engine.http.deadline import STUCK
from gossamer.engine.http.fetcher import Fetcher
from gossamer.engine.http.head import OriginHead, PreparedOptions
from gossamer.engine.http.request import PROTOCOL, FetchError, FetchOptions, FetchRequest, FetchResponse
from gossamer.engine.http.response import cookie_lines, cut, lowered
from gossamer.sites.downloader import Downloader, DownloadFailed, DownloadRequest, DownloadResponse, PageDropped
from gossamer.sites.page import Record

ROOM = 32 * 2**20
"""Bytes that are taken of a body which is to be cut: somebody else's downloader can only refuse, not cut."""


class ScrapyFetcher(Fetcher):
    """`open_downloader` gives the downloader; it is called when the first page is to be fetched by it, since it may be long to load."""

    def __init__(self, open_downloader: Callable[[], Downloader], **more: Any) -> None:
        super().__init__(**more)
        self._open_downloader = open_downloader
        self._downloader: Downloader | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def downloader(self) -> Downloader:
        if self._downloader is None:
            self._downloader = self._open_downloader()
        return self._downloader

    async def begin(self, name: str, all_options: Iterable[FetchOptions]) -> None:
        """Make sure that pages of such options can be fetched at all; SiteError says why they cannot."""
        for verify, browser in {(options.verify, options.browser) for options in all_options}:
            await self.downloader.begin(name, verify, browser)

    def forget(self, site: str) -> None:
        super().forget(site)
        if self._downloader is not None:
            task = asyncio.ensure_future(self._downloader.forget(site))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=STUCK)
        if self._downloader is not None:
            await self._downloader.close()
        await super().close()

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

    async def _ask_again(
        self, fetch_request: FetchRequest, prepared: PreparedOptions, place: OriginHead, target: str
    ) -> FetchResponse | None:
        return (
            None
            if fetch_request.options.fetched_by_scrapy
            else await super()._ask_again(fetch_request, prepared, place, target)
        )

    async def _ask(
        self,
        fetch_request: FetchRequest,
        prepared: PreparedOptions,
        url: URL,
        headers: CIMultiDict[str],
        secure: ssl.SSLContext | bool,
        proxy: Proxy | None,
        stale: bool = False,
    ) -> FetchResponse:
        options = fetch_request.options
        if not options.fetched_by_scrapy:
            return await super()._ask(fetch_request, prepared, url, headers, secure, proxy, stale)
        said = list(headers.items())
        if fetch_request.body and "Content-Type" not in headers:
            # As the engine's own fetcher says it.
            said.append(("Content-Type", "application/octet-stream"))
        if proxy is not None and proxy.authorization and url.scheme == "https":
            said.append(("Proxy-Authorization", proxy.authorization))
        wanted = DownloadRequest(
            str(url),
            fetch_request.method,
            tuple(said),
            fetch_request.body,
            fetch_request.site,
            options.fetched_by_scrapy,
            options.timeout,
            max(options.max_size, ROOM) if options.cut else options.max_size,
            proxy.url if proxy is not None else "",
            options.verify,
            # robots.txt, which is the only one to be cut, is no page for a browser.
            options.render and not options.cut,
            options.browser,
            options.raw,
            options.guard,
        )
        started = perf_counter()
        try:
            answer = await self.downloader.download(wanted)
        except DownloadFailed as error:
            raise FetchError(error.reason, error.detail, error.retriable) from error
        wrote = (
            sum(len(name) + len(value) + 4 for name, value in said)
            + len(fetch_request.method)
            + len(fetch_request.url)
            + len(fetch_request.body)
        )
        return self._fetch_response(fetch_request, answer, perf_counter() - started, proxy, wrote)

    def _fetch_response(
        self, fetch_request: FetchRequest, answer: DownloadResponse, seconds: float, proxy: Proxy | None, wrote: int
    ) -> FetchResponse:
        options = fetch_request.options
        if answer.status < 200:
            raise FetchError(PROTOCOL, f"the answer is a {answer.status}, which nobody asked for")
        came = CIMultiDictProxy(CIMultiDict(answer.headers))
        headers = lowered(came)
        body = _decoded(answer.body, headers, options)
        if len(body) > options.max_size:
            body = cut(body, options)
        cookies: tuple[str, ...] = ()
        if "set-cookie" in headers:
            cookies = cookie_lines(came)
            if options.session:
                self.jar(fetch_request.site).take(fetch_request.url, cookies)
        # A browser may have gone on by itself.
        url = answer.url if options.render else fetch_request.url
        raw, sent = (answer.raw or _written(answer), answer.sent) if options.raw else (None, None)
        return FetchResponse(
            url, answer.status, headers, body, seconds, raw, proxy.url if proxy else "", cookies, sent, len(answer.body), wrote
        )  # fmt: skip


def _decoded(body: bytes, headers: dict[str, str], options: FetchOptions) -> bytes:
    """Without the encodings that the downloader could not undo itself."""
    undo = encoding.decoder(headers["content-encoding"]) if body and headers.get("content-encoding") else None
    if undo is None:
        return body
    body = undo.feed(body, options.max_size)
    if len(body) <= options.max_size:
        undo.end()
    return body


def _written(answer: DownloadResponse) -> bytes:
    """An answer that went over no wire that anybody saw, as one that did."""
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {answer.status} {phrase}", *(f"{name}: {value}" for name, value in answer.headers), "", ""]
    return "\r\n".join(lines).encode() + answer.body
