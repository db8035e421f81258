"""Several web hosts for many sites, in a process of their own, with faults, and with an access log that is the truth of what was asked.

`python -m tests.support.many_sites.server HOSTS` prints the ports. What the hosts say is in `manypages`. Every request is noted when it has
been read, and once more just before its answer is sent: two that overlap in the log did overlap.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.support.hard_server.wire import reset
from tests.support.many_sites.pages import RESET, HostPages, HostRequest
from tests.support.servers.http1 import connection, message, read_body, read_head

from gossamer.testing.server_process import ServerProcess, ask, listen, stop_event

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
    def __init__(
        self, number: int, log: list[list[Any]], pages: HostPages, times: Counter[tuple[int, str, str]]
    ) -> None:
        self._number, self._log, self._pages, self._times = number, log, pages, times

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with connection(writer):
            while await self._one(reader, writer):
                await writer.drain()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await read_head(reader)
        method, target, headers = head.method, head.target, head.headers
        body = await read_body(reader, head)
        if target.startswith("/-/"):
            if target.startswith(EPOCH):
                self._pages.epoch = int(target.removeprefix(EPOCH))
            writer.write(_wire(200, {"Content-Type": "application/json"}, json.dumps(self._log).encode()))
            return True
        entry = [self._number, method, target, headers, body.decode("latin-1"), time.monotonic(), 0.0, 0]
        self._log.append(entry)
        self._times[self._number, method, target] += 1
        number = self._times[self._number, method, target]
        reply = self._pages.answer(HostRequest(self._number, method, target, headers, body, number))
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
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return message(f"HTTP/1.1 {status} Whatever", [*lines, f"Content-Length: {len(body)}"], body)


async def run(count: int) -> None:
    told = stop_event()
    log: list[list[Any]] = []
    pages, times = HostPages(), Counter[tuple[int, str, str]]()
    listeners = [await listen(_Host(number, log, pages, times).serve, "127.0.0.1") for number in range(count)]
    pages.ports = [port for _, port in listeners]
    print(json.dumps(pages.ports), flush=True)
    await told.wait()


class ManySites(ServerProcess):
    """The process, for tests. It dies with this one."""

    def __init__(self, hosts: int) -> None:
        super().__init__("the sites")
        self._hosts = hosts
        self.ports: list[int] = []

    def start(self) -> Self:
        command = [sys.executable, "-P", str(Path(__file__).resolve()), str(self._hosts)]
        self.ports = self.run(command, lambda said: list(json.loads(said)))
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

    def _ask(self, path: str) -> Any:
        return json.loads(ask(self.host(0), path))


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the pages of many sites, on loopback.")
    parser.add_argument("hosts", type=int)
    asyncio.run(run(parser.parse_args().hosts))


if __name__ == "__main__":
    main()
