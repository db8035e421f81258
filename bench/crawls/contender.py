"""Who crawls: the same spider, on settings that differ only in what is compared."""

from __future__ import annotations

from typing import Any, NamedTuple

CONCURRENT = 64
PLAIN, TUNED, REDIS, REDIS_STATS, OURS = (
    "Scrapy", "Scrapy, tuned alike", "scrapy-redis", "scrapy-redis with stats", "Gossamer",
)  # fmt: skip


class Contender(NamedTuple):
    """`speed` says roughly how many pages a second it does, so that each is given enough for the clock and not more.
    `served` ones share a server and may have several workers."""

    label: str
    speed: int
    served: bool


CONTENDERS = (
    Contender(PLAIN, 200, False),
    Contender(OURS, 400, True),
    Contender(TUNED, 400, False),
    Contender(REDIS, 100, True),
    Contender(REDIS_STATS, 50, True),
)


def settings(label: str, server: str, concurrent: int = CONCURRENT) -> dict[str, Any]:
    """The project's settings. `server` is the address of the shared server, where there is one."""
    common: dict[str, Any] = {"CONCURRENT_REQUESTS": concurrent, "CONCURRENT_REQUESTS_PER_DOMAIN": concurrent}
    if label == TUNED:
        return common | {"ADDONS": {"bench.crawls.tuned.Tuned": 100}}
    if label == OURS:
        return common | {"ADDONS": {"gossamer.Addon": 100}}
    if label in (REDIS, REDIS_STATS):
        common |= {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            # Without it the first of several workers to end empties the queue of the others.
            "SCHEDULER_PERSIST": True,
            "REDIS_URL": server,
        }
    if label == REDIS_STATS:
        common |= {"STATS_CLASS": "scrapy_redis.stats.RedisStatsCollector"}
    return common


def environ(label: str, server: str, crawl: str = "bench") -> dict[str, str]:
    """What a worker finds in its environment."""
    return {"GOSSAMER_URL": server, "GOSSAMER_CRAWL": crawl} if label == OURS else {}
