from dataclasses import dataclass, field
from enum import Enum

import attrs
import scrapy


class Kind(Enum):
    BOOK = "book"
    POST = "post"


@dataclass
class Price:
    amount: int
    history: list = field(default_factory=list)


@attrs.define
class Seller:
    name: str
    shops: list = attrs.Factory(list)


class Product(scrapy.Item):
    url = scrapy.Field()
    kind = scrapy.Field()
    price = scrapy.Field()
    seller = scrapy.Field()
    comments = scrapy.Field()


class Note:
    """Of no kind that Gossamer carries; a pickle of scrapy-redis does."""

    def __init__(self, text):
        self.text = text
