"""Scrapy's stats as before, and every change of a number also on its way to the crawl's totals."""

from __future__ import annotations

from typing import Any

from scrapy.statscollectors import MemoryStatsCollector, StatsCollector

from gossamer.courier import Counters
from gossamer.model import CounterChange, CounterOp
from gossamer.model.counter_names import of_scrapy

OWN = frozenset(
    {
        "elapsed_time_seconds",
        "start_time",
        "finish_time",
        "memusage/startup",
        "items_per_minute",
        "responses_per_minute",
    }
)
"""What says something of one worker only."""


class ScrapyCounters(Counters):
    """Sends what Scrapy counts also under the names that both engines share."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self._shared: dict[str, str] = {}

    def take(self) -> list[CounterChange]:
        taken = super().take()
        shared, known = [], self._shared
        for counter in taken:
            if counter.op is CounterOp.ADD:
                name = known.get(counter.name)
                if name is None:
                    name = known[counter.name] = of_scrapy(counter.name)
                if name:
                    shared.append(counter._replace(name=name))
        return taken + shared


class FleetStatsMixin:
    """Mixed into a stats collector. Changes wait in `pending_counters` and ride along with the worker's exchanges: no calls of
    their own, each counted exactly once. What the collector itself shows is this worker's share."""

    _within = False
    """Whether a method of the collector is being called: what it calls of its own is no change of its own."""

    def __init__(self, *args: Any, **named: Any) -> None:
        # From the first change on; whose they are, the scheduler says.
        self.pending_counters = ScrapyCounters("")
        super().__init__(*args, **named)

    # Scrapy looks every attribute up twice, to warn of an argument that is going away; these methods take it in silence.
    __getattribute__ = object.__getattribute__

    def inc_value(self, key: str, count: int = 1, start: int = 0, *more: Any, **named: Any) -> None:
        if self._own("inc_value", key, count, start, *more, **named) and key not in OWN:
            self.pending_counters.add(key, count)

    def set_value(self, key: str, value: Any, *more: Any, **named: Any) -> None:
        if self._own("set_value", key, value, *more, **named):
            self._change(key, value, CounterOp.SET)

    def max_value(self, key: str, value: Any, *more: Any, **named: Any) -> None:
        if self._own("max_value", key, value, *more, **named):
            self._change(key, value, CounterOp.MAX)

    def min_value(self, key: str, value: Any, *more: Any, **named: Any) -> None:
        if self._own("min_value", key, value, *more, **named):
            self._change(key, value, CounterOp.MIN)

    def _own(self, method: str, *args: Any, **named: Any) -> bool:
        """Let the collector do it. False: it is part of something that it does already."""
        within, self._within = self._within, True
        try:
            getattr(super(), method)(*args, **named)
        finally:
            self._within = within
        return not within

    def _change(self, key: str, value: Any, op: CounterOp) -> None:
        if key not in OWN and isinstance(value, int | float) and not isinstance(value, bool):
            self.pending_counters.change(key, value, op)


class FleetStatsCollector(FleetStatsMixin, MemoryStatsCollector):
    """Scrapy's own collector with the crawl's totals."""

    def inc_value(self, key: str, count: int = 1, start: int = 0, *more: Any, **named: Any) -> None:
        # Called a dozen times for every page: without the detour through the base class.
        stats = self._stats
        stats[key] = stats.get(key, start) + count
        if key not in OWN:
            self.pending_counters.add(key, count)


def fleet_collector(kind: type[StatsCollector]) -> type[StatsCollector]:
    """A project's own collector class, with the crawl's totals."""
    if issubclass(kind, FleetStatsMixin):
        return kind
    if kind is MemoryStatsCollector:
        return FleetStatsCollector
    return type(f"Fleet{kind.__name__}", (FleetStatsMixin, kind), {"__module__": kind.__module__})


def numbers(stats: StatsCollector, most: int = 100) -> dict[str, float]:
    """The numbers of one worker, as people see them in the list of workers."""
    found = {
        str(key): value
        for key, value in stats.get_stats().items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return dict(sorted(found.items())[:most])
