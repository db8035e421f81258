"""Several web hosts for many sites, in a process of their own, with faults, and with an access log that is the truth of what was asked.

`python -m gossamer.testing.manysites HOSTS` prints the ports. What the hosts say is in `manypages`. Every request is noted when it has
been read, and once more just before its answer is sent: two that overlap in the log did overlap.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from gossamer.testing.hardserver import listen
from gossamer.testing.hardwire import reset
from gossamer.testing.manypages import RESET, Asked, Pages
from gossamer.testing.process import end, spawn, wait_until

LOG, EPOCH = "/-/log", "/-/epoch/"


class Access(NamedTuple):
    """One request: `at` and `until` are seconds of the server's clock, `host` the number of the host."""

    host: int
    method: str
    target: str
    headers: dict[str, str]
    body: str
    at: float
    until: float
    status: int

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def who(self) -> str:
        """Which worker it was, as it says itself."""
        return self.headers.get("x-worker", "")


class _Host:
    def __init__(self, number: int, log: list[list[Any]], pages: Pages, times: Counter[tuple[int, str, str]]) -> None:
        self._number, self._log, self._pages, self._times = number, log, pages, times

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # a crawler that was killed, or went away in the middle
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            writer.close()
            with suppress(Exception):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if target.startswith("/-/"):
            if target.startswith(EPOCH):
                self._pages.epoch = int(target.removeprefix(EPOCH))
            writer.write(_wire(200, {"Content-Type": "application/json"}, json.dumps(self._log).encode()))
            return True
        entry = [self._number, method, target, headers, body.decode("latin-1"), time.monotonic(), 0.0, 0]
        self._log.append(entry)
        self._times[self._number, method, target] += 1
        number = self._times[self._number, method, target]
        reply = self._pages.answer(Asked(self._number, method, target, headers, body, number))
        if reply.pause:
            await asyncio.sleep(reply.pause)
        entry[6:] = [time.monotonic(), reply.status]
        if reply.status == RESET:
            return reset(writer)
        kept = headers.get("connection", "").lower() != "close"
        writer.write(
            _wire(reply.status, reply.headers if kept else {**reply.headers, "Connection": "close"}, reply.body)
        )
        return kept


def _wire(status: int, headers: dict[str, str], body: bytes) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode("latin-1") + body


async def run(count: int) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    log: list[list[Any]] = []
    pages, times = Pages(), Counter[tuple[int, str, str]]()
    listeners = [await listen(_Host(number, log, pages, times).serve, "127.0.0.1") for number in range(count)]
    pages.ports = [port for _, port in listeners]
    print(json.dumps(pages.ports), flush=True)
    await stop.wait()


class ManySites:
    """The process, for tests. It dies with this one."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._directory = tempfile.TemporaryDirectory(prefix="gossamer-")
        self._child: subprocess.Popen[bytes] | None = None
        self.ports: list[int] = []

    def start(self) -> Self:
        directory = Path(self._directory.name)
        log = directory / "server.log"
        command = [sys.executable, "-m", "gossamer.testing.manysites", str(self._hosts)]
        child = self._child = spawn(command, directory, log)

        def said() -> list[int]:
            text = log.read_text()
            if child.poll() is not None:
                raise RuntimeError(f"the sites ended while starting:\n{text}")
            return list(json.loads(text)) if text.endswith("\n") else []

        self.ports = wait_until(said, "the sites to serve", 60)
        return self

    def host(self, number: int) -> str:
        return f"127.0.0.1:{self.ports[number]}"

    def url(self, number: int, path: str = "") -> str:
        return f"http://{self.host(number)}{path}"

    def log(self) -> list[Access]:
        """In the order of arrival."""
        return [Access(*entry) for entry in self._ask(LOG)]

    def turn(self, epoch: int) -> None:
        """From now on some pages say something else."""
        self._ask(f"{EPOCH}{epoch}")

    def close(self) -> None:
        if self._child is not None:
            end(self._child)
            self._child = None
        self._directory.cleanup()

    def _ask(self, path: str) -> Any:
        connection = HTTPConnection("127.0.0.1", self.ports[0], timeout=60)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def __enter__(self) -> Self:
        return self if self._child is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the pages of many sites, on loopback.")
    parser.add_argument("hosts", type=int)
    asyncio.run(run(parser.parse_args().hosts))


if __name__ == "__main__":
    main()
