"""aiohttp's connections, with what it does not tell or do: whether a request got a fresh connection, an end to idle ones when
there are too many of them, and a quick end to broken ones. The only module that touches its inside."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

IDLE_HOSTS = 256
"""Of so many hosts at most connections are kept that nobody uses; a crawl may visit thousands of hosts in a minute."""


class Connector(aiohttp.TCPConnector):
    """`fresh` has the tasks for which a connection was made; who asks removes itself."""

    def __init__(self, *args: Any, idle_hosts: int = IDLE_HOSTS, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fresh: set[asyncio.Task[Any] | None] = set()
        self._idle_hosts = idle_hosts

    async def _create_connection(self, *args: Any, **options: Any) -> ResponseHandler:
        self.fresh.add(asyncio.current_task())
        return await super()._create_connection(*args, **options)

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        if should_close:
            # Something went wrong: whoever sends without end must not be listened to while TLS says its farewells.
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)
        if len(self._conns) > self._idle_hosts:
            for idle, _ in self._conns.pop(next(iter(self._conns))):
                idle.close()


def session(connector: Connector, **options: Any) -> aiohttp.ClientSession:
    """One that never asks twice by itself: after a failure on a fresh connection it would, unseen by any politeness."""
    made = aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, **options
    )
    made._retry_connection = False
    return made
