"""A small web proxy that can fail on purpose, in a process of its own: plain requests and CONNECT, with a password if wanted.

`python -m gossamer.testing.webproxy [--login user:password] [--fault hang|close|garbage|502] [--certificate FILE]`
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import signal
import ssl
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from gossamer.testing.hardserver import listen
from gossamer.testing.process import end, spawn, wait_until

FAULTS = ("hang", "close", "garbage", "502")


class _Proxy:
    """Every connection serves one request, which it then passes on as it is. What it did goes to stdout, a line each."""

    def __init__(self, login: str, fault: str) -> None:
        self._login = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
        self._fault = fault

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # One side has gone.
        except asyncio.CancelledError:
            # The process ends: no time for farewells.
            writer.transport.abort()
            raise
        finally:
            writer.close()
            with suppress(Exception):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
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
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            parts = urlsplit(target)
            far_reader, far_writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            kept = [line for line in lines if not line.lower().startswith(("proxy-", "connection:"))]
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            far_writer.write(
                "\r\n".join([f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]).encode("latin-1") + body
            )
        try:
            await asyncio.wait(
                [asyncio.ensure_future(_pipe(reader, far_writer)), asyncio.ensure_future(_pipe(far_reader, writer))],
                return_when=asyncio.ALL_COMPLETED,
            )
        finally:
            far_writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()


class WebProxy:
    """The process, for tests. It dies with this one. With a `certificate` it is spoken to by https."""

    def __init__(self, login: str = "", fault: str = "", certificate: str = "") -> None:
        self._words = [f"--login={login}", f"--fault={fault}", f"--certificate={certificate}"]
        self._login, self._secure = login, bool(certificate)
        self._directory = tempfile.TemporaryDirectory(prefix="gossamer-")
        self._log = Path(self._directory.name) / "proxy.log"
        self._child: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> Self:
        command = [sys.executable, "-m", "gossamer.testing.webproxy", *self._words]
        child = self._child = spawn(command, Path(self._directory.name), self._log)

        def said() -> int:
            text = self._log.read_text()
            if child.poll() is not None:
                raise RuntimeError(f"the proxy ended while starting:\n{text}")
            return int(text.partition("\n")[0]) if "\n" in text else 0

        self.port = wait_until(said, "the proxy to serve", 60)
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
        return [(str(m), str(t), bool(p)) for m, t, p in map(json.loads, self._log.read_text().splitlines()[1:])]

    def kill(self) -> None:
        """At once and for good."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def close(self) -> None:
        if self._child is not None:
            end(self._child)
            self._child = None
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self if self._child is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def run(login: str, fault: str, certificate: str) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    secure = None
    if certificate:
        secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secure.load_cert_chain(certificate)
    _listener, port = await listen(_Proxy(login, fault).serve, "127.0.0.1", secure)
    print(port, flush=True)
    await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A web proxy on loopback that can fail on purpose.")
    parser.add_argument("--login", default="")
    parser.add_argument("--fault", default="", choices=["", *FAULTS])
    parser.add_argument("--certificate", default="")
    given = parser.parse_args()
    asyncio.run(run(given.login, given.fault, given.certificate))


if __name__ == "__main__":
    main()
