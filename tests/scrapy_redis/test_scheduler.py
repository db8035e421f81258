"""The scheduler on scrapy-redis's queues, held to the same assertions as the original."""

from __future__ import annotations

import json
import logging
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from scrapy import Request
from scrapy.dupefilters import RFPDupeFilter
from scrapy.exceptions import DontCloseSpider
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler
from tests.support.scrapy_redis.sides import SIDES, Sample, module, request, watched

from gossamer.scrapy_redis.dupefilter import RFPDupeFilter as NewFilter
from gossamer.scrapy_redis.fleet.scheduler import LeasingScheduler
from gossamer.scrapy_redis.queue import Base
from gossamer.scrapy_redis.scheduler import Scheduler
from gossamer.scrapy_redis.shared import presence, queue_reader
from gossamer.testing.servers import Server

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*retry_on_timeout", "ignore:Passing a 'spider' argument", "ignore:.*start_requests", "ignore:Spider.log"
)
OLD, NEW = SIDES


class Strange:
    """Says itself how it is copied."""

    def __getstate__(self) -> object:
        return {}


class OwnQueue(Base):
    """A queue as projects write them."""

    def __len__(self) -> int:
        return int(self.server.llen(self.key))

    def push(self, request: Request) -> None:
        self.server.lpush(self.key, self._encode_request(request))

    def pop(self, timeout: int = 0) -> Request | None:
        data = self.server.rpop(self.key)
        return self._decode_request(data) if data else None


def crawler_of(side: str, server: Server, name: str, kind: Any = Sample, **settings: Any) -> Any:
    crawler = get_crawler(
        kind,
        {
            "REDIS_URL": server.url,
            "REDIS_PARAMS": {"protocol": 2},
            "DUPEFILTER_CLASS": f"{side}.dupefilter.RFPDupeFilter",
            "SCHEDULER_QUEUE_CLASS": f"{side}.queue.PriorityQueue",
            **settings,
        },
    )
    crawler.stats = MemoryStatsCollector(crawler)
    crawler.spider = kind.from_crawler(crawler, name=name)
    return crawler


def opened(crawler: Any, side: str) -> Any:
    scheduler = module(side, "scheduler").Scheduler.from_crawler(crawler)
    scheduler.open(crawler.spider)
    return scheduler


