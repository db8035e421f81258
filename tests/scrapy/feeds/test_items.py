"""Items of the stream as a feed's exporter gets them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

import pytest
import scrapy
from pydantic import HttpUrl
from scrapy import Spider
from scrapy.extensions.feedexport import ItemFilter

from gossamer.scrapy.config import WorkerConfig
from gossamer.scrapy.feeds import item_class
from gossamer.scrapy.feeds.feeds import FleetFeedExporter


@dataclass
class Offer:
    price: int
    made: str = field(init=False)

    def __post_init__(self) -> None:
        self.price, self.made = self.price * 100, "here"


class Page(scrapy.Item):
    url = scrapy.Field()


def made_by_a_function(price: int) -> Offer:
    @dataclass
    class Reduced(Offer):
        percent: int = price

    return Reduced(price)


def of_stream() -> tuple[WorkerConfig, FleetFeedExporter]:
    worker_config, feeds = WorkerConfig.__new__(WorkerConfig), FleetFeedExporter.__new__(FleetFeedExporter)
    object.__setattr__(worker_config, "item_limit", 1000)
    feeds._passed, feeds._as_mappings = 0, set()
    feeds.filters = {"all": ItemFilter({}), "Offer": ItemFilter({"item_classes": [Offer]})}
    return worker_config, feeds


@pytest.mark.parametrize(
    "item",
    [Offer(3), Page(url="a"), {"url": "a"}, {"of": {1: "a", "1": "b"}}, made_by_a_function(1), made_by_a_function(2)],
    ids=lambda item: type(item).__name__,
)
def test_an_item_is_what_the_spider_made(item: Any) -> None:
    worker_config, feeds = of_stream()
    data = worker_config.encode_item(item)
    assert feeds._item(Spider("s"), "all", data) == item
    assert (feeds._item(Spider("s"), "Offer", data) is not None) is isinstance(item, Offer)


class Size(StrEnum):
    LARGE = "large"


class Level(IntEnum):
    LOW = 1


def test_members_of_enums_that_are_texts_or_numbers_are_exported_as_these_and_urls_as_text() -> None:
    worker_config, feeds = of_stream()
    item = Page(url=[Size.LARGE, {"level": Level.LOW}, HttpUrl("http://h.example/")])
    made = Page(url=["large", {"level": 1}, "http://h.example/"])
    assert feeds._item(Spider("s"), "all", worker_config.encode_item(item)) == made


def test_an_item_of_a_class_that_only_another_process_has_is_not_left_out_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker_config, feeds = of_stream()
    data = worker_config.encode_item(made_by_a_function(1)).replace(item_class._HERE.encode(), b"anothers")
    with pytest.raises(LookupError, match=r"made_by_a_function.*; define it at the top of a module"):
        feeds._item(Spider("s"), "Offer", data)
    for _ in range(2):
        assert feeds._item(Spider("s"), "all", data) == {"price": 100, "made": "here", "percent": 1}
    assert caplog.text.count("exported as plain mappings") == 1
