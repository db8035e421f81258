"""aiohttp's connections, with what it does not tell or do: whether a request got a fresh connection, an end to idle ones when
there are too many of them, a quick end to broken ones (also for who reads a body of theirs), and a short way for plain requests over a connection that was kept. The
only module that touches its inside."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDictProxy
from yarl import URL

from gossamer.model.fetch import FetchError
from gossamer.model.network import ANYWHERE, PRIVATE_ADDRESS, NetworkGuard

IDLE_HOSTS = 256
"""Idle connections are kept to this many hosts at most; a crawl may visit thousands of hosts in a minute."""


def key(url: URL, secure: Any) -> ConnectionKey:
    """The key of kept connections to the host of `url` without a proxy."""
    return ConnectionKey(url.raw_host or "", url.port, url.scheme == "https", secure, None, None, None)


class ConnectorResponse:
    """The head of a response, and its body as it arrives: the part of aiohttp's response that is needed here."""

    __slots__ = ("connection", "content", "headers", "raw_headers", "reason", "status", "version")
    method = "GET"

    def __init__(self, connection: Connection, message: Any, content: aiohttp.StreamReader) -> None:
        self.connection, self.content = connection, content
        self.status: int = message.code
        self.reason: str = message.reason
        self.version: aiohttp.HttpVersion = message.version
        self.headers: CIMultiDictProxy[str] = message.headers
        self.raw_headers: tuple[tuple[bytes, bytes], ...] = message.raw_headers

    def release(self) -> None:
        """Give the connection back after the whole body."""
        self.connection.release()

    def close(self) -> None:
        self.connection.close()


def limit_stalls(response: aiohttp.ClientResponse | ConnectorResponse, seconds: float) -> None:
    """Let a body that is not complete fail when nothing of it arrives for so long."""
    connection = response.connection
    if seconds and connection is not None and connection.protocol is not None and not response.content.is_eof():
        connection.protocol.read_timeout = seconds
        connection.protocol.start_timeout()


class BodyFailingHandler(ResponseHandler):
    """A connection on which a body fails when the rest of it makes no sense: aiohttp tells that only to who waits for a head."""

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        super().set_exception(exc, *cause)
        if isinstance(exc, HttpProcessingError) and self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(exc)


GUARD: ContextVar[NetworkGuard] = ContextVar("GUARD", default=ANYWHERE)
"""The addresses that the request of this task may connect to."""


class Connector(aiohttp.TCPConnector):
    """`fresh` has the tasks that got a new connection, `insisting` those that want no kept one; a task removes itself from both."""

    def __init__(self, *args: Any, idle_hosts: int = IDLE_HOSTS, **options: Any) -> None:
        super().__init__(*args, **options)
        factory: Any = partial(BodyFailingHandler, loop=self._loop)
        self._factory = factory
        self.limits: dict[str, Any] = {}
        self.fresh: set[asyncio.Task[Any] | None] = set()
        self.insisting: set[asyncio.Task[Any] | None] = set()
        self._idle_hosts = idle_hosts

    async def again(self, kept: ConnectionKey, head: bytes, guard: NetworkGuard = ANYWHERE) -> ConnectorResponse | None:
        """Send a GET with this head over a kept connection; None if there is none. Skips everything in aiohttp that such a request
        does not need."""
        connection = await super()._get(kept, [])
        if connection is None or not _is_allowed(connection, guard):
            return None
        try:
            protocol = connection.protocol
            assert protocol is not None
            assert protocol.transport is not None
            protocol.set_response_params(read_until_eof=True, auto_decompress=False, **self.limits)
            protocol.transport.write(head)
            while True:
                message, content = await protocol.read()
                if message.code >= 200 or message.code == 101:
                    return ConnectorResponse(connection, message, content)
        except BaseException:
            connection.close()
            raise

    async def _get(self, *args: Any, **options: Any) -> Connection | None:
        if self.insisting and asyncio.current_task() in self.insisting:
            return None
        connection = await super()._get(*args, **options)
        return connection if connection is None or _is_allowed(connection, GUARD.get()) else None

    async def _create_connection(self, *args: Any, **options: Any) -> ResponseHandler:
        self.fresh.add(asyncio.current_task())
        made: Any = await super()._create_connection(*args, **options)
        made.made_under = GUARD.get()
        return made  # type: ignore[no-any-return]

    async def _resolve_host(self, host: str, *args: Any, **options: Any) -> list[ResolveResult]:
        """Only the allowed addresses. A connection goes to what is returned here, so a name that resolves differently a moment later
        changes nothing."""
        found = await super()._resolve_host(host, *args, **options)
        guard = GUARD.get()
        refused = [guard.refusal(host, one["host"]) for one in found]
        if any(refused):
            found = [one for one, why in zip(found, refused, strict=True) if not why]
            if not found:
                raise FetchError(PRIVATE_ADDRESS, next(filter(None, refused)), False)
        return found

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        if should_close:
            # Something went wrong: do not go on reading from a server that sends without end while TLS shuts down.
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)
        if len(self._conns) > self._idle_hosts:
            for idle, _ in self._conns.pop(next(iter(self._conns))):
                idle.close()


def _is_allowed(connection: Connection, guard: NetworkGuard) -> bool:
    """Whether a kept connection, perhaps of another site, may be used. One that may not is put back."""
    if guard.private or getattr(connection.protocol, "made_under", None) == guard:
        return True
    peer = connection.transport.get_extra_info("peername") if connection.transport is not None else None
    if peer and not guard.refusal("", str(peer[0])):
        return True
    connection.release()
    return False


def session(connector: Connector, **options: Any) -> aiohttp.ClientSession:
    """A session that never repeats a request by itself: after a failure on a fresh connection aiohttp would, ignoring the host's delay.
    `options` are limits of responses."""
    connector.limits = options
    made = aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, **options
    )
    made._retry_connection = False
    return made
