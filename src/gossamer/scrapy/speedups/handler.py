"""Scrapy's handler on aiohttp, brought closer to its usual one. Loaded only where it is used (Scrapy 2.19 and aiohttp).

It is made when the first request comes: Scrapy makes handlers before the event loop runs, and this one needs the loop. And a
site sees what it would have seen: the URL as it is, and no length where there is no body.
"""

from __future__ import annotations

from typing import Any

import yarl
from scrapy.core.downloader.handlers._aiohttp import AiohttpDownloadHandler

from gossamer.scrapy.download.network import LOOKUPS, allowed


class LateAiohttpDownloadHandler(AiohttpDownloadHandler):
    lazy = True
    # Chosen by the add-on and not by the project, whose log Scrapy's warning would be in at every start; the tuning page says it.
    experimental = False

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        _watch(self._session.connector)
        self._session: Any = _VerbatimSession(self._session)


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


class _VerbatimSession:
    """A session that sends URLs as they are, and bodies only where there are some."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def request(self, method: str, url: Any, *, data: bytes | None = None, **named: Any) -> Any:
        if isinstance(url, str):
            url = yarl.URL(url, encoded=True)
        return self._session.request(method, url, data=data or None, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)
