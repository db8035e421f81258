from scrapy_redis.spiders import RedisSpider


class Shop(RedisSpider):
    """Closes when it is idle and finds no more seeds."""

    name = "shop"
    redis_key = "shop:start_urls"

    def next_requests(self):
        found = False
        for request in super().next_requests():
            found = True
            yield request
        if not found:
            self.crawler.engine.close_spider(self, "no more seeds")

    def parse(self, response):
        yield {"url": response.url, "title": response.css("title::text").get()}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse)
