"""A worker that may not begin: it logs why in one line, and ends as soon as the engine has started."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler

from gossamer.errors import GossamerError
from gossamer.scrapy.process.exit_code import fail
from gossamer.scrapy.process.reactor import close_spider, later

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

SOON = 0.2


class RefusedScheduler(BaseScheduler):
    """In the place of a scheduler that cannot be made, for a reason that is logged. An error that is raised while Scrapy makes its
    scheduler is lost behind Scrapy's own ones."""

    def __init__(self, crawler: Crawler, error: GossamerError) -> None:
        self._crawler, self._error = crawler, error

    def open(self, spider: Spider) -> None:
        refuse(self._crawler, self._crawler.engine, self._error)

    def has_pending_requests(self) -> bool:
        return True  # it ends by itself, without the signal that it is idle

    def enqueue_request(self, request: Request) -> bool:
        return False

    def next_request(self) -> Request | None:
        return None


def refuse(crawler: Crawler, engine: Any, error: GossamerError) -> None:
    """To be called before the engine has started. Nothing is raised: most versions of Scrapy would make a long story of it."""
    logger.error("%s", error)
    fail(crawler, engine, error)
    engine._start = _end(engine, type(error).__name__)


async def _end(engine: Any, reason: str) -> AsyncIterator[Any]:
    """The start of such a worker."""
    later(SOON, lambda: close_spider(engine, reason))
    return
    yield
