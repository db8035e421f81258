"""What the pages that misbehave are written with: requests as they came, answers as bytes, and the list of all pages."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from tests.support.servers.http1 import message

PAGE = b"<html><head><title>hard</title></head><body><p>" + b"A page like any other. " * 40 + b"</p></body></html>"
BLOCK = b"x" * 65536
PAUSE = 0.05
"""Seconds between two bytes of those who are slow."""


class Hit(NamedTuple):
    """One request as it came: `number` counts those of its connection, from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    head: bytes
    number: int

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def last(self) -> str:
        """What comes after the last slash."""
        return self.path.rpartition("/")[2]

    def query(self, name: str, default: str = "") -> str:
        return parse_qs(self.target.partition("?")[2]).get(name, [default])[0]


class Case(NamedTuple):
    """`expect`: a status, or a reason word. Not `quick`: only a time-out ends it."""

    path: str
    expect: int | str
    quick: bool = True


Writer = asyncio.StreamWriter
Page = Callable[[Hit, Writer], Awaitable[bool]]
"""Answers; whether the connection stays open."""
PAGES: dict[str, Page] = {}
CASES: list[Case] = []


def answer(status: int, body: bytes = PAGE, *headers: str, length: int | None = None, version: str = "1.1") -> bytes:
    lines = ["Content-Type: text/html; charset=utf-8", *headers]
    if length is None or length >= 0:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return message(f"HTTP/{version} {status} Whatever", lines, body)


def fixed(path: str, data: bytes, expect: int | str, keep: bool = True) -> None:
    """A page of always the same bytes."""

    async def page(hit: Hit, writer: Writer) -> bool:
        writer.write(data)
        return keep

    PAGES[path] = page
    CASES.append(Case(path, expect))


def page(path: str, *cases: Case) -> Callable[[Page], Page]:
    """For the paths that begin with `path`."""

    def add(made: Page) -> Page:
        PAGES[path] = made
        CASES.extend(cases)
        return made

    return add


def reset(writer: Writer) -> bool:
    """End the connection with an RST."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


_bombs: dict[str, bytes] = {}


def bombs(kind: str) -> bytes:
    """100 MB that are next to nothing while they are packed."""
    if kind not in _bombs:
        _bombs[kind] = encoded(kind, bytes(100_000_000))
    return _bombs[kind]


def encoded(kind: str, data: bytes) -> bytes:
    packer: Any
    if kind == "gzip":
        return gzip.compress(data, 6, mtime=0)
    if kind == "br":
        import brotli as packer  # type: ignore[import-untyped, no-redef, unused-ignore]

        return bytes(packer.compress(data, quality=1))
    try:
        from compression import zstd as packer  # type: ignore[import-not-found, no-redef, unused-ignore]
    except ImportError:
        from backports import zstd as packer  # type: ignore[no-redef, unused-ignore]
    return bytes(packer.compress(data))
