"""Bad input and bad days: each with a clear outcome, and nothing else is lost."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.scrapy.spiders import troubled
from tests.scrapy.spiders.troubled import Batching, Counting, Endless, Other, Same, Unserialisable
from tests.support.site import Site
from tests.support.workers.variants import FIRST, LAST, PLAIN, Variant, some
from tests.support.workers.workers import Worker, Workers, left

from gossamer.frontier import codec
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

ENDS = some((FIRST, "select"), (LAST, "uvloop"))
MISSING = "cannot be stored. Mend the spider, then replay this dead letter."
VERBATIM = "url: 'http://host.example:99999/bad' has no host"
BAD = (
    "meta['bad']: _io.TextIOWrapper",
    "callback: <function Unserialisable.parse.<locals>.<lambda>",
    "errback: <bound method Base.parse_leaf of <Other 'other'",
    "meta['deep']['er'][1]: _io.TextIOWrapper",
    "cb_kwargs['of']['thing']: tests.scrapy.spiders.troubled.Other",
    "meta['loop']",
    "meta['deep'][0]",
    "GOSSAMER_PAYLOAD_MAX_BYTES",
    VERBATIM,
    "aaaa' must be text of 1 to 255 characters",
)
"""What the log and the dead letter of their page say of each request that could not be queued."""


@pytest.mark.parametrize("variant", ENDS, ids=str)
def test_a_page_whose_requests_cannot_be_kept_is_a_dead_letter_that_names_them_and_the_rest_goes_on(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(valkey_server.url, crawl_name, variant) as workers:
        # Only the newest Scrapy makes such a request at all.
        last = variant.version == LAST
        worker = workers.start(Unserialisable, site=site.url, verbatim="yes" if last else "")
        assert worker.reason() == "finished"
        assert Counter(site.paths()) == Counter(["/start", "/start/1", "/start/2"])
        said = [text for text in BAD if last or text != VERBATIM]
        for text in said:
            assert text in worker.log, text
        stats = worker.stats()
        assert stats["scheduler/unserializable"] == len(said) + 1  # one of start()
        assert "scheduler/refused/invalid" not in stats
        assert stats["gossamer/items_refused"] == 2
        assert "spider_exceptions/count" not in stats
        with workers.frontier() as frontier:
            found = left(frontier, Unserialisable.name)
            letters = {each.lane: frontier.dead_letter(each.partition, each.id) for each in found.dead}
        # The page's plain item comes with its replay, once its code is mended.
        assert found.ids() == Counter(["/start/1", "/start/2"])
        page, seed = letters["unserialisable.main"], letters[""]
        assert {letter.reason for letter in found.dead} == {"unserializable"}
        first = f"{len(said) + 2} of what it yielded {MISSING}\n<GET {site.url}/start/2>: meta['bad']"
        assert page.detail.startswith(first)
        for text in (*said, "an item: value['file']: _io.TextIOWrapper", "an item: RecursionError"):
            assert text in page.detail, text
        assert seed.detail.startswith("cb_kwargs['bad']: tests.scrapy.spiders.troubled.Other cannot be stored")
        assert codec.decode_request(seed.payload)["url"] == f"{site.url}/seed"


def refused(worker: Worker, reason: str, text: str) -> None:
    """It said why in one line and ended at once."""
    assert worker.reason() == reason
    lines = [line for line in worker.log.splitlines() if "] ERROR: " in line]
    assert len(lines) == 1, lines
    assert text in lines[0]
    for word in ("Traceback", "Unhandled"):
        assert word not in worker.log, worker.log[-3000:]


@pytest.mark.parametrize("variant", some((FIRST, "asyncio"), (LAST, "select"), (LAST, "reactorless")), ids=str)
def test_a_worker_that_may_not_join_says_why_and_ends(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    site.hold("/start")
    with Workers(valkey_server.url, crawl_name, variant) as workers:
        first = workers.start(Other, site=site.url)
        site.reached("/start")
        strangers = workers.start(Same, site=site.url)
        older = workers.start(Other, site=site.url, patches=[f"{troubled.__name__}.newer_store"])
        other_scrapy = workers.start(Other, site=site.url, patches=[f"{troubled.__name__}.without_inprogress"])
        feed = tmp_path / "items.jsonl"
        feed.write_text("of before")
        feeds = {"FEEDS": {str(feed): {"format": "jsonlines", "overwrite": True}}}
        refused(workers.start(Other, settings=feeds, name="no name"), "PolicyError", "another name, set GOSSAMER_GROUP")
        assert feed.read_text() == "of before"
        refused(strangers, "GroupOwned", "The group other is worked on by tests.scrapy.spiders.troubled.Other")
        refused(older, "SchemaTooNew", "Upgrade this worker")
        refused(other_scrapy, "UnsupportedScrapy", "has no engine._slot.inprogress")
        site.release("/start")
        assert first.reason() == "finished"
        # The one who owned it has gone: nothing speaks against another one now.
        assert workers.start(Same, site=site.url).reason() == "finished"
        with workers.frontier() as frontier:
            left(frontier, Other.name)


def test_a_server_that_is_not_there_is_said_in_one_line(valkey_server: Server, crawl_name: str) -> None:
    with Workers("redis://127.0.0.1:9", crawl_name) as workers:
        refused(workers.start(Other, environ={"GOSSAMER_OUTAGE_SECONDS": "0.5"}), "FrontierUnavailable", "127.0.0.1:9")


@pytest.mark.parametrize("variant", [PLAIN, *some((FIRST, "asyncio"))], ids=str)
def test_a_callback_that_never_ends_becomes_a_dead_letter(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    limits = {"GOSSAMER_LEASE_SECONDS": "2", "GOSSAMER_RENEW_MAX_SECONDS": "4"}
    with Workers(valkey_server.url, crawl_name, variant) as workers:
        worker = workers.start(Endless, site=site.url, environ=limits)
        worker.until("mark", "endless")
        with workers.frontier() as frontier:
            wait_until(lambda: frontier.dead_letters(Endless.name), "the dead letter", 60)
            renewed = worker.calls().count("renew")
            assert renewed > 0, "it was kept as long as it might be"
            assert workers.start(Endless, site=site.url, environ=limits).reason() == "finished", "others go on"
            assert worker.reason() == "finished", "and so does the worker itself"
            found = left(frontier, Endless.name)
        assert found.reasons() == {"overdue": 1}
        assert "GOSSAMER_RENEW_MAX_SECONDS" in found.dead[0].detail
        assert found.ids() == Counter(f"/{number}" for number in range(5))


@pytest.mark.parametrize("variant", ENDS, ids=str)
def test_what_a_worker_leaves_that_scrapy_closed_early_is_done_by_the_next(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    early = {"CLOSESPIDER_PAGECOUNT": 4, "CONCURRENT_REQUESTS": 2}
    with Workers(valkey_server.url, crawl_name, variant, GOSSAMER_LEASE_SECONDS=3600.0) as workers:
        assert workers.start(Counting, site=site.url, settings=early).reason() == "closespider_pagecount"
        assert len(site.paths()) < 1 + troubled.PAGES
        with workers.frontier() as frontier:
            left(frontier, Counting.name, drained=False)
        assert workers.start(Counting, site=site.url).reason() == "finished"
        with workers.frontier() as frontier:
            assert left(frontier, Counting.name).ids() == Counter(str(number) for number in range(troubled.PAGES))
        assert set(Counter(site.paths()).values()) == {1}, "nothing was fetched twice"


def test_pages_in_slow_pipelines_keep_no_others_from_being_fetched(
    site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(valkey_server.url, crawl_name) as workers:
        assert workers.start(Batching, site=site.url).reason() == "finished"
        with workers.frontier() as frontier:
            assert left(frontier, Batching.name).ids() == Counter(f"/{number}" for number in range(troubled.PAGES))


@pytest.mark.parametrize("variant", ENDS, ids=str)
def test_an_outage_in_the_middle_costs_nothing(
    variant: Variant, site: Site, valkey_server: Server, fault_proxy: FaultProxy, crawl_name: str
) -> None:
    paths = [f"/{number}" for number in range(troubled.PAGES)]
    site.hold(*paths[::2])
    with Workers(fault_proxy.url, crawl_name, variant) as workers:
        worker = workers.start(Counting, site=site.url, environ={"GOSSAMER_OUTAGE_SECONDS": "0.5"})
        for path in paths[1::2]:
            worker.until("answered", path)
        for path in paths[::2]:
            site.reached(path)
        fault_proxy.refuse()
        fault_proxy.cut()
        site.release(*paths[::2])
        for path in paths[::2]:
            worker.until("settle", path)
        worker.said("The frontier cannot be reached")
        fault_proxy.heal()
        assert worker.reason() == "finished"
        worker.said("The frontier answers again")
        assert Counter(site.paths()) == Counter(["/start", *paths])
        workers.environ["GOSSAMER_URL"] = valkey_server.url
        with workers.frontier() as frontier:
            found = left(frontier, Counting.name)
        assert found.ids() == Counter(path.strip("/") for path in paths)
        assert found.counters["own/pages"] == troubled.PAGES


def test_a_worker_that_is_told_to_end_in_an_outage_ends(
    site: Site, valkey_server: Server, fault_proxy: FaultProxy, crawl_name: str
) -> None:
    limits = {"GOSSAMER_OUTAGE_SECONDS": "0.5", "GOSSAMER_CLOSE_SECONDS": "1", "GOSSAMER_LEASE_SECONDS": "3"}
    site.hold("/0")
    with Workers(fault_proxy.url, crawl_name) as workers:
        worker = workers.start(Counting, site=site.url, environ=limits)
        site.reached("/0")
        fault_proxy.refuse()
        fault_proxy.cut()
        site.release("/0")
        worker.until("settle", "/0")
        worker.signal(signal.SIGTERM)
        assert worker.reason() == "shutdown"
        assert "could not be reported" in worker.log
        workers.environ["GOSSAMER_URL"] = valkey_server.url
        assert workers.start(Counting, site=site.url, environ=limits).reason() == "finished", "others do it again"
        with workers.frontier() as frontier:
            assert left(frontier, Counting.name).ids() == Counter(str(number) for number in range(troubled.PAGES))
