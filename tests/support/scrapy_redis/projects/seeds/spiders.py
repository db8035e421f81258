from scrapy_redis.spiders import RedisSpider


class Shop(RedisSpider):
    """Takes addresses, and JSON with a form and meta, from a list."""

    name = "shop"
    redis_key = "shop:start_urls"

    def parse(self, response):
        yield {"url": response.url, "job": response.meta.get("job")}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse, meta={"job": response.meta.get("job")})
