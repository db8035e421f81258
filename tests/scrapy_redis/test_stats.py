"""Stats in the hash of scrapy-redis: the same keys and meanings, exact over workers, and nothing crashes on them."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from scrapy.extensions.logstats import LogStats
from scrapy.extensions.periodic_log import PeriodicLog
from tests.support.scrapy_redis.sides import SIDES, module, spider, watched

from gossamer.scrapy_redis import stats as our_stats
from gossamer.scrapy_redis.shared.counters import StatChange, StatChanges, merged, read
from gossamer.scrapy_redis.stats import RedisStatsCollector
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*retry_on_timeout", "ignore:.*hmset", "ignore:Passing a 'spider' argument"
)


@pytest.fixture(autouse=True)
def only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent by the clock, so that a test knows what was."""
    monkeypatch.setattr(our_stats, "SEND_SECONDS", 3600.0)


def collector(server: Server, name: str, side: str = SIDES[1], url: str = "", **settings: Any) -> Any:
    crawler = spider(name, {"REDIS_URL": url or server.url, **settings}).crawler
    made = module(side, "stats").RedisStatsCollector.from_crawler(crawler)
    made.open_spider(crawler.spider)
    return made


def closed(made: Any) -> None:
    made.close_spider(made.spider, "finished")


def flushed(made: Any) -> None:
    if isinstance(made, RedisStatsCollector):
        assert made.flush()


@pytest.mark.parametrize("side", SIDES)
def test_counting_leaves_the_same_hash(side: str, valkey_server: Server, redis: Any, crawl_name: str) -> None:
    made = collector(valkey_server, crawl_name, side, SCHEDULER_PERSIST=True)
    made.inc_value("pages")
    made.inc_value("pages", 4)
    made.inc_value("from", 1, start=10)
    made.set_value("text", 7)
    made.max_value("depth", 3)
    made.max_value("depth", 2)
    made.min_value("low", 3)
    made.min_value("low", 1)
    made.set_value("start_time", datetime(2026, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC))
    made.set_stats({"more": 1})
    flushed(made)
    assert redis.hgetall(f"{crawl_name}:stats") == {
        b"pages": b"5", b"from": b"11", b"text": b"7", b"depth": b"3", b"low": b"1", b"more": b"1",
        b"start_time": b"1767323045.5",
    }  # fmt: skip
    assert [made.get_value("pages"), made.get_value("none"), made.get_value("none", 3)] == [5, None, 3]
    assert {name: int(value) for name, value in made.get_stats().items() if name in ("pages", "low")} == {
        "pages": 5,
        "low": 1,
    }
    made.clear_stats()
    assert redis.exists(f"{crawl_name}:stats") == 0
    assert made.get_stats() == {}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("persist", [True, False])
def test_the_hash_outlives_the_crawl_if_asked_to(
    side: str, persist: bool, valkey_server: Server, redis: Any, crawl_name: str
) -> None:
    made = collector(valkey_server, crawl_name, side, SCHEDULER_PERSIST=persist, STATS_KEY="of:%(spider)s")
    made.inc_value("pages", 2)
    closed(made)
    assert redis.hgetall(f"of:{crawl_name}") == ({b"pages": b"2"} if persist else {})


@pytest.mark.parametrize("persist", [True, False])
def test_workers_that_have_left_leave_nothing_of_themselves(
    persist: bool, valkey_server: Server, redis: Any, crawl_name: str
) -> None:
    first, second = (collector(valkey_server, crawl_name, SCHEDULER_PERSIST=persist) for _ in range(2))
    for made in (first, second):
        made.inc_value("pages", 2)
        flushed(made)
    for made in (first, second):
        closed(made)
    stats = [f"{crawl_name}:stats".encode()] if persist else []
    assert redis.keys(f"*{crawl_name}*") == stats


def test_a_last_call_that_is_repeated_changes_nothing(
    fault_proxy: FaultProxy, valkey_server: Server, redis: Any, crawl_name: str
) -> None:
    made = collector(
        valkey_server, crawl_name, url=fault_proxy.url, SCHEDULER_PERSIST=True, REDIS_PARAMS={"socket_timeout": 5}
    )
    made.inc_value("pages", 3)
    flushed(made)
    made.inc_value("pages", 4)
    fault_proxy.lose_replies(match=b"leave")
    wait_until(lambda: made.flush("leave"), "the server to be reached again")
    assert redis.hgetall(f"{crawl_name}:stats") == {b"pages": b"7"}
    assert redis.keys(f"*{crawl_name}*") == [f"{crawl_name}:stats".encode()]
    assert made.get_value("pages") == 7


