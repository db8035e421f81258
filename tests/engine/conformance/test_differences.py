"""Where the engines differ, as docs/how-to/run-a-site-in-scrapy.md says: each difference is shown here, so that the page is true."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex

import pytest
from tests.engine.conformance.conformance import Came, Case, crawled, once
from tests.support import fork_server
from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

ENGINES = ("native", "scrapy")
Both = dict[str, dict[str, Came]]
WHOLE = b"<h1>title</h1>" + bytes(range(1, 256)) * 40


def packed(site: Site, _: Site) -> None:
    cut = gzip.compress(WHOLE)[:-20]
    site.on("/cut", Reply(body=cut, headers={"Content-Encoding": "gzip", "Content-Type": "text/html; charset=latin-1"}))


HEADERS = """
    seeds: [SITE/]
    politeness: {robots: ignore}
    request: {headers: {X-api-KEY: 'k'}}
    layers: {page: {fields: {title: h1}}}
"""
CUT = """
    seeds: [SITE/cut]
    politeness: {robots: ignore}
    request: {retries: 0}
    layers: {page: {fields: {title: h1}}}
"""
CONNECT = """
    seeds: ['http://127.0.0.1:PORT/']
    politeness: {robots: ignore}
    request: {retries: 0, connect_timeout: 0.3s, timeout: 2s}
    layers: {page: {fields: {title: h1}}}
"""


@pytest.fixture(scope="session")
def unheard() -> Iterator[int]:
    """A port at which nobody answers: its queue of connections is full."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@pytest.fixture(scope="session")
def both(valkey_server: Server, tmp_path_factory: pytest.TempPathFactory, worker_id: str, unheard: int) -> Both:
    cases = [
        Case("headers", HEADERS, lambda site, _: None, lambda came: None),
        Case("cut", CUT, packed, lambda came: None),
        Case("connect", CONNECT.replace("PORT", str(unheard)), lambda site, _: None, lambda came: None),
    ]

    def crawl() -> Both:
        with ExitStack() as stack:
            return {
                engine: stack.enter_context(
                    crawled(valkey_server, f"c{token_hex(6)}", tmp_path_factory.mktemp(engine), engine, cases)
                )
                for engine in ENGINES
            }

    return once(tmp_path_factory, worker_id, "differences", crawl)


def test_scrapy_writes_names_of_headers_its_own_way(both: Both) -> None:
    # Names are compared without case: a site has to look twice to see it.
    assert [both[engine]["headers"].written for engine in ENGINES] == [["X-api-KEY"], ["X-Api-Key"]]


def test_scrapy_takes_what_can_be_decoded_of_a_body_that_was_cut(both: Both) -> None:
    assert [reason for reason, _ in both["native"]["cut"].dead] == ["bad_encoding"]
    assert (both["scrapy"]["cut"].dead, [item["title"] for item in both["scrapy"]["cut"].items]) == ([], ["title"])


def test_scrapy_has_one_time_limit_for_connection_and_answer(both: Both) -> None:
    [(one, native)], [(two, scrapy)] = (both[engine]["connect"].dead for engine in ENGINES)
    assert one == two == "timeout"
    assert "no connection within 0.3 s" in native
    assert "the response was not complete within 2 s" in scrapy


# What takes a worker of its own to show, and is the same.

PAGES = """
    site: pages
    engine: ENGINE
    seeds: ['SITE/p/[1-9]']
    politeness: {robots: ignore, concurrency: 1}
    limits: {pages: 4}
    layers: {page: {fields: {at: {from: url}}}}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_no_more_pages_than_the_limit_and_an_end_in_good_order(
    valkey_server: Server, crawl_name: str, tmp_path: Path, engine: str
) -> None:
    with Site() as site:
        crawl = Crawl(valkey_server, crawl_name, tmp_path, site)
        crawl.push(PAGES.replace("ENGINE", engine), "pages")
        words = ["work", "--drained"]
        for name, value in crawl.given.items():
            words += ["-s", f"{name}={value}"]
        worker = fork_server.start(
            "gossamer", words, environ=os.environ, directory=tmp_path, stdout=tmp_path / "log", options=["-P"]
        )
        try:
            deadline = time.monotonic() + 90
            while len(crawl_items := crawl.items("pages") if site.visits else []) < 4:
                assert worker.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.05)
            assert len(crawl_items) == 4
        finally:
            worker.send_signal(signal.SIGTERM)
            code = worker.wait(60)
        assert code == 0, (tmp_path / "log").read_text()
        with crawl.frontier() as frontier:
            assert sum(lane.leased for lane in frontier.counts("pages").lanes) == 0
        assert len(site.visits) == 4
