"""Items that go into a list with their page: once, whoever works on the page, and never before the list has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.worker.scrapy_redis_sides import client, spider

from gossamer.scrapy_redis import listed
from gossamer.scrapy_redis.connection import get_redis
from gossamer.scrapy_redis.listed import PAGE, ItemLists, Parcel
from gossamer.scrapy_redis.pipelines import RedisPipeline
from gossamer.testing.faultproxy import FaultProxy
from gossamer.testing.servers import Cluster, Server


@pytest.fixture
def server(valkey_server: Server) -> Iterator[Any]:
    with client(valkey_server) as made:
        yield made


class Pushed:
    """Parcels put and awaited."""

    def __init__(self, server: Any) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self.lists = ItemLists(server, self._spawn, asyncio.sleep)
        self.done: list[str] = []

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self.tasks.add(task)

    def put(self, name: str, *items: tuple[str, bytes]) -> None:
        self.lists.put(Parcel(name, list(items), lambda: self.done.append(name)))

    async def wait(self) -> None:
        await asyncio.gather(*self.tasks)
        assert len(self.lists) == 0


async def test_items_are_pushed_in_order_and_then_their_page_goes_on(server: Any, crawl_name: str) -> None:
    pushed = Pushed(server)
    for number in range(5):
        pushed.put(f"p{number}", (crawl_name, b"a%d" % number), (crawl_name, b"b%d" % number))
        assert pushed.done == []
    await pushed.wait()
    assert pushed.done == ["p0", "p1", "p2", "p3", "p4"]
    assert server.lrange(crawl_name, 0, -1) == [b"%s%d" % (letter, n) for n in range(5) for letter in (b"a", b"b")]


async def test_a_page_that_is_done_again_pushes_nothing(server: Any, crawl_name: str) -> None:
    first, second = Pushed(server), Pushed(server)
    first.put("page", (crawl_name, b"item"))
    await first.wait()
    second.put("page", (crawl_name, b"item, made anew"))
    second.put("other", (crawl_name, b"of another page"))
    await second.wait()
    assert second.done == ["page", "other"]
    assert server.lrange(crawl_name, 0, -1) == [b"item", b"of another page"]


async def test_a_page_may_fill_several_lists(server: Any, crawl_name: str) -> None:
    pushed = Pushed(server)
    pushed.put("page", (f"{crawl_name}:a", b"1"), (f"{crawl_name}:b", b"2"), (f"{crawl_name}:a", b"3"))
    await pushed.wait()
    assert (server.lrange(f"{crawl_name}:a", 0, -1), server.lrange(f"{crawl_name}:b", 0, -1)) == ([b"1", b"3"], [b"2"])


async def test_settled_pages_are_forgotten(server: Any, crawl_name: str) -> None:
    pushed = Pushed(server)
    pushed.put("page", (crawl_name, b"1"))
    await pushed.wait()
    pushed.lists.forget("page", [(crawl_name, b"1")])
    pushed.put("next", (crawl_name, b"2"))
    await pushed.wait()
    assert server.zrange(f"{{{crawl_name}}}:pages", 0, -1) == [b"next"]


@pytest.mark.parametrize("fault", ["lose_replies", "lose_requests"])
async def test_an_answer_that_is_lost_pushes_nothing_twice(
    fault: str, fault_proxy: FaultProxy, server: Any, crawl_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed, "AGAIN_SECONDS", 0.01)
    with get_redis(url=fault_proxy.url, socket_timeout=5) as shaky:
        pushed = Pushed(shaky)
        getattr(fault_proxy, fault)(3, match=b"EVAL")
        pushed.put("page", (crawl_name, b"1"), (crawl_name, b"2"))
        await pushed.wait()
    assert pushed.done == ["page"]
    assert server.lrange(crawl_name, 0, -1) == [b"1", b"2"]


async def test_a_page_stays_open_while_the_server_is_away(
    crawl_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listed, "AGAIN_SECONDS", 0.01)
    with Server() as mine, client(mine, socket_timeout=2, socket_connect_timeout=2) as there:
        pushed = Pushed(there)
        mine.kill()
        pushed.put("page", (crawl_name, b"1"))
        while "stay open" not in caplog.text:
            await asyncio.sleep(0.01)
        assert pushed.done == []
        mine.restart()
        await pushed.wait()
        assert pushed.done == ["page"]
        assert mine.call("LLEN", crawl_name) == 1


async def test_lists_may_lie_anywhere_on_a_cluster(cluster: Cluster, crawl_name: str) -> None:
    from redis.cluster import ClusterNode, RedisCluster

    nodes: list[Any] = [ClusterNode("127.0.0.1", node.port) for node in cluster.nodes]  # type: ignore[no-untyped-call]
    there = RedisCluster(startup_nodes=nodes)
    pushed = Pushed(there)
    pushed.put("page", *((f"{crawl_name}:{n}", b"item") for n in range(12)))
    await pushed.wait()
    assert all(there.llen(f"{crawl_name}:{n}") == 1 for n in range(12))
    there.close()


class Page:
    def __init__(self) -> None:
        self.push: list[tuple[str, bytes]] = []


@pytest.fixture
def page() -> Iterator[Page]:
    made: Any = Page()
    PAGE.set(made)
    yield made
    PAGE.set(None)


def pipeline_of(kind: type[RedisPipeline], server: Server, name: str, **settings: Any) -> Any:
    crawler = spider(name, {"REDIS_URL": server.url, **settings}).crawler
    return kind.from_crawler(crawler)


async def in_page(page: Page, pipeline: Any, item: Any) -> Any:
    # A fixture's context is not the test's.
    made: Any = page
    PAGE.set(made)
    return await pipeline.process_item(item)


async def test_an_item_with_a_page_waits_for_it(
    page: Page, valkey_server: Server, server: Any, crawl_name: str
) -> None:
    pipeline = pipeline_of(RedisPipeline, valkey_server, crawl_name)
    assert await in_page(page, pipeline, {"n": "ä"}) == {"n": "ä"}
    assert page.push == [(f"{crawl_name}:items", b'{"n": "\\u00e4"}')]
    assert server.exists(f"{crawl_name}:items") == 0


async def test_a_key_of_ones_own_is_honoured(page: Page, valkey_server: Server, crawl_name: str) -> None:
    class ByKind(RedisPipeline):
        def item_key(self, item: Any, spider: Any) -> str:
            return f"{spider.name}:{item['kind']}"

    pipeline = pipeline_of(ByKind, valkey_server, crawl_name, REDIS_ITEMS_SERIALIZER="builtins.repr")
    await in_page(page, pipeline, {"kind": "post"})
    assert page.push == [(f"{crawl_name}:post", b"{'kind': 'post'}")]


async def test_a_way_of_ones_own_to_store_is_left_alone(
    page: Page, valkey_server: Server, server: Any, crawl_name: str
) -> None:
    class Newest(RedisPipeline):
        def _process_item(self, item: Any, spider: Any) -> Any:
            self.server.lpush(self.item_key(item, spider), self.serialize(item))
            return item

    await in_page(page, pipeline_of(Newest, valkey_server, crawl_name), {"n": 1})
    assert page.push == []
    assert server.llen(f"{crawl_name}:items") == 1


@pytest.mark.parametrize("name", ["start_itemproc_async", "start_itemproc"])
async def test_pipelines_know_the_page_of_their_item(name: str) -> None:
    known: list[Any] = []

    async def process(item: Any, *, response: Any) -> None:
        await asyncio.sleep(0)
        known.append((item, PAGE.get()))

    def deferred(item: Any, *, response: Any) -> Any:
        return asyncio.ensure_future(process(item, response=response))

    class Scraper:
        pass

    scraper: Any = Scraper()
    setattr(scraper, name, process if name.endswith("async") else deferred)
    page_of: Callable[[Any], Any] = {"r1": "page 1", "r2": "page 2"}.get
    assert listed.attach(scraper, page_of)
    start = getattr(scraper, name)
    await asyncio.gather(start("a", response="r1"), start("b", response="r2"), start("c", response=None))
    assert sorted(known) == [("a", "page 1"), ("b", "page 2"), ("c", None)]
    assert PAGE.get() is None
    assert not listed.attach(object(), page_of)
