"""The scheduler of scrapy-redis on the queues of scrapy-redis, for a fleet that is moved worker by worker.

Old and new workers share queue and dupefilter. What a worker has popped is lost when it dies: that lies in the queue, not
here. Nothing blocks, and a worker that ends clears up only if it is the last one. What cannot be read stays in the queue for workers
that can; what cannot be stored is kept in a list of its own.
"""

from __future__ import annotations

import importlib
import json
import logging
import time
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import DontCloseSpider
from scrapy.settings import BaseSettings
from scrapy.utils.misc import build_from_crawler, load_object

from gossamer.model.plural import counted_are
from gossamer.scrapy.seen.project_filter import overridden
from gossamer.scrapy_redis import connection, defaults
from gossamer.scrapy_redis.connection import Client, RedisError
from gossamer.scrapy_redis.dupefilter import RFPDupeFilter
from gossamer.scrapy_redis.fleet.filters import base_of
from gossamer.scrapy_redis.queue import can_be_looked_at
from gossamer.scrapy_redis.shared.presence import GONE_SECONDS, Presence
from gossamer.scrapy_redis.shared.queue_reader import QueueReader

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

SAID_MOST = 20
"""How many unreadable requests are logged one by one."""
REFUSED_MOST = 10_000
"""How many requests that could not be stored are kept, the newest ones."""


def log_resuming(spider: Spider, count: int) -> None:
    """Through `spider.log`, which a project may have overridden, and else without its warning of being deprecated."""
    log = spider.logger.debug if type(spider).log is Spider.log else spider.log
    log(f"Resuming crawl ({count} requests scheduled)")


class QueueScheduler(BaseScheduler):
    """Requests of all workers of a spider in the key `queue_key`, what was seen in `dupefilter_key`."""

    _crawler: Crawler | None = None
    _taker: QueueReader | None = None
    _unread = 0

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
                logger.warning(
                    "SCHEDULER_FLUSH_ON_START: nothing was cleared, since other workers use the queue, or did so until they "
                    "were killed less than %d s ago.",
                    GONE_SECONDS,
                )
        if count := len(self.queue):
            log_resuming(spider, count)

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
            taker = self._taking()
            left = len(self) if taker is not None and taker.left else 0
            if left:
                logger.warning(
                    "%s left in %s, which this worker cannot read; nothing was cleared. Workers of scrapy-redis may.",
                    counted_are(left, "request"), self.queue.key,
                )  # fmt: skip
            else:
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
        except RedisError:
            raise
        except Exception as error:
            self._refuse(request, error)
            return False
        self._count("scheduler/enqueued/redis")
        return True

    def _refuse(self, request: Request, error: Exception) -> None:
        """It cannot be stored: it is kept in a list with the reason, and is not known as seen, so that it may be found again."""
        self._count("scheduler/unserializable")
        key = f"{self.queue.key}:unserializable"
        logger.error("Request %s was not queued: %s It is kept in the list %s.", request, error, key)
        told = {"url": request.url, "method": request.method, "spider": self.spider.name, "error": str(error)}
        self.server.lpush(key, json.dumps(told))
        self.server.ltrim(key, 0, REFUSED_MOST - 1)
        if not request.dont_filter and self._marks_in_a_set():
            self.df.server.srem(self.df.key, self.df.request_fingerprint(request))

    def next_request(self) -> Request | None:
        self._presence.stay()
        taker = self._taking()
        request = self._pop() if taker is None else taker.take()
        if request:
            self._count("scheduler/dequeued/redis")
        return request

    def _marks_in_a_set(self) -> bool:
        return isinstance(self.df, RFPDupeFilter) and type(self.df).request_seen is RFPDupeFilter.request_seen

    def _taking(self) -> QueueReader | None:
        """Takes from the present queue, which a subclass may have made; None: it can only be popped."""
        if self._taker is None or self._taker.queue is not self.queue:
            self._taker = QueueReader(self.queue, self._unreadable) if can_be_looked_at(self.queue) else None
        return self._taker

    def _pop(self) -> Request | None:
        """From a queue of the project's own, which says nothing of what it has before it is popped."""
        while True:
            try:
                popped: Request | None = self.queue.pop(0)
                return popped
            except RedisError:
                raise
            except Exception as error:
                self._count("scheduler/unreadable")
                data, self.queue.decoding = getattr(self.queue, "decoding", None), None
                if data is None:
                    raise
                key = f"{self.queue.key}:unreadable"
                self.server.lpush(key, data)
                logger.error("A request cannot be read and is kept in the list %s: %s", key, error)

    def _unreadable(self, data: bytes, error: Exception) -> None:
        self._count("scheduler/unreadable")
        self._unread += 1
        if self._unread > SAID_MOST:
            if self._unread == SAID_MOST + 1:
                logger.error("More of %s cannot be read; scheduler/unreadable counts them.", self.queue.key)
            return
        logger.error(
            "A request in %s cannot be read by this worker and stays there for workers of scrapy-redis: %s",
            self.queue.key, error,
        )  # fmt: skip

    def has_pending_requests(self) -> bool:
        # What only others can read is none of this worker's business.
        length, taker = len(self), self._taking()
        return length > 0 and (taker is None or length != taker.left)

    def _count(self, name: str) -> None:
        if self.stats:
            self.stats.inc_value(name)

    def _on_activity(self) -> None:
        self._active_at = time.monotonic()

    def _on_idle(self) -> None:
        if time.monotonic() - self._active_at < self.idle_before_close:
            raise DontCloseSpider
