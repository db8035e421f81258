"""Pages fetched with aiohttp.

The path of an ordinary page is short on purpose: what a layer's requests have in common is prepared once, cookies are looked
up only if there are any, and a body that arrived with its head is taken without waiting.
"""

from __future__ import annotations

import asyncio
from time import perf_counter, time
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gossamer.engine.http.connection.connector import (
    GUARD,
    IDLE_HOSTS,
    Connector,
    ConnectorResponse,
    limit_stalls,
    session,
)
from gossamer.engine.http.connection.dns import CachingResolver
from gossamer.engine.http.failure import failure, is_stale
from gossamer.engine.http.head import OriginHead, PreparedOptions, head
from gossamer.engine.http.response import cookie_lines, cut, lowered, read, received, sent
from gossamer.engine.http.sessions import Outgoing, Sessions
from gossamer.engine.http.url import parts
from gossamer.model.fetch import PROTOCOL, FetchError
from gossamer.model.network import ANYWHERE
from gossamer.model.page import PageRequest, Response

KEEP_ALIVE = 15.0
MAX_HEADER = 65536
MOST_HEADERS = 256
_AGAIN = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})


class _Stale(Exception):
    """The server had closed a kept connection."""


class AiohttpFetcher:
    """Made inside a running event loop. `concurrency` is the number of connections in use at a time, 0 for no limit;
    `keep_alive` seconds an unused one stays open, 0 for never. `max_header` bytes a header may have."""

    def __init__(
        self,
        *,
        concurrency: int = 0,
        keep_alive: float = KEEP_ALIVE,
        idle_hosts: int = IDLE_HOSTS,
        max_header: int = MAX_HEADER,
        resolver: CachingResolver | None = None,
    ) -> None:
        self.sessions = Sessions()
        self._resolver = resolver or CachingResolver()
        self._connector = Connector(
            limit=concurrency,
            **({"keepalive_timeout": keep_alive} if keep_alive > 0 else {"force_close": True}),
            idle_hosts=idle_hosts,
            resolver=self._resolver,
            use_dns_cache=False,
        )
        self._session = session(
            self._connector, max_line_size=max_header, max_field_size=max_header, max_headers=MOST_HEADERS
        )

    def forget(self, site: str) -> None:
        self.sessions.forget(site)

    async def close(self) -> None:
        await self._session.close()
        await self._resolver.close()

    async def fetch(self, request: PageRequest) -> Response:
        options = request.options
        prepared = self.sessions.prepared(options)
        plain, stale = None, False
        if request.method == "GET" and not (request.body or options.proxy or options.raw):
            plain = parts(request.url)
            if plain is not None and plain[0] in prepared.places:
                try:
                    response = await self._send_over_kept(request, prepared, prepared.places[plain[0]], plain[1])
                    if response is not None:
                        return response
                except _Stale:
                    stale = True
        outgoing = self.sessions.outgoing(request, prepared)
        if options.proxy:
            return await self.sessions.through_proxy(request, outgoing, self._send)
        if plain is not None:
            prepared.remember(plain[0], outgoing.url, outgoing.secure)
        return await self._send(request, outgoing, stale)

    async def _send_over_kept(
        self, request: PageRequest, prepared: PreparedOptions, place: OriginHead, target: str
    ) -> Response | None:
        """Send over a kept connection; None if there is none."""
        options, rest = request.options, place.rest
        if request.headers or prepared.login or prepared.cookies:
            rest = head(place.url, self.sessions.headers(request, prepared, place.url))
        else:
            if request.referer and not prepared.referer:
                rest = b"%b\r\nReferer: %b\r\n\r\n" % (rest[:-4], request.referer.encode())
            if request.cookies or (options.session and request.site in self.sessions.jars):
                cookie = self.sessions.cookie(request)
                rest = b"%b\r\nCookie: %b\r\n\r\n" % (rest[:-4], cookie.encode()) if cookie else rest
        data = b"GET %b HTTP/1.1\r\n%b" % (target.encode(), rest)
        started, reply = perf_counter(), None
        try:
            async with asyncio.timeout(options.timeout or None):
                reply = await self._connector.again(place.key, data, options.guard)
                if reply is None:
                    return None
                response = await self._read(request, reply, started, "", len(data))
            reply.release()
            return response
        except BaseException as error:
            if reply is not None:
                reply.close()
            elif is_stale(error):
                raise _Stale from error
            if isinstance(error, FetchError) or not isinstance(error, Exception):
                raise
            raise failure(error, options) from error

    async def _send(self, request: PageRequest, outgoing: Outgoing, stale: bool = False) -> Response:
        """`stale`: the server had closed a kept connection. That can happen to each of them, so the next attempt insists on a fresh
        one; there is no third."""
        url, headers, timeout, secure, proxy = outgoing
        proxy_url = "" if proxy is None else proxy.url
        more: dict[str, Any] = {}
        if proxy is not None:
            more["proxy"] = proxy.url
            if proxy.authorization and url.scheme == "https":
                more["proxy_headers"] = {"Proxy-Authorization": proxy.authorization}
        if request.body:
            more["data"] = request.body
        fresh, insisting, task = self._connector.fresh, self._connector.insisting, asyncio.current_task()
        started = perf_counter()
        # The user names a proxy, not a page: it may be anywhere.
        GUARD.set(request.options.guard if proxy is None else ANYWHERE)
        while True:
            if stale:
                insisting.add(task)
            try:
                response = await self._session.request(
                    request.method, url, headers=headers, allow_redirects=False, timeout=timeout, ssl=secure, **more
                )
                break
            except Exception as error:
                if not stale and task not in fresh and request.method in _AGAIN and is_stale(error):
                    stale = True
                    continue
                if isinstance(error, FetchError):
                    raise
                raise failure(error, request.options, proxy_url) from error
            finally:
                fresh.discard(task)
                insisting.discard(task)
        try:
            return await self._read(request, response, started, proxy_url, _written(request, url, headers))
        except BaseException as error:
            response.close()
            if isinstance(error, FetchError) or not isinstance(error, Exception):
                raise
            raise failure(error, request.options, proxy_url) from error

    async def _read(
        self,
        request: PageRequest,
        response: aiohttp.ClientResponse | ConnectorResponse,
        started: float,
        proxy: str,
        wrote: int,
    ) -> Response:
        options, status = request.options, response.status
        headers = lowered(response.headers)
        if status < 200:
            raise FetchError(PROTOCOL, f"the response is a {status}, which was not requested")
        content = response.content
        if content.is_eof() and "content-encoding" not in headers:
            body = wire = content.read_nowait(-1)
            if len(body) > options.max_size:
                body = wire = cut(body, options)
        else:
            limit_stalls(response, options.stall_timeout)
            body, wire = await read(response, headers, options)
        cookies: tuple[str, ...] = ()
        if "set-cookie" in headers:
            cookies = cookie_lines(response.headers)
            self.sessions.take_cookies(request, cookies)
        seconds, raw, wire_request = perf_counter() - started, None, None
        if options.raw and isinstance(response, aiohttp.ClientResponse):
            raw, wire_request = received(response, wire), sent(response, request.body)
        return Response(
            request.url, status, headers, body, request.inherited, request.turn, request.depth, seconds, cookies,
            content.total_bytes, wrote, proxy, raw, wire_request, time(),
        )  # fmt: skip


def _written(request: PageRequest, url: URL, headers: CIMultiDict[str]) -> int:
    """About how many bytes a request has: what aiohttp adds is not counted."""
    size = len(request.method) + len(url.raw_path_qs) + len(" HTTP/1.1\r\n") + 3 + len(request.body)
    return size + sum(len(name) + len(value) + 4 for name, value in headers.items())
