"""Scrapy's handler on aiohttp, brought closer to its usual one. Loaded only where it is used (Scrapy 2.19 and aiohttp).

It is made when the first request comes: Scrapy makes handlers before the event loop runs, and this one needs the loop. A site
sees what it would have seen: the URL as it is, and no length where there is no body. A spider gets what it would have got: the
headers as they are, less those of the connection, and the URL without its fragment. What aiohttp is too strict for (servers
that break the rules of HTTP, old TLS) or cannot do, Scrapy's usual handler does; and all that a site may not get twice.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from functools import cached_property, lru_cache, partial
from inspect import signature
from typing import Any
from urllib.parse import urldefrag

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from scrapy import Request
from scrapy.core.downloader.handlers._aiohttp import AiohttpDownloadHandler
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler, TunnelError
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response
from twisted.internet.ssl import Certificate

from gossamer.model import host_of
from gossamer.scrapy.download.network import LOOKUPS, allowed

logger = logging.getLogger(__name__)

LIMITS = {"max_line_size": 65_536, "max_field_size": 65_536, "max_headers": 4_096}
"""Of an answer's headers. Those of aiohttp are smaller than some sites' policies for content."""
OF_CONNECTION = frozenset(
    (b"connection", b"keep-alive", b"te", b"trailers", b"transfer-encoding", b"upgrade", b"proxy-connection")
)
REPEATABLE = frozenset(("GET", "HEAD"))
WITHOUT_BODY = frozenset((204, 304))
MOST_HOSTS = 10_000


class LateAiohttpDownloadHandler(AiohttpDownloadHandler):
    lazy = True
    # Chosen by the add-on and not by the project, whose log Scrapy's warning would be in at every start; the tuning page says it.
    experimental = False

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        connector: Any = self._session.connector
        # The frontier and the download slots say how many requests a host gets at a time; who waits here would time out.
        connector._limit = connector._limit_per_host = 0
        connector._factory = partial(_DataLossHandler, loop=connector._loop)
        _watch(connector)
        self._session: Any = _VerbatimSession(self._session)
        spider = self.crawler.spider
        self._default_maxsize = getattr(spider, "download_maxsize", self._default_maxsize)
        self._default_warnsize = getattr(spider, "download_warnsize", self._default_warnsize)
        self._too_strict_for: OrderedDict[str, None] = OrderedDict()
        """Hosts that the usual handler asks, since aiohttp could not read one of their answers."""

    @cached_property
    def _usual(self) -> HTTP11DownloadHandler | None:
        """Scrapy's usual handler; None without a reactor of Twisted."""
        try:
            return HTTP11DownloadHandler(self.crawler)
        except NotConfigured:
            return None

    async def download_request(self, request: Request) -> Response:
        host = host_of(request.url)
        # What aiohttp cannot read was sent already: the usual handler can ask again only for what is safe to repeat.
        usual = request.method not in REPEATABLE or request.meta.get("bindaddress") or host in self._too_strict_for
        if usual and self._usual is not None:
            return await self._usual.download_request(request)
        try:
            return await super().download_request(request)
        except Exception as error:
            if isinstance(error.__cause__, aiohttp.ClientHttpProxyError):
                raise TunnelError(f"Could not open CONNECT tunnel with the proxy: {error}") from error
            if self._usual is None or not _is_too_strict(error):
                raise
            logger.info(
                "aiohttp cannot talk to %s (%s): Scrapy's usual handler asks it from now on.", host, _brief(error)
            )
            self._too_strict_for[host] = None
            if len(self._too_strict_for) > MOST_HOSTS:
                self._too_strict_for.popitem(last=False)
            return await self._usual.download_request(request)

    async def _read_response(self, response: Any, request: Request) -> Response:
        made = await super()._read_response(response, request)
        length_known = response.method == "HEAD" or response.status in WITHOUT_BODY or "Content-Length" in made.headers
        if not (length_known or made.flags or "chunked" in response.headers.get("Transfer-Encoding", "").lower()):
            made.flags.append("partial")
        return made

    @staticmethod
    async def _iter_body_chunks(response: Any) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except aiohttp.ClientPayloadError:
            # What came before the failure is part of the page, where DOWNLOAD_FAIL_ON_DATALOSS is off.
            yield response.content._read_nowait(-1)
            raise

    @staticmethod
    def _extract_headers(response: Any) -> Headers:
        headers = Headers()
        for name, value in response.raw_headers:
            if name.lower() not in OF_CONNECTION:
                headers.appendlist(name, value)
        return headers

    @staticmethod
    def _build_base_response_args(response: Any, request: Request, headers: Headers) -> Any:
        made = AiohttpDownloadHandler._build_base_response_args(response, request, headers)
        made["url"] = urldefrag(made["url"])[0]
        if made.get("certificate"):
            made["certificate"] = _certificate(made["certificate"])
        return made

    async def close(self) -> None:
        await super().close()
        if "_usual" in self.__dict__ and self._usual is not None:
            await self._usual.close()


def _is_too_strict(error: Exception) -> bool:
    """Whether Scrapy's usual handler may do better: it takes more of what servers answer, and of TLS, proxies and URLs."""
    known = aiohttp.ClientResponseError, aiohttp.ClientSSLError, aiohttp.InvalidUrlClientError
    return isinstance(error.__cause__, known) or isinstance(error, ValueError)


def _brief(error: Exception) -> str:
    said = getattr(error.__cause__, "message", "") or str(error)
    return str(said).partition("\n")[0].rstrip(": ")


@lru_cache(256)
def _certificate(der: bytes) -> Certificate:
    return Certificate.load(der)


def _watch(connector: Any) -> None:
    """Connect only to addresses that the downloads under way may connect to."""
    resolve = connector._resolve_host

    async def resolved(host: str, *args: Any, **named: Any) -> list[Any]:
        found: list[Any] = await resolve(host, *args, **named)
        if host in LOOKUPS.guards:
            found = [
                one for one, good in zip(found, allowed(host, [one["host"] for one in found]), strict=True) if good
            ]
        return found

    connector._resolve_host = resolved


class _DataLossHandler(ResponseHandler):
    """A connection on which a body fails when the rest of it makes no sense: aiohttp tells that only to who waits for a head."""

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        super().set_exception(exc, *cause)
        if isinstance(exc, HttpProcessingError) and self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(aiohttp.ClientPayloadError(f"The body makes no sense: {exc.message}"))


class _VerbatimSession:
    """A session that sends URLs as they are, and bodies only where there are some."""

    def __init__(self, session: Any) -> None:
        self._session = session
        known = signature(session._request).parameters
        self._limits = {name: limit for name, limit in LIMITS.items() if name in known}

    def request(self, method: str, url: Any, *, data: bytes | None = None, **named: Any) -> Any:
        if isinstance(url, str):
            url = yarl.URL(url, encoded=True)
        return self._session.request(method, url, data=data or None, **self._limits, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)
