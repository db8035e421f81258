"""What becomes of pages that failed, of stored requests that cannot be used, and of very large pages."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.scrapy.spiders.failing import Failing, Large, Ruled
from tests.support.site import Reply, Site, links
from tests.support.workers.variants import FIRST, LAST, Variant, some
from tests.support.workers.workers import Workers, left, of

from gossamer.frontier import codec
from gossamer.model import Request
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

NO_WAIT = {"Retry-After": "0"}
OUTCOMES: dict[str, tuple[dict[str, int], dict[str, int], int]] = {
    "dead": ({"/flaky/child": 1}, {"callback": 2, "http_503": 1}, 1),
    "done": ({"flaky": 1, "/flaky/child": 1, "always": 1}, {}, 1),
    "retry": ({"flaky": 1, "/flaky/child": 1}, {"callback": 1, "http_503": 1}, 2),
}
"""By GOSSAMER_FAILURES: the items, the dead letters, and how often a page that always fails was asked for."""


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        running.on("/flaky", Reply(body="first", times=1))
        for path in ("/gone", "/rescued-503", "/with/503", "/without/503"):
            running.on(path, Reply(503, headers=NO_WAIT))
        for path in ("/rescued", "/with/broken", "/without/broken"):
            running.on(path, Reply(drop=True))
        running.on(
            "/links", links(*(f"/{rule}/{page}" for rule in ("with", "without") for page in ("503", "broken", "ok")))
        )
        yield running


@pytest.mark.parametrize("failures", OUTCOMES)
def test_a_page_that_failed_is_kept_forgotten_or_tried_again(
    failures: str, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    items, dead, times = OUTCOMES[failures]
    more = {"GOSSAMER_FAILURES": failures, "GOSSAMER_FAILURE_TRIES": "2", "RETRY_TIMES": "1"}
    with Workers(valkey_server.url, crawl_name) as workers:
        worker = workers.start(Failing, Ruled, site=site.url, settings=more)
        assert worker.reason(Failing.name) == "finished"
        with workers.frontier() as frontier:
            found, ruled = left(frontier, Failing.name), left(frontier, Ruled.name)
        assert found.ids() == items
        assert found.reasons() == dead
        assert site.paths().count("/always") == times
        assert {"rescued /rescued", "rescued /rescued-503", "rescued /with/503", "rescued /with/broken"} == set(
            of(worker.events, "mark")
        )
        assert ruled.ids() == {"/with/ok": 1, "/without/ok": 1}
        # The errback that a CrawlSpider gives every request is nobody's.
        assert ruled.reasons() == ({} if failures == "done" else {"http_503": 1, "download": 1})


def test_items_of_a_page_that_failed_come_with_its_replay(site: Site, valkey_server: Server, crawl_name: str) -> None:
    with Workers(valkey_server.url, crawl_name, RETRY_TIMES="1") as workers:
        workers.start(Failing, site=site.url).result()
        with workers.frontier() as frontier:
            assert left(frontier, Failing.name).ids() == {"/flaky/child": 1}
            letters = [letter for letter in frontier.dead_letters(Failing.name) if letter.reason == "callback"]
            assert sum(frontier.replay(letter.partition, [letter.id]) for letter in letters) == 2
        workers.start(Failing, site=site.url).result()
        with workers.frontier() as frontier:
            found = left(frontier, Failing.name)
        assert found.ids() == {"flaky": 1, "/flaky/child": 1}, "the child was seen; what always fails brings nothing"
        assert found.reasons() == {"callback": 1, "http_503": 1}


@pytest.mark.parametrize("variant", some((FIRST, "select"), (LAST, "uvloop")), ids=str)
def test_stored_requests_that_nobody_can_use_become_dead_letters(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    def stored(number: int, payload: bytes) -> Request:
        return Request(number, site.host, f"{Failing.name}.main", payload)

    def fields(path: str, **more: object) -> bytes:
        return codec.encode_request({"url": site.url + path, **more})

    with Workers(valkey_server.url, crawl_name, variant, GOSSAMER_FAILURES="done", RETRY_TIMES=1) as workers:
        assert workers.start(Failing, site=site.url).reason() == "finished"
        before = len(site.paths())
        with workers.frontier() as frontier:
            frontier.add(
                [
                    stored(1, b"\xff no payload"),
                    stored(2, codec.encode("no request")),
                    stored(3, fields("/x", callback="gone")),
                    stored(4, fields("/x", errback="__init__")),
                    stored(5, fields("/x", **{"class": "subprocess.Popen"})),
                    stored(6, fields("/x", **{"class": "scrapy.http.Response"})),
                    stored(7, fields("/x", surprise=1)),
                    stored(8, codec.encode_request({"url": "no url at all"})),
                    stored(9, fields("/fine", callback="parse_child")),
                ]
            )
        assert workers.start(Failing, site=site.url).reason() == "finished"
        assert site.paths()[before:] == ["/fine"]
        with workers.frontier() as frontier:
            found = left(frontier, Failing.name)
        assert found.reasons() == {"garbage": 6, "unknown_callback": 2}
        assert any("subprocess.Popen" in letter.detail for letter in found.dead)


def test_a_page_with_thousands_of_children_and_items_is_one_page(
    site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(valkey_server.url, crawl_name) as workers:
        worker = workers.start(Large, site=site.url, lanes="main", settings={"LOG_LEVEL": "INFO"})
        worker.until("answered", "/large")
        with workers.frontier() as frontier:
            wait_until(lambda: frontier.counts(Large.name).groups[0].start == "done", "the start to be over")
            worker.signal(signal.SIGTERM)
            assert worker.reason() == "shutdown"
            lanes = {lane.lane: lane for lane in frontier.counts(Large.name).lanes}
            assert lanes["large.later"].queued == Large.children
            assert lanes["large.main"].done == 1
            found = left(frontier, Large.name, drained=False)
        assert [item["id"] for item in found.items] == [str(number) for number in range(Large.items)], (
            "in the order they were yielded"
        )
        assert worker.stats()["scheduler/enqueued"] == Large.children + 1