def test_workers_of_both_kinds_add_up(valkey_server: Server, redis: Any, crawl_name: str) -> None:
    old, new, third = (collector(valkey_server, crawl_name, side) for side in (*SIDES, SIDES[1]))
    for number in range(20):
        old.inc_value("pages")
        new.inc_value("pages", 2)
        third.inc_value("bytes", number / 4)
        if number % 7 == 0:
            flushed(new)
    flushed(new)
    flushed(third)
    assert redis.hgetall(f"{crawl_name}:stats") == {b"pages": b"60", b"bytes": b"47.5"}
    assert (third.get_value("pages"), third.get_value("bytes")) == (60, 47.5)


def test_a_thousand_counts_take_one_round_trip(valkey_server: Server, crawl_name: str) -> None:
    made = collector(valkey_server, crawl_name)
    with watched(valkey_server) as since:
        for number in range(1000):
            made.inc_value(f"stat/{number % 50}")
            made.max_value("depth", number)
        assert since() == []
        flushed(made)
        sent = [command for command in since() if command.startswith("EVAL")]
        assert len(sent) == 1
        assert made.get_value("stat/7") == 20
        assert [command for command in since() if command.startswith("EVAL")] == []


def test_what_was_counted_is_read_before_it_is_sent(valkey_server: Server, crawl_name: str) -> None:
    first, second = collector(valkey_server, crawl_name), collector(valkey_server, crawl_name)
    first.inc_value("pages", 3)
    flushed(first)
    second.inc_value("pages")
    assert second.get_value("pages") == 4
    assert second.get_stats() == {"pages": 4}
    assert first.get_value("pages") == 3


