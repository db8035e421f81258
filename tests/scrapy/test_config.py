"""What a project's own settings mean for the fleet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse
from scrapy.settings import Settings

from gossamer.errors import PayloadTooLarge
from gossamer.frontier import codec
from gossamer.model import HostPolicy, Order, SeenKind, SeenScope, Selection
from gossamer.scrapy.config import WorkerConfig
from gossamer.scrapy.download.slots import APART, UndelayedSlots
from gossamer.scrapy.item import plain
from gossamer.scrapy.page.last_retry import LastRetry
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
from gossamer.settings import load


def spider(**attributes: Any) -> Spider:
    one = Spider("s")
    for name, value in attributes.items():
        setattr(one, name, value)
    return one


def ours(**given: Any) -> Any:
    return load({f"GOSSAMER_{name}": value for name, value in given.items()}, environ={})


def test_scrapys_politeness_is_the_fleets() -> None:
    settings = Settings({"DOWNLOAD_DELAY": 1.5, "CONCURRENT_REQUESTS_PER_DOMAIN": 3})
    assert host_policy(settings, spider()) == HostPolicy(delay=1.5, concurrency=3, block_base=0)
    assert host_policy(settings, spider(download_delay=4)) == HostPolicy(delay=4.0, concurrency=3, block_base=0)
    # As in this version of Scrapy, which says that the attributes are ignored then.
    settings.setdict({"DOWNLOAD_DELAY": 2, "CONCURRENT_REQUESTS_PER_DOMAIN": 5}, "cmdline")
    named = spider(download_delay=0, max_concurrent_requests=16)
    assert host_policy(settings, named) == HostPolicy(delay=2.0, concurrency=5, block_base=0)


def test_autothrottle_becomes_an_adaptive_delay() -> None:
    settings = Settings({"AUTOTHROTTLE_ENABLED": True, "DOWNLOAD_DELAY": 0.5, "AUTOTHROTTLE_TARGET_CONCURRENCY": 2.0})
    policy = host_policy(settings, spider())
    assert (policy.adaptive, policy.delay, policy.min_delay, policy.max_delay, policy.target) == (
        True,
        5.0,
        0.5,
        60.0,
        2.0,
    )


def test_download_slots_are_hosts_with_policies_of_their_own() -> None:
    settings = Settings({"DOWNLOAD_SLOTS": {"a.example": {"concurrency": 32, "delay": 0}, "b.example": {"delay": 9}}})
    default = HostPolicy(delay=1.0, concurrency=4)
    assert host_policies(settings, default) == {
        "a.example": HostPolicy(delay=0.0, concurrency=32),
        "b.example": HostPolicy(delay=9.0, concurrency=4),
    }


@pytest.mark.parametrize(("limits", "found"), [([8], 8), ([8, 32], 32), ([8, 0], 0)])
def test_a_group_is_as_loose_as_its_loosest_host(limits: list[int], found: int) -> None:
    assert loosest(limits) == found


def test_the_downloader_sends_leases_at_once_and_the_rest_as_the_project_says() -> None:
    slots = UndelayedSlots(16, {"a.example": {"delay": 3}})
    assert slots.get("a.example")["delay"] == 0.0
    assert slots.get("any.example")["concurrency"] == 16
    assert slots.get(f"{APART}a.example") == {"delay": 3}
    assert slots.get(f"{APART}any.example", {}) == {}


def test_the_main_lane_has_scrapys_order() -> None:
    assert main_order(Settings()) is Order.LIFO
    assert main_order(Settings({"SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"})) is Order.FIFO


def test_what_is_seen_is_seen_for_the_round() -> None:
    assert (seen_policy(ours()).kind, seen_policy(ours()).scope) == (SeenKind.EXACT, SeenScope.ROUND)
    policy = seen_policy(ours(SEEN_KIND="rolling", SEEN_WINDOW_SECONDS=60, SEEN_SCOPE="forever"))
    assert (policy.kind, policy.window, policy.scope) == (SeenKind.ROLLING, 60.0, SeenScope.FOREVER)


def test_lanes_and_stages_are_chosen_by_name() -> None:
    assert selection("g", ours(), spider()) == Selection(("g",), (), None)
    assert selection("g", ours(LANES="a, b"), spider()) == Selection((), ("g.a", "g.b"), None)
    assert selection("g", ours(STAGE="details"), spider()) == Selection(("g",), (), "details")
    assert selection("g", ours(), spider(lanes="post")) == Selection((), ("g.post",), None)
    assert selection("g", ours(), spider(lanes=["post"])) == Selection(("g",), (), None)


def test_tasks_come_from_the_keys_that_the_spider_names() -> None:
    assert task_keys(spider()) == ()
    assert task_keys(spider(tasks="%(name)s:start_urls")) == ("s:start_urls",)
    assert task_keys(spider(tasks=("a", "b:%(spider)s"))) == ("a", "b:s")


@pytest.mark.parametrize(
    ("said", "scrapy", "found"),
    [("auto", {}, True), ("auto", {"FEEDS": {"a.json": {}}}, False), ("auto", {"ITEM_PIPELINES": {"a.B": 1}}, False),
     ("stream", {"FEEDS": {"a.json": {}}}, True), ("off", {}, False)],
)  # fmt: skip
def test_items_are_streamed_where_nobody_else_keeps_them(said: str, scrapy: dict[str, Any], found: bool) -> None:
    assert streams(ours(ITEMS=said), Crawler(Spider, Settings(scrapy))) is found


def test_an_item_that_is_too_large_is_named_with_its_largest_field() -> None:
    worker_config = WorkerConfig.__new__(WorkerConfig)
    object.__setattr__(worker_config, "item_limit", 1000)
    assert worker_config.encode_item({"a": "x" * 900})
    with pytest.raises(
        PayloadTooLarge, match=r"dict takes 1,2\d\d bytes, of which 'body' has 1,1\d\d; .* may take 1,000"
    ):
        worker_config.encode_item({"a": "x" * 100, "body": "x" * 1100})


def test_an_item_in_the_stream_names_its_class_for_feeds_of_other_workers() -> None:
    worker_config = WorkerConfig.__new__(WorkerConfig)
    object.__setattr__(worker_config, "item_limit", 1000)
    assert codec.decode(worker_config.encode_item(Thing("a"))) == {"name": "a", codec.CLASS: f"{__name__}:Thing"}
    assert codec.decode(worker_config.encode_item({"name": "a"})) == {"name": "a"}


@dataclass
class Thing:
    name: str


def test_nested_items_become_plain() -> None:
    assert plain({"a": [{"b": (1, {"c": 2})}]}) == {"a": [{"b": (1, {"c": 2})}]}


@pytest.mark.parametrize(
    ("status", "settings", "meta", "found"),
    [(503, {}, {}, True), (404, {}, {}, False), (200, {}, {}, False), (503, {"RETRY_ENABLED": False}, {}, False),
     (503, {}, {"dont_retry": True}, False), (503, {}, {"handle_httpstatus_list": [503]}, False),
     (503, {"HTTPERROR_ALLOWED_CODES": [503]}, {}, False), (503, {"HTTPERROR_ALLOW_ALL": True}, {}, False)],
)  # fmt: skip
def test_a_page_is_given_up_where_scrapy_would_have_tried_again(
    status: int, settings: dict[str, Any], meta: dict[str, Any], found: bool
) -> None:
    request = Request("http://example.com/", meta=meta)
    response = HtmlResponse(request.url, status=status)
    assert LastRetry(Settings(settings), spider())(request, response) is found
