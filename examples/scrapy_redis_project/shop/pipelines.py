import os

from scrapy_redis.pipelines import RedisPipeline


class Numbers:
    """Says which process an item comes from."""

    def process_item(self, item, spider=None):
        item["worker"] = os.getpid()
        return item


class ByKind(RedisPipeline):
    """A list for each kind of item."""

    def item_key(self, item, spider):
        return f"{spider.name}:items:{item['kind']}"
