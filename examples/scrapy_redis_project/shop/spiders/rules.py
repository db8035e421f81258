from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import Rule
from scrapy_redis.spiders import RedisCrawlSpider

from shop.items import Page


class Rules(RedisCrawlSpider):
    """A CrawlSpider whose seeds lie in a set."""

    name = "rules"
    redis_key = "%(name)s:seeds"
    custom_settings = {"REDIS_START_URLS_AS_SET": True}  # noqa: RUF012
    rules = (
        Rule(LinkExtractor(allow=r"/list"), follow=True),
        Rule(LinkExtractor(allow=r"/post"), callback="parse_post"),
    )

    def parse_post(self, response):
        yield Page(kind="post", url=response.url, title=response.css("title::text").get())
