"""`start()` runs once per round, whatever the number of workers, deaths and restarts."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import ormsgpack
import pytest
from tests.scrapy.spiders import starts
from tests.scrapy.spiders.starts import COUNT, Broken, Closing, Idle, OnlyItems, Other, Refusing, Starts
from tests.support.site import Site
from tests.support.workers.variants import FIRST, LAST, Variant, some
from tests.support.workers.workers import Left, Workers, left, of
from twisted.internet.defer import CancelledError

from gossamer.errors import FrontierUnavailable
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import StartState, Token
from gossamer.scrapy.process.start import SpiderStart
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

EVERY = [f"/{number}" for number in range(COUNT)]
ENDS = some((FIRST, "select"), (LAST, "uvloop"))
pytestmark = pytest.mark.timeout(300)

RENEWALS = f"{starts.__name__}.renewals"


def once(site: Site, paths: list[str]) -> None:
    """The site was asked for exactly these, once each."""
    assert Counter(site.paths()) == Counter(paths)


def after_an_error(variant: Variant) -> str:
    """Why Scrapy says that it ends if `start()` raised: newer versions have a reason of its own for it."""
    return "start_error" if tuple(map(int, variant.version.split("."))) >= (2, 19) else "finished"


@pytest.mark.parametrize("variant", ENDS, ids=str)
def test_it_runs_once_with_two_workers_and_a_restart(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(valkey_server.url, crawl_name, variant) as workers:
        together = [workers.start(Starts, site=site.url) for _ in range(2)]
        assert [worker.reason() for worker in together] == ["finished"] * 2
        once(site, EVERY)
        assert workers.start(Starts, site=site.url).reason() == "finished"
        once(site, EVERY)
        with workers.frontier() as frontier:
            assert left(frontier, Starts.name).ids() == Counter(EVERY)


def test_who_takes_it_over_from_a_dead_worker_doubles_nothing(
    site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(valkey_server.url, crawl_name, GOSSAMER_LEASE_SECONDS=2.0, GOSSAMER_ARGUMENTS="any") as workers:
        first = workers.start(Starts, site=site.url, stop="5", items="yes")
        first.until("mark", "waiting")
        for path in EVERY[:5]:
            first.until("answered", path)
        with workers.frontier() as frontier:
            wait_until(lambda: frontier.counts(Starts.name).lanes[0].leased == 0, "nothing to be leased")
        first.kill()
        second = workers.start(Starts, site=site.url, items="yes")
        assert second.reason() == "finished"
        once(site, EVERY)
        with workers.frontier() as frontier:
            assert left(frontier, Starts.name).ids() == Counter(EVERY + [f"item-{n}" for n in range(COUNT)])


def test_it_stays_with_a_worker_that_lives(site: Site, valkey_server: Server, crawl_name: str) -> None:
    with Workers(valkey_server.url, crawl_name, GOSSAMER_LEASE_SECONDS=4.0) as workers:
        first = workers.start(Starts, site=site.url, stop="5", then="renewed 4", patches=[RENEWALS])
        first.until("mark", "waiting")
        # With the same arguments: one with others would run its own after it.
        second = workers.start(Starts, site=site.url, stop="5", then="renewed 4", patches=[RENEWALS])
        assert [first.reason(), second.reason()] == ["finished"] * 2
        assert ("started" in of(first.events, "mark"), "started" in of(second.events, "mark")) == (True, False)
        once(site, EVERY)


def owe(frontier: ValkeyFrontier, *, process: str = "") -> None:
    """As after a server lost its last moments: nobody has the start lease, and nobody is known to have had it."""
    base, group = keys.base(frontier.crawl, 0), Starts.name
    row = next(row for row in frontier.counts(group).groups if row.group == group)
    starts_key, counts_key, meta = (base + keys.SUFFIXES[name] for name in ("starts", "counts", "meta"))
    frontier.connection.execute("HSET", starts_key, group, ormsgpack.packb([row.round, "owed", "", 0]), key=starts_key)
    if row.start == "done":
        for field in (f"g|{group}|open", "open"):
            frontier.connection.execute("HINCRBY", counts_key, field, 1, key=counts_key)
    if process:
        frontier.connection.execute("HSET", meta, "run", process, key=meta)


@pytest.mark.parametrize("variant", ENDS, ids=str)
def test_one_whose_lease_the_server_forgot_is_run_again(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(valkey_server.url, crawl_name, variant, GOSSAMER_LEASE_SECONDS=2.0) as workers:
        worker = workers.start(Starts, site=site.url, stop="5", then="renewed 1", items="yes", patches=[RENEWALS])
        worker.until("mark", "waiting")
        with workers.frontier() as frontier:
            owe(frontier)
        assert worker.reason() == "finished"
        once(site, EVERY)
        with workers.frontier() as frontier:
            assert left(frontier, Starts.name).ids() == Counter(EVERY + [f"item-{n}" for n in range(COUNT)])


@pytest.mark.parametrize("variant", ENDS, ids=str)
def test_one_that_the_server_forgot_after_its_end_is_run_again(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(valkey_server.url, crawl_name, variant, DOWNLOAD_DELAY=0.5) as workers:
        worker = workers.start(Starts, site=site.url)
        worker.until("mark", "started")
        with workers.frontier() as frontier:
            wait_until(lambda: frontier.counts(Starts.name).groups[0].start == "done", "the start to be done")
            owe(frontier, process="another")
        assert worker.reason() == "finished"
        assert of(worker.events, "mark").count("started") == 2
        assert "process_start() is deprecated" not in worker.log
        once(site, EVERY)


@pytest.mark.parametrize("variant", ENDS, ids=str)
def test_a_worker_that_ends_in_the_middle_gives_it_to_the_next(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(
        valkey_server.url, crawl_name, variant, GOSSAMER_LEASE_SECONDS=3600.0, GOSSAMER_ARGUMENTS="any"
    ) as workers:
        first = workers.start(Starts, site=site.url, stop="5")
        first.until("mark", "waiting")
        for path in EVERY[:5]:
            first.until("answered", path)
        first.signal(signal.SIGTERM)
        assert first.reason() == "shutdown"
        assert workers.start(Starts, site=site.url).reason() == "finished"
        once(site, EVERY)
        with workers.frontier() as frontier:
            assert left(frontier, Starts.name).dead == []


@pytest.mark.parametrize("variant", ENDS, ids=str)
def test_one_that_closes_its_spider_is_run_again_by_the_next(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(valkey_server.url, crawl_name, variant, GOSSAMER_ARGUMENTS="any") as workers:
        assert workers.start(Closing, site=site.url).reason() == "enough"
        assert workers.start(Closing, site=site.url, ends="no").reason() == "finished"
        once(site, ["/before", "/after"])
        with workers.frontier() as frontier:
            assert left(frontier, Closing.name).ids() == {"/before": 1, "/after": 1}


@pytest.mark.parametrize("variant", ENDS, ids=str)
class TestStrangeStarts:
    """Three spiders in one process, each with a start that is out of the ordinary."""

    def test_all_of_what_they_yield_arrives(
        self, variant: Variant, site: Site, valkey_server: Server, crawl_name: str
    ) -> None:
        with Workers(valkey_server.url, crawl_name, variant) as workers:
            worker = workers.start(Broken, OnlyItems, Refusing, site=site.url)
            assert {worker.reason(name) for name in ("onlyitems", "refusing")} == {"finished"}
            assert worker.reason("broken") == after_an_error(variant)
            with workers.frontier() as frontier:
                self.check_broken(left(frontier, Broken.name))
                self.check_items(left(frontier, OnlyItems.name))
                left(frontier, Refusing.name)
            once(site, ["/before", "/first", *(f"/{number}" for number in range(100))])

    def check_broken(self, found: Left) -> None:
        """A start that fails leaves a dead letter, and what it had yielded is crawled."""
        assert found.reasons() == {"start_failed": 1}
        assert "start() fails on purpose" in found.dead[0].detail
        assert found.ids() == {"/before": 1, "item-before": 1}

    def check_items(self, found: Left) -> None:
        """Items arrive though there is no page that could bring them."""
        assert found.ids() == {"item-slow": 1, "item-quick": 2}
        assert all(item["through"] for item in found.items), "they come from the pipelines' end"
        assert found.reasons() == {"pipeline": 1}


def test_ideas_of_an_idle_spider_are_crawled_before_it_ends(site: Site, valkey_server: Server, crawl_name: str) -> None:
    with Workers(valkey_server.url, crawl_name, DOWNLOAD_DELAY=0.5) as workers:
        worker = workers.start(Idle, site=site.url)
        assert worker.reason() == "no more ideas, 0 left"
        assert "Round 0 of idle is over." in worker.log
        once(site, ["/0", "/1", "/2", "/3"])


@pytest.mark.parametrize("variant", some((FIRST, "asyncio"), (LAST, "select"), (LAST, "reactorless")), ids=str)
def test_several_spiders_in_one_process_keep_apart(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(valkey_server.url, crawl_name, variant) as workers:
        worker = workers.start(Starts, Other, Broken, site=site.url)
        assert {worker.reason(name) for name in ("starts", "other")} == {"finished"}
        assert worker.reason("broken") == after_an_error(variant)
        once(site, [*EVERY, *EVERY, "/before"])
        with workers.frontier() as frontier:
            for name in ("starts", "other"):
                assert left(frontier, name).ids() == Counter(EVERY)
            assert left(frontier, "broken").reasons() == {"start_failed": 1}


def test_a_new_round_crawls_everything_again(site: Site, valkey_server: Server, crawl_name: str) -> None:
    with Workers(valkey_server.url, crawl_name) as workers:
        again = {"GOSSAMER_ROUND": "new"}
        assert workers.start(Starts, site=site.url, settings=again).reason() == "finished"
        once(site, EVERY)
        assert workers.start(Starts, site=site.url, settings=again).reason() == "finished"
        once(site, EVERY * 2)
        with workers.frontier() as frontier:
            assert frontier.counts(Starts.name).groups[0].round == 1


def test_a_dropped_group_is_crawled_from_its_beginning(site: Site, valkey_server: Server, crawl_name: str) -> None:
    with Workers(valkey_server.url, crawl_name) as workers:
        for times in (1, 2, 3):
            assert workers.start(Starts, site=site.url).reason() == "finished"
            once(site, EVERY * times)
            with workers.frontier() as frontier:
                list(frontier.drop_group(Starts.name))


def test_a_worker_without_end_ends_when_nothing_was_done_for_long(
    site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(valkey_server.url, crawl_name, GOSSAMER_MODE="forever", GOSSAMER_IDLE_SECONDS=1.5) as workers:
        worker = workers.start(Starts, site=site.url, stop="5", then="renewed 1", patches=[RENEWALS])
        assert worker.reason() == "idle"
        once(site, EVERY)
        times = {(event.kind, event.what): event.time for event in worker.events}
        assert times["closed", "idle"] - max(times["answered", path] for path in EVERY) >= 1.5


class Ending:
    """What a start asks of a worker that ends while its question is under way: `answered` says what becomes of the answer."""

    group, token = "starts", Token.fresh()

    def __init__(self, answered: str) -> None:
        self.answered, self.closing = answered, answered == "never asked"
        self.asked: list[str] = []
        self.calls = self.courier = self

    async def ask(self, verb: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.asked.append(verb.__name__)
        if verb.__name__ == "start":
            self.closing = True
            if self.answered == "lost":
                raise CancelledError
            if self.answered == "away":
                raise FrontierUnavailable("away")
            return StartState.GRANTED, 0
        return None

    async def sleep(self, seconds: float) -> None: ...

    def awaits(self, what: str) -> None: ...

    def wake(self) -> None: ...


@pytest.mark.parametrize(
    ("answered", "asked"),
    [
        ("never asked", []),
        ("too late", ["start", "release_start"]),
        ("away", ["start", "release_start"]),
        ("lost", ["start", "release_start"]),
    ],
)
async def test_a_worker_that_ends_does_not_take_it(answered: str, asked: list[str]) -> None:
    async def outputs() -> AsyncIterator[Any]:
        raise AssertionError("start() runs")
        yield

    ending: Any = Ending(answered)
    start = SpiderStart(ending, ending)
    with suppress(CancelledError):
        assert [output async for output in start.run(outputs())] == []
    await start.give_back()
    assert ending.asked == asked
