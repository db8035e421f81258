"""How counters carry the metrics of users."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.exporter import user_metric
from gossamer.exporter.user_metric import BadMetric, MetricPart, gathered, parse


def test_a_counter_that_is_no_metric_is_left_alone() -> None:
    assert parse("downloader/response_count") is None
    assert gathered([("g", {"item_scraped_count": 3.0})]) == ([], {})


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("metric/counter/prices", MetricPart("counter", "prices", ())),
        ("metric/counter/prices|", MetricPart("counter", "prices", ())),
        ("metric/counter/prices_total|", MetricPart("counter", "prices", ())),
        ("metric/gauge/depth|b=2,a=1", MetricPart("gauge", "depth", (("a", "1"), ("b", "2")))),
        ("metric/gauge/depth|a=x%7Cy%2Cz%3D%25", MetricPart("gauge", "depth", (("a", "x|y,z=%"),))),
        ("metric/histogram/size||sum", MetricPart("histogram", "size", (), "sum")),
        ("metric/histogram/size|k=v|count", MetricPart("histogram", "size", (("k", "v"),), "count")),
        ("metric/histogram/size|k=v|le=0.5", MetricPart("histogram", "size", (("k", "v"),), "bucket", 0.5)),
        ("metric/histogram/size||le=+Inf", MetricPart("histogram", "size", (), "bucket", math.inf)),
        (
            "gossamer/metric/histogram/fetch_latency_seconds||le=1",
            MetricPart("histogram", "gossamer_fetch_latency_seconds", (), "bucket", 1.0),
        ),
    ],
)
def test_a_name_says_kind_labels_and_part(name: str, part: MetricPart) -> None:
    assert parse(name) == part


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("metric/summary/x", "kind"),
        ("metric/counter", "name"),
        ("metric/counter/", "name"),
        ("metric/counter/9lives", "name"),
        ("metric/counter/with space", "name"),
        ("metric/counter/gossamer_up", "name"),
        ("metric/counter/x" + "y" * 100, "name"),
        ("metric/counter/x|a=1|sum", "form"),
        ("metric/histogram/x", "form"),
        ("metric/histogram/x|sum", "form"),
        ("metric/histogram/x||median", "form"),
        ("metric/histogram/x||le=", "bound"),
        ("metric/histogram/x||le=nan", "bound"),
        ("metric/counter/x|a", "labels"),
        ("metric/counter/x|a=1,a=2", "labels"),
        ("metric/counter/x|group=1", "labels"),
        ("metric/counter/x|le=1", "labels"),
        ("metric/counter/x|__name__=1", "labels"),
        ("metric/counter/x|a=" + "v" * 129, "labels"),
        ("metric/counter/x|" + ",".join(f"l{n}=1" for n in range(9)), "labels"),
        ("metric/counter/x|page=http://h/", "url"),
        ("metric/counter/x|page=http%3A%2F%2Fh", "url"),
    ],
)
def test_what_breaks_a_rule_is_skipped_and_counted(name: str, rule: str) -> None:
    with pytest.raises(BadMetric, match=rf"^{rule}$"):
        parse(name)
    assert gathered([("g", {name: 1.0})]) == ([], {rule: 1})


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    for prefix in ("", "metric/", "metric/counter/", "metric/histogram/x|", "gossamer/metric/gauge/y|"):
        try:
            part = parse(prefix + text)
        except BadMetric:
            continue
        assert part is None or part.kind in user_metric.KINDS


def test_buckets_add_up_and_share_their_bounds() -> None:
    quick = {"metric/histogram/size||le=1": 2.0, "metric/histogram/size||count": 5.0, "metric/histogram/size||sum": 9.5}
    slow = {"metric/histogram/size||le=10": 1.0, "metric/histogram/size||count": 1.0, "metric/histogram/size||sum": 7.0}
    [metric], skipped = gathered([("a", quick), ("b", slow)])
    assert not skipped
    lines = {(s.suffix, dict(s.labels)["group"], dict(s.labels).get("le", "")): s.value for s in metric.samples}
    assert lines == {
        ("_bucket", "a", "1.0"): 2.0,
        ("_bucket", "a", "10.0"): 2.0,
        ("_bucket", "a", "+Inf"): 5.0,
        ("_sum", "a", ""): 9.5,
        ("_count", "a", ""): 5.0,
        ("_bucket", "b", "1.0"): 0.0,
        ("_bucket", "b", "10.0"): 1.0,
        ("_bucket", "b", "+Inf"): 1.0,
        ("_sum", "b", ""): 7.0,
        ("_count", "b", ""): 1.0,
    }


def test_the_series_of_a_metric_are_bounded() -> None:
    counters = {f"metric/counter/x|n={n}": 1.0 for n in range(user_metric.SERIES_MAX + 7)}
    [metric], skipped = gathered([("g", counters)])
    assert len(metric.samples) == user_metric.SERIES_MAX
    assert skipped == {"series": 7}


def test_the_metrics_of_a_group_are_bounded() -> None:
    counters = {f"metric/gauge/x{n}": 1.0 for n in range(user_metric.METRICS_MAX + 3)}
    metrics, skipped = gathered([("g", counters), ("h", counters)])
    assert len(metrics) == user_metric.METRICS_MAX
    assert skipped == {"metrics": 6}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("metric/counter/x", "metric/gauge/x"),
        ("metric/counter/x", "metric/gauge/x_total"),
        ("metric/gauge/x_sum", "metric/histogram/x||sum"),
    ],
)
def test_of_two_metrics_that_would_share_a_name_one_stays(first: str, second: str) -> None:
    metrics, skipped = gathered([("g", {first: 1.0, second: 2.0})])
    assert len(metrics) == 1
    assert skipped == {"clash": 1}
