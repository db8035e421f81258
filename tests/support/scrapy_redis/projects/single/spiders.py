from scrapy_redis.spiders import RedisSpider


class Shop(RedisSpider):
    """One seed at a time, and an end of its own accord."""

    name = "shop"
    redis_batch_size = 1
    max_idle_time = 1

    def parse(self, response):
        yield {"url": response.url, "title": response.css("title::text").get()}
