"""Items as JSON at the end of a list, where consumers of scrapy-redis expect them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from scrapy import Spider
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.serialize import ScrapyJSONEncoder

from gossamer.scrapy_redis import connection, defaults
from gossamer.scrapy_redis.connection import Client
from gossamer.scrapy_redis.fleet.item_page import PAGE, push
from gossamer.scrapy_redis.shared.threads import in_thread

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

default_serialize = ScrapyJSONEncoder().encode


class RedisPipeline:
    """Pushes each item, serialised, to the list `REDIS_ITEMS_KEY`.

    With the scheduler of this room, items go there with their page, exactly once, unless `_process_item` is overridden.
    """

    _crawler: Crawler | None = None

    def __init__(
        self,
        server: Client,
        key: str = defaults.PIPELINE_KEY,
        serialize_func: Callable[[Any], Any] = default_serialize,
    ) -> None:
        self.server = server
        self.key = key
        self.serialize = serialize_func

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        params: dict[str, Any] = {"server": connection.from_settings(settings)}
        if settings.get("REDIS_ITEMS_KEY"):
            params["key"] = settings["REDIS_ITEMS_KEY"]
        if settings.get("REDIS_ITEMS_SERIALIZER"):
            params["serialize_func"] = load_object(settings["REDIS_ITEMS_SERIALIZER"])
        return cls(**params)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        pipeline = cls.from_settings(crawler.settings)
        pipeline._crawler = crawler
        return pipeline

    async def process_item(self, item: Any, spider: Spider | None = None) -> Any:
        """The item, once it is stored, or sure to be stored with its page."""
        # Scrapy 2.14 and newer pass no spider to those who can do without.
        if spider is None and self._crawler is not None:
            spider = self._crawler.spider
        page = PAGE.get()
        if page is None or type(self)._process_item is not RedisPipeline._process_item:
            return await in_thread(self._process_item, item, spider)
        push(page, self.item_key(item, spider), self.serialize(item))
        return item

    def _process_item(self, item: Any, spider: Any) -> Any:
        """Store one item; runs in a thread."""
        self.server.rpush(self.item_key(item, spider), self.serialize(item))
        return item

    def item_key(self, item: Any, spider: Any) -> str:
        """The list an item goes to. Override it to choose by item or spider."""
        return self.key % {"spider": spider.name}
