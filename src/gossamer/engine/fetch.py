"""Pages from the network: one request, one answer, one hop. Everything that can go wrong is a FetchError with its reason.

The way of an ordinary page is short on purpose: what a layer's requests have in common is prepared once, cookies are looked
at where there are some, and a body that came together with its head is taken without waiting.
"""

from __future__ import annotations

import asyncio
import ssl
from time import perf_counter
from typing import Any, NamedTuple

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gossamer.engine import decode, tls
from gossamer.engine.address import address, basic, check_headers, check_method, is_own
from gossamer.engine.answer import cut, lowered, read, received, sent
from gossamer.engine.ask import (
    BAD_REQUEST,
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
from gossamer.engine.connector import IDLE_HOSTS, Connector, session
from gossamer.engine.cookies import Jar
from gossamer.engine.dns import Resolver
from gossamer.engine.failure import failure, is_stale
from gossamer.engine.proxies import Proxies, Proxy

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
KEEP_ALIVE = 15.0
MAX_HEADER = 65536
MOST_HEADERS = 256
_AGAIN = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
_PLAIN_METHODS = frozenset({"GET", "POST", "HEAD"})
_BLAMED = frozenset({PROXY, TIMEOUT, RESET, CONNECT, PROTOCOL})
_PREPARED = 4096


class _Prepared(NamedTuple):
    """What all requests with the same options share."""

    headers: CIMultiDict[str]
    timeout: aiohttp.ClientTimeout
    login: str


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
        self._prepared: dict[Options, _Prepared] = {}

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
        if ask.method not in _PLAIN_METHODS:
            check_method(ask.method)
        url, login = address(ask.url)
        headers = prepared.headers
        if ask.headers or ask.cookies or login or prepared.login or (options.session and ask.site in self.jars):
            headers = self._headers(ask, prepared, url, login)
        secure = tls.context(options.verify) if url.scheme == "https" else True
        if options.proxy:
            return await self._through_a_proxy(ask, prepared, url, headers, secure)
        return await self._ask(ask, prepared, url, headers, secure, None)

    async def _through_a_proxy(
        self, ask: Ask, prepared: _Prepared, url: URL, headers: CIMultiDict[str], secure: ssl.SSLContext | bool
    ) -> Got:
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
        prepared: _Prepared,
        url: URL,
        headers: CIMultiDict[str],
        secure: ssl.SSLContext | bool,
        proxy: Proxy | None,
    ) -> Got:
        more: dict[str, Any] = {}
        if proxy is not None:
            more["proxy"] = proxy.url
            if proxy.authorization and url.scheme == "https":
                more["proxy_headers"] = {"Proxy-Authorization": proxy.authorization}
        if ask.body:
            more["data"] = ask.body
        fresh, task = self._connector.fresh, asyncio.current_task()
        started = perf_counter()
        stale = False
        while True:
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
                raise failure(error, ask.options, proxy.url if proxy else "") from error
            finally:
                fresh.discard(task)
        try:
            return await self._read(ask, response, started, proxy.url if proxy else "")
        except BaseException as error:
            response.close()
            if isinstance(error, FetchError) or not isinstance(error, Exception):
                raise
            raise failure(error, ask.options, proxy.url if proxy else "") from error

    async def _read(self, ask: Ask, response: aiohttp.ClientResponse, started: float, proxy: str) -> Got:
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
            cookies = tuple(response.headers.getall("set-cookie"))
            if options.session:
                self.jar(ask.site).take(ask.url, cookies)
        seconds = perf_counter() - started
        if options.raw:
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
            )
        return Got(ask.url, status, headers, body, seconds, None, proxy, cookies)

    def _headers(self, ask: Ask, prepared: _Prepared, url: URL, login: str) -> CIMultiDict[str]:
        headers = prepared.headers.copy()
        if not login and prepared.login and is_own(url, ask.options.hosts):
            login = prepared.login
        if login:
            headers["Authorization"] = login
        jar = self.jars.get(ask.site) if ask.options.session else None
        cookie = (jar or Jar()).header(ask.url, ask.cookies) if jar or ask.cookies else ""
        if ask.headers:
            check_headers(ask.headers.items())
            for name, value in ask.headers.items():
                if cookie and name.lower() == "cookie":
                    cookie = f"{value}; {cookie}"
                else:
                    headers.popall(name, None)
                    headers[name] = value
        if cookie:
            check_headers([("Cookie", cookie)])
            headers["Cookie"] = cookie
        return headers

    def _prepare(self, options: Options) -> _Prepared:
        check_headers([("User-Agent", options.user_agent), *options.headers])
        if options.auth and not options.hosts:
            raise FetchError(
                BAD_REQUEST, "a user and a password, but no hosts that may see them (Options.hosts)", False
            )
        headers = CIMultiDict({"User-Agent": options.user_agent, "Accept": ACCEPT, "Accept-Encoding": decode.ACCEPTED})
        for name, value in options.headers:
            headers.popall(name, None)
            headers[name] = value
        timeout = aiohttp.ClientTimeout(
            total=options.timeout or None,
            sock_connect=options.connect_timeout or None,
            sock_read=options.read_timeout or None,
        )
        if len(self._prepared) >= _PREPARED:
            self._prepared.clear()
        made = self._prepared[options] = _Prepared(headers, timeout, basic(*options.auth) if options.auth else "")
        return made
