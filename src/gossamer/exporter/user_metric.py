r"""Metrics of users: how a group's counters carry them, and how they are read. Pure.

A worker sends any number as a counter of its group. A counter whose name has one of these forms is a metric:

| metric | name of the counter | operation |
| --- | --- | --- |
| counter | `metric/counter/<name>\|<labels>` | add |
| gauge | `metric/gauge/<name>\|<labels>` | set |
| histogram | `metric/histogram/<name>\|<labels>\|le=<bound>`, `…\|sum`, `…\|count` | add |

`<labels>` is `label=value,label=value`, or empty. In a value the characters `%`, `|`, `,` and `=` are written as in URLs: `%25`,
`%7C`, `%2C`, `%3D`. Without labels a counter or gauge may end after its name; a histogram keeps both bars: `metric/histogram/size||sum`.

One observation of a histogram adds 1 to `count`, its value to `sum`, and 1 to the one bucket with the smallest bound that is not
below it, or to none if it is beyond the last: the exporter adds the buckets up. Send 0 to every bucket at first, so that all
bounds are there from the start.

A name begins with a letter and has letters, digits and `_` (at most 100, and not `gossamer_` in front: that is ours); so has a label
(at most 50), but `crawl`, `group`, `le` and `quantile` are ours. A value has at most 128 characters and is no URL. A metric has at
most 8 labels and 200 series in a group, a group at most 100 metrics. What breaks a rule is left out and counted in `gossamer_export_skipped`; the rest is exported
under its name (a counter with `_total` after it) with the labels `crawl` and `group`.

Gossamer's own histograms use the same forms behind `gossamer/`: `gossamer/metric/histogram/fetch_latency_seconds||le=0.5` becomes
`gossamer_fetch_latency_seconds`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import unquote

PREFIX = "metric/"
OURS = "gossamer/metric/"
KINDS = ("counter", "gauge", "histogram")
LABELS_MAX = 8
VALUE_MAX = 128
SERIES_MAX = 200
METRICS_MAX = 100

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}\Z")
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,49}\Z")
_RESERVED = frozenset({"crawl", "group", "le", "quantile"})

Labels = tuple[tuple[str, str], ...]


class BadMetric(ValueError):
    """The name of a counter is that of a metric but breaks a rule; the text is the rule's name."""


class MetricPart(NamedTuple):
    """What one counter says: a value of a metric, or of a histogram its `sum`, `count` or the bucket up to `bound`."""

    kind: str
    name: str
    labels: Labels
    what: str = "value"
    bound: float = math.inf


class Sample(NamedTuple):
    """One line of the exposition: `suffix` follows the metric's name."""

    suffix: str
    labels: Labels
    value: float


class UserMetric(NamedTuple):
    """One metric with its samples over all groups."""

    kind: str
    name: str
    samples: list[Sample]


def parse(counter: str) -> MetricPart | None:
    """What a counter's name says; None if it is no metric's; `BadMetric` if it breaks a rule."""
    ours = counter.startswith(OURS)
    if not ours and not counter.startswith(PREFIX):
        return None
    kind, _, rest = counter.removeprefix(OURS if ours else PREFIX).partition("/")
    if kind not in KINDS:
        raise BadMetric("kind")
    name, *parts = rest.split("|")
    if not _NAME.match(name) or name.startswith("gossamer_"):
        raise BadMetric("name")
    if ours:
        name = f"gossamer_{name}"
    if kind == "histogram":
        if len(parts) != 2:
            raise BadMetric("form")
        return MetricPart(kind, name, _labels(parts[0]), *_what(parts[1]))
    if len(parts) > 1:
        raise BadMetric("form")
    if kind == "counter":
        name = name.removesuffix("_total")
    return MetricPart(kind, name, _labels(parts[0] if parts else ""))


def _what(text: str) -> tuple[str, float]:
    if text in ("sum", "count"):
        return text, math.inf
    if not text.startswith("le="):
        raise BadMetric("form")
    try:
        bound = float(text[3:])
    except ValueError:
        raise BadMetric("bound") from None
    if math.isnan(bound):
        raise BadMetric("bound")
    return "bucket", bound


