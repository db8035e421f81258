"""The settings of Scrapy and of a spider as the frontier's policies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import SETTINGS_PRIORITIES

from gossamer.errors import PolicyError
from gossamer.model import HostPolicy, Order, SeenKind, SeenPolicy, SeenScope, Selection
from gossamer.scrapy.feeds.settings import shared, uris
from gossamer.scrapy.spiders import TaskSpiderMixin
from gossamer.settings import Settings

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def seen_policy(settings: Settings) -> SeenPolicy:
    kind = SeenKind(settings["GOSSAMER_SEEN_KIND"])
    windowed = kind in (SeenKind.ROLLING, SeenKind.HITS)
    return SeenPolicy(
        kind,
        SeenScope(settings["GOSSAMER_SEEN_SCOPE"]),
        settings["GOSSAMER_SEEN_CAPACITY"],
        settings["GOSSAMER_SEEN_ERROR_RATE"],
        settings["GOSSAMER_SEEN_WINDOW_SECONDS"] if windowed else 0.0,
        settings["GOSSAMER_SEEN_WINDOW_COUNT"] if windowed else 0,
        settings["GOSSAMER_SEEN_WINDOW_ROUNDS"] if windowed else 0,
    )


def main_order(settings: BaseSettings | Mapping[str, Any]) -> Order:
    """Scrapy crawls depth first by default: the last request found of equal priority is the first one sent. With queues
    that are first in, first out (SCHEDULER_MEMORY_QUEUE), so is the lane."""
    queue = settings["SCHEDULER_MEMORY_QUEUE"]
    name = queue if isinstance(queue, str) else getattr(queue, "__name__", "")
    return Order.FIFO if "fifo" in name.lower() else Order.LIFO


def host_policy(settings: BaseSettings, spider: Spider, block: float = 0.0) -> HostPolicy:
    """Scrapy's politeness as the fleet's: what it says of one process counts for all of them together. `block`: seconds for
    which a host is left alone that refuses without saying for how long."""
    delay, concurrency = settings.getfloat("DOWNLOAD_DELAY"), settings.getint("CONCURRENT_REQUESTS_PER_IP")
    concurrency = concurrency or settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
    if _attribute_counts(settings, "DOWNLOAD_DELAY"):
        delay = float(getattr(spider, "download_delay", delay))
    if _attribute_counts(settings, "CONCURRENT_REQUESTS_PER_DOMAIN"):
        concurrency = int(getattr(spider, "max_concurrent_requests", concurrency))
    if not settings.getbool("AUTOTHROTTLE_ENABLED"):
        return HostPolicy(delay=delay, concurrency=concurrency, block_base=block)
    return HostPolicy(
        delay=max(delay, settings.getfloat("AUTOTHROTTLE_START_DELAY")),
        concurrency=concurrency,
        adaptive=True,
        min_delay=delay,
        max_delay=max(delay, settings.getfloat("AUTOTHROTTLE_MAX_DELAY")),
        target=max(0.01, settings.getfloat("AUTOTHROTTLE_TARGET_CONCURRENCY")),
        block_base=block,
    )


def _attribute_counts(settings: BaseSettings, name: str) -> bool:
    """Whether a spider's attribute goes before the setting. Newer versions of Scrapy make a setting of it, unless that is given for the
    spider or on the command line."""
    made = hasattr(Crawler, "_apply_deprecated_spider_attr")
    return not made or (settings.getpriority(name) or 0) < SETTINGS_PRIORITIES["spider"]


def host_policies(settings: BaseSettings, default: HostPolicy) -> dict[str, HostPolicy]:
    """DOWNLOAD_SLOTS as the policies of hosts by those names."""
    return {
        name: replace(
            default,
            delay=float(slot.get("delay", default.delay)),
            concurrency=int(slot.get("concurrency", default.concurrency)),
        )
        for name, slot in settings.getdict("DOWNLOAD_SLOTS").items()
    }


def loosest(limits: Iterable[int]) -> int:
    """The largest, where 0 is no limit: a group must not be stricter than the project is with any of its hosts."""
    every = list(limits)
    return 0 if 0 in every else max(every)


def selection(group: str, settings: Settings, spider: Spider) -> Selection:
    given = getattr(spider, "lanes", None)
    names = settings["GOSSAMER_LANES"] or (given if isinstance(given, str) else "")
    stage = settings["GOSSAMER_STAGE"] or None
    if not names:
        return Selection((group,), (), stage)
    lanes = tuple(f"{group}.{name.strip()}" for name in names.split(",") if name.strip())
    return Selection((), lanes, stage)


def task_keys(spider: Spider) -> tuple[str, ...]:
    """The keys that producers push tasks for this spider to. What another spider than ours calls `tasks` is its own
    business, unless it reads like keys."""
    keys = getattr(spider, "tasks", ())
    if isinstance(keys, str):
        keys = (keys,)
    fed = isinstance(spider, TaskSpiderMixin)
    if not isinstance(keys, (list, tuple) if fed else tuple) or not all(isinstance(key, str) for key in keys):
        if fed:
            raise PolicyError(f"The spider's tasks are {keys!r:.200}; give a key or a tuple of keys.")
        return ()
    return tuple(key % {"name": spider.name, "spider": spider.name} for key in keys)


def streams(settings: Settings, crawler: Crawler) -> bool:
    """Whether items go into the crawl's stream."""
    scrapy = crawler.settings
    said = settings["GOSSAMER_ITEMS"]
    if said != "auto":
        return bool(said == "stream")
    return shared(settings, crawler) or (not uris(scrapy) and not scrapy.getdict("ITEM_PIPELINES"))
