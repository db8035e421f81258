"""Which lane a request joins (the one it names, else its callback's, else `main`), and which host it counts for."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request, Spider

from gossamer.errors import EncodingError
from gossamer.model import SeenPolicy
from gossamer.scrapy.lanes import Lane, declared, lane
from gossamer.scrapy.request.codec import RequestCodec


class Shelves(Spider):
    name = "shelves"
    lanes = (Lane("sale", tier=1),)

    @lane("list")
    def parse(self, response: Any, **more: Any) -> None:
        """Asked for without a name, too."""

    @lane("book")
    def parse_book(self, response: Any) -> None: ...

    def parse_other(self, response: Any) -> None: ...


class Plain(Spider):
    name = "plain"


def request_codec(spider: Spider) -> RequestCodec:
    def number(request: Request) -> int:
        return len(request.url)

    return RequestCodec(spider, spider.name, declared(spider, SeenPolicy()), number, 1 << 20)


@pytest.mark.parametrize(
    ("callback", "meta", "expected"),
    [
        ("parse_book", {}, "shelves.book"),
        ("parse_other", {}, "shelves.main"),
        ("parse", {}, "shelves.list"),
        (None, {}, "shelves.list"),
        ("parse_book", {"lane": "sale"}, "shelves.sale"),
        (None, {"lane": "main"}, "shelves.main"),
        (None, {"lane": "other.lane"}, "other.lane"),
    ],
)
def test_the_lane_of_a_request(callback: str | None, meta: dict[str, str], expected: str) -> None:
    spider = Shelves()
    request = Request("http://h.example/", getattr(spider, callback) if callback else None, meta=meta)
    assert request_codec(spider).lane_of(request) == expected


def test_a_spider_without_lanes_has_main() -> None:
    assert request_codec(Plain()).lane_of(Request("http://h.example/")) == "plain.main"


def test_a_lane_that_was_not_declared_is_named() -> None:
    with pytest.raises(EncodingError, match=r"no lane 'nope'; it has book, list, main, sale"):
        request_codec(Shelves()).lane_of(Request("http://h.example/", meta={"lane": "nope"}))


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://shop.example:8443/a", "shop.example"),
        ("http://shop.example/", "shop.example"),
        ("http://other.example:8443/", "other.example:8443"),
        ("http://other.example:81/", "other.example:81"),
        ("http://[::1]:8443/", "::1"),
    ],
)
def test_a_slot_of_the_project_is_of_all_ports_as_in_scrapy(url: str, host: str) -> None:
    spider = Plain()
    slots = ("shop.example", "other.example:81", "::1")
    made = RequestCodec(spider, spider.name, declared(spider, SeenPolicy()), lambda _: 1, 1 << 20, slots=slots)
    assert made.encode(Request(url), "plain.main", 1).host == host
