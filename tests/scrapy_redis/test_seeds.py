"""The seeds of scrapy-redis's spiders, held to the same assertions as the original."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DontCloseSpider
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler
from tests.support.scrapy_redis.sides import SIDES, module, watched

from gossamer.errors import BadTask
from gossamer.scrapy_redis.fleet.feed import SeedFeed
from gossamer.testing.servers import Server

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*retry_on_timeout", "ignore:Passing a 'spider' argument", "ignore:.*start_requests", "ignore:Spider.log"
)
OLD, NEW = SIDES


def fed(side: str, server: Server, name: str, kind: str = "RedisSpider", given: Any = None, **settings: Any) -> Any:
    base = getattr(module(side, "spiders"), kind)
    made: Any = type("Fed", (base,), {"name": "fed", **(given or {})})
    crawler = get_crawler(made, {"REDIS_URL": server.url, "REDIS_PARAMS": {"protocol": 2}, **settings})
    crawler.stats = MemoryStatsCollector(crawler)
    spider = made.from_crawler(crawler, name=name)
    crawler.spider = spider
    return spider


KINDS: dict[str, dict[str, Any]] = {
    "list": {},
    "set": {"REDIS_START_URLS_AS_SET": True},
    "zset": {"REDIS_START_URLS_AS_ZSET": True},
}


def push(server: Any, kind: str, key: str, seeds: list[str]) -> None:
    if kind == "list":
        server.rpush(key, *seeds)
    elif kind == "set":
        server.sadd(key, *seeds)
    else:
        server.zadd(key, {seed: -number for number, seed in enumerate(seeds)})


@pytest.mark.parametrize("spider_kind", ["RedisSpider", "RedisCrawlSpider"])
@pytest.mark.parametrize("kind", KINDS)
def test_seeds_are_taken_in_batches(
    side: str, kind: str, spider_kind: str, valkey_server: Server, redis: Any, crawl_name: str
) -> None:
    spider = fed(side, valkey_server, crawl_name, spider_kind, {"redis_batch_size": "2"}, **KINDS[kind])
    urls = [f"http://site/{n}" for n in range(3)]
    push(redis, kind, f"{crawl_name}:start_urls", urls)
    assert (spider.redis_key, spider.redis_batch_size, spider.redis_encoding) == (
        f"{crawl_name}:start_urls",
        2,
        "utf-8",
    )
    assert spider.count_size(spider.redis_key) == 3
    first, second, third = (list(spider.next_requests()) for _ in range(3))
    assert ([len(first), len(second), len(third)]) == [2, 1, 0]
    found = [one.url for one in (*first, *second)]
    assert sorted(found) == urls if kind == "set" else found == urls
    assert all(one.dont_filter for one in first)


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_are_taken_with_the_same_commands(kind: str, valkey_server: Server, redis: Any, crawl_name: str) -> None:
    said = []
    for side in SIDES:
        spider = fed(side, valkey_server, crawl_name, **KINDS[kind])
        push(redis, kind, spider.redis_key, ["http://site/"])
        with watched(valkey_server) as since:
            spider.count_size(spider.redis_key)
            list(spider.next_requests())
            said.append(since())
    assert said[0] == said[1]
    assert [command.split()[0] for command in said[0]] == {
        "list": ["LLEN", "MULTI", "LRANGE", "LTRIM", "EXEC"],
        "set": ["SCARD", "SPOP"],
        "zset": ["ZCARD", "MULTI", "ZREVRANGE", "ZREMRANGEBYRANK", "EXEC"],
    }[kind]


SEEDS = [
    b"http://site/plain",
    b'{"url": "http://site/json"}',
    b'{"url": "http://site/get", "q": "a b", "l": ["1", "2"]}',
    b'{"url": "http://site/post", "method": "post", "meta": {"job": {"id": 1}}, "q": "\\u00e4"}',
]


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_of_seeds_are_the_same(seed: bytes, valkey_server: Server, crawl_name: str) -> None:
    old, new = (fed(side, valkey_server, crawl_name).make_request_from_data(seed) for side in SIDES)
    assert new.to_dict() == old.to_dict()
    assert type(new) is type(old)


def test_a_seed_without_url_makes_no_request(side: str, valkey_server: Server, crawl_name: str) -> None:
    assert fed(side, valkey_server, crawl_name).make_request_from_data(b'{"a": 1}') == []


BAD = [
    b"no url",
    b"[1]",
    b"7",
    b"null",
    b'{"url": 5}',
    b'{"url": "http://a", "method": 7}',
    b"\xff",
]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_seed_holds_up_no_other(
    bad: bytes, valkey_server: Server, redis: Any, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    spider = fed(NEW, valkey_server, crawl_name)
    redis.rpush(spider.redis_key, "http://site/1", bad, "http://site/2")
    assert [one.url for one in spider.next_requests()] == ["http://site/1", "http://site/2"]
    assert spider.crawler.stats.get_value("gossamer/tasks_bad") == 1
    assert "cannot be used" in caplog.text
    with pytest.raises((BadTask, UnicodeDecodeError)):
        spider.make_requests(bad)


def test_a_leased_seed_without_url_becomes_a_dead_letter(valkey_server: Server, crawl_name: str) -> None:
    with pytest.raises(BadTask, match="no url"):
        fed(NEW, valkey_server, crawl_name).make_requests(b'{"a": 1}')
    own = {"make_request_from_data": lambda self, data: None}
    assert fed(NEW, valkey_server, crawl_name, given=own).make_requests(b"skip me") == []


def test_numbers_in_a_form_are_sent_as_text(valkey_server: Server, crawl_name: str) -> None:
    made = fed(NEW, valkey_server, crawl_name).make_request_from_data(
        b'{"url": "http://site/", "page": 2, "m": [1, 2.5]}'
    )
    assert made.url == "http://site/?page=2&m=1&m=2.5"


def test_arguments_and_settings_of_a_spider(side: str, valkey_server: Server, crawl_name: str) -> None:
    spider = fed(
        side,
        valkey_server,
        crawl_name,
        MAX_IDLE_TIME_BEFORE_CLOSE="7",
        REDIS_START_URLS_KEY="seeds:%(name)s",
        CONCURRENT_REQUESTS=3,
        REDIS_ENCODING="latin-1",
    )
    assert (spider.redis_key, spider.redis_batch_size, spider.max_idle_time) == (f"seeds:{crawl_name}", 3, 7)
    assert spider.make_request_from_data(b'{"url": "http://site/\xe4"}').url == "http://site/%C3%A4"
    given = {"max_idle_time": "9", "redis_encoding": "utf-8", "redis_key": "mine"}
    other = fed(side, valkey_server, crawl_name, given=given)
    assert (other.redis_key, other.max_idle_time) == ("mine", 9)
    assert fed(side, valkey_server, crawl_name).max_idle_time == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"redis_key": " "}, "redis_key"),
        ({"redis_key": ""}, "redis_key"),
        ({"redis_batch_size": "x"}, "redis_batch_size"),
        ({"max_idle_time": "x"}, "max_idle_time"),
    ],
)
def test_values_that_cannot_be_used_are_named(
    side: str, given: dict[str, str], message: str, valkey_server: Server, crawl_name: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fed(side, valkey_server, crawl_name, given=given)


def test_a_list_of_keys_must_not_be_empty(valkey_server: Server, crawl_name: str) -> None:
    for given in ([], [""], ["a", " "]):
        with pytest.raises(ValueError, match="redis_key must not be empty"):
            fed(NEW, valkey_server, crawl_name, given={"redis_key": given})


def test_the_client_comes_from_the_connection_module(
    side: str, valkey_server: Server, crawl_name: str, monkeypatch: pytest.MonkeyPatch, redis: Any
) -> None:
    monkeypatch.setattr(module(side, "connection"), "from_settings", lambda settings: redis)
    assert fed(side, valkey_server, crawl_name).server is redis


class Engine:
    def __init__(self) -> None:
        self.crawled: list[Request] = []
        self._slot = None

    def crawl(self, request: Request) -> None:
        self.crawled.append(request)


@pytest.mark.filterwarnings("ignore")
def test_an_idle_spider_hands_seeds_to_the_engine(
    side: str, valkey_server: Server, redis: Any, crawl_name: str
) -> None:
    spider = fed(side, valkey_server, crawl_name)
    spider.crawler.engine = Engine()
    redis.rpush(spider.redis_key, json.dumps({"url": "http://site/1"}), "http://site/2")
    with pytest.raises(DontCloseSpider):
        spider.spider_idle()
    assert [one.url for one in spider.crawler.engine.crawled] == ["http://site/1", "http://site/2"]


@pytest.mark.filterwarnings("ignore")
def test_idle_time_counts_from_the_last_activity(valkey_server: Server, crawl_name: str) -> None:
    spider = fed(NEW, valkey_server, crawl_name, MAX_IDLE_TIME_BEFORE_CLOSE=5)
    spider.crawler.engine = Engine()
    spider._feed._active_at -= 6
    spider.spider_idle()
    spider._feed._active()
    with pytest.raises(DontCloseSpider):
        spider.spider_idle()


def test_of_several_keys_the_first_with_seeds_is_served(valkey_server: Server, redis: Any, crawl_name: str) -> None:
    high, low = f"{crawl_name}:high", f"{crawl_name}:low"
    spider = fed(NEW, valkey_server, crawl_name, given={"redis_key": [high, low, high], "redis_batch_size": 1})
    assert spider.tasks == (high, low)
    redis.rpush(low, "http://site/1", "http://site/2", "http://site/4")
    taken = [next(spider.next_requests()).url]
    redis.rpush(high, "http://site/3")
    taken += [next(spider.next_requests()).url, next(spider.next_requests()).url]
    assert taken == ["http://site/1", "http://site/2", "http://site/4"], "the present key is emptied first"
    assert next(spider.next_requests()).url == "http://site/3"


def test_a_better_key_is_looked_for_after_the_interval(valkey_server: Server, redis: Any, crawl_name: str) -> None:
    high, low = f"{crawl_name}:high", f"{crawl_name}:low"
    spider = fed(
        NEW,
        valkey_server,
        crawl_name,
        given={"redis_key": [high, low], "redis_batch_size": 1},
        REDIS_KEY_CHECK_INTERVAL=5,
    )
    redis.rpush(low, "http://site/1", "http://site/2")
    assert next(spider.next_requests()).url == "http://site/1"
    redis.rpush(high, "http://site/3")
    feed: SeedFeed = spider._feed
    feed._looked_at -= 5
    assert next(spider.next_requests()).url == "http://site/3"


@pytest.mark.parametrize("way", ["next_requests", "schedule_next_requests", "pop_list_queue"])
def test_a_spider_that_takes_seeds_its_own_way_is_left_to_it(way: str, valkey_server: Server, crawl_name: str) -> None:
    assert fed(NEW, valkey_server, crawl_name, given={way: lambda self, *_: iter(())}).tasks == ()
    assert fed(NEW, valkey_server, crawl_name).tasks == (f"{crawl_name}:start_urls",)
