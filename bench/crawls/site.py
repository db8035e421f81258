"""A site that is never the bottleneck: pages made beforehand, served on loopback by a process of its own, which remembers
every visit. What a crawl did is read from here, not from the crawler's own counters.

    python bench/crawls/site.py [--rule graph] [--pages 1000] [--hosts 1] [--delay 0] [--hold]

prints the address of each host, then serves until SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.crawls.shape import RULES, Shape

from gossamer.testing.server_process import ServerProcess, ask, on_free_port, stop_event

COUNT, LOG, RESET, HOLD, RELEASE = "/_count", "/_log", "/_reset", "/_hold", "/_release"
STRANGER = -1


class Visit(NamedTuple):
    """One request. `time` is of `time.monotonic`, `page` its number or -1 for a path that does not exist, `host` the number
    of the host, `in_flight` how many requests to that host were unanswered at its arrival, itself included, and `who` what
    the client calls itself (User-Agent)."""

    time: float
    page: int
    host: int
    in_flight: int
    who: str


class Site:
    """All pages, all visits. Touched on the event loop only."""

    def __init__(self, shape: Shape, delay: float, hold: bool) -> None:
        self.shape, self.delay = shape, delay
        self.held: list[Callable[[], None]] | None = [] if hold else None
        self.origins: list[str] = []
        self.pages: list[dict[bytes, tuple[int, bytes]]] = []
        self.visits: list[Visit] = []
        self.in_flight: Counter[int] = Counter()
        self.known: set[int] = set()

    def publish(self, ports: list[int]) -> None:
        """Make every page."""
        self.origins = [f"http://127.0.0.1:{port}" for port in ports]
        self.pages = [{} for _ in ports]
        for number in range(self.shape.pages):
            answer = response(200, self.shape.body(number, self.origins))
            self.pages[number % self.shape.hosts][self.shape.path(number).encode()] = (number, answer)
        # Many objects that never die: looking through them again and again would only cost time.
        gc.freeze()

    def own(self, path: bytes) -> bytes:
        """The pages for those who watch the visitors."""
        found: Any
        if path == COUNT.encode():
            found = {"requests": len(self.visits), "pages": len(self.known)}
        elif path == LOG.encode():
            found = self.visits
        elif path == RESET.encode():
            self.visits.clear()
            self.known.clear()
            found = {}
        elif path == HOLD.encode():
            self.held = self.held or []
            found = {}
        elif path == RELEASE.encode():
            held, self.held = self.held or [], None
            for answer in held:
                answer()
            found = {}
        else:
            return response(404, b"")
        return response(200, json.dumps(found).encode(), "application/json")


def response(status: int, body: bytes, kind: str = "text/html; charset=utf-8") -> bytes:
    reason = {200: "OK", 404: "Not Found"}[status]
    return b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        status, reason.encode(), kind.encode(), len(body), body,
    )  # fmt: skip


NOTHING = (STRANGER, response(404, b"<html><body>no such page</body></html>"))


class Connection(asyncio.Protocol):
    """One client. Understands GET without a body, which is all that crawlers of this site send."""

    def __init__(self, site: Site, host: int) -> None:
        self._site, self._host, self._pages = site, host, site.pages[host]
        self._rest = b""
        self._open = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # That of uvloop is none by inheritance.

    def connection_lost(self, error: Exception | None) -> None:
        self._site.in_flight[self._host] -= self._open
        self._open = 0

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        while data:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._rest = data
                return
            self._answer(data[data.find(b" ") + 1 : data.find(b" HTTP/")], data[:end])
            data = data[end + 4 :]

    def _answer(self, path: bytes, head: bytes) -> None:
        site, host = self._site, self._host
        if path.startswith(b"/_"):
            self._transport.write(site.own(path))
            return
        number, answer = self._pages.get(path, NOTHING)
        named = head.partition(b"\r\nUser-Agent: ")[2]
        who = named.partition(b"\r\n")[0].decode("latin-1")
        site.visits.append(Visit(time.monotonic(), number, host, site.in_flight[host] + 1, who))
        site.known.add(number)
        if not site.delay and site.held is None:
            self._transport.write(answer)
            return
        self._open += 1
        site.in_flight[host] += 1
        late = partial(self._late, answer)
        if site.held is None:
            asyncio.get_running_loop().call_later(site.delay, late)
        else:
            site.held.append(late)

    def _late(self, answer: bytes) -> None:
        if self._open:
            self._open -= 1
            self._site.in_flight[self._host] -= 1
            self._transport.write(answer)


class SiteProcess(ServerProcess):
    """The site in a process of its own, which dies with this one. `delay` seconds pass before a page is answered; if `held`,
    none is before `release`."""

    def __init__(self, shape: Shape, delay: float = 0.0, held: bool = False) -> None:
        super().__init__("the site")
        self.shape, self.delay, self._held = shape, delay, held
        self.origins: list[str] = []

    def start(self) -> Self:
        shape = self.shape
        command = [sys.executable, str(Path(__file__).resolve()), f"--rule={shape.rule}", f"--pages={shape.pages}"]
        command += [f"--hosts={shape.hosts}", f"--delay={self.delay}", *(["--hold"] if self._held else [])]

        def all_origins(said: str) -> list[str]:
            lines = said.splitlines()
            return lines if len(lines) == shape.hosts else []

        self.origins = self.run(command, all_origins)
        return self

    @property
    def url(self) -> str:
        """The front page, from which everything can be reached."""
        return self.shape.url(0, self.origins)

    def requests(self) -> int:
        """How many requests have arrived."""
        return int(self._ask(COUNT)["requests"])

    def pages(self) -> int:
        """How many different pages were asked for."""
        return int(self._ask(COUNT)["pages"])

    def visits(self) -> list[Visit]:
        """Every request since the start or the last `reset`, in the order of arrival."""
        return [Visit(*fields) for fields in self._ask(LOG)]

    def hold(self) -> None:
        """Answer nobody until `release`."""
        self._ask(HOLD)

    def release(self) -> None:
        """Answer those who wait, and everybody from now on."""
        self._ask(RELEASE)

    def reset(self) -> None:
        """Forget all visits."""
        self._ask(RESET)

    def _ask(self, path: str) -> Any:
        return json.loads(ask(self.origins[0].removeprefix("http://"), path))


async def serve(site: Site) -> None:
    loop, told = asyncio.get_running_loop(), stop_event()

    async def host(number: int, port: int) -> asyncio.Server:
        visitor = partial(Connection, site, number)
        return await loop.create_server(visitor, "127.0.0.1", port, backlog=1024, start_serving=False)

    opened = [await on_free_port(partial(host, number)) for number in range(site.shape.hosts)]
    site.publish([port for _, port in opened])
    for listener, _ in opened:
        await listener.start_serving()
    print(*site.origins, sep="\n", flush=True)
    await told.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a site on loopback, very fast.")
    parser.add_argument("--rule", choices=list(RULES), default=Shape().rule)
    parser.add_argument("--pages", type=int, default=Shape().pages)
    parser.add_argument("--hosts", type=int, default=Shape().hosts, help="ports of 127.0.0.1 that share the pages")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before a page is answered")
    parser.add_argument("--hold", action="store_true", help="answer nothing before /_release was asked for")
    given = parser.parse_args()
    site = Site(Shape(given.rule, given.pages, given.hosts), given.delay, given.hold)
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(site))
    else:
        uvloop.run(serve(site))


if __name__ == "__main__":
    main()
