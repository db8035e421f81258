"""Projects as people write them for scrapy-redis give the same on ours: the same items, the same requests, the same end."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.scrapy_redis.style import LINKED, Side, both, same
from tests.support.site import Reply

FINISHED = ((0, "finished"),)


def crawl(side: Side) -> None:
    side.client.lpush("shop:start_urls", f"{side.site.url}/")
    side.run("scrapy crawl shop")


def test_a_spider_is_fed_from_a_list(tmp_path: Path) -> None:
    def act(side: Side) -> Any:
        url = side.site.url
        side.client.rpush(
            "shop:start_urls",
            json.dumps({"url": f"{url}/", "meta": {"job": 7}}),
            json.dumps({"url": f"{url}/form", "method": "post", "q": "a b"}),
            f"{url}/d",
        )
        side.run("scrapy crawl shop")
        return side.client.llen("shop:start_urls")

    found = same(both(tmp_path, "seeds", act))
    assert found.ends == FINISHED
    assert found.paths() == Counter([*LINKED, "/d", "/form"]), "a seed is not filtered, and a link to it is not a seed"
    assert found.requests["POST /form q=a+b"] == 1
    assert sum(found.items.values()) == len(LINKED) + 2


def test_rules_are_fed_from_a_set(tmp_path: Path) -> None:
    def act(side: Side) -> Any:
        side.client.sadd("shop:seeds", f"{side.site.url}/", f"{side.site.url}/list/2")
        side.run("scrapy crawl shop -a domain=127.0.0.1,localhost")
        return [side.client.exists(key) for key in ("shop:seeds", "shop:requests", "shop:dupefilter")]

    found = same(both(tmp_path, "rules", act))
    assert found.ends == FINISHED
    assert sum(found.items.values()) == 3
    assert found.paths()["/list/2"] == 2
    assert found.told == [0, 0, 0]


def test_seeds_are_taken_one_at_a_time(tmp_path: Path) -> None:
    def act(side: Side) -> None:
        side.client.rpush("shop:start_urls", *(f"{side.site.url}/{n}" for n in range(6)))
        side.run("scrapy crawl shop")

    found = same(both(tmp_path, "single", act))
    assert found.ends == FINISHED
    assert found.paths() == Counter(f"/{n}" for n in range(6))
    assert sum(found.items.values()) == 6


def test_a_queue_of_ones_own(tmp_path: Path) -> None:
    found = same(both(tmp_path, "queue", crawl))
    assert found.ends == FINISHED
    assert found.paths() == Counter(LINKED)


def test_a_scheduler_of_ones_own_with_a_bloom_filter(tmp_path: Path) -> None:
    def act(side: Side) -> Any:
        side.client.lpush("shop:start_urls", f"{side.site.url}/")
        side.run("scrapy crawl shop", "scrapy crawl shop")
        told = side.client.hgetall("bloom")
        assert int(told.pop(b"queued before")) >= 0
        # The sites have different ports, so the hashes of their URLs fall together in different places.
        assert 4 < int(told.pop(b"bits")) <= 4 * len(LINKED)
        return told, [side.client.exists(key) for key in ("shop:requests", "shop:dupefilter")]

    old, new = both(tmp_path, "bloom", act)
    found = same((old, new))
    assert found.ends == FINISHED * 2
    assert found.paths() == Counter(LINKED)
    assert found.told[0][b"taken"] == b"%d" % len(LINKED)
    assert int(found.told[0][b"refused"]) > 0
    assert (
        "project.scheduler.BloomScheduler is the project's own class with __init__, close, enqueue_request"
        in new.logs[0]
    )
    assert "set SCHEDULER to gossamer.scrapy_redis.scheduler.Scheduler" in new.logs[0]


def test_a_filter_with_a_request_seen_of_its_own(tmp_path: Path) -> None:
    def act(side: Side) -> Any:
        crawl(side)
        return side.client.smembers("shop:dupefilter"), side.client.hgetall("shop:dupefilter:lists")

    old, new = both(tmp_path, "seen", act)
    found = same((old, new))
    assert found.ends == FINISHED
    assert found.paths()["/c?session=1"] + found.paths()["/c?session=2"] == 1
    assert "project.dupefilter.PathFilter has request_seen of its own" in new.logs[0]


def test_no_setting_names_a_server(tmp_path: Path) -> None:
    old, new = both(tmp_path, "noserver", crawl)
    found = same((old, new))
    assert found.ends == FINISHED
    assert found.paths() == Counter(LINKED)
    assert "Worker of crawl main, group shop, on redis://localhost:6379." in new.logs[0]


def test_an_extension_closes_on_an_empty_key(tmp_path: Path) -> None:
    found = same(both(tmp_path, "emptykey", crawl))
    assert found.ends == ((0, "key is empty"),)
    assert found.paths() == Counter(LINKED)


def test_an_extension_counts_idle_signals(tmp_path: Path) -> None:
    apart: dict[str, list[float]] = {}

    def act(side: Side) -> None:
        crawl(side)
        apart[side.package] = [float(seconds) for seconds in side.client.lrange("apart", 0, -1)]

    found = same(both(tmp_path, "smartidle", act))
    assert found.ends == ((0, "idle for long"),)
    assert found.paths() == Counter(LINKED), "idle is who has nothing to do when nobody has"
    here = apart["gossamer.scrapy_redis"]
    assert here
    assert min(here) >= 5, "who counts signals counts heartbeats of Scrapy, whatever else wakes the engine"


@pytest.mark.parametrize("more", ["", "-s SCHEDULER_QUEUE_CLASS={}.queue.PriorityQueue"])
def test_a_spider_closes_when_it_finds_no_seeds(more: str, tmp_path: Path) -> None:
    def act(side: Side) -> None:
        side.client.rpush("shop:start_urls", f"{side.site.url}/", f"{side.site.url}/late")
        side.run(*[f"scrapy crawl shop {more.format(side.package)}"] * 2)

    found = same(both(tmp_path, "closing", act))
    assert found.ends == ((0, "no more seeds"),) * 2
    assert found.paths() == Counter([*LINKED, "/late"])


def test_one_spider_feeds_another(tmp_path: Path) -> None:
    def act(side: Side) -> None:
        side.client.lpush("lists:start_urls", f"{side.site.url}/list/1")
        side.run("scrapy crawl lists")
        side.run("scrapy crawl shop")

    found = same(both(tmp_path, "chain", act))
    assert found.ends == FINISHED * 2
    assert found.paths() == Counter(["/list/1", "/list/2", "/list/1", "/post/1", "/post/2", "/post/3"])


def test_a_seed_makes_several_requests_or_none(tmp_path: Path) -> None:
    def act(side: Side) -> Any:
        searches = [{"q": "a", "pages": 2}, {"q": "b", "pages": 0}, {"q": "c", "pages": 1, "form": {"x": "1"}}]
        side.client.zadd("shop:searches", {json.dumps(search): n for n, search in enumerate(searches)})
        side.run("scrapy crawl shop")
        return side.client.zcard("shop:searches")

    found = same(both(tmp_path, "generator", act))
    assert found.ends == FINISHED
    assert sum(found.items.values()) == 4
    assert found.told == 0


def test_a_spider_uses_the_server_itself(tmp_path: Path) -> None:
    def act(side: Side) -> Any:
        side.site.on("/shut", Reply(403))
        side.client.hset("accounts", "reader", "ada")
        side.client.rpush("shop:start_urls", *(f"{side.site.url}{path}" for path in ("/x", "/shut", "/y", "/x?again")))
        side.run("scrapy crawl shop")
        keys = sorted(key.decode() for key in side.client.keys("*") if b":" not in key and b"{" not in key)
        cookies = {visit.headers.get("Cookie") for visit in side.site.visits}
        return keys, cookies, side.client.get("pages"), side.client.get("closed")

    found = same(both(tmp_path, "server", act))
    assert found.ends == FINISHED
    assert found.paths() == Counter(["/x", "/x?again", "/y", "/shut", "/shut", "/shut"])
    assert found.told[1] == {"user=ada"}


def test_scripts_and_commands_read_the_settings(tmp_path: Path) -> None:
    def act(side: Side) -> Any:
        [pushed] = side.run("python -m project.push / /d")
        side.run("scrapy crawl shop")
        [after] = side.run("scrapy look shop clear")
        return [re.findall("(?:seeds|queued): .*", log) for log in (pushed.log, after.log)]

    found = same(both(tmp_path, "commands", act))
    assert found.told == [["seeds: 2"], ["queued: 0 False"]]
    assert found.paths() == Counter([*LINKED, "/d"])


def test_seeds_are_pickles_and_items_travel_in_meta(tmp_path: Path) -> None:
    def act(side: Side) -> Any:
        side.run("python -m project.producer")
        side.run("scrapy crawl shop")
        return side.client.llen("shop:start_urls")

    found = same(both(tmp_path, "pickled", act))
    assert found.ends == ((0, ""), (0, "finished"))
    assert sum(found.items.values()) == len(["/a", "/b", "/list/1", "/list/2", "/post/1", "/post/2"])
    assert found.told == 0


def test_items_dataclasses_and_attrs_classes_are_filled_on_several_pages(tmp_path: Path) -> None:
    def act(side: Side) -> None:
        side.client.lpush("shop:start_urls", f"{side.site.url}/list/1")
        side.run("scrapy crawl shop")

    found = same(both(tmp_path, "details", act))
    assert found.ends == FINISHED
    kinds = Counter(json.loads(item)["kind"] for item in found.items.elements())
    assert kinds == {"book": 1, "post": 2}
