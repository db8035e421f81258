"""How long is waited for what: the first byte may take all of `timeout`, a connection a third of it, and a page is not asked for again
while the request before runs."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conformance.conformance import Case, crawled
from tests.support.hard_server.server import HardServer
from tests.support.native_crawl import Crawl
from tests.support.servers.http1 import connection, read_head
from tests.support.servers.web_proxy import WebProxy

from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.model.fetch import FetchError, FetchOptions
from gossamer.model.page import PageRequest
from gossamer.testing.server_process import LoopServer, listen
from gossamer.testing.servers import Server

BODY = b"<html><title>late</title></html>"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
STALL_SECONDS = 0.3
LATE_SECONDS = 3 * STALL_SECONDS


class LateServer(LoopServer):
    """/late answers after `LATE_SECONDS`; /first-never never answers the first request, and notes when its client has left; others
    are answered at once. `events` has what happened, in order."""

    def __init__(self, certificates: Path | None = None) -> None:
        super().__init__("the late server")
        self.events: list[str] = []
        self._certificates, self._port = certificates, 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def listen(self) -> None:
        secure = None
        if self._certificates is not None:
            secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            secure.load_cert_chain(self._certificates)
        self._server, self._port = await listen(self._serve, "127.0.0.1", secure)

    async def disconnect(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, path: str = "") -> str:
        return f"http{'s' if self._certificates else ''}://127.0.0.1:{self._port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
        async with connection(writer):
            while True:
                path = (await read_head(reader)).target
                self.events.append(f"asked {path}")
                if path == "/late":
                    await asyncio.sleep(LATE_SECONDS)
                elif path == "/first-never" and self.events.count("asked /first-never") == 1:
                    # A client that aborts its connection is an error here.
                    with suppress(OSError):
                        assert await reader.read(1) == b""
                    self.events.append("left")
                    return
                elif path == "/stalls":
                    writer.write(WHOLE[:-5])
                    await reader.read(1)
                    return
                writer.write(WHOLE)
                await writer.drain()


@pytest.fixture
def late() -> Iterator[LateServer]:
    with LateServer() as server:
        yield server


@pytest.mark.parametrize("kept", [False, True], ids=["fresh", "kept"])
async def test_the_first_byte_may_take_longer_than_a_body_may_stand_still(
    late: LateServer, fetcher: AiohttpFetcher, kept: bool
) -> None:
    options = FetchOptions(timeout=60, stall_timeout=STALL_SECONDS)
    if kept:
        await fetcher.fetch(PageRequest(late.url("/ok"), options=options))
    assert (await fetcher.fetch(PageRequest(late.url("/late"), options=options))).body == BODY
    # It holds for each response of a connection.
    with pytest.raises(FetchError, match=r"timeout: the body stood still for 0\.3 s"):
        await fetcher.fetch(PageRequest(late.url("/stalls"), options=options))


async def test_also_over_tls_and_by_a_proxy(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    options = FetchOptions(timeout=60, stall_timeout=STALL_SECONDS, verify=False)
    with LateServer(Path(hard.authority).with_name("server.pem")) as late:
        assert (await fetcher.fetch(PageRequest(late.url("/late"), options=options))).body == BODY
    with LateServer() as late, WebProxy() as proxy:
        got = await fetcher.fetch(PageRequest(late.url("/late"), options=options._replace(proxy=proxy.url)))
        assert got.body == BODY


SITE = """
    seeds: [URL]
    politeness: {robots: ignore}
    request: {timeout: 1s, retries: 2}
    layers: {page: {fields: {title: title}}}
"""


@pytest.mark.parametrize("engine", ["native", "scrapy"])
def test_a_retry_begins_when_the_server_has_seen_the_end_of_the_request_before(
    valkey_server: Server, crawl_name: str, tmp_path: Path, late: LateServer, engine: str
) -> None:
    case = Case("late", SITE, lambda site, _: None, lambda came: None)
    with crawled(valkey_server, crawl_name, tmp_path, engine, [case], words={"URL": late.url("/first-never")}) as cases:
        assert late.events == ["asked /first-never", "left", "asked /first-never"]
        assert [item["title"] for item in cases["late"].items] == ["late"]
        assert cases["late"].counters["engine/failed/timeout"] == 1


async def test_a_connection_may_take_a_third_of_the_time_and_the_failure_says_so(crawl: Crawl) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        try:
            for _ in range(8):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(listener.getsockname())
                waiting.append(client)
            text = SITE.replace("URL", f"http://127.0.0.1:{listener.getsockname()[1]}/")
            text = text.replace("timeout: 1s, retries: 2", "timeout: 1500ms, retries: 0")
            crawl.push("    site: late" + text, "late")
            await crawl.run()
        finally:
            for client in waiting:
                client.close()
    [(reason, detail)] = crawl.dead("late")
    assert reason == "timeout"
    assert detail == "no connection within 0.5 s (`connect_timeout`, where it is not set a third of `timeout`)"
