"""The arguments that a spider was made with."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import CoroutineType, FrameType, GeneratorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_CALLS = ("crawl", "crawl_async")


def arguments(crawler: Crawler) -> dict[str, Any]:
    """What `Crawler.crawl` was given for the spider, by a command line (`-a`) or a script, by name; those without a name by their
    place. Scrapy keeps it nowhere but in that call, which lasts as long as the crawl: it is looked for there."""
    for frame in _frames(crawler):
        if frame.f_code.co_name in _CALLS:
            there = frame.f_locals
            if there.get("self") is crawler and "kwargs" in there:
                return {**{str(place): value for place, value in enumerate(there.get("args", ()))}, **there["kwargs"]}
    return {}


def _frames(crawler: Crawler) -> Iterator[FrameType]:
    """The calls that this one is under, then those that wait and have to do with the crawler."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
    for call in gc.get_referrers(crawler):
        waiting = call.gi_frame if isinstance(call, GeneratorType) else None
        waiting = call.cr_frame if isinstance(call, CoroutineType) else waiting
        if waiting is not None:
            yield waiting
