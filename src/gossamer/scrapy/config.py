"""How a Scrapy project joins a crawl: what its own settings and its spider say, in the frontier's words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from itemadapter import ItemAdapter
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.spiders import CrawlSpider

from gossamer.errors import PayloadTooLarge, PolicyError
from gossamer.frontier import codec
from gossamer.model import (
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Order,
    SeenKind,
    SeenPolicy,
    SeenScope,
    Selection,
)
from gossamer.model.policy import group_name
from gossamer.scrapy.feeds.item_class import name_of
from gossamer.scrapy.feeds.settings import shared, uris
from gossamer.scrapy.lanes import declared
from gossamer.scrapy.page.page import LeasedPage
from gossamer.scrapy.page.watcher import APART
from gossamer.scrapy.process import arguments as spider_arguments
from gossamer.scrapy.process import rounds
from gossamer.scrapy.request.task import requests_of
from gossamer.scrapy.settings import loaded
from gossamer.scrapy.speedups.fingerprint import number_by
from gossamer.scrapy.spiders import TaskSpiderMixin
from gossamer.settings import DEFAULT, Settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings


@dataclass(frozen=True)
class WorkerConfig:
    """Everything that is settled before a worker calls the frontier."""

    settings: Settings
    group: str
    spider_class: str
    lanes: Mapping[str, LanePolicy]
    policy: GroupPolicy
    host: HostPolicy
    hosts: Mapping[str, HostPolicy]
    selection: Selection
    tasks: tuple[str, ...]
    number: Callable[[Request], int]
    streams: bool
    forever: bool
    debug_duplicates: bool
    give_up: LastRetry
    item_limit: int
    requests_of: Callable[[Spider, bytes], Iterable[Request]] = field(default=requests_of)
    feeds: bool = False
    arguments: str = ""
    made: float = field(default_factory=time.monotonic)
    """When Scrapy was told to crawl, by the monotonic clock."""
    follows: bool = False
    """Whether it begins no round beside workers that wait for more."""
    gone: frozenset[str] = frozenset()
    """Workers that are listed and known to be no more."""
    max_idle: float = 0.0
    """After how many seconds a spider of scrapy-redis's kind that waits for seeds ends; 0: never."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = loaded(crawler.settings)
        spider = crawler.spider
        assert spider is not None
        group = group_name(settings["GOSSAMER_GROUP"] or spider.name)
        lanes = declared(spider, seen_policy(settings), main_order(crawler.settings))
        host = host_policy(crawler.settings, spider, settings["GOSSAMER_BLOCK_SECONDS"])
        hosts = host_policies(crawler.settings, host)
        tasks = task_keys(spider)
        forever = getattr(spider, "mode", "drained") == "forever"
        if settings.source("GOSSAMER_MODE") != DEFAULT:
            forever = settings["GOSSAMER_MODE"] == "forever"
        policy = GroupPolicy(
            delay=min(one.min_delay if one.adaptive else one.delay for one in (host, *hosts.values())),
            concurrency=loosest(one.concurrency for one in (host, *hosts.values())),
            start=True,
            tasks=tasks,
            max_items=settings["GOSSAMER_ITEMS_MAX"],
            max_item_bytes=settings["GOSSAMER_ITEMS_MAX_BYTES"],
            max_dead=settings["GOSSAMER_DEAD_MAX"],
            crawl_delay=settings["GOSSAMER_ROBOTS_CRAWL_DELAY"],
        )
        assert crawler.request_fingerprinter is not None
        return cls(
            settings,
            group,
            f"{type(spider).__module__}.{type(spider).__qualname__}",
            lanes,
            policy,
            host,
            hosts,
            selection(group, settings, spider),
            tasks,
            number_by(crawler.request_fingerprinter, settings["GOSSAMER_FINGERPRINT_DEFAULT_PORTS"]),
            streams(settings, crawler),
            forever,
            crawler.settings.getbool("DUPEFILTER_DEBUG"),
            LastRetry(crawler.settings, spider),
            settings["GOSSAMER_PAYLOAD_MAX_BYTES"],
            feeds=shared(settings, crawler),
            arguments=rounds.noted(spider_arguments.arguments(crawler)),
            max_idle=float(getattr(spider, "max_idle_time", 0) or 0) if hasattr(spider, "redis_key") else 0.0,
        )

    @property
    def waits(self) -> bool:
        """Whether its spider goes on when nothing is left: it is fed with tasks, or told to."""
        return bool(self.tasks) or self.forever

    @property
    def idle_seconds(self) -> float:
        """For how long the whole group has nothing to do before a worker that waits for more ends; 0: for ever."""
        given = self.settings.source("GOSSAMER_IDLE_SECONDS") != DEFAULT
        return float(self.settings["GOSSAMER_IDLE_SECONDS"]) if given else self.max_idle

    @property
    def same_arguments(self) -> bool:
        """Whether all workers of a round must have been given the same arguments."""
        return self.settings["GOSSAMER_ARGUMENTS"] == "same" and not self.waits

    @property
    def remembers(self) -> bool:
        """Whether what was once seen stays seen for long, so that a worker may remember it too."""
        return not self.forgetful and all(
            lane.seen.kind in (SeenKind.EXACT, SeenKind.BLOOM) for lane in self.lanes.values()
        )

    @cached_property
    def forgetful(self) -> frozenset[str]:
        """The lanes, by full name, in which nothing is ever a duplicate."""
        return frozenset(
            f"{self.group}.{name}" for name, lane in self.lanes.items() if lane.seen.scope is SeenScope.NEVER
        )

    def check_lanes(self) -> None:
        """PolicyError where the worker is to serve a lane that its spider does not have."""
        for lane in self.selection.lanes:
            name = lane.removeprefix(f"{self.group}.")
            if name not in self.lanes:
                raise PolicyError(
                    f"The spider has no lane {name!r}; it has {', '.join(sorted(self.lanes))}. "
                    "Name one of these, or declare it in the spider's `lanes`."
                )

    def encode_item(self, item: Any) -> bytes:
        """An item as it lies in the stream: its fields by name, with their types, and its class, which a feed of another worker may
        ask for."""
        fields = plain(item)
        if isinstance(fields, dict) and not isinstance(item, dict):
            fields[codec.CLASS] = name_of(type(item))
        data = codec.encode(fields)
        if len(data) > self.item_limit:
            raise PayloadTooLarge(_too_large(item, fields, len(data), self.item_limit))
        return data

    def gave_up(self, page: LeasedPage) -> bool:
        return self.give_up(page.request, page.outcome)

    def loosen(self, downloader: Any) -> None:
        """The frontier spaces requests for the whole fleet; the downloader of one worker sends what it gets at once."""
        downloader.per_slot_settings = UndelayedSlots(
            downloader.total_concurrency or 1000, downloader.per_slot_settings
        )