def test_counts_are_sent_by_themselves(
    valkey_server: Server, redis: Any, crawl_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(our_stats, "SEND_SECONDS", 0.01)
    made = collector(valkey_server, crawl_name)
    made.inc_value("pages", 3)
    wait_until(lambda: redis.hget(f"{crawl_name}:stats", "pages") == b"3", "the counts to arrive")
    closed(made)


def test_an_answer_that_is_lost_counts_nothing_twice(
    fault_proxy: FaultProxy, valkey_server: Server, redis: Any, crawl_name: str
) -> None:
    made = collector(valkey_server, crawl_name, url=fault_proxy.url, REDIS_PARAMS={"socket_timeout": 5})
    made.inc_value("pages", 3)
    flushed(made)
    made.inc_value("pages", 4)
    fault_proxy.lose_replies(match=b"EVAL")
    made.flush()
    made.inc_value("pages", 5)
    wait_until(made.flush, "the server to be reached again")
    flushed(made)
    assert redis.hget(f"{crawl_name}:stats", "pages") == b"12"
    assert made.get_value("pages") == 12


def test_counts_wait_for_a_server_that_is_away(crawl_name: str) -> None:
    with Server() as mine:
        made = collector(mine, crawl_name, REDIS_PARAMS={"socket_timeout": 2, "socket_connect_timeout": 2})
        made.inc_value("pages")
        mine.kill()
        assert made.flush() is False
        made.inc_value("pages")
        assert made.get_value("pages") == 2
        mine.restart()
        wait_until(made.flush, "the server to be reached again")
        assert made.get_value("pages") == 2
        assert mine.call("HGET", f"{crawl_name}:stats", "pages") == "2"


def test_only_the_last_worker_clears_up(valkey_server: Server, redis: Any, crawl_name: str) -> None:
    first, second = collector(valkey_server, crawl_name), collector(valkey_server, crawl_name)
    for made in (first, second):
        made.inc_value("pages")
        flushed(made)
    closed(first)
    assert redis.hget(f"{crawl_name}:stats", "pages") == b"2"
    second.inc_value("pages")
    closed(second)
    assert redis.exists(f"{crawl_name}:stats") == 0
    assert second.get_stats() == {"pages": 3}, "the last figures stay readable in the process"


def test_the_hash_goes_when_all_that_are_left_were_killed(
    valkey_server: Server, redis: Any, crawl_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(our_stats, "GONE_SECONDS", 2)
    killed, last = collector(valkey_server, crawl_name), collector(valkey_server, crawl_name)
    for made in (killed, last):
        made.inc_value("pages")
        flushed(made)
    closed(last)
    wait_until(lambda: not redis.keys(f"*{crawl_name}*"), "the keys to go")


def test_a_worker_that_lives_keeps_the_hash_when_another_leaves(
    valkey_server: Server, redis: Any, crawl_name: str
) -> None:
    living, leaving = collector(valkey_server, crawl_name), collector(valkey_server, crawl_name)
    for made in (living, leaving):
        made.inc_value("pages")
        flushed(made)
    closed(leaving)
    assert 0 < redis.ttl(f"{crawl_name}:stats") <= our_stats.GONE_SECONDS
    flushed(living)
    assert redis.ttl(f"{crawl_name}:stats") == -1
    later = collector(valkey_server, crawl_name)
    later.inc_value("pages")
    flushed(later)
    assert redis.hgetall(f"{crawl_name}:stats") == {b"pages": b"3"}
    closed(later)
    closed(living)
    assert redis.keys(f"*{crawl_name}*") == []


@pytest.mark.parametrize(
    "params", [{"decode_responses": True}, {"protocol": 3, "legacy_responses": False}, {"protocol": 2}]
)
def test_any_kind_of_client_will_do(params: dict[str, Any], valkey_server: Server, crawl_name: str) -> None:
    made = collector(valkey_server, crawl_name, REDIS_PARAMS=params)
    made.inc_value("pages", 3)
    made.set_value("reason", "finished")
    made.set_value("rate", 1.5)
    made.set_value("nothing", None)
    flushed(made)
    assert made.get_stats() == {"pages": 3, "reason": "finished", "rate": 1.5}


@pytest.mark.parametrize("extension", [LogStats, PeriodicLog])
def test_extensions_of_scrapy_get_values_they_can_use(extension: Any, valkey_server: Server, crawl_name: str) -> None:
    made = collector(valkey_server, crawl_name, SCHEDULER_PERSIST=True)
    began = datetime(2026, 1, 2, tzinfo=UTC)
    made.set_value("start_time", began)
    made.inc_value("response_received_count", 120)
    made.inc_value("item_scraped_count", 30)
    flushed(made)
    made.set_value("finish_time", began + timedelta(minutes=2))
    if extension is LogStats:
        log = LogStats(made, 60.0)
        log.pagesprev = log.itemsprev = 0
        log.calculate_stats()
        assert (log.pages, log.items) == (120, 30)
        log.spider_closed(made.spider, "finished")
        assert (made.get_value("responses_per_minute"), made.get_value("items_per_minute")) == (60.0, 15.0)
    else:
        assert {name: value for name, value in made._stats.items() if name.endswith("count")} == {
            "response_received_count": 120, "item_scraped_count": 30,
        }  # fmt: skip


def test_a_time_that_another_worker_set_is_a_time_here(valkey_server: Server, crawl_name: str) -> None:
    first, second = collector(valkey_server, crawl_name), collector(valkey_server, crawl_name)
    began = datetime(2026, 1, 2, tzinfo=UTC)
    second.set_value("start_time", began - timedelta(hours=1))
    flushed(second)
    first.set_value("start_time", began)
    flushed(first)
    flushed(second)
    assert second.get_value("start_time") == began


def test_threads_lose_no_count(valkey_server: Server, crawl_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(our_stats, "SEND_SECONDS", 0.001)
    made = collector(valkey_server, crawl_name)

    def count() -> None:
        for _ in range(2000):
            made.inc_value("pages")

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    flushed(made)
    assert made.get_value("pages") == 6000
    closed(made)


@pytest.mark.parametrize(
    ("first", "then", "both"),
    [
        (StatChange("add", 1, 5), StatChange("add", 2, 9), StatChange("add", 3, 5)),
        (StatChange("set", 4), StatChange("add", 2), StatChange("set", 6)),
        (StatChange("set", 4), StatChange("max", 2), StatChange("set", 4)),
        (StatChange("max", 4), StatChange("max", 7), StatChange("max", 7)),
        (StatChange("min", 4), StatChange("min", 7), StatChange("min", 4)),
        (StatChange("add", 1), StatChange("set", 7), StatChange("set", 7)),
        (StatChange("max", 4), StatChange("add", 1), None),
        (StatChange("add", 4), StatChange("min", 1), None),
        (StatChange("set", None), StatChange("add", 1), None),
    ],
)
def test_two_changes_become_one_where_they_can(first: StatChange, then: StatChange, both: StatChange | None) -> None:
    assert merged(first, then) == both


def test_changes_stay_until_they_are_heard_of() -> None:
    pending_counters = StatChanges()
    pending_counters.change("a", StatChange("add", 1))
    sent, number = pending_counters.take(), pending_counters.number
    pending_counters.change("a", StatChange("add", 5))
    assert (pending_counters.take(), pending_counters.number) == (sent, number) == ([("a", StatChange("add", 1))], 1)
    pending_counters.heard({"a": "11", "b": "x"})
    assert pending_counters.view == {"a": 16, "b": "x"}
    assert (pending_counters.take(), pending_counters.number) == ([("a", StatChange("add", 5))], 2)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-20", -20),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("", ""),
        ("nan", "nan"),
        ("1.", "1."),
        ("1_0", "1_0"),
        ("x", "x"),
    ],
)
def test_numbers_are_read_as_numbers(text: str, value: Any) -> None:
    assert read(text) == value
    assert type(read(text)) is type(value)
