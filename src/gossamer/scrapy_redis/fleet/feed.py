"""When a spider whose seeds are not leased takes more of them, from which of its keys, and how long it has been idle."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scrapy import signals

from gossamer.scrapy_redis.connection import RedisError

try:
    from scrapy.utils.asyncio import create_looping_call
except ImportError:  # Scrapy 2.13
    from twisted.internet.task import LoopingCall as create_looping_call  # type: ignore[assignment]

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5


class SeedFeed:
    """One spider's seeds. `interval` is after how many seconds the first key with seeds is looked for again while another
    still has some; 0: not before it is empty. `judged`: the spider has a `next_requests` of its own, which may close it when
    there are no seeds. It is called as in scrapy-redis: when the spider is idle; before that only if there are seeds."""

    def __init__(self, spider: Any, keys: Sequence[str], interval: float, judged: bool = False) -> None:
        self._spider, self._keys, self._interval, self._judged = spider, tuple(keys), interval, judged
        self._key = keys[0]
        self._looked_at = self._active_at = time.monotonic()
        self._loop: Any = None

    def connect(self, crawler: Crawler) -> None:
        connect = crawler.signals.connect
        connect(self._opened, signals.spider_opened)
        connect(self._closed, signals.spider_closed)
        for signal in (signals.request_reached_downloader, signals.response_received, signals.item_scraped):
            connect(self._active, signal)

    def key(self) -> str:
        """The key to take from now: the present one while it has seeds, else the first that has."""
        if len(self._keys) > 1:
            now, count = time.monotonic(), self._spider.count_size
            due = bool(self._interval) and now - self._looked_at >= self._interval
            if due or not count(self._key):
                self._looked_at = now
                self._key = next((key for key in self._keys if count(key)), self._key)
        return self._key

    def idle_seconds(self) -> float:
        """Since when nothing was sent, received or scraped; on the frontier, by the whole group."""
        scheduler: Any = getattr(getattr(self._spider.crawler.engine, "_slot", None), "scheduler", None)
        if hasattr(scheduler, "idle_seconds"):
            return float(scheduler.idle_seconds())
        return time.monotonic() - self._active_at

    def _opened(self) -> None:
        self._active()
        if not self._spider._leases:
            self._loop = create_looping_call(self._look)
            self._loop.start(LOOK_SECONDS, now=False)

    def _closed(self) -> None:
        if self._loop is not None and self._loop.running:
            self._loop.stop()

    def _active(self) -> None:
        self._active_at = time.monotonic()

    def _look(self) -> None:
        """Take seeds while slow pages, here or at other workers, keep the spider from being idle."""
        engine = self._spider.crawler.engine
        slot, downloader = engine._slot, engine.downloader
        if engine.paused or slot is None or slot.closing or len(downloader.active) >= downloader.total_concurrency:
            return
        # On the frontier only what is here counts: that of the group is asked when the spider may be idle.
        busy = getattr(slot.scheduler, "holds", slot.scheduler.has_pending_requests)
        try:
            if not busy() and (not self._judged or self._surely_some(engine)):
                self._spider.schedule_next_requests()
        except RedisError as error:
            logger.warning("Seeds could not be taken: %s", error)

    def _surely_some(self, engine: Any) -> bool:
        """Whether a spider that may draw conclusions from finding no seeds would find some, and has nothing else to do."""
        if engine.downloader.active or not engine.scraper.slot.is_idle() or engine._start is not None:
            return False
        try:
            return any(self._spider.count_size(key) for key in self._keys)
        except RedisError:
            return False  # what the spider reads is no key of this kind: it is asked when it is idle
