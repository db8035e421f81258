"""What the settings of a scrapy-redis project mean to the frontier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.settings import BaseSettings

from gossamer.model import LanePolicy, Order
from gossamer.scrapy.config import WorkerConfig
from gossamer.scrapy.lanes import MAIN, declared
from gossamer.scrapy.policies import seen_policy
from gossamer.scrapy.project import crawler_of, number_in
from gossamer.scrapy.seen.project_filter import filters_nothing, kind_of, number_by_filter, overridden
from gossamer.scrapy.settings import loaded
from gossamer.scrapy.speedups.fingerprint import number_by
from gossamer.scrapy_redis.connection import frontier_settings
from gossamer.scrapy_redis.dupefilter import DigestFingerprinter, RFPDupeFilter
from gossamer.scrapy_redis.fleet.filters import base_of, own_filter
from gossamer.settings import DEFAULT, Settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


def worker_config(crawler: Crawler) -> WorkerConfig:
    """How the crawler's spider joins the crawl."""
    spider = crawler.spider
    assert spider is not None
    settings = worker_settings(crawler.settings, spider)
    worker_config = WorkerConfig.from_crawler(crawler, settings)
    seen = seen_policy(settings)
    lanes = declared(spider, seen, _order(crawler))
    for number in range(len(worker_config.tasks) if len(worker_config.tasks) > 1 else 0):
        # Keys are served in their order, and all of them after what their seeds have led to.
        lanes[seeds_lane(number)] = LanePolicy(tier=lanes[MAIN].tier + 1 + number, seen=seen)
    return replace(
        worker_config,
        lanes=lanes,
        number=_number(crawler, spider) or worker_config.number,
        # Theirs come and go, and forget nothing of what the others have seen.
        follows=loaded(crawler.settings).source("GOSSAMER_ROUND") == DEFAULT,
    )


def project_number(spider: str) -> Callable[[Request], int]:
    """How the project of this directory, which is one of scrapy-redis, tells the requests of a spider apart."""
    crawler = crawler_of(spider)
    assert crawler.spider is not None
    return _number(crawler, crawler.spider) or number_in(crawler)


def seeds_lane(number: int) -> str:
    """The lane of the seeds of one of several keys."""
    return f"seeds-{number}"


def worker_settings(project: BaseSettings, spider: Spider | type[Spider]) -> Settings:
    """The frontier's settings, with those of scrapy-redis in place of what is not set under our names."""
    persist = project.getbool("SCHEDULER_PERSIST")
    forever = getattr(spider, "mode", "drained") == "forever"
    idle = getattr(spider, "max_idle_time", 0) if forever else project.getint("SCHEDULER_IDLE_BEFORE_CLOSE")
    meant: dict[str, Any] = {
        "GOSSAMER_ROUND": "new",
        "GOSSAMER_ARGUMENTS": "any",
        "GOSSAMER_SEEN_SCOPE": "never" if filters_nothing(project) else "forever" if persist else "round",
        "GOSSAMER_MODE": "forever" if forever or idle else "drained",
        "GOSSAMER_IDLE_SECONDS": idle or 0,
    }
    if batch := getattr(spider, "redis_batch_size", None):
        meant["GOSSAMER_TASKS_BATCH"] = batch
    said = loaded(project)
    return frontier_settings(project, {name: value for name, value in meant.items() if said.source(name) == DEFAULT})


def _order(crawler: Crawler) -> Order:
    """First in, first out, unless the project chose a queue of Scrapy's that is not."""
    chosen = crawler.settings.getpriority("SCHEDULER_MEMORY_QUEUE")
    return Order.LIFO if chosen and "lifo" in str(crawler.settings["SCHEDULER_MEMORY_QUEUE"]).lower() else Order.FIFO


def _number(crawler: Crawler, spider: Spider) -> Callable[[Request], int] | None:
    """By the digests of the project's dupefilter, where it is one of scrapy-redis's kind or tells requests apart itself."""
    kind = kind_of(crawler.settings)
    base = base_of(kind)
    own = own_filter(crawler, spider) if base is not None and "request_fingerprint" in overridden(kind, base) else None
    if own is None:
        return number_by(DigestFingerprinter()) if base is RFPDupeFilter else None
    return number_by_filter(own)
