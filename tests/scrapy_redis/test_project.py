"""The example project gives the same on scrapy-redis and, with nothing but its import prefix replaced, on ours."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import scrapy
from tests.scrapy.process.test_rounds import Project as Plain
from tests.support import fork_server
from tests.support.scrapy_redis.example import Project
from tests.support.scrapy_redis.sides import SIDES, client
from tests.support.site import Reply, Site, links
from tests.support.workers.variants import ASYNCIO, FIRST, LAST, SELECT, Variant

from gossamer.testing.process import free_port
from gossamer.testing.servers import Server

OLD, NEW = SIDES
RUNS = {
    "scrapy-redis": (OLD, scrapy.__version__, ASYNCIO),
    "first": (NEW, FIRST, ASYNCIO),
    "last": (NEW, LAST, ASYNCIO),
    "last-select": (NEW, LAST, SELECT),
}


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        running.on("/", links("/a", "/b", "/list/1"))
        running.on("/a", links("/c?session=1", "/b"))
        running.on("/b", links("/c?session=2", "/d"))
        running.on("/list/1", links("/list/2", "/post/1", "/post/2", "/a"))
        running.on("/list/2", links("/list/1", "/post/2", "/post/3"))
        yield running


@pytest.fixture(params=RUNS)
def project(request: pytest.FixtureRequest, tmp_path: Path, crawl_name: str) -> Iterator[tuple[Project, Any]]:
    """The project on a server of its own, and a client of that."""
    prefix, version, reactor = RUNS[request.param]
    path = Variant(version, "").path()
    with (
        Server() as server,
        Project(tmp_path, prefix, server.url, scrapy_path=path, TWISTED_REACTOR=reactor) as made,
        client(server) as there,
    ):
        yield made, there


def items(server: Any, key: str) -> Counter[tuple[str, str, Any]]:
    found = [json.loads(data) for data in server.lrange(key, 0, -1)]
    return Counter((one["url"].rpartition("/")[2], one["title"], one.get("job")) for one in found)


def test_a_list_of_urls_is_crawled_by_two_workers(project: tuple[Project, Any], site: Site) -> None:
    made, server = project
    server.rpush("catalog:start_urls", f"{site.url}/", f"{site.url}/alone")
    for worker in [made.start("catalog"), made.start("catalog", "-a", "max_idle_time=3")]:
        log = worker.ended()
        assert "Reading start URLs from redis key 'catalog:start_urls' (batch size: 4, encoding: utf-8)" in log
        assert "Closing spider (finished)" in log
        assert "] ERROR: " not in log
    linked = items(server, "catalog:items:linked")
    assert items(server, "catalog:items:page") == {("", None, None): 1, ("alone", "/alone", None): 1}
    assert sum(linked.values()) == 9
    assert {name.partition("?")[0] for name, _, _ in linked} == {"a", "b", "c", "d", "1", "2", "3"}
    assert Counter(path for path in site.paths() if path == "/c") == {"/c": 1}, "one session is like another"
    assert server.llen("catalog:start_urls") == 0
    stats = {name.decode(): int(float(value)) for name, value in server.hgetall("catalog:stats").items()}
    assert stats["item_scraped_count"] == 11
    assert stats["response_received_count"] == 11
    assert stats["scheduler/enqueued/redis"] == stats["scheduler/dequeued/redis"] == 11


def test_rules_apply_to_seeds_from_a_set(project: tuple[Project, Any], site: Site) -> None:
    made, server = project
    server.sadd("rules:seeds", f"{site.url}/")
    made.start("rules").ended()
    assert items(server, "rules:items:post") == {(str(n), f"/post/{n}", None): 1 for n in (1, 2, 3)}
    assert server.scard("rules:seeds") == 0


def test_forms_are_sent_for_seeds_from_a_sorted_set(project: tuple[Project, Any], site: Site) -> None:
    made, server = project
    site.on("/form", Reply(body="thanks"))
    urgent = {"url": f"{site.url}/form", "method": "post", "meta": {"job": 7}, "q": "a b", "times": 2}
    later = {"url": f"{site.url}/form", "q": "c", "meta": {"job": 8}}
    server.zadd("urgent:orders", {json.dumps(later): 1, json.dumps(urgent): 9})
    made.start("orders", CONCURRENT_REQUESTS=1).ended()
    assert items(server, "orders:items:answer") == {("form", "thanks", 7): 2, ("form?q=c", "thanks", 8): 1}
    sent = [(visit.method, visit.target, visit.body) for visit in site.visits]
    assert sent == [("POST", "/form", b"q=a+b"), ("POST", "/form", b"q=a+b"), ("GET", "/form?q=c", b"")]


def test_a_stopped_crawl_is_resumed(project: tuple[Project, Any], site: Site) -> None:
    made, server = project
    site.hold("/a", "/b", "/list/1")
    server.rpush("catalog:start_urls", f"{site.url}/")
    first = made.start("catalog", CONCURRENT_REQUESTS=1)
    site.wait(lambda paths: len(paths) >= 2, "a page to be held")
    first.stop()
    first.said("Closing spider (shutdown)")
    site.release("/a", "/b", "/list/1")
    first.ended()
    second = made.start("catalog", LOG_LEVEL="DEBUG")
    second.said("Resuming crawl (")
    second.ended()
    assert sum(items(server, "catalog:items:linked").values()) == 9
    assert Counter(site.paths())["/"] == 1


AWAY = """
from gossamer.scrapy_redis.spiders import RedisSpider

