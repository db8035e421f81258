"""The short form of the worker kills of `make chaos`: a worker dies in the middle of a crawl, and nothing is missing."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from bench.crawls.fleet import Arrived, arrived
from scripts.chaos.workers import Outcome, Plan, native, ours, plans, summary, theirs

from gossamer.testing.servers import Cluster, Server

PAGES = 400


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "plan",
    [
        Plan("binary", PAGES, 64, "early"),
        Plan("ten", PAGES, 16, "late", replaced=True),
        Plan("flat", PAGES, 16, "early"),
    ],
    ids=str,
)
def test_a_killed_worker_takes_nothing_with_it(plan: Plan, valkey_server: Server, crawl_name: str) -> None:
    outcome = ours(plan, valkey_server.url, crawl_name, random.Random(7))
    assert outcome.killed_at < PAGES, "it was killed in the middle"


@pytest.mark.timeout(400)
def test_nor_on_a_cluster_where_children_lie_on_other_partitions(cluster: Cluster, crawl_name: str) -> None:
    plan = Plan("ten", PAGES, 64, "late", partitions=3)
    outcome = ours(plan, cluster.url, crawl_name, random.Random(7))
    assert outcome.killed_at < PAGES


@pytest.mark.timeout(400)
@pytest.mark.parametrize("stored", [False, True], ids=["stream", "stored"])
@pytest.mark.parametrize(
    "plan",
    [Plan("binary", PAGES, 64, "early"), Plan("ten", PAGES, 16, "late", replaced=True)],
    ids=str,
)
def test_nor_does_a_killed_worker_of_the_native_engine(
    plan: Plan, stored: bool, valkey_server: Server, crawl_name: str
) -> None:
    outcome = native(plan, valkey_server.url, crawl_name, random.Random(7), stored)
    assert outcome.killed_at < PAGES, "it was killed in the middle"


@pytest.mark.timeout(400)
def test_nor_one_on_a_cluster(cluster: Cluster, crawl_name: str) -> None:
    outcome = native(Plan("ten", PAGES, 16, "late", partitions=3), cluster.url, crawl_name, random.Random(7), False)
    assert outcome.killed_at < PAGES


@pytest.mark.timeout(400)
def test_the_same_kill_costs_scrapy_redis_pages() -> None:
    outcome = theirs(Plan("ten", PAGES, 64, "late"), random.Random(7))
    assert outcome.arrived.lost > 0, "the harness would notice a loss"


def test_what_arrived_is_counted_by_page() -> None:
    items = Counter({0: 1, 1: 3, 2: 1, 7: 2})
    visits = Counter({0: 1, 1: 2, 2: 1, 3: 1, -1: 5})
    assert arrived(5, items, visits) == Arrived(lost=2, doubled=2, unknown=2, again=1)
    assert not arrived(5, items, visits).exact
    assert arrived(2, Counter({0: 1, 1: 1}), visits).exact


def test_every_combination_gets_its_turn() -> None:
    rows = [plan for plan, _ in zip(plans(3_000, random.Random(1)), range(12), strict=False)]
    assert len({(plan.rule, plan.concurrent, plan.moment) for plan in rows}) == 12


def test_the_summary_adds_up() -> None:
    plan = Plan("flat", 100, 16, "late")
    outcomes = [Outcome(plan, 40, Arrived(lost, 1, 0, 2), 3.0) for lost in (0, 16)]
    assert summary("x", outcomes) == "x: 2 kills, 200 pages; lost 16 (0–16 a run), doubled 2, fetched again 4"
    assert summary("x", []) == "x: no runs"
