"""Metrics of a project are stats of the crawler, under the names that the exporter reads."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.statscollectors import MemoryStatsCollector

import gossamer
from gossamer.errors import PolicyError
from gossamer.exporter.user_metric import gathered
from gossamer.scrapy.metric import Metrics


@pytest.fixture
def crawler() -> Crawler:
    made = Crawler(Spider, {"STATS_DUMP": False})
    made.stats = MemoryStatsCollector(made)
    return made


@pytest.fixture
def metrics(crawler: Crawler) -> Metrics:
    made: Metrics = gossamer.metrics(crawler)
    return made


def stats(crawler: Crawler) -> dict[str, Any]:
    assert crawler.stats is not None
    return crawler.stats.get_stats()


def test_a_counter_is_a_sum_for_each_set_of_labels(crawler: Crawler, metrics: Metrics) -> None:
    changed = metrics.counter("prices_changed")
    changed.add()
    changed.add(2.5)
    changed.add(0)
    changed.add(3, shop="north", kind="a|b,c=d%")
    changed.add(1, kind="a|b,c=d%", shop="north")
    metrics.counter("prices_changed").add(1, shop="süd")
    metrics.counter("other").add(7)
    assert stats(crawler) == {
        "metric/counter/prices_changed|": 3.5,
        "metric/counter/prices_changed|kind=a%7Cb%2Cc%3Dd%25,shop=north": 4,
        "metric/counter/prices_changed|shop=s%C3%BCd": 1,
        "metric/counter/other|": 7,
    }


def test_a_gauge_has_the_last_value_for_each_set_of_labels(crawler: Crawler, metrics: Metrics) -> None:
    depth = metrics.gauge("depth")
    depth.set(5)
    depth.set(-1.5)
    depth.set(2, queue="new")
    assert stats(crawler) == {"metric/gauge/depth|": -1.5, "metric/gauge/depth|queue=new": 2}


def test_a_histogram_counts_by_bounds_for_each_set_of_labels(crawler: Crawler, metrics: Metrics) -> None:
    size = metrics.histogram("size", [1, 2.5])
    for value in (1, 2, 9):
        size.observe(value, kind="page")
    size.observe(0.5)
    assert stats(crawler) == {
        "metric/histogram/size|kind=page|le=1": 1,
        "metric/histogram/size|kind=page|le=2.5": 1,
        "metric/histogram/size|kind=page|sum": 12,
        "metric/histogram/size|kind=page|count": 3,
        "metric/histogram/size||le=1": 1,
        "metric/histogram/size||le=2.5": 0,
        "metric/histogram/size||sum": 0.5,
        "metric/histogram/size||count": 1,
    }


def test_the_exporter_reads_every_name(crawler: Crawler, metrics: Metrics) -> None:
    metrics.counter("prices").add(2, shop="a|b,c=d%")
    metrics.gauge("depth").set(3)
    metrics.histogram("size").observe(0.2, kind="page")
    families, skipped = gathered([("group", {name: float(value) for name, value in stats(crawler).items()})])
    assert skipped == {}
    assert {family.name for family in families} == {"prices", "depth", "size"}
    assert "a|b,c=d%" in str(families)


@pytest.mark.parametrize("count", [-1, -0.5, math.inf, math.nan])
def test_a_counter_never_goes_down(crawler: Crawler, metrics: Metrics, count: float) -> None:
    with pytest.raises(
        PolicyError, match=rf"^metric metric/counter/prices: {count!r} cannot be added to a counter; use a gauge\.$"
    ):
        metrics.counter("prices").add(count, shop="north")
    assert stats(crawler) == {}


@pytest.mark.parametrize("name", ["", "9lives", "with space", "a/b", "a|b", "le", "group", "x" * 101])
def test_names_that_no_metric_can_have_are_refused(crawler: Crawler, metrics: Metrics, name: str) -> None:
    for make in (metrics.counter, metrics.gauge, metrics.histogram):
        with pytest.raises(PolicyError, match="metric or label"):
            make(name)
    with pytest.raises(PolicyError, match="metric or label"):
        metrics.gauge("depth").set(1, **{name: "value"})
    assert stats(crawler) == {}


@pytest.mark.parametrize("bounds", [[], [2, 1], [1, 1], [1, math.inf]])
def test_bounds_that_do_not_grow_are_refused(metrics: Metrics, bounds: list[float]) -> None:
    with pytest.raises(PolicyError, match=r"^metric metric/histogram/size: bounds must be finite numbers that grow\.$"):
        metrics.histogram("size", bounds)
