from scrapy_redis.spiders import RedisSpider

from shop.items import Page


class Catalog(RedisSpider):
    """Follows every link of the pages it is given, from a list of URLs."""

    name = "catalog"
    redis_batch_size = 4

    def parse(self, response):
        yield Page(kind="page", url=response.url, title=response.css("title::text").get())
        for number, link in enumerate(response.css("a::attr(href)").getall()):
            yield response.follow(link, callback=self.parse_linked, cb_kwargs={"number": number}, priority=-number)

    def parse_linked(self, response, number):
        yield Page(kind="linked", url=response.url, title=f"{number}")
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, callback=self.parse_linked, cb_kwargs={"number": number + 1})
