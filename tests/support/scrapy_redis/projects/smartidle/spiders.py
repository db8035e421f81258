from scrapy_redis.spiders import RedisSpider


class Shop(RedisSpider):
    name = "shop"
    redis_key = "shop:start_urls"

    def parse(self, response):
        yield {"url": response.url, "title": response.css("title::text").get()}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse)
