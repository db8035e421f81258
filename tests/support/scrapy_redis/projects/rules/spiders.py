from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import Rule
from scrapy_redis.spiders import RedisCrawlSpider


class Shop(RedisCrawlSpider):
    """Follows lists, keeps posts; its domains come as an argument."""

    name = "shop"
    rules = (
        Rule(LinkExtractor(allow=r"/list/")),
        Rule(LinkExtractor(allow=r"/post/"), callback="parse_post", follow=False),
    )

    def __init__(self, *args, **kwargs):
        domain = kwargs.pop("domain", "")
        self.allowed_domains = list(filter(None, domain.split(",")))
        super().__init__(*args, **kwargs)

    def parse_post(self, response):
        return {"url": response.url, "title": response.css("title::text").get()}
