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
from gossamer.engine.http.connection.connector import GUARD, IDLE_HOSTS, Connector, Reply, session
from gossamer.engine.http.connection.dns import Resolver
from gossamer.engine.http.connection.proxies import Proxies, Proxy
from gossamer.engine.http.cookies import Jar
from gossamer.engine.http.failure import failure, is_stale
from gossamer.engine.http.head import Place, Prepared, head, prepare
from gossamer.engine.http.request import (
    CONNECT,
    PROTOCOL,
    PROXY,
    RESET,
    TIMEOUT,
    Ask,
    FetchError,
    Got,
    Options,
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
_EMPTY = Jar()


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
        resolver: Resolver | None = None,
        proxies: Proxies | None = None,
    ) -> None:
        self.proxies = proxies or Proxies()
        self.jars: dict[str, Jar] = {}
        self._resolver = resolver or Resolver()
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
        self._prepared: dict[Options, Prepared] = {}

    def jar(self, site: str) -> Jar:
        """The cookies of a site; an empty one if there were none."""
        return self.jars.setdefault(site, Jar())

    def forget(self, site: str) -> None:
        """Cookies and proxies of a site that is no more."""
        self.jars.pop(site, None)
        self.proxies.forget(site)

    async def close(self) -> None:
        await self._session.close()
        await self._resolver.close()

    async def fetch(self, ask: Ask) -> Got:
        """One hop. Whoever is cancelled leaves nothing behind."""
        options = ask.options
        prepared = self._prepared.get(options) or self._prepare(options)
        plain, stale = None, False
        if ask.method == "GET" and not (ask.body or options.proxy or options.raw):
            plain = parts(ask.url)
            if plain is not None and plain[0] in prepared.places:
                try:
                    got = await self._ask_again(ask, prepared, prepared.places[plain[0]], plain[1])
                    if got is not None:
                        return got
                except _Stale:
                    stale = True
        elif ask.method not in _PLAIN_METHODS:
            check_method(ask.method)
        url, login = address(ask.url)
        headers = prepared.headers
        if ask.headers or ask.cookies or login or prepared.login or (options.session and ask.site in self.jars):
            headers = self._headers(ask, prepared, url, login)
        secure = tls.context(options.verify) if url.scheme == "https" else True
        if options.proxy:
            return await self._through_a_proxy(ask, prepared, url, headers, secure)
        if plain is not None:
            prepared.remember(plain[0], url, secure)
        return await self._ask(ask, prepared, url, headers, secure, None, stale)

    async def _ask_again(self, ask: Ask, prepared: Prepared, place: Place, target: str) -> Got | None:
        """Over a connection that was kept; None where there is none."""
        options = ask.options
        rest = place.rest
        if ask.headers or prepared.login or prepared.cookies:
            rest = head(place.url, self._headers(ask, prepared, place.url, ""))
        elif ask.cookies or (options.session and ask.site in self.jars):
            cookie = self._cookie(ask)
            rest = b"%b\r\nCookie: %b\r\n\r\n" % (rest[:-4], cookie.encode()) if cookie else rest
        data = b"GET %b HTTP/1.1\r\n%b" % (target.encode(), rest)
        started, reply = perf_counter(), None
        try:
            async with asyncio.timeout(options.timeout or None):
                reply = await self._connector.again(place.key, data, options.read_timeout or None, options.guard)
                if reply is None:
                    return None
                got = await self._read(ask, reply, started, "", len(data))
            reply.release()
            return got
        except BaseException as error:
            if reply is not None:
                reply.close()
            elif is_stale(error):
                raise _Stale from error
            if isinstance(error, FetchError) or not isinstance(error, Exception):
                raise
            raise failure(error, options) from error

    async def _through_a_proxy(
        self, ask: Ask, prepared: Prepared, url: URL, headers: CIMultiDict[str], secure: ssl.SSLContext | bool
    ) -> Got:
        # The proxy looks up names itself. What can be told without that is told here.
        if why := ask.options.guard.refusal_by_name(url.raw_host or ""):
            raise FetchError(PRIVATE_ADDRESS, why, False)
        proxy = self.proxies.choose(ask.site, ask.options.proxy)
        if proxy.authorization and url.scheme == "http":
            headers = headers.copy()
            headers["Proxy-Authorization"] = proxy.authorization
        if secure is True and proxy.url.startswith("https:"):
            secure = tls.context(ask.options.verify)
        try:
            got = await self._ask(ask, prepared, url, headers, secure, proxy)
            if got.status == 407:
                raise FetchError(PROXY, f"{proxy.url} wants another user or password (407)")
        except FetchError as error:
            cause = error.__cause__
            # That a tunnel came to no end may be the fault of its other end.
            excused = isinstance(cause, aiohttp.ClientHttpProxyError) and cause.status >= 500
            if error.reason in _BLAMED and not excused:
                self.proxies.vote(proxy, False)
            raise
        self.proxies.vote(proxy, True)
        return got

    async def _ask(
        self,
        ask: Ask,
        prepared: Prepared,
        url: URL,
        headers: CIMultiDict[str],
        secure: ssl.SSLContext | bool,
        proxy: Proxy | None,
        stale: bool = False,
    ) -> Got:
        """`stale`: a connection that was kept had been closed by the server. That can happen to each of them, so the next
        attempt insists on a fresh one; there is no third."""
        more: dict[str, Any] = {}
        if proxy is not None:
            more["proxy"] = proxy.url
            if proxy.authorization and url.scheme == "https":
                more["proxy_headers"] = {"Proxy-Authorization": proxy.authorization}
        if ask.body:
            more["data"] = ask.body
        fresh, insisting, task = self._connector.fresh, self._connector.insisting, asyncio.current_task()
        started = perf_counter()
        # A proxy is named by whoever runs the crawl, not by a page: it may be anywhere.
        GUARD.set(ask.options.guard if proxy is None else ANYWHERE)
        while True:
            if stale:
                insisting.add(task)
            try:
                response = await self._session.request(
                    ask.method,
                    url,
                    headers=headers,
                    allow_redirects=False,
                    timeout=prepared.timeout,
                    ssl=secure,
                    **more,
                )
                break
            except Exception as error:
                if not stale and task not in fresh and ask.method in _AGAIN and is_stale(error):
                    stale = True
                    continue
                if isinstance(error, FetchError):
                    raise
                raise failure(error, ask.options, proxy.url if proxy else "") from error
            finally:
                fresh.discard(task)
                insisting.discard(task)
        try:
            return await self._read(ask, response, started, proxy.url if proxy else "", _written(ask, url, headers))
        except BaseException as error:
            response.close()
            if isinstance(error, FetchError) or not isinstance(error, Exception):
                raise
            raise failure(error, ask.options, proxy.url if proxy else "") from error

    async def _read(
        self, ask: Ask, response: aiohttp.ClientResponse | Reply, started: float, proxy: str, wrote: int
    ) -> Got:
        options, status = ask.options, response.status
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
                self.jar(ask.site).take(ask.url, cookies)
        seconds = perf_counter() - started
        if options.raw and isinstance(response, aiohttp.ClientResponse):
            return Got(
                ask.url,
                status,
                headers,
                body,
                seconds,
                received(response, wire),
                proxy,
                cookies,
                sent(response, ask.body),
                content.total_bytes,
                wrote,
            )
        return Got(ask.url, status, headers, body, seconds, None, proxy, cookies, None, content.total_bytes, wrote)

    def _headers(self, ask: Ask, prepared: Prepared, url: URL, login: str) -> CIMultiDict[str]:
        headers = prepared.headers.copy()
        if not login and prepared.login and is_own(url, ask.options.hosts):
            login = prepared.login
        if login:
            headers["Authorization"] = login
        cookie = self._cookie(ask)
        if ask.headers:
            check_headers(ask.headers.items())
            for name, value in ask.headers.items():
                headers.popall(name, None)
                headers[name] = value
        if cookie:
            headers["Cookie"] = f"{headers['Cookie']}; {cookie}" if "Cookie" in headers else cookie
        return headers

    def _cookie(self, ask: Ask) -> str:
        """Those of the request and those that are kept for its site."""
        if ask.cookies:
            check_headers([("Cookie", "".join([*ask.cookies, *ask.cookies.values()]))])
        jar = self.jars.get(ask.site) if ask.options.session else None
        return (_EMPTY if jar is None else jar).header(ask.url, ask.cookies)

    def _prepare(self, options: Options) -> Prepared:
        if len(self._prepared) >= _MOST_PREPARED:
            self._prepared.clear()
        made = self._prepared[options] = prepare(options)
        return made


def _written(ask: Ask, url: URL, headers: CIMultiDict[str]) -> int:
    """About how many bytes a request has: what the library adds by itself is not counted."""
    size = len(ask.method) + len(url.raw_path_qs) + len(" HTTP/1.1\r\n") + 3 + len(ask.body)
    return size + sum(len(name) + len(value) + 4 for name, value in headers.items())
