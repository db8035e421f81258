"""What all fetchers do alike: the headers, cookies and proxy of a request, and what a response says about these."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gossamer.engine.http.connection import tls
from gossamer.engine.http.connection.proxies import Proxy, ProxyPool
from gossamer.engine.http.cookies import CookieJar
from gossamer.engine.http.head import PreparedOptions, prepare
from gossamer.engine.http.url import address, check_headers, check_method, is_own
from gossamer.model.fetch import CONNECT, PROTOCOL, PROXY, RESET, TIMEOUT, FetchError, FetchOptions
from gossamer.model.network import PRIVATE_ADDRESS
from gossamer.model.page import PageRequest, Response

_PLAIN_METHODS = frozenset({"GET", "POST", "HEAD"})
_BLAMED = frozenset({PROXY, TIMEOUT, RESET, CONNECT, PROTOCOL})
"""Failures that count against the proxy."""
_MOST_PREPARED = 4096
_EMPTY = CookieJar()


class Outgoing(NamedTuple):
    """A request as it goes over the wire. `secure` is how to check the server's certificate."""

    url: URL
    headers: CIMultiDict[str]
    timeout: aiohttp.ClientTimeout
    secure: ssl.SSLContext | bool
    proxy: Proxy | None = None


Send = Callable[[PageRequest, Outgoing], Awaitable[Response]]


class Sessions:
    """The cookies and proxies of all sites, and the headers that all requests with the same options share."""

    def __init__(self) -> None:
        self.proxies = ProxyPool()
        self.jars: dict[str, CookieJar] = {}
        self._prepared: dict[FetchOptions, PreparedOptions] = {}
        self.is_blocked: Callable[[PageRequest, Response], bool] = lambda request, response: False
        """Whether a response is a wall: that counts against its proxy."""

    def forget(self, site: str) -> None:
        """Drop the cookies and proxies of a site."""
        self.jars.pop(site, None)
        self.proxies.forget(site)

    def prepared(self, options: FetchOptions) -> PreparedOptions:
        found = self._prepared.get(options)
        if found is None:
            if len(self._prepared) >= _MOST_PREPARED:
                self._prepared.clear()
            found = self._prepared[options] = prepare(options)
        return found

    def outgoing(self, request: PageRequest, prepared: PreparedOptions) -> Outgoing:
        if request.method not in _PLAIN_METHODS:
            check_method(request.method)
        options = request.options
        url, login = address(request.url)
        headers = prepared.headers
        kept = options.session and request.site in self.jars
        if request.headers or request.cookies or login or prepared.login or kept or request.referer:
            headers = self.headers(request, prepared, url, login)
        secure = tls.context(options.verify) if url.scheme == "https" else True
        return Outgoing(url, headers, prepared.timeout, secure)

    def headers(self, request: PageRequest, prepared: PreparedOptions, url: URL, login: str = "") -> CIMultiDict[str]:
        headers = prepared.headers.copy()
        if not login and prepared.login and is_own(url, request.options.hosts):
            login = prepared.login
        if login:
            headers["Authorization"] = login
        cookie = self.cookie(request)
        if request.referer and "Referer" not in headers:
            headers["Referer"] = request.referer
        if request.headers:
            check_headers(request.headers.items())
            for name, value in request.headers.items():
                headers.popall(name, None)
                headers[name] = value
        if cookie:
            headers["Cookie"] = f"{headers['Cookie']}; {cookie}" if "Cookie" in headers else cookie
        return headers

    def cookie(self, request: PageRequest) -> str:
        """The cookies of the request and those kept for its site."""
        if request.cookies:
            check_headers([("Cookie", "".join([*request.cookies, *request.cookies.values()]))])
        jar = self.jars.get(request.site) if request.options.session else None
        return (_EMPTY if jar is None else jar).header(request.url, request.cookies)

    def take_cookies(self, request: PageRequest, cookies: tuple[str, ...]) -> None:
        """Keep the cookies that a response sets."""
        if cookies and request.options.session:
            self.jars.setdefault(request.site, CookieJar()).take(request.url, cookies)

    async def through_proxy(self, request: PageRequest, outgoing: Outgoing, send: Send) -> Response:
        """Send a request through the next proxy that its options name, and count how that proxy does."""
        # The proxy looks up the name of the host, so only what the name itself tells can be checked here.
        if why := request.options.guard.refusal_by_name(outgoing.url.raw_host or ""):
            raise FetchError(PRIVATE_ADDRESS, why, False)
        proxy = self.proxies.choose(request.site, request.options.proxy)
        url, headers, timeout, secure, _ = outgoing
        if proxy.authorization and url.scheme == "http":
            headers = headers.copy()
            headers["Proxy-Authorization"] = proxy.authorization
        if secure is True and proxy.url.startswith("https:"):
            secure = tls.context(request.options.verify)
        try:
            response = await send(request, Outgoing(url, headers, timeout, secure, proxy))
            if response.status == 407:
                raise FetchError(PROXY, f"{proxy.url} wants another user or password (407)")
        except FetchError as error:
            cause = error.__cause__
            # A tunnel that fails may be the fault of its other end.
            excused = isinstance(cause, aiohttp.ClientHttpProxyError) and cause.status >= 500
            if error.reason in _BLAMED and not excused:
                self.proxies.vote(proxy, False)
            raise
        self.proxies.vote(proxy, not self.is_blocked(request, response))
        return response
