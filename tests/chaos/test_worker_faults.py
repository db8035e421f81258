"""What becomes of a crawl when a worker or its server is stopped, frozen, cut off or of another version: in every case each
page's item arrives exactly once, and every worker ends as stated here.

FAULT_FACTOR makes the outages as many times longer (`make chaos`: 10, so that the server is away for a minute).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from bench.crawls.fleet import Fleet
from bench.crawls.project import Worker
from bench.crawls.shape import Shape
from bench.crawls.spider import Walker

from gossamer.frontier.server import keys, library
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

FACTOR = float(os.environ.get("FAULT_FACTOR", "1"))
OUTAGE = 6.0 * FACTOR
SHAPE = Shape("ten", 400)
QUARTER = SHAPE.pages // 4
FOREVER = 3_600.0
"""A lease that does not run out within a test: whatever is not given back is never done."""

pytestmark = pytest.mark.timeout(300 + 4 * OUTAGE)


@pytest.fixture
def server() -> Iterator[Server]:
    """One of the test's own, to be killed: what it has said it remembers."""
    with Server("valkey").start(fsync="always") as running:
        yield running


def two_workers(fleet: Fleet) -> list[Worker]:
    """Two workers in the middle of a crawl."""
    workers = fleet.together(2)
    fleet.reach(QUARTER)
    return workers


def in_the_middle(fleet: Fleet) -> None:
    assert fleet.site.pages() < fleet.shape.pages, "the crawl was over before anything happened"


def hold_pages(fleet: Fleet) -> None:
    """Let the site answer nobody: whatever is asked for now stays in progress."""
    fleet.site.hold()
    in_the_middle(fleet)


def hold_pages_of_both(fleet: Fleet) -> None:
    """As `hold_pages`, at a moment when each of two workers has pages in progress."""
    hold_pages(fleet)
    while not soon_both_hold(fleet):
        reached = fleet.site.pages()
        fleet.site.release()
        fleet.reach(reached + 1)
        hold_pages(fleet)


def soon_both_hold(fleet: Fleet) -> bool:
    """While no page is answered, a worker that had none in progress takes some, unless the other has all the host's slots."""
    try:
        return wait_until(lambda: both_hold(fleet), "both to have pages in progress", 1.0)
    except TimeoutError:
        return False


def both_hold(fleet: Fleet) -> bool:
    with fleet.frontier() as frontier:
        return sum(worker.held > 0 for worker in frontier.workers()) == 2


def test_sigterm_finishes_what_is_in_progress_and_gives_the_rest_back(valkey_server: Server, crawl_name: str) -> None:
    with Fleet(SHAPE, valkey_server.url, crawl_name, hold=True, lease=FOREVER) as fleet:
        leaving, staying = two_workers(fleet)
        hold_pages_of_both(fleet)
        leaving.signal(signal.SIGTERM)
        wait_until(lambda: "shutting down gracefully" in leaving.log, "the signal to be noticed")
        fleet.site.release()
        assert fleet.end([leaving]) == ["shutdown"]
        assert fleet.end([staying]) == ["finished"], "nothing stayed leased to the one that left"
        assert fleet.check().again == 0, "what it had begun it finished"


def test_a_second_ctrl_c_ends_a_worker_at_once_and_its_leases_run_out(valkey_server: Server, crawl_name: str) -> None:
    with Fleet(SHAPE, valkey_server.url, crawl_name, hold=True) as fleet:
        leaving, staying = two_workers(fleet)
        hold_pages_of_both(fleet)
        leaving.signal(signal.SIGINT)
        wait_until(lambda: "shutting down gracefully" in leaving.log, "the first Ctrl-C to be noticed")
        leaving.signal(signal.SIGINT)
        leaving.wait(60)
        assert "forcing unclean shutdown" in leaving.log, "it did not wait for its pages"
        fleet.site.release()
        assert fleet.end([staying]) == ["finished"]
        assert fleet.check().again > 0, "the other one asked again for what it had in hand"


def expired(fleet: Fleet) -> int:
    """How many leases have run out."""
    with fleet.frontier() as frontier:
        return sum(row.expired for row in frontier.counts(Walker.name).lanes)


def test_a_worker_frozen_beyond_its_leases_does_no_harm_when_it_wakes(valkey_server: Server, crawl_name: str) -> None:
    with Fleet(SHAPE, valkey_server.url, crawl_name, hold=True, lease=2.0) as fleet:
        frozen, awake = two_workers(fleet)
        hold_pages_of_both(fleet)
        frozen.freeze()
        fleet.site.release()
        assert fleet.end([awake]) == ["finished"], "the other one does what it held"
        assert expired(fleet) > 0
        fleet.check()
        frozen.signal(signal.SIGCONT)
        assert fleet.end([frozen]) == ["finished"]
        assert fleet.check().again > 0


def test_a_worker_that_wakes_in_time_goes_on_with_what_is_left(valkey_server: Server, crawl_name: str) -> None:
    with Fleet(SHAPE, valkey_server.url, crawl_name, hold=True, lease=2.0) as fleet:
        frozen, awake = two_workers(fleet)
        hold_pages_of_both(fleet)
        frozen.freeze()
        wait_until(lambda: expired(fleet) > 0, "its leases to run out", 60)
        fleet.site.release()
        frozen.signal(signal.SIGCONT)
        assert fleet.end([frozen, awake]) == ["finished", "finished"]
        fleet.check()


