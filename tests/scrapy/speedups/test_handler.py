"""Whatever a server answers, a spider gets from the add-on's download handler what it gets from Scrapy's usual one."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from scrapy.settings import Settings
from tests.scrapy.spiders.answers import Answers
from tests.support.hard_server.server import HardServer
from tests.support.workers.workers import Workers

from gossamer.scrapy.speedups.defaults import AIOHTTP, OF_USUAL_HANDLER, apply
from gossamer.testing.servers import Server

PAGE = b"<h1>page</h1>"


def answer(*headers: bytes, body: bytes = PAGE, status: bytes = b"HTTP/1.1 200 OK", length: bool = True) -> bytes:
    sized = b"Content-Length: %d\r\n" % len(body) if length else b""
    return status + b"\r\n" + sized + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + body


UNUSUAL = {
    "/part#of": answer(),
    "/long": answer(b"Content-Security-Policy: " + b"a" * 12_000),
    "/many": answer(*(b"X-%d: v" % number for number in range(200))),
    "/latin1": answer(b'Content-Disposition: attachment; filename="caf\xe9"'),
    "/moved": answer(b"Location: /caf\xe9#there", body=b"", status=b"HTTP/1.1 302 Found"),
    "/closed": answer(b"Connection: close", length=False),
    "/http10": answer(status=b"HTTP/1.0 200 OK", length=False),
    "/upgrade": answer(b"Upgrade: h2", b"Connection: Upgrade"),
    "/chunked": answer(b"Transfer-Encoding: chunked", body=b"4\r\npage\r\n0\r\n\r\n", length=False),
    "/cookies": answer(b"Set-Cookie: a=1", b"set-cookie: b=2"),
    "/bound": answer(),
}
"""Correct, or nearly so."""
MALFORMED = {
    "/twice": answer(b"Content-Length: %d" % len(PAGE)),
    "/both": answer(b"Transfer-Encoding: chunked", body=b"4\r\npage\r\n0\r\n\r\n"),
    "/line": answer(b"this is no header"),
    "/zero": answer(b"X-Zero: a\x00b"),
    "/more": answer(body=PAGE)[:-4].replace(b": %d" % len(PAGE), b": 3"),
    "/204": answer(status=b"HTTP/1.1 204 No Content"),
}
"""aiohttp reads none of these. One server for each: the first of them makes all of its host go another way."""
BROKEN, LOSSY = "late-bad-chunk", "late-bad-chunk?lossy"
"""A body whose end makes no sense comes late, on a connection that stays open; the spider takes the second as it is."""
TUNNEL, REFUSED = "site.invalid:443", answer(status=b"HTTP/1.1 407 Proxy Authentication Required")
HELD = [f"/held/{number}" for number in range(6)]


class RawServer:
    """Answers with bytes as they are; paths of `HELD` when all of them have been asked for."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self.answers = {path.partition("#")[0]: one for path, one in answers.items()}
        self.peers: dict[str, str] = {}
        self.asked: list[str] = []
        self._together: asyncio.Event

    async def serve(self, ready: threading.Event) -> None:
        self._together, self.done = asyncio.Event(), asyncio.Event()
        self.loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        async with server:
            await self.done.wait()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode("latin1")
        self.asked.append(path)
        self.peers[path] = writer.get_extra_info("peername")[0]
        if path in HELD:
            if set(HELD) <= set(self.asked):
                self._together.set()
            await self._together.wait()
        writer.write(self.answers.get(path, answer()))
        await writer.drain()
        writer.close()


@contextmanager
def serving(answers: dict[str, bytes]) -> Iterator[RawServer]:
    server, ready = RawServer(answers), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(ready)))
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        server.loop.call_soon_threadsafe(server.done.set)
        thread.join(10)


def noted(
    frontier: Server, addons: dict[str, int], usual: RawServer, malformed: list[RawServer], hard: HardServer
) -> dict[str, Any]:
    """What the spider got, by path."""
    urls = [f"{usual.url}{path}" for path in UNUSUAL]
    urls += [f"{server.url}{path}" for server in malformed for path in server.answers]
    urls += [f"https://{TUNNEL}/tunnel", hard.url(f"/{BROKEN}"), hard.url(f"/{LOSSY}")]
    held = " ".join(f"{usual.url}{path}" for path in HELD)
    with Workers(frontier.url, "answers", ADDONS=addons) as workers:
        worker = workers.start(Answers, urls=" ".join(urls), held=held)
        assert worker.wait() == 0, worker.log
        log, events = worker.log, [event for event in worker.events if event.kind == "mark"]
    assert len(events) == len(urls) + len(HELD), log
    return {event.what.partition("//")[2].partition("/")[2]: event.more for event in events}


def test_a_spider_gets_what_scrapys_usual_handler_gets() -> None:
    found = {}
    for name, addons in (("plain", {}), ("fleet", {"gossamer.Addon": 100})):
        with ExitStack() as stack:
            frontier, usual = stack.enter_context(Server()), stack.enter_context(serving({**UNUSUAL, TUNNEL: REFUSED}))
            malformed = [stack.enter_context(serving({path: one})) for path, one in MALFORMED.items()]
            posted = stack.enter_context(serving({"/post": MALFORMED["/line"]}))
            hard = stack.enter_context(HardServer())
            found[name] = noted(frontier, addons, usual, [*malformed, posted], hard)
            assert usual.peers["/bound"] == "127.0.0.2"
            # A form is sent once, and its page arrives, also where aiohttp could not read the answer.
            assert posted.asked == ["/post"]
            ports = {server.url: path for server, path in zip([usual, *malformed], ["usual", *MALFORMED], strict=True)}
            for details in found[name].values():
                origin = "/".join(str(details.get("url", "")).split("/")[:3])
                details["url"] = ports.get(origin, "") + str(details.get("url", "")).removeprefix(origin)
    assert found["fleet"] == found["plain"]
    assert found["plain"].pop("tunnel")["failed"] == "TunnelError"
    assert found["plain"].pop(BROKEN)["failed"] == "ResponseDataLossError"
    assert found["plain"][LOSSY]["flags"] == ["dataloss"]
    assert all("status" in details for details in found["plain"].values())


@pytest.mark.parametrize("name", OF_USUAL_HANDLER)
def test_settings_that_only_the_usual_handler_has_keep_it(name: str) -> None:
    settings = Settings()
    apply(settings, "aiohttp")
    assert settings.getdict("DOWNLOAD_HANDLERS")["https"] == AIOHTTP
    settings = Settings({name: "mine"})
    apply(settings, "aiohttp")
    assert not settings.getdict("DOWNLOAD_HANDLERS")


@pytest.mark.parametrize(
    "given",
    [{"TWISTED_REACTOR": None}, {"TWISTED_REACTOR": ""}, {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"}],
    ids=str,
)  # fmt: skip
def test_without_asyncio_the_usual_handler_stays(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "twisted.internet.reactor", raising=False)
    settings = Settings(given)
    apply(settings, "all")
    assert not settings.getdict("DOWNLOAD_HANDLERS")
    assert settings["ASYNCIO_EVENT_LOOP"] is None
