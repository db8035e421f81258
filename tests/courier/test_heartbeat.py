"""A worker whose event loop is held up is alive: what it works on stays its own, and what it only holds goes to others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.scrapy.spiders.held_up import PAGES, Blocking
from tests.support.site import Site
from tests.support.workers.variants import LAST, Variant, some
from tests.support.workers.workers import Workers, left

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(120)

LEASE = 1.5
SETTINGS: dict[str, Any] = {"GOSSAMER_LEASE_SECONDS": LEASE, "GOSSAMER_SEND_SECONDS": 0.5, "GOSSAMER_POISON_STRIKES": 1}


def heard(frontier: ValkeyFrontier, leases: float) -> None:
    """Return when every worker has been heard of for so many times of a lease from now on."""
    since = frontier.counts().now
    wait_until(
        lambda: all(worker.seen > since + leases * LEASE for worker in frontier.workers()), "workers to be heard of"
    )


@pytest.mark.parametrize("variant", some((LAST, "select"), (LAST, "uvloop")), ids=str)
def test_a_callback_that_holds_the_loop_keeps_its_page(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    """It is neither done again nor buried, whatever others do meanwhile; and what its worker has not sent is theirs."""
    site.hold("/gate")
    with Workers(valkey_server.url, crawl_name, variant, **SETTINGS) as workers:
        first = workers.start(Blocking, site=site.url, settings={"CONCURRENT_REQUESTS": 1})
        site.reached("/gate")
        second = workers.start(Blocking, site=site.url)
        every = {f"/{number}" for number in range(PAGES)}
        site.wait(lambda paths: every <= set(paths), "the pages that the first one holds")
        with workers.frontier() as frontier:
            heard(frontier, 3)
            site.release("/gate")
            assert [first.reason(), second.reason()] == ["finished", "finished"]
            assert frontier.workers() == []
            found = left(frontier, Blocking.name)
        assert Counter(site.paths()) == Counter([*every, "/slow", "/gate"])
        assert found.ids() == Counter([*every, "/slow"])
        assert found.dead == []
        assert "The event loop was held up for" in first.log
        assert "held up" not in second.log


def test_a_start_that_holds_the_loop_is_not_run_by_another(site: Site, valkey_server: Server, crawl_name: str) -> None:
    site.hold("/gate-of-start")
    with Workers(valkey_server.url, crawl_name, **SETTINGS) as workers:
        first = workers.start(Blocking, site=site.url, start_waits="yes")
        site.reached("/gate-of-start")
        second = workers.start(Blocking, site=site.url, start_waits="yes")
        second.said("Another worker runs start()")
        with workers.frontier() as frontier:
            heard(frontier, 3)
        site.release("/gate-of-start")
        assert [first.reason(), second.reason()] == ["finished", "finished"]
        assert site.paths().count("/gate-of-start") == 1
