"""Delays of a Scrapy project on the fleet are those that plain Scrapy would keep."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Spider
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Response
from scrapy.settings import Settings
from tests.scrapy.spiders.throttled import Throttled
from tests.support.site import Reply, Site
from tests.support.workers.workers import Workers, left

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Fetched, HostPolicy, HostVerdict, LanePolicy, Request, Token
from gossamer.scrapy.page.page import feedback_of
from gossamer.scrapy.policies import host_policy
from gossamer.settings import load
from gossamer.testing.contract.earlier_state import forget_politeness
from gossamer.testing.servers import Server

ANSWERS = [
    *[(200, 0.2)] * 8, (200, 7.0), *[(404, 0.01)] * 3, (301, 9.0), *[(200, 0.3)] * 4, (500, 0.001), (200, 300.0), (200, 0.1)
]  # fmt: skip


@pytest.mark.parametrize("concurrency", [1.0, 4.0])
def test_the_delay_goes_where_autothrottle_takes_it(valkey_server: Server, crawl_name: str, concurrency: float) -> None:
    said = Settings(
        {"AUTOTHROTTLE_ENABLED": True, "DOWNLOAD_DELAY": 0.25, "AUTOTHROTTLE_TARGET_CONCURRENCY": concurrency}
    )
    throttle = AutoThrottle.__new__(AutoThrottle)
    throttle.mindelay, throttle.maxdelay, throttle.target_concurrency = 0.25, 60.0, concurrency
    slot: Any = SimpleNamespace(delay=5.0)
    settings = load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}, environ={})
    with ValkeyFrontier.open(settings) as frontier:
        frontier.define("spider", {"main": LanePolicy()})
        frontier.set_host("h.example", HostPolicy(concurrency=0))
        frontier.add([Request(place, "h.example", "spider.main") for place in range(len(ANSWERS))])
        token = Token.fresh()
        leases = frontier.exchange(token, want=len(ANSWERS)).leases
        frontier.set_host("h.example", host_policy(said, Spider("spider")))
        assert [host.delay for host in frontier.hosts(["h.example"])] == [slot.delay]
        for lease, (status, latency) in zip(leases, ANSWERS, strict=True):
            response = Response("http://h.example/", status=status)
            throttle._adjust_delay(slot, latency, response)
            token = token.next()
            frontier.exchange(token, fetched=[Fetched(lease, feedback_of(response, latency))])
            [now] = frontier.hosts(["h.example"])
            assert now.delay == pytest.approx(slot.delay, abs=0.003), (status, latency)


def test_a_project_crawls_as_fast_as_scrapy_lets_it(valkey_server: Server, crawl_name: str, site: Site) -> None:
    """The delay comes down from its start, a crawl-delay is ignored, and a 503 is retried at once."""
    site.on("/robots.txt", Reply(body="User-agent: *\nCrawl-delay: 500\n", headers={"Content-Type": "text/plain"}))
    site.on("/", Reply(503, times=1), Reply(body="".join(f'<a href="/{n}">{n}</a>' for n in range(12))))
    polite: dict[str, Any] = {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 2.0, "ROBOTSTXT_OBEY": True}
    with Workers(valkey_server.url, crawl_name, **polite) as workers:
        workers.start(Throttled, url=site.url).result()
        with workers.frontier() as frontier:
            assert len(left(frontier, "throttled").items) == 13
            [host] = frontier.hosts([site.host])
    assert site.paths().count("/") == 2
    assert host.crawl_delay == 0
    assert host.policy["block_base"] == 0
    assert host.delay < 0.3, "a quarter of a second is what remains of two after three halvings"


@pytest.mark.parametrize(
    ("status", "headers", "verdict"),
    [
        (503, {}, HostVerdict.UNAVAILABLE),
        (503, {"Retry-After": "0"}, HostVerdict.UNAVAILABLE),
        (503, {"Retry-After": "soon"}, HostVerdict.UNAVAILABLE),
        (503, {"Retry-After": "3"}, HostVerdict.THROTTLED),
        (429, {}, HostVerdict.THROTTLED),
        (502, {}, HostVerdict.ERROR),
    ],
)
def test_what_an_answer_says_about_its_host(status: int, headers: dict[str, str], verdict: HostVerdict) -> None:
    assert feedback_of(Response("http://h.example/", status=status, headers=headers), 0.1).verdict is verdict


def test_few_pages_that_are_not_available_do_not_block_their_host(
    valkey_server: Server, crawl_name: str, site: Site
) -> None:
    """Where it did, the crawl would not end within the time of this test."""
    site.on("/", Reply(body="".join(f'<a href="/{n}">{n}</a>' for n in range(12))))
    for path in ("/0", "/1", "/10", "/11"):
        site.on(path, Reply(503, times=2), Reply())
    with Workers(valkey_server.url, crawl_name, GOSSAMER_BLOCK_SECONDS=3000.0) as workers:
        workers.start(Throttled, url=site.url).result()
        with workers.frontier() as frontier:
            assert len(left(frontier, "throttled").items) == 13
            [host] = frontier.hosts([site.host])
    assert host.policy["block_base"] == 3000
    assert host.throttled == 0


def test_a_crawl_delay_is_kept_where_the_project_says_so(valkey_server: Server, crawl_name: str, site: Site) -> None:
    asks = Reply(body="User-agent: *\nCrawl-delay: 0.7\n", headers={"Content-Type": "text/plain"})
    site.on("/robots.txt", asks)
    site.on("/", Reply(body='<a href="/1">1</a><a href="/2">2</a><a href="/3">3</a>'))
    polite: dict[str, Any] = {
        "ROBOTSTXT_OBEY": True,
        "GOSSAMER_ROBOTS_CRAWL_DELAY": True,
        "GOSSAMER_BLOCK_SECONDS": 7.0,
        "DOWNLOAD_DELAY": 0.1,
    }
    with Workers(valkey_server.url, crawl_name, **polite) as workers:
        worker = workers.start(Throttled, url=site.url)
        site.wait(lambda paths: len(paths) == 4, "the second of the three")
        with workers.frontier() as frontier:
            forget_politeness(frontier, "throttled", site.host)
            worker.result()
            assert frontier.counts().group_policies["throttled"]["delay"] == 100, "it said so a moment ago"
            [host] = frontier.hosts([site.host])
            assert (host.crawl_delay, host.policy["block_base"]) == (0.7, 7.0)
            site.on("/robots.txt", Reply(body="User-agent: *\n", headers={"Content-Type": "text/plain"}))
            workers.start(Throttled, url=site.url, settings={"GOSSAMER_ROUND": "new"}).result()
            assert frontier.hosts([site.host])[0].crawl_delay == 0, "the site does not ask for it any more"
    one, two = [visit.time for visit in site.visits if visit.path in ("/1", "/2", "/3")][:2]
    assert two - one > 0.35, "half of it is left where the first was held up on its way"