def test_a_killed_server_that_comes_back_finds_its_workers_waiting(server: Server, crawl_name: str) -> None:
    with Fleet(SHAPE, server.url, crawl_name, hold=True) as fleet:
        workers = two_workers(fleet)
        in_the_middle(fleet)
        server.kill()
        wait_until(
            lambda: all("cannot be reached" in worker.log for worker in workers), "the outage to be noticed", 120
        )
        server.restart()
        assert fleet.end(workers) == ["finished", "finished"]
        fleet.check()


Cut = Callable[[FaultProxy], None]


def refuse(proxy: FaultProxy) -> None:
    proxy.refuse()
    proxy.cut()


def swallow(proxy: FaultProxy) -> None:
    proxy.half_open()


@pytest.mark.parametrize("cut", [refuse, swallow])
def test_a_server_out_of_reach_for_all_is_waited_for(
    cut: Cut, valkey_server: Server, fault_proxy: FaultProxy, crawl_name: str
) -> None:
    with Fleet(SHAPE, valkey_server.url, crawl_name, hold=True) as fleet:
        fleet.environ |= {
            "GOSSAMER_URL": fault_proxy.url,
            "GOSSAMER_OUTAGE_SECONDS": "1",
            "GOSSAMER_CALL_SECONDS": "2",
        }
        workers = two_workers(fleet)
        cut(fault_proxy)
        in_the_middle(fleet)
        # The outage itself: longer than a lease.
        time.sleep(OUTAGE)
        # A worker that has nothing to tell calls only every few seconds.
        wait_until(lambda: all("cannot be reached" in worker.log for worker in workers), "both to notice", 60)
        assert all(worker.running for worker in workers)
        fault_proxy.heal()
        fault_proxy.cut()
        assert fleet.end(workers, 180 + OUTAGE) == ["finished", "finished"]
        fleet.check()


def test_a_worker_that_alone_is_cut_off_loses_its_leases_to_the_others(
    valkey_server: Server, fault_proxy: FaultProxy, crawl_name: str
) -> None:
    with Fleet(SHAPE, valkey_server.url, crawl_name, hold=True, lease=2.0) as fleet:
        [near] = fleet.start()
        [far] = fleet.start(environ={"GOSSAMER_URL": fault_proxy.url, "GOSSAMER_OUTAGE_SECONDS": "1"})
        wait_until(lambda: near.opened and far.opened and fleet.site.requests(), "both to be there", 120)
        fleet.site.release()
        fleet.reach(QUARTER)
        hold_pages_of_both(fleet)
        refuse(fault_proxy)
        fleet.site.release()
        assert fleet.end([near]) == ["finished"]
        assert expired(fleet) > 0
        fault_proxy.heal()
        assert fleet.end([far]) == ["finished"]
        fleet.check()


VERSIONED = """
import os

from bench.crawls.spider import Walker
from gossamer.frontier.server import keys, library as schema
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load

NEWER = int(os.environ["NEWER"])
schema.REVISION += NEWER
plain = schema.source
schema.source = lambda name: plain(name) + f"-- {NEWER} newer\\n"
schema.library.cache_clear()


class Versioned(Walker):
    pass
"""


@pytest.mark.parametrize("order", [("0", "1"), ("1", "0")], ids=["older first", "newer first"])
def test_workers_of_two_versions_share_a_crawl(order: tuple[str, str], crawl_name: str) -> None:
    with (
        Server("valkey") as server,
        Fleet(SHAPE, server.url, crawl_name, hold=True, more={"SPIDER_MODULES": ["versioned"]}) as fleet,
    ):
        (fleet.project.directory / "versioned.py").write_text(VERSIONED)
        [first] = fleet.start(environ={"NEWER": order[0]})
        wait_until(lambda: first.opened and fleet.site.requests(), "the first worker to work", 120)
        [second] = fleet.start(environ={"NEWER": order[1]})
        wait_until(lambda: second.opened, "the second worker to be there", 120)
        fleet.site.release()
        assert fleet.end([first, second]) == ["finished", "finished"]
        with fleet.frontier() as frontier:
            [libraries] = frontier.connection.function_list(library.PATTERN).values()
            revision = library.revision_of(libraries[0].name)
        # Both texts are changed, and so newer than the recorded one.
        assert revision is not None
        assert revision.number == library.REVISION + 2, "the newer one stays, whoever came first"
        fleet.check()


def test_a_worker_of_an_older_schema_is_turned_away_and_changes_nothing(server: Server, crawl_name: str) -> None:
    with Fleet(SHAPE, server.url, crawl_name) as fleet:
        ValkeyFrontier.open(load(fleet.environ, environ={})).close()
        server.call("HSET", keys.meta(crawl_name), "schema", library.SCHEMA + 1)
        before = stored(server)
        [worker] = fleet.start()
        worker.wait(120)
        assert "Upgrade this worker" in worker.log
        assert fleet.site.visits() == []
        assert stored(server) == before


def stored(server: Server) -> dict[str, object]:
    """Every key with what is in it, as the server would move it elsewhere."""
    found = server.call("KEYS", "*")
    assert isinstance(found, list)
    return {str(key): server.call("DUMP", str(key)) for key in found}
