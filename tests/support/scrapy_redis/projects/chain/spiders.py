import json

from scrapy import Request
from scrapy_redis.spiders import RedisSpider


class Lists(RedisSpider):
    """Goes through lists, and hands posts to the other spider."""

    name = "lists"
    redis_key = "lists:start_urls"

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            if "/post/" in link and self.server.sadd("posts", link):
                seed = {"url": response.urljoin(link), "meta": {"list": response.url}}
                self.server.rpush("shop:start_urls", json.dumps(seed))
            elif "/list/" in link:
                yield Request(response.urljoin(link))


class Shop(RedisSpider):
    name = "shop"
    redis_key = "shop:start_urls"

    def parse(self, response):
        yield {"url": response.url, "list": response.meta["list"]}
