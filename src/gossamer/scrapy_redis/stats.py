"""Stats of all workers in one hash, as scrapy-redis keeps them, without a round trip for each of them.

Changes are gathered and sent once a second by a thread. The server applies them as one, once, however often they
have to be sent, so totals are exact; a worker killed with -9 takes its last second with it. What is read is the
total as of the last exchange with all that this worker has changed since.
"""

from __future__ import annotations

import logging
import secrets
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from scrapy import Spider
from scrapy.statscollectors import StatsCollector

from gossamer.scrapy.process import commands
from gossamer.scrapy.stats import FleetStatsMixin
from gossamer.scrapy_redis.connection import RedisError
from gossamer.scrapy_redis.connection import from_settings as redis_from_settings
from gossamer.scrapy_redis.defaults import SCHEDULER_PERSIST, STATS_KEY
from gossamer.scrapy_redis.shared.counters import StatChange, StatChanges, arguments
from gossamer.scrapy_redis.utils import convert_bytes_to_str

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

SEND_SECONDS = 1.0
STAY_SECONDS = 10.0
# A worker silent for longer does not keep the last one that closes from clearing up.
GONE_SECONDS = 120.0

# Applies changes once, notes that this worker is there, answers with all values.
#
# KEYS    1: the hash of stats; 2: hash of workers: incarnation -> number of its last call and when it came
# ARGV    1: incarnation; 2: number of the call; 3: stay, leave, or clear (leave, and delete the stats if no worker is left);
#         4: seconds after which a silent worker has gone; then for each change: op, name, value, start. A call that
#         leaves has no changes: once it is forgotten who called, it may be sent again.
# Returns name, value, name, value …
SCRIPT = """
local hash, workers, me, call = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local now = tonumber(redis.call('TIME')[1])
local last = redis.call('HGET', workers, me)
if not last or last:match('^%d+') ~= call then
  for i = 5, #ARGV, 4 do
    local op, name, value, start = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    local old = redis.call('HGET', hash, name)
    if op == 'set' then
      redis.call('HSET', hash, name, value)
    elseif op == 'del' then
      redis.call('HDEL', hash, name)
    elseif op == 'add' then
      if not tonumber(old) then redis.call('HSET', hash, name, start) end
      local whole = value:match('^-?%d+$')
      if not whole or type(redis.pcall('HINCRBY', hash, name, value)) == 'table' then
        redis.call('HINCRBYFLOAT', hash, name, value)
      end
    else
      local a, b = tonumber(old), tonumber(value)
      if not a or not b or (op == 'max' and b > a) or (op == 'min' and b < a) then redis.call('HSET', hash, name, value) end
    end
  end
  redis.call('HSET', workers, me, call .. ' ' .. now)
  local ttl = redis.call('TTL', workers)
  if ttl >= 0 and ttl <= tonumber(ARGV[4]) then
    -- The one that left last thought that nobody may be here any more.
    redis.call('PERSIST', hash)
  end
  redis.call('EXPIRE', workers, 86400)
end
local stored = redis.call('HGETALL', hash)
if ARGV[3] ~= 'stay' then
  redis.call('HDEL', workers, me)
  local left = false
  for _, other in ipairs(redis.call('HVALS', workers)) do
    if now - tonumber(other:match('%d+$')) < tonumber(ARGV[4]) then left = true end
  end
  if left then
    -- Those that are left may have been killed; one that lives lets both last longer again.
    local seconds = math.ceil(tonumber(ARGV[4]))
    redis.call('EXPIRE', workers, seconds)
    if ARGV[3] == 'clear' then redis.call('EXPIRE', hash, seconds) end
  else
    redis.call('DEL', workers)
    if ARGV[3] == 'clear' then redis.call('DEL', hash) end
  end
end
return stored
"""