def test_requests_go_in_and_come_out(
    side: str, valkey_server: Server, redis: Any, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    crawler = crawler_of(side, valkey_server, crawl_name, SCHEDULER_PERSIST=True)
    scheduler = opened(crawler, side)
    assert [scheduler.enqueue_request(request(url, priority=n)) for n, url in enumerate(("http://a", "http://b", "http://b"))] == [
        True, True, False,
    ]  # fmt: skip
    assert scheduler.enqueue_request(request("http://b", dont_filter=True))
    assert (len(scheduler), scheduler.has_pending_requests()) == (3, True)
    assert redis.zcard(f"{crawl_name}:requests") == 3
    assert redis.scard(f"{crawl_name}:dupefilter") == 2
    assert scheduler.next_request().url == "http://b"
    scheduler.close("finished")
    with caplog.at_level(logging.DEBUG):
        again = opened(crawler_of(side, valkey_server, crawl_name), side)
    assert "Resuming crawl (2 requests scheduled)" in caplog.text
    assert {again.next_request().url, again.next_request().url} == {"http://a", "http://b"}
    assert (again.next_request(), again.has_pending_requests()) == (None, False)
    stats = crawler.stats.get_stats()
    assert (stats["scheduler/enqueued/redis"], stats["scheduler/dequeued/redis"]) == (3, 1)


@pytest.mark.parametrize("persist", [True, False])
def test_the_queue_outlives_its_only_worker_if_asked_to(
    side: str, persist: bool, valkey_server: Server, redis: Any, crawl_name: str
) -> None:
    scheduler = opened(crawler_of(side, valkey_server, crawl_name, SCHEDULER_PERSIST=persist), side)
    scheduler.enqueue_request(request())
    scheduler.close("finished")
    assert redis.exists(f"{crawl_name}:requests", f"{crawl_name}:dupefilter") == (2 if persist else 0)


def test_a_start_may_flush(side: str, valkey_server: Server, redis: Any, crawl_name: str) -> None:
    redis.zadd(f"{crawl_name}:requests", {"x": 1})
    redis.sadd(f"{crawl_name}:dupefilter", "x")
    opened(crawler_of(side, valkey_server, crawl_name, SCHEDULER_FLUSH_ON_START=True), side)
    assert redis.exists(f"{crawl_name}:requests", f"{crawl_name}:dupefilter") == 0


def test_keys_and_serializer_are_settings(side: str, valkey_server: Server, redis: Any, crawl_name: str) -> None:
    crawler = crawler_of(
        side,
        valkey_server,
        crawl_name,
        SCHEDULER_QUEUE_KEY="q:%(spider)s",
        SCHEDULER_DUPEFILTER_KEY="d:%(spider)s",
        SCHEDULER_SERIALIZER="pickle",
        SCHEDULER_QUEUE_CLASS=f"{side}.queue.FifoQueue",
    )
    scheduler = opened(crawler, side)
    scheduler.enqueue_request(request())
    assert (redis.llen(f"q:{crawl_name}"), redis.scard(f"d:{crawl_name}")) == (1, 1)
    assert scheduler.next_request().url == "http://site/"


def test_the_server_is_asked_when_the_scheduler_is_built(side: str, crawl_name: str) -> None:
    with Server() as mine:
        crawler = crawler_of(side, mine, crawl_name)
        mine.kill()
        with pytest.raises(Exception, match=r"refused|Connection closed"):
            module(side, "scheduler").Scheduler.from_crawler(crawler)


def test_a_queue_class_that_cannot_be_made_is_named(side: str, valkey_server: Server, crawl_name: str) -> None:
    crawler = crawler_of(side, valkey_server, crawl_name, SCHEDULER_QUEUE_CLASS="builtins.int")
    with pytest.raises(ValueError, match=r"Failed to instantiate queue class 'builtins\.int'"):
        opened(crawler, side)


def test_old_and_new_workers_crawl_one_queue(valkey_server: Server, crawl_name: str) -> None:
    old, new = (opened(crawler_of(side, valkey_server, crawl_name, SCHEDULER_PERSIST=True), side) for side in SIDES)
    urls = [f"http://site/{n}" for n in range(20)]
    for number, url in enumerate(urls):
        (old, new)[number % 2].enqueue_request(request(url))
        assert not (new, old)[number % 2].enqueue_request(request(url)), "known to the other"
    assert {(old, new)[n % 3 == 0].next_request().url for n in range(20)} == set(urls)


def test_a_worker_that_ends_leaves_the_queue_to_the_others(valkey_server: Server, redis: Any, crawl_name: str) -> None:
    first, second = (opened(crawler_of(NEW, valkey_server, crawl_name), NEW) for _ in range(2))
    first.enqueue_request(request())
    first.close("shutdown")
    assert second.next_request().url == "http://site/"
    assert not second.enqueue_request(request()), "what was seen stays known"
    second.close("finished")
    assert redis.keys(f"{crawl_name}:*") == []


def test_a_worker_that_joins_flushes_nothing_of_others(
    valkey_server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = opened(crawler_of(NEW, valkey_server, crawl_name), NEW)
    first.enqueue_request(request())
    second = opened(crawler_of(NEW, valkey_server, crawl_name, SCHEDULER_FLUSH_ON_START=True), NEW)
    assert len(second) == 1
    assert "other workers use the queue" in caplog.text


def test_a_worker_that_was_killed_is_not_waited_for(
    valkey_server: Server, redis: Any, crawl_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "GONE_SECONDS", 0)
    opened(crawler_of(NEW, valkey_server, crawl_name), NEW)
    second = opened(crawler_of(NEW, valkey_server, crawl_name), NEW)
    second.enqueue_request(request())
    second.close("finished")
    assert redis.exists(f"{crawl_name}:requests") == 0


@pytest.mark.parametrize("kind", ["FifoQueue", "LifoQueue"])
def test_waiting_for_requests_does_not_block(kind: str, valkey_server: Server, crawl_name: str) -> None:
    given = {"SCHEDULER_IDLE_BEFORE_CLOSE": 60}
    crawler = crawler_of(NEW, valkey_server, crawl_name, SCHEDULER_QUEUE_CLASS=f"{NEW}.queue.{kind}", **given)
    scheduler = opened(crawler, NEW)
    with watched(valkey_server) as since:
        assert scheduler.next_request() is None
        assert [command.split()[0] for command in since() if "requests" in command] == ["LRANGE"]
    with pytest.raises(DontCloseSpider):
        scheduler._on_idle()
    scheduler._active_at -= 60
    scheduler._on_idle()


def test_the_dupefilter_need_not_be_named(valkey_server: Server, redis: Any, crawl_name: str) -> None:
    sides = [(NEW, False)] if hasattr(RFPDupeFilter, "from_settings") else [(OLD, True), (NEW, False)]
    for side, fails in sides:
        crawler = get_crawler(
            Sample,
            {"REDIS_URL": valkey_server.url, "SCHEDULER_QUEUE_CLASS": f"{side}.queue.PriorityQueue"},
        )
        crawler.stats = MemoryStatsCollector(crawler)
        crawler.spider = Sample.from_crawler(crawler, name=crawl_name)
        if fails:
            with pytest.raises(AttributeError):
                opened(crawler, side)
        else:
            opened(crawler, side).enqueue_request(request())
    assert redis.scard(f"{crawl_name}:dupefilter") == 1


def test_a_dupefilter_of_scrapys_own_may_be_named(valkey_server: Server, crawl_name: str) -> None:
    own = "scrapy.dupefilters.RFPDupeFilter"
    scheduler = opened(crawler_of(NEW, valkey_server, crawl_name, DUPEFILTER_CLASS=own), NEW)
    assert [scheduler.enqueue_request(request()), scheduler.enqueue_request(request())] == [True, False]
    scheduler.close("finished")


@pytest.mark.parametrize("kind", ["PriorityQueue", "FifoQueue", "LifoQueue"])
def test_what_cannot_be_read_stays_where_it_is_and_is_said_once(
    kind: str, valkey_server: Server, redis: Any, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = f"{crawl_name}:requests"
    crawler = crawler_of(
        NEW, valkey_server, crawl_name, SCHEDULER_QUEUE_CLASS=f"{NEW}.queue.{kind}", SCHEDULER_PERSIST=False
    )
    scheduler = opened(crawler, NEW)
    strange = [pickle.dumps({"url": f"http://site/{n}", "meta": {"x": Strange()}}, protocol=-1) for n in range(40)]
    for number in range(3):
        scheduler.enqueue_request(request(f"http://site/good/{number}"))
        for data in strange[number * 10 : number * 10 + 20]:
            redis.zadd(key, {data: -5}) if kind == "PriorityQueue" else redis.lpush(key, data)

    def held() -> list[bytes]:
        every = redis.zrange(key, 0, -1) if kind == "PriorityQueue" else redis.lrange(key, 0, -1)
        return [data for data in every if data in strange]

    before = held()
    assert len(scheduler) == len(before) + 3
    assert scheduler.has_pending_requests()
    found = [scheduler.next_request() for _ in range(5)]
    assert sorted(one.url for one in found if one) == [f"http://site/good/{number}" for number in range(3)]
    assert held() == before, "in the same places"
    assert not scheduler.has_pending_requests(), "what is left is for others"
    scheduler.enqueue_request(request("http://site/more"))
    assert scheduler.has_pending_requests()
    assert scheduler.next_request().url == "http://site/more"
    assert crawler.stats.get_value("scheduler/unreadable") == len(set(before))
    assert "Strange is no class whose objects are made again" in caplog.text
    scheduler.next_request()
    scheduler.close("finished")
    assert held() == before
    assert f"{len(before)} requests are left in {key}" in caplog.text


def test_a_worker_waits_behind_very_many_that_it_cannot_read(
    valkey_server: Server, redis: Any, crawl_name: str
) -> None:
    key = f"{crawl_name}:requests"
    scheduler = opened(crawler_of(NEW, valkey_server, crawl_name), NEW)
    scheduler.enqueue_request(request("http://site/good"))
    redis.zadd(key, {f"garbage {number}": -5 for number in range(queue_reader.MOST + 1)})
    assert scheduler.next_request() is None
    assert scheduler.has_pending_requests()
    redis.zremrangebyrank(key, 0, 1)
    assert scheduler.next_request().url == "http://site/good"
    assert len(scheduler) == queue_reader.MOST - 1


def test_several_workers_take_each_request_once(valkey_server: Server, redis: Any, crawl_name: str) -> None:
    schedulers = [opened(crawler_of(NEW, valkey_server, crawl_name), NEW) for _ in range(2)]
    redis.zadd(f"{crawl_name}:requests", {"garbage": -5})
    for number in range(60):
        schedulers[0].enqueue_request(request(f"http://site/{number}"))

    def take(scheduler: Any) -> list[str]:
        return [one.url for one in iter(scheduler.next_request, None)]

    with ThreadPoolExecutor(2) as pool:
        found = [url for urls in pool.map(take, schedulers) for url in urls]
    assert sorted(found) == sorted(f"http://site/{number}" for number in range(60))


def test_what_cannot_be_stored_is_kept_with_its_path_and_is_not_seen(
    valkey_server: Server, redis: Any, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    crawler = crawler_of(NEW, valkey_server, crawl_name)
    scheduler = opened(crawler, NEW)
    assert not scheduler.enqueue_request(request(meta={"x": [0, {"y": object()}]}))
    assert not scheduler.enqueue_request(request("http://site/2", callback=print))
    assert crawler.stats.get_value("scheduler/unserializable") == 2
    kept = [json.loads(data) for data in redis.lrange(f"{crawl_name}:requests:unserializable", 0, -1)]
    assert [each["url"] for each in kept] == ["http://site/2", "http://site/"]
    assert kept[1]["error"].startswith("meta['x'][1]['y']: builtins.object is not plain data.")
    assert kept[1]["error"] in caplog.text
    assert redis.scard(f"{crawl_name}:dupefilter") == 0
    assert scheduler.enqueue_request(request())


def test_what_a_queue_of_ones_own_cannot_read_is_kept(
    valkey_server: Server, redis: Any, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    own = f"{__name__}.OwnQueue"
    scheduler = opened(crawler_of(NEW, valkey_server, crawl_name, SCHEDULER_QUEUE_CLASS=own), NEW)
    scheduler.enqueue_request(request("http://site/good"))
    redis.rpush(f"{crawl_name}:requests", b"garbage")
    assert scheduler.next_request().url == "http://site/good"
    assert redis.lrange(f"{crawl_name}:requests:unreadable", 0, -1) == [b"garbage"]


class OwnScheduler(Scheduler):
    def close(self, reason: str) -> None:
        super().close(reason)


class OwnFingerprint(NewFilter):
    def request_fingerprint(self, request: Request) -> str:
        return request.url[:12]


class OwnSeen(NewFilter):
    def request_seen(self, request: Request) -> bool:
        return False


class OwnPlainSeen(RFPDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return False


class OwnMaking(RFPDupeFilter):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)


class OwnKey(NewFilter):
    @classmethod
    def from_spider(cls, spider: Any) -> OwnKey:
        return cls(spider.server, "everybody:dupefilter")


HERE = __name__
ON_THE_FRONTIER: list[dict[str, Any]] = [
    {},
    {"DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter"},
    {"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"},
    {"DUPEFILTER_CLASS": f"{HERE}.OwnFingerprint"},
    {"SCHEDULER_QUEUE_KEY": "%(spider)s:requests", "SCHEDULER_DUPEFILTER_KEY": "%(spider)s:dupefilter"},
    {"SCHEDULER_QUEUE_KEY": "mine:%(spider)s", "GOSSAMER_CRAWL": "mine", "SCHEDULER_SERIALIZER": "pickle"},
]
NOT_THERE: list[tuple[dict[str, Any], str]] = [
    ({"SCHEDULER_QUEUE_CLASS": f"{NEW}.queue.PriorityQueue"}, "SCHEDULER_QUEUE_CLASS is set"),
    ({"DUPEFILTER_CLASS": f"{HERE}.OwnSeen"}, "OwnSeen has request_seen of its own"),
    ({"DUPEFILTER_CLASS": f"{HERE}.OwnPlainSeen"}, "OwnPlainSeen has request_seen of its own"),
    ({"DUPEFILTER_CLASS": f"{HERE}.OwnMaking"}, "OwnMaking has __init__ of its own"),
    ({"DUPEFILTER_CLASS": f"{HERE}.OwnKey"}, "OwnKey has from_spider of its own"),
    ({"SCHEDULER_QUEUE_KEY": "all:requests"}, "SCHEDULER_QUEUE_KEY is 'all:requests'"),
    ({"SCHEDULER_DUPEFILTER_KEY": "mine:%(spider)s"}, "SCHEDULER_DUPEFILTER_KEY is 'mine:%(spider)s'"),
]


@pytest.mark.parametrize("given", ON_THE_FRONTIER)
def test_a_project_is_on_the_frontier_if_that_honours_what_it_says(
    given: dict[str, Any], valkey_server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    crawler = crawler_of(NEW, valkey_server, crawl_name, **{"SCHEDULER_QUEUE_CLASS": "", **given})
    made = Scheduler.from_crawler(crawler)
    assert type(made) is LeasingScheduler
    assert ("SCHEDULER_SERIALIZER is not used" in caplog.text) == ("SCHEDULER_SERIALIZER" in given)
    filtered = given.get("DUPEFILTER_CLASS") != "scrapy.dupefilters.BaseDupeFilter"
    assert bool(made.join.forgetful) is not filtered
    alike = made.join.number(request("http://site/a")) == made.join.number(request("http://site/b"))
    assert alike is (given.get("DUPEFILTER_CLASS") == f"{HERE}.OwnFingerprint")


@pytest.mark.parametrize(("given", "said"), NOT_THERE)
def test_else_it_is_on_the_queue_of_scrapy_redis_and_says_why(
    given: dict[str, Any], said: str, valkey_server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    crawler = crawler_of(NEW, valkey_server, crawl_name, **{"SCHEDULER_QUEUE_CLASS": "", **given})
    assert type(Scheduler.from_crawler(crawler)) is Scheduler
    assert said in caplog.text
    assert "what it holds when it dies is lost. To be on the frontier, " in caplog.text


def test_a_class_of_the_projects_own_is_used_as_it_is(
    valkey_server: Server, redis: Any, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    crawler = crawler_of(NEW, valkey_server, crawl_name, SCHEDULER_QUEUE_CLASS="")
    made = OwnScheduler.from_crawler(crawler)
    assert type(made) is OwnScheduler
    assert f"{HERE}.OwnScheduler is the project's own class with close of its own" in caplog.text
    caplog.clear()
    OwnScheduler(redis, False).open(crawler.spider)
    assert caplog.text.count("OwnScheduler is the project's own class") == 1, "however it is made"
    assert type(Scheduler.from_settings(crawler.settings)) is Scheduler


def test_a_scheduler_is_made_by_hand_for_a_spider_without_a_crawler(side: str, redis: Any, crawl_name: str) -> None:
    """As scripts and tests of projects do; a dupefilter has to be given there."""
    kind, filters = module(side, "scheduler").Scheduler, module(side, "dupefilter").RFPDupeFilter
    key = f"{crawl_name}:seen"
    made = kind(
        redis,
        True,
        False,
        "%(spider)s:q",
        f"{side}.queue.FifoQueue",
        filters(redis, key),
        "%(spider)s:d",
        "",
        0,
        None,
    )
    made.open(Sample(name=crawl_name))
    assert [made.enqueue_request(request()), made.enqueue_request(request())] == [True, False]
    assert (redis.llen(f"{crawl_name}:q"), redis.scard(key), len(made)) == (1, 1, 1)
    assert made.next_request().url == "http://site/"
    made.close("finished")
    assert redis.exists(key), "persist"


def test_without_a_dupefilter_such_a_scheduler_makes_the_usual_one(redis: Any, crawl_name: str) -> None:
    made = Scheduler(redis, dupefilter_key="%(spider)s:seen")
    made.open(Sample(name=crawl_name))
    made.enqueue_request(request())
    assert redis.scard(f"{crawl_name}:seen") == 1
    made.flush()
    assert not redis.keys(f"{crawl_name}:*")
    with pytest.raises(TypeError, match="idle_before_close"):
        Scheduler(redis, idle_before_close=-1)


def test_every_public_name_of_scheduler_and_spiders_is_there() -> None:
    for where, names in (("spiders", ("RedisMixin", "RedisSpider", "RedisCrawlSpider")), ("scheduler", ("Scheduler",))):
        for name in names:
            theirs, ours = getattr(module(OLD, where), name), getattr(module(NEW, where), name)
            assert set(dir(theirs)) - set(dir(ours)) - {"start_requests"} == set(), name
