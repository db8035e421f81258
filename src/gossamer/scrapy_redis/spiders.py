"""Spiders fed with seeds from a key of the server.

With a scheduler on the frontier, seeds are leased and taken continuously: one that is being worked on when its worker dies is
not lost, and a bad one becomes a dead letter. With any other scheduler, and for a spider that overrides how seeds are taken,
they are popped as scrapy-redis pops them, whenever there is room.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.exceptions import DontCloseSpider

from gossamer.errors import BadTask, SettingError
from gossamer.frontier.connection.url import same_place, server_of
from gossamer.model.counter_names import TASKS_BAD
from gossamer.scrapy.process import commands
from gossamer.scrapy.scheduler import FleetScheduler as FrontierScheduler
from gossamer.scrapy.spiders import FleetCrawlSpider, FleetSpider
from gossamer.scrapy_redis import connection, defaults
from gossamer.scrapy_redis.fleet.feed import SeedFeed
from gossamer.scrapy_redis.fleet.seed import request_of
from gossamer.scrapy_redis.utils import TextColor, bytes_to_str
from gossamer.settings import Settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class RedisMixin:
    """Mixed into a spider class; `setup_redis` must be called once the spider has its crawler.

    `redis_key` is the key of the seeds, or a list of keys of which the first is served first. All attributes may be given as
    arguments of the spider (`-a redis_key=…`), as text.
    """

    redis_key: str | list[str] | None = None
    redis_batch_size: int | None = None
    redis_encoding: str | None = None
    redis_key_check_interval: float | None = None
    max_idle_time: int | None = None
    server: Any = None
    spider_idle_start_time = int(time.time())
    mode = "forever"

    fetch_data: Callable[[str, int], Any]
    count_size: Callable[[str], int]
    _feed: SeedFeed | None = None

    if TYPE_CHECKING:
        name: str
        crawler: Crawler
        logger: Any
        tasks: str | tuple[str, ...]

    def start_requests(self) -> Iterable[Any]:
        """A batch of requests from the key."""
        return self.next_requests()

    async def start(self) -> AsyncIterator[Any]:
        if type(self).start_requests is not RedisMixin.start_requests or not self._leases:
            for output in self.start_requests():
                yield output
        elif not hasattr(Spider, "start_requests"):
            # Scrapy that has no `start_requests` any more crawls `start_urls` of these spiders, too.
            async for output in super().start():  # type: ignore[misc]
                yield output

    def setup_redis(self, crawler: Crawler | None = None) -> None:
        """Read the settings, make a client, and listen for when the spider is idle."""
        if self.server is not None:
            return
        crawler = crawler or getattr(self, "crawler", None)
        if crawler is None:
            raise ValueError("crawler is required")
        settings = crawler.settings
        given = self.redis_key
        if given is None:
            given = settings.get("REDIS_START_URLS_KEY", defaults.START_URLS_KEY)
        keys = self._keys(given)
        self.redis_key = keys[0]
        batch = self.redis_batch_size
        if batch is None:
            batch = settings.getint("CONCURRENT_REQUESTS", defaults.REDIS_CONCURRENT_REQUESTS)
        self.redis_batch_size = _whole("redis_batch_size", batch)
        self.redis_encoding = self.redis_encoding or settings.get("REDIS_ENCODING", defaults.REDIS_ENCODING)
        idle = self.max_idle_time
        if idle is None:
            idle = settings.get("MAX_IDLE_TIME_BEFORE_CLOSE", defaults.MAX_IDLE_TIME)
        self.max_idle_time = _whole("max_idle_time", idle)
        interval = self.redis_key_check_interval
        if interval is None:
            interval = settings.get("REDIS_KEY_CHECK_INTERVAL", defaults.REDIS_KEY_CHECK_INTERVAL)
        self.redis_key_check_interval = _whole("redis_key_check_interval", interval or 0)
        self.logger.info(
            "Reading start URLs from redis key '%s' (batch size: %s, encoding: %s)",
            "', '".join(keys),
            self.redis_batch_size,
            self.redis_encoding,
        )
        self.server = connection.from_settings(settings)
        self._choose_kind(settings)
        # Seeds are leased unless the spider has a way of its own to get them.
        self.tasks = () if self._takes_its_own_way() else tuple(key.replace("%", "%%") for key in keys)
        self._decodes = settings.getbool("REDIS_DECODE_RESPONSES")
        judged = self._overrides("next_requests", "schedule_next_requests")
        self._feed = SeedFeed(self, keys, self.redis_key_check_interval, judged)
        if commands.is_read_only():
            # Seeds are for those who crawl.
            return
        self._feed.connect(crawler)
        crawler.signals.connect(self.spider_idle, signal=signals.spider_idle)

    def check_server(self, chosen: Settings) -> None:
        """SettingError where the frontier, which leases the seeds, is on another server than that of the seeds."""
        seeds = connection.place_of(self.crawler.settings)
        if self.tasks and seeds and not same_place(chosen["GOSSAMER_URL"], seeds):
            raise SettingError(
                f"The seeds of {self.name} are on {server_of(seeds, '')} (REDIS_URL, or another setting of scrapy-redis), but the frontier is "
                f"on {server_of(chosen['GOSSAMER_URL'], chosen['GOSSAMER_DATA_DIR'])}, where no worker takes them. Set GOSSAMER_URL to the server of the "
                'seeds, or SCHEDULER = "gossamer.scrapy_redis.scheduler.Scheduler".'
            )

    def _keys(self, given: Any) -> list[str]:
        keys = [str(key) % {"name": self.name} for key in (given if isinstance(given, list | tuple) else [given])]
        if isinstance(given, list | tuple):
            keys = [key.strip() for key in keys]
        if not keys or not all(key.strip() for key in keys):
            raise ValueError("redis_key must not be empty")
        return list(dict.fromkeys(keys))

    def _choose_kind(self, settings: Any) -> None:
        if settings.getbool("REDIS_START_URLS_AS_SET", defaults.START_URLS_AS_SET):
            self.fetch_data, self.count_size = self.server.spop, self.server.scard
        elif settings.getbool("REDIS_START_URLS_AS_ZSET", defaults.START_URLS_AS_ZSET):
            self.fetch_data, self.count_size = self.pop_priority_queue, self.server.zcard
        else:
            self.fetch_data, self.count_size = self.pop_list_queue, self.server.llen

    def _takes_its_own_way(self) -> bool:
        return self._overrides("next_requests", "schedule_next_requests", "pop_list_queue", "pop_priority_queue")

    def _overrides(self, *names: str) -> bool:
        return any(getattr(type(self), name) is not getattr(RedisMixin, name) for name in names)

    @property
    def _frontier(self) -> FrontierScheduler | None:
        """The scheduler, if it is on the frontier."""
        scheduler: Any = getattr(getattr(self.crawler.engine, "_slot", None), "scheduler", None)
        # By the class's ancestors: to Scrapy's schedulers everything that has their methods is an instance of them.
        return scheduler if FrontierScheduler in type(scheduler).__mro__ else None

    @property
    def _leases(self) -> bool:
        """Whether the scheduler takes the seeds."""
        return self._frontier is not None and bool(self._frontier.join.tasks)

    @property
    def decides_when_to_close(self) -> bool:
        return type(self).spider_idle is not RedisMixin.spider_idle

    def pop_list_queue(self, redis_key: str, batch_size: int) -> Any:
        with self.server.pipeline() as pipe:
            pipe.lrange(redis_key, 0, batch_size - 1)
            pipe.ltrim(redis_key, batch_size, -1)
            datas, _ = pipe.execute()
        return datas

    def pop_priority_queue(self, redis_key: str, batch_size: int) -> Any:
        with self.server.pipeline() as pipe:
            pipe.zrevrange(redis_key, 0, batch_size - 1)
            pipe.zremrangebyrank(redis_key, -batch_size, -1)
            datas, _ = pipe.execute()
        return datas

    def next_requests(self) -> Iterator[Any]:
        """The requests of the next batch of seeds. A seed that cannot be used is logged; the others are not held up by it."""
        assert self._feed is not None
        self.redis_key = self._feed.key()
        found = 0
        for data in self.fetch_data(self.redis_key, self.redis_batch_size or 1) or ():
            try:
                made = self.make_request_from_data(data)
                requests = [made] if isinstance(made, Request) else list(made or ())
            except Exception:
                self.logger.exception(f"Seed from '{self.redis_key}' cannot be used: {data!r:.500}")
                self.crawler.stats.inc_value(TASKS_BAD)
                continue
            yield from requests
            found += len(requests)
            if not requests:
                self.logger.debug(f"Request not made from data: {data!r:.500}")
        if found:
            self.logger.debug(f"Read {found} requests from '{self.redis_key}'")

    def make_request_from_data(self, data: Any) -> Any:
        """The request of one seed, or several, or none. Override it for seeds of another form."""
        request = request_of(bytes_to_str(data, self.redis_encoding or defaults.REDIS_ENCODING))
        if request is None:
            self.logger.warning(f"{TextColor.WARNING}The data from Redis has no url key in push data{TextColor.ENDC}")
            return []
        return request

    def make_requests(self, data: bytes) -> Iterable[Request]:
        """The requests of a leased seed; what it raises becomes a dead letter."""
        given = bytes_to_str(data, self.redis_encoding or defaults.REDIS_ENCODING) if self._decodes else data
        made = self.make_request_from_data(given)
        requests = [made] if isinstance(made, Request) else list(made or ())
        if not requests and type(self).make_request_from_data is RedisMixin.make_request_from_data:
            raise BadTask("The seed has no url.")
        return requests

    def schedule_next_requests(self) -> None:
        """Hand the next batch of requests to the engine."""
        for request in self.next_requests():
            self.crawler.engine.crawl(request)

    def spider_idle(self) -> None:
        """Take more seeds, and let the spider be closed once it had nothing to do for `max_idle_time` seconds, or on the frontier
        when GOSSAMER_MODE or GOSSAMER_IDLE_SECONDS says so."""
        assert self._feed is not None
        if not self._leases:
            self.schedule_next_requests()
        if self._frontier is not None and self._frontier.ends():
            return
        if self.max_idle_time and self._feed.idle_seconds() >= self.max_idle_time:
            return
        raise DontCloseSpider


class RedisSpider(RedisMixin, FleetSpider):
    """A spider fed with seeds."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.setup_redis(crawler)
        return spider


class RedisCrawlSpider(RedisMixin, FleetCrawlSpider):
    """A CrawlSpider fed with seeds."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.setup_redis(crawler)
        return spider


def _whole(name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an integer") from None
