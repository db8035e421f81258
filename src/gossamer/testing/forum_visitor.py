"""Who visits the demo forum: the HTTP side of one connection, and the record of all."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gossamer.testing.forum_pages import ForumPage

_REASONS = {
    200: "OK",
    302: "Found",
    404: "Not Found",
    405: "Method Not Allowed",
    429: "Too Many Requests",
    503: "Service Unavailable",
}


class Arrival(NamedTuple):
    """One request.

    `time` is of `time.monotonic`, `host` is the Host header, `status` the answer (0: the client left before it),
    `in_flight` how many requests for that host were under way at its arrival, itself included, and `peer` the
    client's port.
    """

    time: float
    host: str
    path: str
    status: int
    in_flight: int
    peer: int


class AccessLog:
    """Who is here, who was here, and which paths have had their trouble."""

    def __init__(self) -> None:
        self.log: list[Arrival] = []
        self.in_flight: Counter[str] = Counter()
        self.troubled: set[tuple[str, str]] = set()
        self.visitors: set[Visitor] = set()


class Visitor(asyncio.Protocol):
    """One connection; answers one request after the other, in order, and keeps it alive unless asked to close."""

    def __init__(self, page: Callable[[str, str], ForumPage], access: AccessLog) -> None:
        self._page = page
        self._access = access
        self._buffer = b""
        self._open: _Open | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._peer: int = transport.get_extra_info("peername")[1]
        self._access.visitors.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._access.visitors.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._open is not None:
            self._done(self._open, 0)

    def leave(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._open is None and not self._transport.is_closing():
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            self._buffer = rest
            self._answer(head.decode("latin-1"))

    def _answer(self, head: str) -> None:
        request, *lines = head.split("\r\n")
        method, _, target = request.partition(" ")
        path = target.partition(" ")[0]
        said = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        host = said.get("host", "")
        known = method in ("GET", "HEAD")
        page = self._page(path, host) if known else ForumPage(405, b"")
        # The body of any other method is not understood: close, so that it is not taken for a request.
        close = not known or said.get("connection", "").lower() == "close"
        self._access.in_flight[host] += 1
        opened = self._open = _Open(
            time.monotonic(), host, path, page, self._access.in_flight[host], method == "HEAD", close
        )
        if page.delay:
            self._timer = asyncio.get_running_loop().call_later(page.delay, self._late)
        else:
            self._send(opened)

    def _late(self) -> None:
        self._timer = None
        if self._open is not None:
            self._send(self._open)
            self.data_received(b"")

    def _send(self, opened: _Open) -> None:
        page = opened.page
        more = f"Location: {page.location}\r\n" if page.location else ""
        if page.retry_after:
            more += f"Retry-After: {page.retry_after}\r\n"
        if opened.close:
            more += "Connection: close\r\n"
        head = f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\nContent-Type: {page.kind}\r\nContent-Length: {len(page.body)}\r\n{more}\r\n"
        self._done(opened, page.status)
        self._transport.write(head.encode() + (b"" if opened.head_only else page.body))
        if opened.close:
            self._transport.close()

    def _done(self, opened: _Open, status: int) -> None:
        self._open = None
        self._access.in_flight[opened.host] -= 1
        # The forum's own pages (/-/…) are for those who watch the visitors, not for visitors.
        if not opened.path.startswith("/-/"):
            self._access.log.append(
                Arrival(opened.time, opened.host, opened.path, status, opened.in_flight, self._peer)
            )


@dataclass(frozen=True, slots=True)
class _Open:
    """A request that is being answered."""

    time: float
    host: str
    path: str
    page: ForumPage
    in_flight: int
    head_only: bool
    close: bool
