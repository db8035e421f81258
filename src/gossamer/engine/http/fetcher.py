"""Pages from the network: one request, one answer, one hop. Everything that can go wrong is a FetchError with its reason.

The way of an ordinary page is short on purpose: what a layer's requests have in common is prepared once, cookies are looked
at where there are some, and a body that came together with its head is taken without waiting.
"""

from __future__ import annotations

import asyncio
import ssl
from time import perf_counter
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gossamer.engine.http.connection import tls
from gossamer.engine.http.connection.connector import GUARD, IDLE_HOSTS, Connector, ConnectorResponse, session
from gossamer.engine.http.connection.dns import CachingResolver
from gossamer.engine.http.connection.proxies import Proxy, ProxyPool
from gossamer.engine.http.cookies import CookieJar
from gossamer.engine.http.failure import failure, is_stale
from gossamer.engine.http.head import OriginHead, PreparedOptions, head, prepare
from gossamer.engine.http.request import (
    CONNECT,
    PROTOCOL,
    PROXY,
    RESET,
    TIMEOUT,
    FetchError,
    FetchOptions,
    FetchRequest,
    FetchResponse,
)
from gossamer.engine.http.response import cookie_lines, cut, lowered, read, received, sent
from gossamer.engine.http.url import address, check_headers, check_method, is_own, parts
from gossamer.sites.url.network import ANYWHERE, PRIVATE_ADDRESS

KEEP_ALIVE = 15.0
MAX_HEADER = 65536
MOST_HEADERS = 256
_AGAIN = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
_PLAIN_METHODS = frozenset({"GET", "POST", "HEAD"})
_BLAMED = frozenset({PROXY, TIMEOUT, RESET, CONNECT, PROTOCOL})
_MOST_PREPARED = 4096
_EMPTY = CookieJar()


class _Stale(Exception):
    """The server had closed a connection that was kept."""


