"""With which exit code a worker in Scrapy ends."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from scrapy import Spider

from gossamer.errors import FeedIncomplete, GossamerError

_why: WeakKeyDictionary[Any, GossamerError] = WeakKeyDictionary()
_drained: WeakSet[Any] = WeakSet()


def fail(crawler: Any, engine: Any, error: GossamerError) -> None:
    """Let the command that runs this crawler exit with an error: to Scrapy's own commands, a crawler that has no spider at its
    end has failed to start."""
    if not isinstance(error, FeedIncomplete) or crawler not in _why:
        _why[crawler] = error
    closed = getattr(engine, "_spider_closed_callback", None)
    if closed is None:
        return

    def without(spider: Spider) -> Any:
        crawler.spider = None
        return closed(spider)

    engine._spider_closed_callback = without


def failure_of(crawler: Any) -> GossamerError | None:
    """Why it has failed: of several errors the last one, but that a feed lacks items counts only if nothing else is wrong."""
    return _why.get(crawler)


def drained(crawler: Any) -> None:
    """Its group had nothing left when it was closed, whatever reason the project gave."""
    _drained.add(crawler)


def is_drained(crawler: Any) -> bool:
    return crawler in _drained
