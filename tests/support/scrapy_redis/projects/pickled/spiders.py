import pickle

from project.items import Product
from scrapy import Request
from scrapy_redis.spiders import RedisSpider


class Shop(RedisSpider):
    """Seeds are pickles; an item is begun on one page and ended on another."""

    name = "shop"
    redis_key = "shop:start_urls"

    def make_request_from_data(self, data):
        seed = pickle.loads(data)
        return Request(seed["url"], meta={"shelf": seed["shelf"]}, dont_filter=True)

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            item = Product(shelf=response.meta["shelf"], parts=[response.url])
            yield response.follow(link, self.parse_product, meta={"item": item})

    def parse_product(self, response):
        item = response.meta["item"]
        item["url"] = response.url
        item["parts"].append(response.url)
        yield item