class HashStats(StatsCollector):
    """Counts for all workers of a spider in the hash `STATS_KEY`."""

    def __init__(self, crawler: Crawler, spider: Spider | None = None) -> None:
        super().__init__(crawler)
        self.server = redis_from_settings(crawler.settings)
        self.spider = spider
        self.spider_name = spider.name if spider else crawler.spidercls.name
        self.stats_key = crawler.settings.get("STATS_KEY", STATS_KEY)
        self.persist = crawler.settings.getbool("SCHEDULER_PERSIST", SCHEDULER_PERSIST)
        self._site_counters: dict[str, StatChanges] = {}
        self._incarnation = secrets.token_hex(8)
        self._lock = threading.RLock()
        self._sending = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing = False
        self._alone = commands.is_read_only()
        self._stats = self._pending_counters().view

    def _get_key(self, spider: Spider | None = None) -> str:
        """The name of the hash."""
        named = spider or self.spider
        return str(self.stats_key % {"spider": named.name if named else self.spider_name or "scrapy"})

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        return cls(spider.crawler)

    def get_value(self, key: str, default: Any = None, spider: Spider | None = None) -> Any:
        view = self._current(spider)
        with self._lock:
            value = view.get(key)
        return default if value is None else value

    def get_stats(self, spider: Spider | None = None) -> dict[str, Any]:
        view = self._current(spider)
        with self._lock:
            return dict(view)

    def set_value(self, key: str, value: Any, spider: Spider | None = None) -> None:
        self._note(key, StatChange("set", value), spider)

    def set_stats(self, stats: dict[str, Any], spider: Spider | None = None) -> None:
        """Set these values; others stay."""
        for key, value in stats.items():
            self._note(key, StatChange("set", value), spider)

    def inc_value(self, key: str, count: int = 1, start: int = 0, spider: Spider | None = None) -> None:
        self._note(key, StatChange("add", count, start), spider)

    def max_value(self, key: str, value: Any, spider: Spider | None = None) -> None:
        self._note(key, StatChange("max", value), spider)

    def min_value(self, key: str, value: Any, spider: Spider | None = None) -> None:
        self._note(key, StatChange("min", value), spider)

    def clear_stats(self, spider: Spider | None = None) -> None:
        """Delete the hash, for all workers."""
        with self._sending, self._lock:
            self._pending_counters(spider).forget()
            self.server.delete(self._get_key(spider))

    def open_spider(self, spider: Spider | None = None) -> None:
        before = self._get_key()
        # Newer Scrapy keeps the crawler and passes no spider.
        self.spider = spider or getattr(self, "_crawler", self).spider or self.spider
        with self._lock:
            if self._get_key() != before and self._get_key() not in self._site_counters:
                self._site_counters[self._get_key()] = self._site_counters.pop(before)

    def close_spider(self, spider: Spider | None = None, reason: str | None = None) -> None:
        """Send what is left. Without `SCHEDULER_PERSIST` the last worker to close deletes the hash."""
        self._closed.set()
        self.flush("leave" if self.persist else "clear")
        if spider is None:
            super().close_spider(reason=reason)
        else:
            super().close_spider(spider, reason or "")

    def flush(self, then: str = "stay") -> bool:
        """Exchange with the server now; False if it cannot be reached. Changes are kept until it can."""
        if self._alone:
            return True
        with self._sending:
            for key in list(self._site_counters):
                try:
                    self._exchange(key, then)
                except RedisError as error:
                    if not self._failing:
                        logger.warning("Stats cannot be sent and are kept until they can: %s", error)
                    self._failing = True
                    return False
            self._failing = False
            return True

    def _exchange(self, key: str, then: str) -> None:
        pending_counters, more = self._site_counters[key], True
        while more:
            with self._lock:
                changes, more = pending_counters.take(), pending_counters.in_arrears
            stored = self._call(key, "stay", changes)
            with self._lock:
                pending_counters.heard(stored)
        if then != "stay":
            self._call(key, then, ())

    def _call(self, key: str, then: str, changes: Iterable[tuple[str, StatChange]]) -> dict[str, str]:
        words = (self._incarnation, self._site_counters[key].number, then, GONE_SECONDS, *arguments(changes))
        reply = convert_bytes_to_str(tuple(self.server.eval(SCRIPT, 2, key, _workers(key), *words)))
        return dict(zip(reply[::2], reply[1::2], strict=True))

    def _pending_counters(self, spider: Spider | None = None) -> StatChanges:
        return self._site_counters.setdefault(self._get_key(spider), StatChanges())

    def _current(self, spider: Spider | None) -> dict[str, Any]:
        with self._lock:
            pending_counters = self._pending_counters(spider)
        if not pending_counters.known and not self._closed.is_set():
            self.flush()
        return pending_counters.view

    def _note(self, key: str, change: StatChange, spider: Spider | None) -> None:
        with self._lock:
            self._pending_counters(spider).change(key, change)
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(
                    target=_send_now_and_then, args=(weakref.ref(self), self._closed), name="stats", daemon=True
                )
                self._thread.start()


class RedisStatsCollector(FleetStatsMixin, HashStats):
    """`HashStats`, and on the frontier the crawl's totals too."""


def _workers(key: str) -> str:
    """Where the workers of a hash are noted: in the same slot of a cluster."""
    return f"{key}:workers" if "{" in key else f"{{{key}}}:workers"


def _send_now_and_then(collector: weakref.ref[HashStats], closed: threading.Event) -> None:
    silent = 0.0
    while not closed.wait(SEND_SECONDS):
        silent += SEND_SECONDS
        stats = collector()
        if stats is None:
            return
        if silent >= STAY_SECONDS or any(
            pending_counters.pending for pending_counters in stats._site_counters.values()
        ):
            stats.flush()
            silent = 0.0
        del stats
