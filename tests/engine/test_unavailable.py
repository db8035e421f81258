"""Pages and hosts that answer 503 without Retry-After: a page is tried again, a host is left alone."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.support.native_crawl import Crawl, until
from tests.support.site import Reply, Site, Visit

from gossamer.engine.job import NativeJob
from gossamer.engine.worker import NativeWorker
from gossamer.testing.clock import advance

PAGES = """
    seeds: ['SITE/p/[1-60]']
    politeness: {robots: ignore}
    layers: {page: {fields: {at: {from: url}}}}
"""
BAD = ("/p/10", "/p/30", "/p/50")
LAST = ("/p/58", "/p/59", "/p/60")
"""When these are tried again there are no others left."""


@pytest.mark.parametrize("bad", [BAD, LAST], ids=["between", "last"])
async def test_some_pages_that_are_not_available_do_not_stop_their_host(
    crawl: Crawl, site: Site, bad: tuple[str, ...]
) -> None:
    for path in bad:
        site.on(path, Reply(503, times=2), Reply())
    crawl.push("    site: pages" + PAGES, "pages")
    refusals: list[int] = []
    with crawl.frontier() as frontier:

        def note(visit: Visit) -> None:
            """A block is seen by the first request after it, at the latest."""
            refusals.extend(host.throttled for host in frontier.hosts([site.host]))

        site.answer(note)
        await crawl.run()
    assert set(refusals) == {0}
    assert {path: number for path, number in Counter(site.paths()).items() if number > 1} == dict.fromkeys(bad, 3)
    assert len(crawl.items("pages")) == 60
    assert crawl.counters("pages")["engine/failed/http_503"] == 6
    assert crawl.dead("pages") == []


async def test_a_host_that_is_not_available_is_left_alone_by_the_whole_fleet(crawl: Crawl, site: Site) -> None:
    """It is asked by no more requests than were under way, and goes on where it was when it is back."""
    site.answer(lambda visit: Reply(503))
    crawl.push("    site: pages" + PAGES, "pages")
    workers = [NativeWorker(crawl.settings, NativeJob(stage=None)) for _ in range(2)]
    running = [asyncio.ensure_future(worker.run()) for worker in workers]
    with crawl.frontier() as frontier:

        def is_blocked() -> bool:
            [host] = frontier.hosts([site.host])
            return host.blocked_until > host.now and host.in_flight == 0

        await until(is_blocked)
        assert 5 <= len(site.visits) < 5 + 8
        site.answer(lambda visit: None)
        advance(frontier, 6)
    async with asyncio.timeout(90):
        await asyncio.gather(*running)
    assert len(crawl.items("pages")) == 60
    assert crawl.dead("pages") == []