def _labels(text: str) -> Labels:
    if not text:
        return ()
    found: dict[str, str] = {}
    for pair in text.split(","):
        name, equals, raw = pair.partition("=")
        value = unquote(raw)
        if not equals or not _LABEL.match(name) or name in _RESERVED or name in found or len(value) > VALUE_MAX:
            raise BadMetric("labels")
        if "://" in value:
            raise BadMetric("url")
        found[name] = value
    if len(found) > LABELS_MAX:
        raise BadMetric("labels")
    return tuple(sorted(found.items()))


class _Histogram:
    """The parts of one series, gathered."""

    def __init__(self) -> None:
        self.buckets: dict[float, float] = {}
        self.sum = 0.0
        self.count = 0.0

    def take(self, part: MetricPart, value: float) -> None:
        if part.what == "bucket":
            self.buckets[part.bound] = self.buckets.get(part.bound, 0.0) + value
        elif part.what == "sum":
            self.sum += value
        else:
            self.count += value

    def samples(self, labels: Labels, bounds: Iterable[float]) -> Iterable[Sample]:
        reached = 0.0
        for bound in bounds:
            reached += self.buckets.get(bound, 0.0)
            yield Sample("_bucket", (*labels, ("le", bound_text(bound))), reached)
        yield Sample("_bucket", (*labels, ("le", "+Inf")), self.count)
        yield Sample("_sum", labels, self.sum)
        yield Sample("_count", labels, self.count)


def gathered(groups: Iterable[tuple[str, Mapping[str, float]]]) -> tuple[list[UserMetric], Counter[str]]:
    """The metrics among the counters of groups (name and counters each), and how many counters were left out, by reason.

    A histogram has the same bounds in every series. Of two metrics that would share a name on the page, the first by
    kind and name stays.
    """
    skipped: Counter[str] = Counter()
    plain: dict[tuple[str, str], dict[Labels, float]] = {}
    histograms: dict[str, dict[Labels, _Histogram]] = {}
    for group, counters in groups:
        seen: dict[tuple[str, str], set[Labels]] = {}
        for counter, value in sorted(counters.items()):
            try:
                part = parse(counter)
            except BadMetric as rule:
                skipped[str(rule)] += 1
                continue
            if part is None:
                continue
            known = seen.get((part.kind, part.name))
            if known is None:
                if len(seen) >= METRICS_MAX:
                    skipped["metrics"] += 1
                    continue
                known = seen[part.kind, part.name] = set()
            if part.labels not in known and len(known) >= SERIES_MAX:
                skipped["series"] += 1
                continue
            known.add(part.labels)
            labels = (("group", group), *part.labels)
            if part.kind == "histogram":
                histograms.setdefault(part.name, {}).setdefault(labels, _Histogram()).take(part, value)
            else:
                plain.setdefault((part.kind, part.name), {})[labels] = value
    metrics = [
        UserMetric(kind, name, [Sample("_total" if kind == "counter" else "", labels, v) for labels, v in rows.items()])
        for (kind, name), rows in plain.items()
    ]
    metrics += [UserMetric("histogram", name, _samples(rows)) for name, rows in histograms.items()]
    return _without_clashes(metrics, skipped), skipped


def _samples(rows: Mapping[Labels, _Histogram]) -> list[Sample]:
    bounds = sorted({bound for row in rows.values() for bound in row.buckets if bound < math.inf})
    return [sample for labels, row in rows.items() for sample in row.samples(labels, bounds)]


def _without_clashes(metrics: list[UserMetric], skipped: Counter[str]) -> list[UserMetric]:
    taken: set[str] = set()
    kept = []
    for metric in sorted(metrics, key=lambda each: (each.kind, each.name)):
        names = {metric.name, *(metric.name + sample.suffix for sample in metric.samples)}
        if names & taken:
            skipped["clash"] += 1
            continue
        taken |= names
        kept.append(metric)
    return kept


def bound_text(bound: float) -> str:
    """A bound as Prometheus writes it."""
    if math.isinf(bound):
        return "+Inf" if bound > 0 else "-Inf"
    return repr(float(bound))
