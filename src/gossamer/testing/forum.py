"""The bundled demo forum: a small site on loopback that knows its own pages and remembers who came when.

`python -m gossamer.testing.forum` serves it from a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import os
import stat
import sys
import threading
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import fields
from typing import Literal, Self

from gossamer.testing.forum_pages import ForumPage, Layout, Trouble
from gossamer.testing.forum_visitor import AccessLog, Arrival, Visitor
from gossamer.testing.process import free_port
from gossamer.testing.server_process import LoopServer, ServerProcess, ask, stop_event

__all__ = ["Arrival", "Forum", "ForumProcess", "Layout", "Trouble"]

ARRIVALS, FORGET = "/-/arrivals", "/-/forget"
_SIZES = ("boards", "lists", "posts", "comments", "seed")


class ForumAddresses:
    """Where the pages of a forum are: `hosts` addresses with the same pages.

    The hosts are ports of 127.0.0.1, or with `by="address"` the addresses 127.0.0.1, 127.0.0.2 … on one port (Linux
    only). The front page of the first links to the others, so one seed reaches all.
    """

    def __init__(self, layout: Layout | None, hosts: int, by: Literal["port", "address"]) -> None:
        if by not in ("port", "address") or hosts < 1:
            raise ValueError('hosts must be 1 or more, by "port" or "address"')
        self.layout, self.hosts, self.by = layout or Layout(), hosts, by
        self.addresses: list[tuple[str, int]] = []

    @property
    def url(self) -> str:
        """The front page of the first host: the seed from which everything can be reached."""
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        """The front page of each host."""
        return [f"http://{host}:{port}/" for host, port in self.addresses]

    def expected_pages(self) -> frozenset[str]:
        """The URL of every page that a complete crawl gets with status 200, on all hosts."""
        return self._on_all_hosts(self.layout.paths())

    def expected_redirects(self) -> frozenset[str]:
        """Every URL that a complete crawl sees answered with 302."""
        return self._on_all_hosts(self.layout.redirects())

    def expected_missing(self) -> frozenset[str]:
        """Every URL that a complete crawl sees answered with 404."""
        return self._on_all_hosts(self.layout.missing())

    def _on_all_hosts(self, paths: Iterable[str]) -> frozenset[str]:
        every = list(paths)
        return frozenset(url[:-1] + path for url in self.urls for path in every)

    @abstractmethod
    def arrivals(self, host: str | None = None) -> list[Arrival]:
        """All requests answered so far in the order of their arrival, or those for one host (`127.0.0.1:port`)."""

    def max_in_flight(self, host: str | None = None) -> int:
        """The most requests that were in flight at once for one host, or for any."""
        return max((arrival.in_flight for arrival in self.arrivals(host)), default=0)


class Forum(ForumAddresses, LoopServer):
    """A forum served by a thread of this process. Any Host header is accepted and told apart in `arrivals`, which can still be read
    after `close`."""

    def __init__(
        self, layout: Layout | None = None, *, hosts: int = 1, by: Literal["port", "address"] = "port", port: int = 0
    ) -> None:
        ForumAddresses.__init__(self, layout, hosts, by)
        LoopServer.__init__(self, "gossamer-forum")
        self._port = port
        self._listeners: list[asyncio.Server] = []
        self.access = AccessLog()

    def arrivals(self, host: str | None = None) -> list[Arrival]:
        return sorted(arrival for arrival in list(self.access.log) if host in (None, arrival.host))

    def forget(self) -> None:
        """Empty the access log and let trouble that goes away come back."""
        self.access.log.clear()
        self.access.troubled.clear()

    async def listen(self) -> None:
        """Open the ports on the running loop."""
        for attempts in reversed(range(20)):
            try:
                return await self._open_ports()
            except OSError as error:
                await self.disconnect()
                # A port of our own choice may have been taken since; one that was asked for has no substitute.
                if error.errno != errno.EADDRINUSE or self._port or not attempts:
                    raise
        return None

    async def _open_ports(self) -> None:
        loop = asyncio.get_running_loop()
        self.addresses.clear()
        port = self._port or free_port()
        for number in range(self.hosts):
            host = f"127.0.0.{number + 1}" if self.by == "address" else "127.0.0.1"
            if self.by == "port" and number:
                port = self._port + number if self._port else free_port()
            listener = await loop.create_server(lambda: Visitor(self.page, self.access), host, port, backlog=1024)
            self._listeners.append(listener)
            self.addresses.append((host, port))

    async def disconnect(self) -> None:
        """Close the ports and all connections on the running loop."""
        while self._listeners:
            self._listeners.pop().close()
        for visitor in list(self.access.visitors):
            visitor.leave()
        await asyncio.sleep(0)

    def page(self, path: str, host: str) -> ForumPage:
        """What a visitor of that host is to be answered, trouble included."""
        if path.startswith("/-/"):
            return self._own_page(path)
        if path == "/robots.txt":
            return ForumPage(200, b"User-agent: *\nAllow: /\n", kind="text/plain")
        page = self.layout.page(path, tuple(self.urls[1:]))
        if page.first_status and (host, path) not in self.access.troubled:
            self.access.troubled.add((host, path))
            wait = self.layout.trouble.retry_after if page.first_status == 429 else 0
            return ForumPage(page.first_status, b"<html><body><h1>Later</h1></body></html>", retry_after=wait)
        return page

    def _own_page(self, path: str) -> ForumPage:
        if path == ARRIVALS:
            return ForumPage(200, json.dumps(self.arrivals()).encode(), kind="application/json")
        if path == FORGET:
            self.forget()
        return ForumPage(200 if path == FORGET else 404, b"", kind="text/plain")


class ForumProcess(ForumAddresses, ServerProcess):
    """The same forum in a process of its own, so that it takes nothing from the crawler under test but a core.

    Answers the same questions as `Forum`; dies with this process.
    """

    def __init__(
        self, layout: Layout | None = None, *, hosts: int = 1, by: Literal["port", "address"] = "port"
    ) -> None:
        ForumAddresses.__init__(self, layout, hosts, by)
        ServerProcess.__init__(self, "the forum")

    def start(self) -> Self:
        command = [sys.executable, "-m", "gossamer.testing.forum", f"--hosts={self.hosts}", f"--by={self.by}"]
        command += [f"--{name}={getattr(self.layout, name)}" for name in _SIZES]
        trouble = self.layout.trouble
        command += [f"--{part.name.replace('_', '-')}={getattr(trouble, part.name)}" for part in fields(Trouble)]

        def all_urls(said: str) -> list[str]:
            lines = said.splitlines()
            return lines if len(lines) >= self.hosts else []

        urls = self.run(command, all_urls)
        self.addresses = [(host, int(port)) for host, _, port in (url[7:-1].partition(":") for url in urls)]
        return self

    def arrivals(self, host: str | None = None) -> list[Arrival]:
        """As of `Forum`, times included: the clock is the machine's."""
        every = (Arrival(*fields) for fields in json.loads(self._ask(ARRIVALS)))
        return [arrival for arrival in every if host in (None, arrival.host)]

    def forget(self) -> None:
        self._ask(FORGET)

    def _ask(self, path: str) -> bytes:
        host, port = self.addresses[0]
        return ask(f"{host}:{port}", path)


