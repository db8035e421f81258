"""HTTP/1.1 for servers that misbehave on purpose: heads are read, messages are written, connections end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple


class Head(NamedTuple):
    """The head of a request: `headers` by lower-case name, `lines` as they came, without the first."""

    method: str
    target: str
    headers: dict[str, str]
    lines: list[str]
    raw: bytes


def headers(lines: Iterable[str]) -> dict[str, str]:
    """By lower-case name; of several with one name the last."""
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def read_head(reader: asyncio.StreamReader) -> Head:
    """The next request; `IncompleteReadError` when there is none, ValueError when it is not HTTP."""
    raw = (await reader.readuntil(b"\r\n\r\n"))[:-4]
    first, *lines = raw.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    return Head(method, target, headers(lines), lines, raw)


async def read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """What belongs to this head, by its Content-Length."""
    return await reader.readexactly(int(head.headers.get("content-length", 0)))


def message(first: str, lines: Iterable[str], body: bytes = b"") -> bytes:
    """A request or an answer, with these lines and no others."""
    return "\r\n".join([first, *lines, "", ""]).encode("latin-1") + body


@asynccontextmanager
async def connection(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """While a client is served. The connection is closed at the end; a client that goes away in the middle is no error."""
    try:
        yield
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    except asyncio.CancelledError:
        # The process ends: no time for farewells.
        writer.transport.abort()
        raise
    finally:
        writer.close()
        with suppress(Exception):
            await writer.wait_closed()
