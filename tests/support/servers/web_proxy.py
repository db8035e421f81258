"""A small web proxy that can fail on purpose, in a process of its own: plain requests and CONNECT, with a password if wanted.

`python -m tests.support.servers.web_proxy [--login user:password] [--fault hang|close|garbage|502] [--certificate FILE]`
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.support.servers.http1 import connection, message, read_body, read_head

from gossamer.testing.server_process import ServerProcess, listen, stop_event

FAULTS = ("hang", "close", "garbage", "502")


class _Proxy:
    """Every connection serves one request, which it then passes on as it is. What it did goes to stdout, a line each."""

    def __init__(self, login: str, fault: str) -> None:
        self._login = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
        self._fault = fault

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ValueError):
            async with connection(writer):
                await self._serve(reader, writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await read_head(reader)
        method, target, headers = head.method, head.target, head.headers
        print(json.dumps([method, target, "proxy-authorization" in headers]), flush=True)
        if self._fault == "hang":
            await asyncio.Event().wait()
        if self._fault == "close":
            return
        if self._fault == "garbage":
            writer.write(b"\x00\x01 no proxy\r\n\r\n")
            return
        if self._fault == "502":
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        if self._login and headers.get("proxy-authorization") != self._login:
            writer.write(
                b"HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            return
        body = await read_body(reader, head)
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            parts = urlsplit(target)
            far_reader, far_writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            kept = [line for line in head.lines if not line.lower().startswith(("proxy-", "connection:"))]
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            far_writer.write(message(f"{method} {path} HTTP/1.1", [*kept, "Connection: close"], body))
        try:
            await asyncio.wait(
                [asyncio.ensure_future(_pipe(reader, far_writer)), asyncio.ensure_future(_pipe(far_reader, writer))],
                return_when=asyncio.ALL_COMPLETED,
            )
        finally:
            far_writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            # One side reset its connection: so does the other.
            writer.transport.abort()
            raise
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()


class WebProxy(ServerProcess):
    """The process, for tests. It dies with this one. With a `certificate` it is spoken to by https."""

    def __init__(self, login: str = "", fault: str = "", certificate: str = "") -> None:
        super().__init__("the proxy")
        self._words = [f"--login={login}", f"--fault={fault}", f"--certificate={certificate}"]
        self._login, self._secure = login, bool(certificate)
        self.port = 0

    def start(self) -> Self:
        command = [sys.executable, "-P", str(Path(__file__).resolve()), *self._words]
        self.port = self.run(command, lambda said: int(said.partition("\n")[0]))
        return self

    @property
    def url(self) -> str:
        """With user and password."""
        login = f"{self._login}@" if self._login else ""
        return f"{'https' if self._secure else 'http'}://{login}127.0.0.1:{self.port}"

    @property
    def bare_url(self) -> str:
        return f"{'https' if self._secure else 'http'}://127.0.0.1:{self.port}"

    def asked(self) -> list[tuple[str, str, bool]]:
        """Method, target, and whether a password came with it."""
        return [(str(m), str(t), bool(p)) for m, t, p in map(json.loads, self.output.read_text().splitlines()[1:])]


async def run(login: str, fault: str, certificate: str) -> None:
    told = stop_event()
    secure = None
    if certificate:
        secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secure.load_cert_chain(certificate)
    _listener, port = await listen(_Proxy(login, fault).serve, "127.0.0.1", secure)
    print(port, flush=True)
    await told.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A web proxy on loopback that can fail on purpose.")
    parser.add_argument("--login", default="")
    parser.add_argument("--fault", default="", choices=["", *FAULTS])
    parser.add_argument("--certificate", default="")
    given = parser.parse_args()
    asyncio.run(run(given.login, given.fault, given.certificate))


if __name__ == "__main__":
    main()
