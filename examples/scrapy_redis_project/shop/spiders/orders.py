import json

from scrapy_redis.spiders import RedisSpider
from scrapy_redis.utils import bytes_to_str

from shop.items import Page


class Orders(RedisSpider):
    """Sends forms, from a sorted set of JSON seeds; a seed may ask for several."""

    name = "orders"
    custom_settings = {"REDIS_START_URLS_AS_ZSET": True, "REDIS_START_URLS_KEY": "urgent:%(name)s"}  # noqa: RUF012

    def make_request_from_data(self, data):
        seed = json.loads(bytes_to_str(data, self.redis_encoding))
        times, meta = seed.pop("times", 1), seed.pop("meta", {})
        make = super().make_request_from_data
        return [make(json.dumps({**seed, "meta": {**meta, "copy": number}})) for number in range(times)]

    def parse(self, response):
        yield Page(kind="answer", url=response.url, title=response.text, job=response.meta.get("job"))