class Fetcher:
    """Made inside a running event loop. `concurrency` is the number of connections in use at a time, `per_host` to one host
    (0: no limit); `keep_alive` seconds an unused one stays open, 0 for never. `max_header` bytes a header may have."""

    def __init__(
        self,
        *,
        concurrency: int = 0,
        per_host: int = 0,
        keep_alive: float = KEEP_ALIVE,
        idle_hosts: int = IDLE_HOSTS,
        max_header: int = MAX_HEADER,
        resolver: CachingResolver | None = None,
        proxies: ProxyPool | None = None,
    ) -> None:
        self.proxies = proxies or ProxyPool()
        self.jars: dict[str, CookieJar] = {}
        self._resolver = resolver or CachingResolver()
        self._connector = Connector(
            limit=concurrency,
            limit_per_host=per_host,
            **({"keepalive_timeout": keep_alive} if keep_alive > 0 else {"force_close": True}),
            idle_hosts=idle_hosts,
            resolver=self._resolver,
            use_dns_cache=False,
        )
        self._session = session(
            self._connector, max_line_size=max_header, max_field_size=max_header, max_headers=MOST_HEADERS
        )
        self._prepared: dict[FetchOptions, PreparedOptions] = {}

    def jar(self, site: str) -> CookieJar:
        """The cookies of a site; an empty one if there were none."""
        return self.jars.setdefault(site, CookieJar())

    def forget(self, site: str) -> None:
        """Cookies and proxies of a site that is no more."""
        self.jars.pop(site, None)
        self.proxies.forget(site)

    async def close(self) -> None:
        await self._session.close()
        await self._resolver.close()

    async def fetch(self, fetch_request: FetchRequest) -> FetchResponse:
        """One hop. Whoever is cancelled leaves nothing behind."""
        options = fetch_request.options
        prepared = self._prepared.get(options) or self._prepare(options)
        plain, stale = None, False
        if fetch_request.method == "GET" and not (fetch_request.body or options.proxy or options.raw):
            plain = parts(fetch_request.url)
            if plain is not None and plain[0] in prepared.places:
                try:
                    fetch_response = await self._ask_again(fetch_request, prepared, prepared.places[plain[0]], plain[1])
                    if fetch_response is not None:
                        return fetch_response
                except _Stale:
                    stale = True
        elif fetch_request.method not in _PLAIN_METHODS:
            check_method(fetch_request.method)
        url, login = address(fetch_request.url)
        headers = prepared.headers
        if (
            fetch_request.headers
            or fetch_request.cookies
            or login
            or prepared.login
            or (options.session and fetch_request.site in self.jars)
        ):
            headers = self._headers(fetch_request, prepared, url, login)
        secure = tls.context(options.verify) if url.scheme == "https" else True
        if options.proxy:
            return await self._through_a_proxy(fetch_request, prepared, url, headers, secure)
        if plain is not None:
            prepared.remember(plain[0], url, secure)
        return await self._ask(fetch_request, prepared, url, headers, secure, None, stale)

    async def _ask_again(
        self, fetch_request: FetchRequest, prepared: PreparedOptions, place: OriginHead, target: str
    ) -> FetchResponse | None:
        """Over a connection that was kept; None where there is none."""
        options = fetch_request.options
        rest = place.rest
        if fetch_request.headers or prepared.login or prepared.cookies:
            rest = head(place.url, self._headers(fetch_request, prepared, place.url, ""))
        elif fetch_request.cookies or (options.session and fetch_request.site in self.jars):
            cookie = self._cookie(fetch_request)
            rest = b"%b\r\nCookie: %b\r\n\r\n" % (rest[:-4], cookie.encode()) if cookie else rest
        data = b"GET %b HTTP/1.1\r\n%b" % (target.encode(), rest)
        started, reply = perf_counter(), None
        try:
            async with asyncio.timeout(options.timeout or None):
                reply = await self._connector.again(place.key, data, options.read_timeout or None, options.guard)
                if reply is None:
                    return None
                fetch_response = await self._read(fetch_request, reply, started, "", len(data))
            reply.release()
            return fetch_response
        except BaseException as error:
            if reply is not None:
                reply.close()
            elif is_stale(error):
                raise _Stale from error
            if isinstance(error, FetchError) or not isinstance(error, Exception):
                raise
            raise failure(error, options) from error

    async def _through_a_proxy(
        self,
        fetch_request: FetchRequest,
        prepared: PreparedOptions,
        url: URL,
        headers: CIMultiDict[str],
        secure: ssl.SSLContext | bool,
    ) -> FetchResponse:
        # The proxy looks up names itself. What can be told without that is told here.
        if why := fetch_request.options.guard.refusal_by_name(url.raw_host or ""):
            raise FetchError(PRIVATE_ADDRESS, why, False)
        proxy = self.proxies.choose(fetch_request.site, fetch_request.options.proxy)
        if proxy.authorization and url.scheme == "http":
            headers = headers.copy()
            headers["Proxy-Authorization"] = proxy.authorization
        if secure is True and proxy.url.startswith("https:"):
            secure = tls.context(fetch_request.options.verify)
        try:
            fetch_response = await self._ask(fetch_request, prepared, url, headers, secure, proxy)
            if fetch_response.status == 407:
                raise FetchError(PROXY, f"{proxy.url} wants another user or password (407)")
        except FetchError as error:
            cause = error.__cause__
            # That a tunnel came to no end may be the fault of its other end.
            excused = isinstance(cause, aiohttp.ClientHttpProxyError) and cause.status >= 500
            if error.reason in _BLAMED and not excused:
                self.proxies.vote(proxy, False)
            raise
        self.proxies.vote(proxy, True)
        return fetch_response

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
        """`stale`: a connection that was kept had been closed by the server. That can happen to each of them, so the next
        attempt insists on a fresh one; there is no third."""
        more: dict[str, Any] = {}
        if proxy is not None:
            more["proxy"] = proxy.url
            if proxy.authorization and url.scheme == "https":
                more["proxy_headers"] = {"Proxy-Authorization": proxy.authorization}
        if fetch_request.body:
            more["data"] = fetch_request.body
        fresh, insisting, task = self._connector.fresh, self._connector.insisting, asyncio.current_task()
        started = perf_counter()
        # A proxy is named by whoever runs the crawl, not by a page: it may be anywhere.
        GUARD.set(fetch_request.options.guard if proxy is None else ANYWHERE)
        while True:
            if stale:
                insisting.add(task)
            try:
                response = await self._session.request(
                    fetch_request.method,
                    url,
                    headers=headers,
                    allow_redirects=False,
                    timeout=prepared.timeout,
                    ssl=secure,
                    **more,
                )
                break
            except Exception as error:
                if not stale and task not in fresh and fetch_request.method in _AGAIN and is_stale(error):
                    stale = True
                    continue
                if isinstance(error, FetchError):
                    raise
                raise failure(error, fetch_request.options, proxy.url if proxy else "") from error
            finally:
                fresh.discard(task)
                insisting.discard(task)
        try:
            return await self._read(
                fetch_request, response, started, proxy.url if proxy else "", _written(fetch_request, url, headers)
            )
        except BaseException as error:
            response.close()
            if isinstance(error, FetchError) or not isinstance(error, Exception):
                raise
            raise failure(error, fetch_request.options, proxy.url if proxy else "") from error

    async def _read(
        self,
        fetch_request: FetchRequest,
        response: aiohttp.ClientResponse | ConnectorResponse,
        started: float,
        proxy: str,
        wrote: int,
    ) -> FetchResponse:
        options, status = fetch_request.options, response.status
        headers = lowered(response.headers)
        if status < 200:
            raise FetchError(PROTOCOL, f"the answer is a {status}, which nobody asked for")
        content = response.content
        if content.is_eof() and "content-encoding" not in headers:
            body = wire = content.read_nowait(-1)
            if len(body) > options.max_size:
                body = wire = cut(body, options)
        else:
            body, wire = await read(response, headers, options)
        cookies: tuple[str, ...] = ()
        if "set-cookie" in headers:
            cookies = cookie_lines(response.headers)
            if options.session:
                self.jar(fetch_request.site).take(fetch_request.url, cookies)
        seconds = perf_counter() - started
        if options.raw and isinstance(response, aiohttp.ClientResponse):
            return FetchResponse(
                fetch_request.url,
                status,
                headers,
                body,
                seconds,
                received(response, wire),
                proxy,
                cookies,
                sent(response, fetch_request.body),
                content.total_bytes,
                wrote,
            )
        return FetchResponse(
            fetch_request.url, status, headers, body, seconds, None, proxy, cookies, None, content.total_bytes, wrote
        )

    def _headers(
        self, fetch_request: FetchRequest, prepared: PreparedOptions, url: URL, login: str
    ) -> CIMultiDict[str]:
        headers = prepared.headers.copy()
        if not login and prepared.login and is_own(url, fetch_request.options.hosts):
            login = prepared.login
        if login:
            headers["Authorization"] = login
        cookie = self._cookie(fetch_request)
        if fetch_request.headers:
            check_headers(fetch_request.headers.items())
            for name, value in fetch_request.headers.items():
                headers.popall(name, None)
                headers[name] = value
        if cookie:
            headers["Cookie"] = f"{headers['Cookie']}; {cookie}" if "Cookie" in headers else cookie
        return headers

    def _cookie(self, fetch_request: FetchRequest) -> str:
        """Those of the request and those that are kept for its site."""
        if fetch_request.cookies:
            check_headers([("Cookie", "".join([*fetch_request.cookies, *fetch_request.cookies.values()]))])
        jar = self.jars.get(fetch_request.site) if fetch_request.options.session else None
        return (_EMPTY if jar is None else jar).header(fetch_request.url, fetch_request.cookies)

    def _prepare(self, options: FetchOptions) -> PreparedOptions:
        if len(self._prepared) >= _MOST_PREPARED:
            self._prepared.clear()
        made = self._prepared[options] = prepare(options)
        return made


def _written(fetch_request: FetchRequest, url: URL, headers: CIMultiDict[str]) -> int:
    """About how many bytes a request has: what the library adds by itself is not counted."""
    size = len(fetch_request.method) + len(url.raw_path_qs) + len(" HTTP/1.1\r\n") + 3 + len(fetch_request.body)
    return size + sum(len(name) + len(value) + 4 for name, value in headers.items())
