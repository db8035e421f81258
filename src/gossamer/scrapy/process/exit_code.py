"""With which exit code a worker in Scrapy ends."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from scrapy import Spider
from scrapy import crawler as crawling

from gossamer.errors import FeedIncomplete, GossamerError

_why: WeakKeyDictionary[Any, GossamerError] = WeakKeyDictionary()
_drained: WeakSet[Any] = WeakSet()
_failed_processes: set[int] = set()
PROGRAMS = frozenset({"scrapy", "gossamer", "scrapyd"})
"""Their command lines crawl as soon as they are loaded, and choose their exit codes themselves."""


def on_command_line() -> bool:
    """Whether this process runs one of `PROGRAMS`, not a script."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    name = spec.name if spec is not None else Path(getattr(main, "__file__", None) or "").stem
    return name.partition(".")[0] in PROGRAMS


def fail(crawler: Any, engine: Any, error: GossamerError) -> None:
    """Let the command that runs this crawler exit with an error: to Scrapy's own commands, a crawler that has no spider at its
    end has failed to start."""
    if not isinstance(error, FeedIncomplete) or crawler not in _why:
        _why[crawler] = error
    if not on_command_line() and _is_in_crawler_process():
        _failed_processes.add(os.getpid())
    closed = getattr(engine, "_spider_closed_callback", None)
    if closed is None:
        return

    def without(spider: Spider) -> Any:
        crawler.spider = None
        return closed(spider)

    engine._spider_closed_callback = without


def _is_in_crawler_process() -> bool:
    """Whether this is called under a `CrawlerProcess`, which runs a program's crawls; a runner is part of another program."""
    # Scrapy 2.13 has only the one.
    kinds = (crawling.CrawlerProcess, getattr(crawling, "AsyncCrawlerProcess", crawling.CrawlerProcess))
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), kinds):
            return True
        frame = frame.f_back
    return False


def _exit_with_failure() -> None:
    """Scripts seldom ask a `CrawlerProcess` whether its crawls have failed: their exit code says so."""
    if os.getpid() in _failed_processes:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(1)


# Called after what is registered later, as projects and their libraries do.
atexit.register(_exit_with_failure)


def failure_of(crawler: Any) -> GossamerError | None:
    """Why it has failed: of several errors the last one, but that a feed lacks items counts only if nothing else is wrong."""
    return _why.get(crawler)


def drained(crawler: Any) -> None:
    """Its group had nothing left when it was closed, whatever reason the project gave."""
    _drained.add(crawler)


def is_drained(crawler: Any) -> bool:
    return crawler in _drained