def main(arguments: list[str] | None = None) -> None:
    """Serve a forum, print the URL of each host's front page, go on until stdin (a pipe) closes or SIGTERM comes."""
    parser = argparse.ArgumentParser(prog="python -m gossamer.testing.forum", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0, help="first port; 0 takes a free one")
    parser.add_argument("--hosts", type=int, default=1, help="number of hosts with the same pages")
    parser.add_argument("--by", choices=["port", "address"], default="port", help="what tells the hosts apart")
    for name in _SIZES:
        parser.add_argument(f"--{name}", type=int, default=getattr(Layout(), name))
    for part in fields(Trouble):
        parser.add_argument(f"--{part.name.replace('_', '-')}", type=type(part.default), default=part.default)
    given = parser.parse_args(arguments)
    trouble = Trouble(**{part.name: getattr(given, part.name) for part in fields(Trouble)})
    layout = Layout(given.boards, given.lists, given.posts, given.comments, given.seed, trouble)
    asyncio.run(_serve(Forum(layout, hosts=given.hosts, by=given.by, port=given.port)))


async def _serve(forum: Forum) -> None:
    loop, told = asyncio.get_running_loop(), stop_event()
    await forum.listen()
    print(*forum.urls, sep="\n", flush=True)

    def until_stdin_closes() -> None:
        # Not sys.stdin: a thread inside its lock would spoil the interpreter's exit.
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(told.set)

    # Only a pipe says something by closing; /dev/null, as of any process in the background, is empty at once.
    mode = os.fstat(0).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        threading.Thread(target=until_stdin_closes, daemon=True).start()
    await told.wait()
    await forum.disconnect()


if __name__ == "__main__":
    main()
