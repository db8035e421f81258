"""A programmable site on loopback: what each path answers is said by the test, and every visit is remembered."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from gossamer.testing.server_process import QuietHandler, ThreadedServer


class Visit(NamedTuple):
    """One request. `path` is without its query, `target` with it."""

    time: float
    method: str
    path: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    who: str


@dataclass(frozen=True)
class Reply:
    """What a path answers. `times`: only so often, then the next reply for this path, or the page that every path has; 0:
    always. `drop`: the connection is closed in the middle of the answer."""

    status: int = 200
    body: str | bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 0
    drop: bool = False


class Site:
    """Serves every path with a page that names it, unless told otherwise. Runs in threads of this process."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.visits: list[Visit] = []
        self._replies: dict[str, list[tuple[Reply, int]]] = {}
        self._gates: dict[str, threading.Event] = {}
        self._answers: Callable[[Visit], Reply | None] = lambda visit: None
        self._changed = threading.Condition()
        site = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                site._serve(self)

            do_POST = do_PUT = do_DELETE = do_HEAD = do_GET

        self._server = ThreadedServer(Handler, address=address)

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        return self._server.url

    @property
    def host(self) -> str:
        return f"{self._server.address}:{self._server.port}"

    def on(self, path: str, *replies: Reply) -> Self:
        """From now on the path answers so, one after the other; with its query, only where that is asked for."""
        with self._changed:
            self._replies[path] = [(reply, reply.times) for reply in replies]
        return self

    def answer(self, answers: Callable[[Visit], Reply | None]) -> Self:
        """From now on this function answers; where it returns None, the paths do."""
        with self._changed:
            self._answers = answers
        return self

    def hold(self, *paths: str) -> None:
        """Let nobody have an answer from these paths until `release`."""
        with self._changed:
            for path in paths:
                self._gates[path] = threading.Event()

    def release(self, *paths: str) -> None:
        for path in paths:
            self._gates[path].set()

    def paths(self) -> list[str]:
        """What was asked for, in the order of arrival, without robots.txt."""
        return [visit.path for visit in list(self.visits)]

    def wait(self, condition: Callable[[list[str]], object], what: str, seconds: float = 60.0) -> None:
        """Return when what was asked for is as wanted."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not condition(self.paths()):
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"waited {seconds:g} s for {what}; asked for were {self.paths()}")

    def reached(self, path: str, times: int = 1) -> None:
        """Return when a path was asked for so often."""
        self.wait(lambda paths: paths.count(path) >= times, f"{path} to be asked for")

    def _next(self, target: str, path: str) -> Reply:
        rest = self._replies.get(target) or self._replies.get(path, [])
        if not rest:
            return Reply()
        reply, left = rest[0]
        if left == 1:
            rest.pop(0)
        elif left > 1:
            rest[0] = (reply, left - 1)
        return reply

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        path = urlsplit(handler.path).path
        visit = Visit(
            time.monotonic(), handler.command, path, handler.path, dict(handler.headers.items()), body,
            handler.headers.get("User-Agent", ""),
        )  # fmt: skip
        with self._changed:
            self.visits.append(visit)
            reply, gate = self._answers(visit) or self._next(handler.path, path), self._gates.get(path)
            self._changed.notify_all()
        if gate is not None:
            gate.wait()
        page = reply.body if reply.body is not None else f"<html><title>{path}</title></html>"
        data = page.encode() if isinstance(page, str) else page
        handler.send_response(reply.status)
        for name, value in {"Content-Type": "text/html", **reply.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data) + (1000 if reply.drop else 0)))
        handler.end_headers()
        handler.close_connection |= reply.drop
        if handler.command != "HEAD":
            handler.wfile.write(data)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for gate in self._gates.values():
            gate.set()
        self._server.close()


def links(*paths: str) -> Reply:
    """A page with links, in this order; one without them is not empty, which would be no page."""
    return Reply(body="".join(f'<a href="{path}">{path}</a>\n' for path in paths) or "<p>There are no links.</p>")


def data(value: Any) -> Reply:
    return Reply(body=json.dumps(value), headers={"Content-Type": "application/json"})
