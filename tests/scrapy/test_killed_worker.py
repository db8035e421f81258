"""What becomes of the requests of a worker that is killed, and of one that is only stopped."""

from __future__ import annotations

import signal
import time
from collections import Counter

import pytest
from tests.scrapy.spiders.held_up import PAGES, Blocking
from tests.scrapy.spiders.starts import COUNT, Starts
from tests.scrapy.spiders.troubled import Other, Same
from tests.support.site import Site
from tests.support.workers.workers import Workers, left

from gossamer.frontier.connection import connect
from gossamer.frontier.connection.presence import closed, presence
from gossamer.settings import load
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(120)

EVERY = [f"/{number}" for number in range(PAGES)]


def test_what_a_killed_worker_held_is_done_at_once_and_what_a_stopped_one_holds_is_waited_for(
    site: Site, valkey_server: Server, crawl_name: str
) -> None:
    """With leases of a minute, on one host that they fill. The log says who is gone and what is waited for."""
    site.hold(*EVERY)
    with Workers(valkey_server.url, crawl_name, GOSSAMER_GONE_SECONDS=1, CONCURRENT_REQUESTS=2) as workers:
        settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": PAGES}
        killed = workers.start(Blocking, site=site.url, settings=settings)
        site.wait(lambda paths: len({*EVERY} & {*paths}) == 2, "pages of the first one")
        again = {*EVERY} & {*site.paths()}
        stopped = workers.start(Blocking, site=site.url, settings=settings)
        site.wait(lambda paths: len({*EVERY} & {*paths}) == 4, "pages of the second one")
        with workers.frontier() as frontier:
            wait_until(lambda: len([x for x in frontier.workers() if "connection" in x.info]) == 2, "both to be known")
            third = workers.start(Blocking, site=site.url, settings=settings)
            third.until("opened", Blocking.name)
            killed.kill()
            stopped.signal(signal.SIGSTOP)
            site.release(*EVERY)
            third.said("is gone: silent for")
            site.wait(lambda paths: all(paths.count(path) == 2 for path in again), "what the first one had")
            third.said(" held by ")
            stopped.signal(signal.SIGCONT)
            assert [third.reason(), stopped.reason()] == ["finished", "finished"]
            found = left(frontier, Blocking.name)
        assert found.ids() == Counter([*EVERY, "/slow"])
        assert Counter(site.paths()) == Counter([*EVERY, "/slow", "/gate", *again])


def test_a_start_is_run_by_another_soon_after_its_worker_was_killed(
    site: Site, valkey_server: Server, crawl_name: str
) -> None:
    """With leases of a minute, and though that worker held no page. Of a silent one the log says what is waited for."""
    with Workers(valkey_server.url, crawl_name, GOSSAMER_GONE_SECONDS=1) as workers:
        first = workers.start(Starts, site=site.url, stop="0")
        first.until("mark", "waiting")
        with workers.frontier() as frontier:
            wait_until(lambda: any("connection" in x.info for x in frontier.workers()), "the first one to be known")
            second = workers.start(Starts, site=site.url)
            second.said("Another worker runs start() of starts; waiting for it.")
            first.signal(signal.SIGSTOP)
            second.said("This worker waits for start() of starts. ")
            first.kill()
            killed = time.monotonic()
            assert second.reason() == "finished"
            assert time.monotonic() - killed < 40
            second.said("Other workers take over: start() of starts.")
            assert left(frontier, Starts.name).ids() == Counter(f"/{number}" for number in range(COUNT))


def test_a_killed_worker_owns_its_group_no_more(site: Site, valkey_server: Server, crawl_name: str) -> None:
    """Long before its leases run out, another spider may have the group."""
    site.hold("/start")
    with Workers(valkey_server.url, crawl_name, GOSSAMER_GONE_SECONDS=1) as workers:
        killed = workers.start(Other, site=site.url)
        site.reached("/start")
        with workers.frontier() as frontier:
            wait_until(lambda: any("connection" in worker.info for worker in frontier.workers()), "it to be known")
            killed.kill()
            site.release("/start")
            wait_until(lambda: frontier.silent_workers(1.0, 60.0)[1], "it to be silent")
        assert workers.start(Same, site=site.url).reason() == "finished"


def test_a_connection_that_the_server_may_have_closed_itself_says_nothing() -> None:
    with Server() as server, connect(load({"GOSSAMER_URL": server.url}, {})) as here:
        here.execute("CONFIG", "SET", "timeout", "100")
        with connect(load({"GOSSAMER_URL": server.url}, {})) as other:
            there = presence(other, "main")
            assert not closed(here, "main", {there: 10.0})
        wait_until(lambda: closed(here, "main", {there: 10.0}), "the server to notice that it is closed")
        assert not closed(here, "main", {there: 101.0})
        here.execute("CONFIG", "SET", "timeout", "0")
        assert closed(here, "main", {there: 101.0})
