"""The scheduler of scrapy-redis on the queues of scrapy-redis, for a fleet that is moved worker by worker.

Old and new workers share queue and dupefilter. What a worker has popped is lost when it dies: that lies in the queue, not
here. Nothing blocks, a worker that ends clears up only if it is the last one, and what cannot be stored or read is said.
"""

from __future__ import annotations

import importlib
import logging
import time
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import DontCloseSpider
from scrapy.settings import BaseSettings
from scrapy.utils.misc import build_from_crawler, load_object

from gossamer.errors import GossamerError
from gossamer.scrapy_redis import connection, defaults
from gossamer.scrapy_redis.connection import Client
from gossamer.scrapy_redis.dupefilter import RFPDupeFilter
from gossamer.scrapy_redis.filters import base_of, overridden
from gossamer.scrapy_redis.presence import Presence

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


def say_resuming(spider: Spider, count: int) -> None:
    """Through `spider.log`, which a project may have overridden, and else without its warning of being deprecated."""
    log = spider.logger.debug if type(spider).log is Spider.log else spider.log
    log(f"Resuming crawl ({count} requests scheduled)")


class WireScheduler(BaseScheduler):
    """Requests of all workers of a spider in the key `queue_key`, what was seen in `dupefilter_key`."""

    _crawler: Crawler | None = None

    def __init__(
        self,
        server: Client,
        persist: bool = False,
        flush_on_start: bool = False,
        queue_key: str = defaults.SCHEDULER_QUEUE_KEY,
        queue_cls: Any = defaults.SCHEDULER_QUEUE_CLASS,
        dupefilter: Any = None,
        dupefilter_key: str = defaults.SCHEDULER_DUPEFILTER_KEY,
        dupefilter_cls: Any = defaults.SCHEDULER_DUPEFILTER_CLASS,
        idle_before_close: int = 0,
        serializer: Any = None,
    ) -> None:
        if idle_before_close < 0:
            raise TypeError("idle_before_close cannot be negative")
        self.server = server
        self.persist = persist
        self.flush_on_start = flush_on_start
        self.queue_key = queue_key
        self.queue_cls = queue_cls
        self.df = dupefilter
        self.dupefilter_cls = dupefilter_cls
        self.dupefilter_key = dupefilter_key
        self.idle_before_close = idle_before_close
        self.serializer = serializer
        self.stats: Any = None
        self._active_at = time.monotonic()

    def __len__(self) -> int:
        return len(self.queue)

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        given: dict[str, Any] = {
            "persist": settings.getbool("SCHEDULER_PERSIST"),
            "flush_on_start": settings.getbool("SCHEDULER_FLUSH_ON_START"),
            "idle_before_close": settings.getint("SCHEDULER_IDLE_BEFORE_CLOSE"),
        }
        for name, setting in (
            ("queue_key", "SCHEDULER_QUEUE_KEY"),
            ("queue_cls", "SCHEDULER_QUEUE_CLASS"),
            ("dupefilter_key", "SCHEDULER_DUPEFILTER_KEY"),
            ("serializer", "SCHEDULER_SERIALIZER"),
        ):
            if settings.get(setting):
                given[name] = settings[setting]
        # Scrapy always has a value for it; only one that the project chose is meant.
        if settings.getpriority("DUPEFILTER_CLASS"):
            given["dupefilter_cls"] = settings["DUPEFILTER_CLASS"]
        if isinstance(given.get("serializer"), str):
            given["serializer"] = importlib.import_module(given["serializer"])
        return cls(server=connection.reached(settings), **given)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        scheduler = cls.from_settings(crawler.settings)
        scheduler._crawler = crawler
        scheduler.stats = crawler.stats
        return scheduler

    def open(self, spider: Spider) -> None:
        self.spider = spider
        crawler = self._crawler or getattr(spider, "crawler", None)
        key = self.queue_key % {"spider": spider.name}
        if crawler is not None:
            logger.info("Worker of queue %s on %s.", key, connection.named(crawler.settings))
            self._connect(crawler)
        try:
            self.queue = load_object(self.queue_cls)(
                server=self.server, spider=spider, key=key, serializer=self.serializer
            )
        except TypeError as error:
            raise ValueError(f"Failed to instantiate queue class '{self.queue_cls}': {error}") from error
        if not self.df:
            self.df = self._dupefilter(spider, crawler)
        self._presence = Presence(self.server, key)
        alone = not self._presence.stay()
        if self.flush_on_start:
            if alone:
                self.flush()
            else:
                logger.warning("SCHEDULER_FLUSH_ON_START: nothing was cleared, since other workers use the queue.")
        if count := len(self.queue):
            say_resuming(spider, count)

    def _connect(self, crawler: Crawler) -> None:
        crawler.signals.connect(self._on_idle, signals.spider_idle)
        for signal in (signals.request_reached_downloader, signals.response_received):
            crawler.signals.connect(self._on_activity, signal)

    def _dupefilter(self, spider: Spider, crawler: Crawler | None) -> Any:
        kind = load_object(self.dupefilter_cls)
        if kind is RFPDupeFilter and not hasattr(spider, "settings"):
            # Without a crawler there are no settings; what this scheduler was made with says enough.
            return kind(self.server, self.dupefilter_key % {"spider": spider.name})
        if hasattr(kind, "from_spider"):
            return kind.from_spider(spider)
        if crawler is None:
            raise ValueError(f"The dupefilter {self.dupefilter_cls} is made from a crawler, and {spider!r} has none.")
        if "from_settings" in overridden(kind, base_of(kind) or object) or not hasattr(kind, "from_crawler"):
            return kind.from_settings(crawler.settings)
        return build_from_crawler(kind, crawler)

    def close(self, reason: str) -> None:
        if self._presence.leave() and not self.persist:
            self.flush()

    def flush(self) -> None:
        """Empty the queue and forget what was seen, for all workers."""
        # A dupefilter of Scrapy's own lives in this process and cannot be cleared.
        if hasattr(self.df, "clear"):
            self.df.clear()
        self.queue.clear()

    def enqueue_request(self, request: Request) -> bool:
        if not request.dont_filter and self.df.request_seen(request):
            self.df.log(request, self.spider)
            return False
        try:
            self.queue.push(request)
        except GossamerError as error:
            self._count("scheduler/unserializable")
            logger.error("Request %s was not queued: %s", request, error)
            return False
        self._count("scheduler/enqueued/redis")
        return True

    def next_request(self) -> Request | None:
        self._presence.stay()
        while True:
            try:
                request: Request | None = self.queue.pop(0)
            except GossamerError as error:
                self._count("scheduler/unreadable")
                logger.error("A queued request of %s cannot be read and is left out: %s", self.spider.name, error)
                continue
            if request:
                self._count("scheduler/dequeued/redis")
            return request

    def has_pending_requests(self) -> bool:
        return len(self) > 0

    def _count(self, name: str) -> None:
        if self.stats:
            self.stats.inc_value(name)

    def _on_activity(self) -> None:
        self._active_at = time.monotonic()

    def _on_idle(self) -> None:
        if time.monotonic() - self._active_at < self.idle_before_close:
            raise DontCloseSpider
