"""Stats of the whole fleet: the sum of its workers', exact over restarts, without calls of their own."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from tests.scrapy.spiders.troubled import PAGES, Collector, Counting
from tests.support.site import Site
from tests.support.workers.workers import Worker, Workers, left

from gossamer.courier import Counters
from gossamer.model import CounterOp
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

OF_ONE = (
    "log_count/", "memusage/", "elapsed_", "items_per", "responses_per", "gossamer/", "own/smallest", "own/largest",
    "request_depth",
)  # fmt: skip
"""What is not a sum, or goes on after the last word."""
ROUNDS = 2


def sums(workers: list[Worker]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for worker in workers:
        for name, value in worker.stats().items():
            if isinstance(value, int | float) and not name.startswith(OF_ONE) and abs(value) < 1e300:
                total[name] += value
    return dict(total)


@pytest.mark.parametrize(
    "collector", ["scrapy.statscollectors.MemoryStatsCollector", f"{Collector.__module__}.Collector"]
)
def test_the_fleets_totals_are_the_sum_over_workers_and_restarts(collector: str, site: Site, crawl_name: str) -> None:
    more: dict[str, Any] = {"STATS_CLASS": collector}
    with Server("valkey") as server, Workers(server.url, crawl_name, **more) as workers:
        made = 0
        for number in range(ROUNDS):
            if number:
                with workers.frontier() as frontier:
                    frontier.new_round(Counting.name, number)
            before = calls(server)
            # Together in a round: whoever has pages counts, and the sum is the same.
            together = [workers.start(Counting, site=site.url, show=["STATS_CLASS"]) for _ in range(2)]
            assert [worker.reason() for worker in together] == ["finished"] * 2
            made += calls(server) - before
        with workers.frontier() as frontier:
            told = left(frontier, Counting.name).counters
        expected = sums(workers.all)
        assert {name: told.get(name) for name in expected} == pytest.approx(expected)
        assert told["own/pages"] == ROUNDS * PAGES
        assert told["own/sum"] == ROUNDS * sum(range(PAGES))
        assert (told["own/smallest"], told["own/largest"]) == (0, PAGES - 1)
        assert told["item_scraped_count"] == ROUNDS * PAGES
        assert told["own/huge"] == pytest.approx(ROUNDS * PAGES * 2**70)
        assert "own/text" not in told
        assert "own/nothing" not in told
        # Every call of the frontier is one that a worker would have made without stats.
        asked = Counter(verb for worker in workers.all for verb in worker.calls())
        joining = 20  # calls at most, before the spider is open; those who come together ask each other
        assert made - sum(asked.values()) <= joining * len(workers.all), f"{made} on the server, {asked}"
        assert set(asked) <= {
            "exchange", "define", "set_host", "workers", "counts", "drained", "new_round", "start", "started", "add", "renew", "leave",
            "end_round", "ended", "rounds", "round_note", "cookies", "documents",
        }  # fmt: skip
        shown = {worker.result()["spiders"][Counting.name]["settings"]["STATS_CLASS"] for worker in workers.all}
        assert all(collector.rpartition(".")[2].removeprefix("Memory") in one for one in shown), shown


def calls(server: Server) -> int:
    """How many functions the server was asked to run."""
    row: Any = server.info("commandstats").get("cmdstat_fcall", "calls=0,")
    return int(str(row).partition("calls=")[2].partition(",")[0])


def test_a_tally_tells_only_what_can_be_kept() -> None:
    pending_counters = Counters("g")
    pending_counters.add("n", 2)
    pending_counters.add("n")
    pending_counters.add("nan", float("nan"))
    pending_counters.add("inf", float("inf"))
    pending_counters.add("huge", 2**80)
    pending_counters.add("odd\udcff")
    told = {counter.name: counter.value for counter in pending_counters.take()}
    assert told == {"n": 3, "huge": float(2**80), "odd?": 1}
    assert not pending_counters
    pending_counters.change("m", 3, CounterOp.MAX)
    pending_counters.change("m", 5, CounterOp.MAX)
    pending_counters.change("s", 3, CounterOp.SET)
    pending_counters.add("s")
    assert [(one.name, one.value, one.op) for one in pending_counters.take()] == [
        ("m", 5, CounterOp.MAX), ("s", 3, CounterOp.SET), ("s", 1, CounterOp.ADD)
    ]  # fmt: skip
