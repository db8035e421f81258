"""Items that go into a list with their page: once, whoever works on the page, and never before the list has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scrapy import Request
from tests.support.scrapy_redis.sides import spider

from gossamer.errors import InvalidRequest
from gossamer.model import Ending, Lease
from gossamer.scrapy.page import page as worker
from gossamer.scrapy_redis.fleet import item_page
from gossamer.scrapy_redis.fleet.item_page import PAGE
from gossamer.scrapy_redis.pipelines import RedisPipeline
from gossamer.testing.servers import Server


@pytest.mark.parametrize(
    ("failures", "ending", "goes"),
    [("dead", Ending.FAILED, False), ("done", Ending.DONE, True), ("retry", Ending.RETRY, False)],
)
def test_data_go_with_the_settlement_of_a_page_that_is_done(failures: str, ending: Ending, goes: bool) -> None:
    lease = Lease(0, 1, "worker", "nonce", "group.main", "host", 0, 1, b"", 1, False, 60.0, 60.0)
    page = worker.LeasedPage(lease, Request("http://host/"))
    page.push.append(("list", b"data"))
    page.failed("callback", ValueError("no"))
    settlement = page.settlement(failures, tries=3, gave_up=False)
    assert settlement.ending is ending
    assert list(settlement.push) == ([("list", b"data")] if goes else [])


@pytest.mark.parametrize("key", ["", "gossamer:mine", 7])
async def test_a_key_that_cannot_be_used_fails_the_item(
    key: Any, page: Page, valkey_server: Server, crawl_name: str
) -> None:
    class Odd(RedisPipeline):
        def item_key(self, item: Any, spider: Any) -> Any:
            return key

    with pytest.raises(InvalidRequest):
        await in_page(page, pipeline_of(Odd, valkey_server, crawl_name), {})


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


async def test_an_item_with_a_page_waits_for_it(page: Page, valkey_server: Server, redis: Any, crawl_name: str) -> None:
    pipeline = pipeline_of(RedisPipeline, valkey_server, crawl_name)
    assert await in_page(page, pipeline, {"n": "ä"}) == {"n": "ä"}
    assert page.push == [(f"{crawl_name}:items", b'{"n": "\\u00e4"}')]
    assert redis.exists(f"{crawl_name}:items") == 0


async def test_a_key_of_ones_own_is_honoured(page: Page, valkey_server: Server, crawl_name: str) -> None:
    class ByKind(RedisPipeline):
        def item_key(self, item: Any, spider: Any) -> str:
            return f"{spider.name}:{item['kind']}"

    pipeline = pipeline_of(ByKind, valkey_server, crawl_name, REDIS_ITEMS_SERIALIZER="builtins.repr")
    await in_page(page, pipeline, {"kind": "post"})
    assert page.push == [(f"{crawl_name}:post", b"{'kind': 'post'}")]


async def test_a_way_of_ones_own_to_store_is_left_alone(
    page: Page, valkey_server: Server, redis: Any, crawl_name: str
) -> None:
    class Newest(RedisPipeline):
        def _process_item(self, item: Any, spider: Any) -> Any:
            self.server.lpush(self.item_key(item, spider), self.serialize(item))
            return item

    await in_page(page, pipeline_of(Newest, valkey_server, crawl_name), {"n": 1})
    assert page.push == []
    assert redis.llen(f"{crawl_name}:items") == 1


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
    assert item_page.attach(scraper, page_of)
    start = getattr(scraper, name)
    await asyncio.gather(start("a", response="r1"), start("b", response="r2"), start("c", response=None))
    assert sorted(known) == [("a", "page 1"), ("b", "page 2"), ("c", None)]
    assert PAGE.get() is None
    assert not item_page.attach(object(), page_of)