class Shop(RedisSpider):
    name = "shop"
    custom_settings = {
        "SCHEDULER": "gossamer.scrapy_redis.scheduler.Scheduler",
        "REDIS_URL": "redis://127.0.0.1:PORT",
        "ITEM_PIPELINES": {"gossamer.scrapy_redis.pipelines.RedisPipeline": 300},
    }
"""


@pytest.mark.parametrize("queue", ["", "gossamer.scrapy_redis.queue.FifoQueue"])
def test_a_server_that_is_away_is_said_in_one_line(queue: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(AWAY.replace("PORT", str(free_port())))
    words = ["runspider", "shop.py", "-s", f"SCHEDULER_QUEUE_CLASS={queue}", "-L", "WARNING"]
    done = fork_server.run("scrapy", words, os.environ, tmp_path, 60)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "Connection refused. The server is redis://127.0.0.1:" in line
    assert "Set REDIS_URL" in line


SEEDED = """
from gossamer.scrapy_redis.spiders import RedisSpider


class Shop(RedisSpider):
    name = "shop"
    max_idle_time = 1
    site = ""

    def parse(self, response):
        yield {"url": response.url}
"""


@pytest.mark.timeout(200)
def test_a_seeded_spider_with_the_addon_alone_takes_its_seeds_and_ends_or_says_why_not(
    tmp_path: Path, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    """Without the scheduler of scrapy-redis."""
    made = Plain(tmp_path, site, valkey_server, crawl_name)
    (tmp_path / "shop_spiders.py").write_text(SEEDED)
    with client(valkey_server) as there:
        there.rpush(f"{crawl_name}:seeds", *(f"{site.url}/{number}" for number in range(3)))
    key = ("-a", f"redis_key={crawl_name}:seeds")
    said = made.crawl(*key, "-s", f"REDIS_URL=redis://127.0.0.1:{free_port()}", code=1)
    assert "The seeds of shop are on redis://127.0.0.1" in said
    assert "Set GOSSAMER_URL to the server of the seeds" in said
    said = made.crawl(*key, "-s", f"REDIS_URL={valkey_server.url}", "-O", "out.jl", "-s", "SCHEDULER_PERSIST=1")
    assert "SCHEDULER_PERSIST has no effect without scrapy-redis's scheduler" in said
    assert (tmp_path / "out.jl").read_text().count("\n") == 3, said
