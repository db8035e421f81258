"""Items of the stream as a feed's exporter gets them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import scrapy
from scrapy import Spider
from scrapy.extensions.feedexport import ItemFilter

from gossamer.worker.feeds import Feeds
from gossamer.worker.join import Join


@dataclass
class Offer:
    price: int
    made: str = field(init=False)

    def __post_init__(self) -> None:
        self.price, self.made = self.price * 100, "here"


class Page(scrapy.Item):
    url = scrapy.Field()


@pytest.mark.parametrize("item", [Offer(3), Page(url="a"), {"url": "a"}], ids=lambda item: type(item).__name__)
def test_an_item_is_what_the_spider_made(item: Any) -> None:
    join, feeds = Join.__new__(Join), Feeds.__new__(Feeds)
    object.__setattr__(join, "item_limit", 1000)
    feeds._passed = 0
    feeds.filters = {"all": ItemFilter({}), "Offer": ItemFilter({"item_classes": [Offer]})}
    data = join.encode_item(item)
    assert feeds._item(Spider("s"), "all", data) == item
    assert (feeds._item(Spider("s"), "Offer", data) is not None) is isinstance(item, Offer)
