"""A primary is replaced in good order at any moment while workers of both engines crawl one host: judged by the site's own log.
FAULT_FACTOR: so many times as many failovers."""

from __future__ import annotations

import os
import random
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import pytest
from bench.crawls.fleet import Fleet
from bench.crawls.native import NAME, SITE, NativeFleet
from bench.crawls.shape import Shape
from bench.crawls.site import Visit

from gossamer.testing.process import wait_until
from gossamer.testing.servers import SentinelPair
from gossamer.testing.servers.sentinel import SERVICE

TIMES = range(int(os.environ.get("FAULT_FACTOR", "1")))
PAGES = 60
DELAY = 0.25
WORKERS = 2
SEND_MARGIN = 0.1
"""A request may arrive so much earlier after the one before than the delay says: both were on their way for some time."""
LOST_SECONDS = 6.0
"""A sentinel notices within a second that the replica is the primary now, a worker within another; a loaded machine takes longer.
A worker that stays on the replaced primary stays for ten."""


class Judged(NamedTuple):
    """`short` are the gaps between visits that are below the delay, `again` the visits to pages that had been visited before."""

    short: list[float]
    again: list[Visit]
    missing: int
    seconds: float


def judge(visits: list[Visit]) -> Judged:
    visits = sorted(visits)
    seen: set[int] = set()
    again = [visit for visit in visits if visit.page in seen or seen.add(visit.page)]  # type: ignore[func-returns-value]
    gaps = [later.time - earlier.time for earlier, later in pairwise(visits)]
    short = [gap for gap in gaps if gap < DELAY - SEND_MARGIN]
    times = [visit.time for visit in again]
    return Judged(short, again, PAGES - len(seen), max(times) - min(times) if times else 0.0)


def polite(engine: str, url: str) -> Fleet | NativeFleet:
    """Two workers' crawl of one host that is asked once in DELAY seconds."""
    shape = Shape("ten", PAGES, 1)
    if engine == "scrapy":
        more = {"DOWNLOAD_DELAY": DELAY, "CONCURRENT_REQUESTS_PER_DOMAIN": 1, "RANDOMIZE_DOWNLOAD_DELAY": False}
        return Fleet(shape, url, "planned", delay=0.0, hold=True, more=more)
    fleet = NativeFleet(shape, url, "planned", delay=0.0, hold=True)
    hosts = f'"{fleet.site.origins[0].partition("//")[2]}": {{delay: {DELAY}, concurrency: 1}}'
    with fleet.frontier() as frontier:
        frontier.put_document("site", NAME, SITE.format(url=fleet.site.url, hosts=hosts))
    return fleet


def crawl(engine: str, number: int, *, coordinated: bool = False, replicas: int = 0) -> Judged:
    """Two workers, and a planned failover in the middle."""
    with SentinelPair(down_after=30_000) as pair:
        pair.primary.call("CONFIG", "SET", "min-replicas-to-write", replicas)
        with polite(engine, pair.url) as fleet:
            workers = list(fleet.together(WORKERS))
            pages = PAGES * random.Random(f"{engine} {number}").uniform(0.05, 0.6)
            wait_until(lambda: fleet.site.pages() >= pages, f"{pages:.0f} pages")
            pair.wait_ok()
            old = pair.primary
            if coordinated:
                pair.sentinels[0].call("SENTINEL", "FAILOVER", SERVICE, "COORDINATED")
                wait_until(lambda: old.info("replication")["role"] == "slave", "the primary to follow its replica", 60)
            else:
                pair.failover(kill=False)
            fleet.wait(workers)
            judged = judge(fleet.site.visits())
            with fleet.frontier() as frontier:
                items = fleet.items(frontier)
                assert frontier.dead_letters(fleet.group) == []
            assert items == Counter(range(PAGES)), "an item of each page"
    assert not judged.missing
    return judged


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", TIMES)
@pytest.mark.parametrize("engine", ["native", "scrapy"])
def test_workers_follow_within_a_second(engine: str, number: int) -> None:
    """What the replaced primary acknowledges when its replica has left it is lost: pages and slots of a second or two."""
    judged = crawl(engine, number)
    assert judged.seconds < LOST_SECONDS, judged
    assert len(judged.short) <= len(judged.again) + 1, judged


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", TIMES)
@pytest.mark.parametrize("engine", ["native", "scrapy"])
def test_nothing_is_fetched_twice_or_too_soon_after_a_coordinated_failover(engine: str, number: int) -> None:
    judged = crawl(engine, number, coordinated=True)
    assert not judged.again, judged
    assert not judged.short, judged


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", TIMES)
@pytest.mark.parametrize("engine", ["native", "scrapy"])
def test_a_primary_that_needs_its_replica_loses_only_calls_that_were_on_their_way_to_it(
    engine: str, number: int
) -> None:
    """One of each worker: it makes the next one when the last is answered."""
    judged = crawl(engine, number, replicas=1)
    assert len(judged.again) <= WORKERS, judged
    assert len(judged.short) <= WORKERS, judged
