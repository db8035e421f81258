"""A small web server for the example sites: pages are made by a function, and every request is remembered."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

from gossamer.closeable import Closeable
from gossamer.testing.server_process import QuietHandler, ThreadedServer

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
ALLOWED = "User-agent: *\nDisallow: /-/\n"


class ExampleRequest(NamedTuple):
    """One request. `place` says which of the server's hosts it was for, counted from 0; `query` has the first value of each
    name."""

    time: float
    place: int
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    repeated: Mapping[str, list[str]]
    """The query with all values of each name."""

    def json(self) -> Any:
        return json.loads(self.body or b"null")

    def form(self) -> dict[str, str]:
        """The fields of a form that was sent, with the first value of each name."""
        return {name: values[0] for name, values in parse_qs(self.body.decode(), keep_blank_values=True).items()}


class ExampleResponse(NamedTuple):
    body: bytes = b""
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = NO_HEADERS


NOT_FOUND = ExampleResponse(b"<h1>There is no such page</h1>", status=404)


def html(title: str, body: str, encoding: str = "utf-8", head: str = "") -> bytes:
    text = f"<!doctype html>\n<html><head>{head}<title>{title}</title></head>\n<body>\n{body}\n</body></html>\n"
    return text.encode(encoding, "xmlcharrefreplace")


def data(value: Any, status: int = 200, headers: Mapping[str, str] = NO_HEADERS) -> ExampleResponse:
    return ExampleResponse(json.dumps(value, ensure_ascii=False).encode(), "application/json", status, headers)


class Example(Closeable):
    """Serves `hosts` ports of 127.0.0.1 from threads of this process. `port` is the first one, 0 takes free ones."""

    name = ""
    hosts = 1
    port = 0
    """The ports that the example's site file names."""

    def __init__(self, port: int = 0) -> None:
        self._log: list[ExampleRequest] = []
        self._lock = threading.Lock()
        self._servers: list[ThreadedServer] = []
        try:
            for place in range(self.hosts):
                self._servers.append(ThreadedServer(_handler(self, place), port + place if port else 0))
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The first host, without a slash at its end."""
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self._servers]

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        """What a page is like; for those who make an example."""
        raise NotImplementedError

    def requests(self) -> list[ExampleRequest]:
        """What was asked for, in the order of arrival, without robots.txt."""
        with self._lock:
            return [asked for asked in self._log if asked.path != "/robots.txt"]

    def paths(self) -> list[str]:
        return [asked.path for asked in self.requests()]

    def forget(self) -> None:
        with self._lock:
            self._log.clear()

    def serve(self, asked: ExampleRequest) -> ExampleResponse:
        """Remember a request and answer it."""
        with self._lock:
            self._log.append(asked)
        if asked.path == "/robots.txt":
            return ExampleResponse(ALLOWED.encode(), "text/plain")
        return self.answer(asked)

    def start(self) -> Self:
        for server in self._servers:
            server.start()
        return self

    def close(self) -> None:
        for server in self._servers:
            server.close()

    def __enter__(self) -> Self:
        return self.start()


class SmallExample(Example):
    """Shows one thing."""

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The rows that a crawl should find, by table, in any order; made from what the pages are made from."""
        raise NotImplementedError


def _handler(example: Example, place: int) -> type[BaseHTTPRequestHandler]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            repeated = parse_qs(parts.query)
            query = {name: values[0] for name, values in repeated.items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = ExampleRequest(time.monotonic(), place, self.command, parts.path, query, headers, body, repeated)
            answer = example.serve(asked)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_POST = do_HEAD = do_GET

    return Handler
