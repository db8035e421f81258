"""Commands of Scrapy that look at something and do not crawl: a project on the fleet is a plain one for them.

`scrapy shell`, `fetch`, `view`, `parse`, `check` and `bench` make a crawler too, with all of the project's settings. On the
frontier they would take part in the crawl: use up its start, lease its pages, or wait for a page that another worker has.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand
from scrapy.core.scheduler import Scheduler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

PACKAGE = "scrapy.commands."
CRAWLING = frozenset({"scrapy.commands.crawl", "scrapy.commands.runspider"})


def command() -> ScrapyCommand | None:
    """The command of Scrapy that this process runs; None for a script, a worker of ours, or any other program.

    Found on the stack, where `scrapy.cmdline` holds it while it runs: nothing that it makes refers to it, and the words of the
    command line are not those of a program that calls `scrapy.cmdline.execute`.
    """
    for frame in _frames():
        for name in ("cmd", "self"):
            found = frame.f_locals.get(name)
            if isinstance(found, ScrapyCommand):
                return found
    return None


def crawls_nothing(found: ScrapyCommand) -> bool:
    """Whether it is one of Scrapy's own that do not crawl, or made of one. A command of the project's crawls: `crawlall`."""
    homes = {kind.__module__ for kind in type(found).__mro__ if kind.__module__.startswith(PACKAGE)}
    return bool(homes) and not homes & CRAWLING


def name_of(found: ScrapyCommand) -> str:
    return type(found).__module__.rpartition(".")[2]


def is_read_only() -> bool:
    """Whether this process only looks at something: nothing of it may reach the frontier."""
    found = command()
    return found is not None and crawls_nothing(found)


def scheduler(crawler: Crawler) -> Any:
    """Scrapy's own, in memory."""
    return Scheduler.from_crawler(crawler)


def dupefilter(crawler: Crawler) -> Any:
    """Scrapy's own, in memory; for the shell none, as Scrapy has it there: the same page may be looked at again."""
    found = command()
    shell = found is not None and name_of(found) == "shell"
    return BaseDupeFilter() if shell else RFPDupeFilter.from_crawler(crawler)


def _frames() -> Iterator[FrameType]:
    # The shell runs its crawler in a thread, and waits for it in the main one.
    running = sys._current_frames()
    for thread in {threading.get_ident(), threading.main_thread().ident}:
        frame = running.get(thread or 0)
        while frame is not None:
            yield frame
            frame = frame.f_back
