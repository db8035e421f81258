"""Metrics of a project's own, for the whole fleet: a counter, gauge or histogram in two lines.

    metrics = gossamer.metrics(crawler)
    metrics.counter("prices_changed").add(1, shop="north")

They are kept among the crawler's stats under names that the exporter knows (docs/reference/metrics.md), so they travel with the
worker's exchanges, are exact over all workers, and are there in plain Scrapy's stats too.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gossamer.errors import PolicyError
from gossamer.model.counter_names import SECONDS

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}\Z")
_RESERVED = frozenset({"crawl", "group", "le", "quantile"})


def metrics(crawler: Crawler) -> Metrics:
    """The metrics of a crawler, for its extensions, pipelines and spider."""
    return Metrics(crawler)


class Metrics:
    """Makes metrics by name. Names and labels begin with a letter and have letters, digits and `_`."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    def counter(self, name: str) -> CounterMetric:
        """Something that is counted: only ever added to. Exported as `<name>_total`."""
        return CounterMetric(self._crawler, f"metric/counter/{_checked(name)}")

    def gauge(self, name: str) -> GaugeMetric:
        """Something that has a value now; the last one that any worker has set."""
        return GaugeMetric(self._crawler, f"metric/gauge/{_checked(name)}")

    def histogram(self, name: str, bounds: Sequence[float] = SECONDS) -> HistogramMetric:
        """Something that is measured often: how many measurements were below each of the `bounds`."""
        return HistogramMetric(self._crawler, f"metric/histogram/{_checked(name)}", bounds)


class _Metric:
    def __init__(self, crawler: Crawler, head: str) -> None:
        self._crawler, self._head = crawler, head
        self._series: dict[tuple[tuple[str, Any], ...], str] = {}

    @property
    def _stats(self) -> Any:
        return self._crawler.stats

    def _name(self, labels: dict[str, Any]) -> str:
        key = tuple(sorted(labels.items()))
        known = self._series.get(key)
        if known is None:
            parts = [f"{_checked(name)}={quote(str(value)[:128], safe=' /:@!$()*;?')}" for name, value in key]
            known = self._series[key] = f"{self._head}|{','.join(parts)}"
        return known


class CounterMetric(_Metric):
    def add(self, count: float = 1, **labels: Any) -> None:
        if not 0 <= count < math.inf:
            raise PolicyError(f"metric {self._head}: {count!r} cannot be added to a counter; use a gauge.")
        self._stats.inc_value(self._name(labels), count)


class GaugeMetric(_Metric):
    def set(self, value: float, **labels: Any) -> None:
        self._stats.set_value(self._name(labels), value)


class HistogramMetric(_Metric):
    def __init__(
        self, crawler: Crawler, head: str, bounds: Sequence[float], add: Callable[[str, float], None] | None = None
    ) -> None:
        super().__init__(crawler, head)
        self._add = add
        if not bounds or list(bounds) != sorted(set(bounds)) or not math.isfinite(bounds[-1]):
            raise PolicyError(f"metric {head}: bounds must be finite numbers that grow.")
        self._bounds = [float(bound) for bound in bounds]
        self._begun: set[str] = set()

    def observe(self, value: float, **labels: Any) -> None:
        name, add = self._name(labels), self._add or self._stats.inc_value
        if name not in self._begun:
            self._begun.add(name)
            for bound in self._bounds:
                add(f"{name}|le={bound:g}", 0)
        place = bisect.bisect_left(self._bounds, value)
        if place < len(self._bounds):
            add(f"{name}|le={self._bounds[place]:g}", 1)
        add(f"{name}|sum", value)
        add(f"{name}|count", 1)


def _checked(name: str) -> str:
    if not _NAME.match(name) or name in _RESERVED:
        raise PolicyError(
            f"metric or label {name!r}: begin with a letter, use letters, digits and _ (at most 100); "
            f"{', '.join(sorted(_RESERVED))} are taken."
        )
    return name
