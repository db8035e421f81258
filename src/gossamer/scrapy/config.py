"""How a Scrapy project joins a crawl: its settings and its spider, in the frontier's terms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider

from gossamer.errors import PolicyError
from gossamer.model import GroupPolicy, HostPolicy, LanePolicy, SeenKind, SeenScope, Selection
from gossamer.model.policy import group_name
from gossamer.scrapy.feeds.settings import shared
from gossamer.scrapy.item import encode_item
from gossamer.scrapy.lanes import declared
from gossamer.scrapy.page.last_retry import LastRetry
from gossamer.scrapy.page.page import LeasedPage
from gossamer.scrapy.policies import (
    host_policies,
    host_policy,
    loosest,
    main_order,
    seen_policy,
    selection,
    streams,
    task_keys,
)
from gossamer.scrapy.process import arguments as spider_arguments
from gossamer.scrapy.process import rounds
from gossamer.scrapy.request.task import requests_of
from gossamer.scrapy.seen import project_filter
from gossamer.scrapy.settings import loaded
from gossamer.scrapy.speedups.fingerprint import number_by
from gossamer.settings import DEFAULT, Settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


@dataclass(frozen=True)
class WorkerConfig:
    """Everything that is fixed before a worker calls the frontier."""

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
    for_others: bool = False
    """Its items go into the stream only because another worker, or a file, wants them."""
    arguments: str = ""
    """What is noted of the spider's arguments."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The spider's arguments."""
    made: float = field(default_factory=time.monotonic)
    """When Scrapy began to crawl, by the monotonic clock."""
    follows: bool = False
    """Whether it begins no round beside workers that wait for more."""
    gone: frozenset[str] = frozenset()
    """Workers that are listed and known to be no more."""
    own_filter: Any = None
    """The project's dupefilter, where it is asked (see `with_filter`)."""
    each_starts: bool = False
    """Whether start() runs for each set of arguments that workers have, not once in a round."""
    max_idle: float = 0.0
    """After how many seconds a spider of scrapy-redis's kind that waits for seeds ends; 0: never."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, settings: Settings | None = None) -> Self:
        """`settings`: those to use instead of the project's."""
        settings = settings or loaded(crawler.settings)
        spider = crawler.spider
        assert spider is not None
        lanes = declared(spider, seen_policy(settings), main_order(crawler.settings))
        host = host_policy(crawler.settings, spider, settings["GOSSAMER_BLOCK_SECONDS"])
        hosts = host_policies(crawler.settings, host)
        tasks = task_keys(spider)
        forever = getattr(spider, "mode", "drained") == "forever"
        if settings.source("GOSSAMER_MODE") != DEFAULT:
            forever = settings["GOSSAMER_MODE"] == "forever"
        given = spider_arguments.arguments(crawler)
        note = rounds.noted(given)
        group = group_name(settings["GOSSAMER_GROUP"] or spider.name)
        # What the project says: under scrapy-redis's scheduler, other processes may have other arguments in any case.
        if loaded(crawler.settings)["GOSSAMER_ARGUMENTS"] == "same" and not (tasks or forever):
            group = rounds.own_group(settings["GOSSAMER_CRAWL"], group, note)
        policy = GroupPolicy(
            delay=min(one.min_delay if one.adaptive else one.delay for one in (host, *hosts.values())),
            concurrency=loosest(one.concurrency for one in (host, *hosts.values())),
            start=True,
            tasks=tasks,
            max_items=settings["GOSSAMER_ITEMS_MAX"],
            max_item_bytes=settings["GOSSAMER_ITEMS_MAX_BYTES"],
            max_item_age=settings["GOSSAMER_ITEMS_MAX_AGE"],
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
            arguments=note,
            given=given,
            each_starts=settings["GOSSAMER_ARGUMENTS"] == "any",
            max_idle=float(getattr(spider, "max_idle_time", 0) or 0) if hasattr(spider, "redis_key") else 0.0,
        )

    def with_filter(self, crawler: Crawler) -> Self:
        """With what the project's DUPEFILTER_CLASS says, in Scrapy's terms."""
        spider, project = crawler.spider, crawler.settings
        assert spider is not None
        lanes = self.lanes
        if project_filter.filters_nothing(project) and self.settings.source("GOSSAMER_SEEN_SCOPE") == DEFAULT:
            lanes = declared(spider, replace(seen_policy(self.settings), scope=SeenScope.NEVER), main_order(project))
        own = project_filter.own_filter(crawler)
        number = project_filter.numbering(own, crawler) or self.number
        return replace(self, lanes=lanes, number=number, own_filter=own)

    @property
    def waits(self) -> bool:
        """Whether its spider goes on when nothing is left: it has tasks, or the mode forever."""
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
            lane.seen.kind in (SeenKind.EXACT, SeenKind.BLOOM) and lane.records is None for lane in self.lanes.values()
        )

    @cached_property
    def forgetful(self) -> frozenset[str]:
        """The lanes, by full name, in which nothing is ever a duplicate."""
        return frozenset(
            f"{self.group}.{name}" for name, lane in self.lanes.items() if lane.seen.scope is SeenScope.NEVER
        )

    @cached_property
    def recorded(self) -> frozenset[str]:
        """The lanes, by full name, that keep page records."""
        return frozenset(f"{self.group}.{name}" for name, lane in self.lanes.items() if lane.records is not None)

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
        """PayloadTooLarge where the stream does not take it."""
        return encode_item(item, self.item_limit)

    def gave_up(self, page: LeasedPage) -> bool:
        return self.give_up(page.request, page.outcome)
