"""The values in force where a setting is left out, under the names of scrapy-redis."""

from __future__ import annotations

from typing import Any

DUPEFILTER_KEY = "dupefilter:%(timestamp)s"
PIPELINE_KEY = "%(spider)s:items"
STATS_KEY = "%(spider)s:stats"

REDIS_ENCODING = "utf-8"
REDIS_PARAMS: dict[str, Any] = {
    "socket_timeout": 30,
    "socket_connect_timeout": 30,
    "retry_on_timeout": True,
    "encoding": REDIS_ENCODING,
}
REDIS_CONCURRENT_REQUESTS = 16
REDIS_KEY_CHECK_INTERVAL = None

SCHEDULER_QUEUE_KEY = "%(spider)s:requests"
SCHEDULER_QUEUE_CLASS = "gossamer.scrapy_redis.queue.PriorityQueue"
SCHEDULER_DUPEFILTER_KEY = "%(spider)s:dupefilter"
SCHEDULER_DUPEFILTER_CLASS = "gossamer.scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER_PERSIST = False
START_URLS_KEY = "%(name)s:start_urls"
START_URLS_AS_SET = False
START_URLS_AS_ZSET = False
MAX_IDLE_TIME = 0


def __getattr__(name: str) -> Any:
    # `REDIS_CLS` can be read and replaced here like the others, but only `connection` imports the driver.
    if name == "REDIS_CLS":
        from gossamer.scrapy_redis.connection import REDIS_CLS

        return REDIS_CLS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
