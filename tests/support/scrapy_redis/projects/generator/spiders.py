import json

from scrapy import FormRequest, Request
from scrapy_redis.spiders import RedisSpider
from scrapy_redis.utils import bytes_to_str


class Shop(RedisSpider):
    """A seed is a search: several pages of it, or none."""

    name = "shop"
    redis_key = "shop:searches"

    def make_request_from_data(self, data):
        search = json.loads(bytes_to_str(data, self.redis_encoding))
        for page in range(search["pages"]):
            yield Request(f"http://site/search?q={search['q']}&page={page}", meta=search, dont_filter=True)
        if search.get("form"):
            yield FormRequest("http://site/form", formdata=search["form"], meta=search, dont_filter=True)

    def parse(self, response):
        yield {"url": response.url, "q": response.meta["q"]}