class UndelayedSlots(dict[str, dict[str, Any]]):
    """The settings of download slots: no delay, and no limit but the worker's own. Downloads that are no leases (see
    `hooks.apart`) are in slots of their own, for which the project's settings hold."""

    def __init__(self, concurrency: int, own: Mapping[str, dict[str, Any]]) -> None:
        super().__init__()
        self._slot = {"concurrency": concurrency, "delay": 0.0, "jitter": 0.0}
        self._own = own

    def get(self, key: str, default: Any = None) -> Any:
        if key.startswith(APART):
            return self._own.get(key.removeprefix(APART), default)
        return self._slot


class LastRetry:
    """Whether an answer is one that Scrapy retries, tried for the last time, and not one that the spider asked to see."""

    def __init__(self, settings: BaseSettings, spider: Spider) -> None:
        self._codes = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        self._enabled = settings.getbool("RETRY_ENABLED")
        self._allowed = {int(code) for code in settings.getlist("HTTPERROR_ALLOWED_CODES")}
        self._allowed |= set(getattr(spider, "handle_httpstatus_list", ()))
        self._all = settings.getbool("HTTPERROR_ALLOW_ALL")
        self._rules = getattr(spider, "_rules", ()) if isinstance(spider, CrawlSpider) else ()

    def applies(self, request: Request) -> bool:
        """Whether the spider itself deals with what becomes of a request that failed: it has an errback of its own. That
        of a CrawlSpider only calls the one of its rule."""
        errback = request.errback
        if getattr(errback, "__func__", errback) is CrawlSpider._errback:
            rule = request.meta.get("rule")
            return isinstance(rule, int) and rule < len(self._rules) and self._rules[rule].errback is not None
        return errback is not None

    def __call__(self, request: Request, outcome: Any) -> bool:
        if not self._enabled or not isinstance(outcome, Response) or outcome.status not in self._codes:
            return False
        if self.applies(request):
            return False
        meta = request.meta
        if self._all or meta.get("handle_httpstatus_all") or meta.get("dont_retry"):
            return False
        return outcome.status not in meta.get("handle_httpstatus_list", self._allowed)


def plain(value: Any) -> Any:
    """Items inside lists and mappings as plain mappings too, and members of an enum that are texts or numbers as these."""
    if ItemAdapter.is_item(value):
        return {str(name): plain(part) for name, part in ItemAdapter(value).items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(part) for part in value) if type(value) in (list, tuple) else list(map(plain, value))
    if isinstance(value, Enum) and isinstance(value, str | int):
        return value.value
    return value


def _too_large(item: Any, fields: Any, size: int, limit: int) -> str:
    parts = {name: len(codec.encode(part)) for name, part in fields.items()} if isinstance(fields, dict) else {}
    largest = max(parts, key=lambda name: parts[name], default="")
    of_it = f", of which {largest!r} has {parts[largest]:,}" if largest else ""
    return (
        f"{type(item).__qualname__} takes {size:,} bytes{of_it}; in the stream an item may take {limit:,}. Keep what is large in a file or "
        "a database and its name in the item, or raise GOSSAMER_PAYLOAD_MAX_BYTES for all workers."
    )


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
    delay = float(getattr(spider, "download_delay", settings.getfloat("DOWNLOAD_DELAY")))
    concurrency = settings.getint("CONCURRENT_REQUESTS_PER_IP") or settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
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
