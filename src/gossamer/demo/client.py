"""A direct HTTP/1.1 client on asyncio streams: GET with keep-alive, for the demo's forum and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit


class Response(NamedTuple):
    """`headers` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """Keeps connections open per host; `get` may run any number of times at once."""

    def __init__(self, seconds: float = 15.0) -> None:
        self._seconds = seconds
        self._idle: dict[str, list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = {}

    async def get(self, url: str) -> Response:
        """The response, whatever its status. OSError or TimeoutError when there is none."""
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        idle = self._idle.setdefault(parts.netloc, [])
        async with asyncio.timeout(self._seconds):
            line = idle.pop() if idle else await asyncio.open_connection(parts.hostname, parts.port)
            try:
                response = await _ask(*line, parts.netloc, target)
            except asyncio.IncompleteReadError as error:
                line[1].transport.abort()
                raise ConnectionResetError(f"{parts.netloc} closed the connection") from error
            except BaseException:
                # An answer half read would be taken for the next one.
                line[1].transport.abort()
                raise
        if response.headers.get("connection", "").lower() == "close":
            line[1].transport.abort()
        else:
            idle.append(line)
        return response

    def close(self) -> None:
        for lines in self._idle.values():
            for _, writer in lines:
                writer.transport.abort()
        self._idle.clear()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, target: str) -> Response:
    writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: gossamer-demo\r\n\r\n".encode("latin-1"))
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Response(int(first.split(" ", 2)[1]), headers, body)
