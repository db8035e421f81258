from project.items import Kind, Price, Product, Seller
from scrapy import Request
from scrapy_redis.spiders import RedisSpider


class Shop(RedisSpider):
    """A list begins items, a page of each fills them, and a third one ends them."""

    name = "shop"
    redis_key = "shop:start_urls"
    notes = ""

    def parse(self, response):
        for number, link in enumerate(response.css("a::attr(href)").getall()):
            item = Product(price=Price(number), seller=Seller("ada", [response.url]))
            kind = Kind.POST if "post" in link else Kind.BOOK
            yield response.follow(link, self.parse_price, meta={"item": item}, cb_kwargs={"kind": kind})

    def parse_price(self, response, kind):
        item = response.meta["item"]
        item["url"], item["kind"] = response.url, kind
        item["price"].history.append(item["price"].amount + 1)
        yield Request(
            response.url + "?comments", self.parse_comments, cb_kwargs={"item": item, "seller": item["seller"]}
        )

    def parse_comments(self, response, item, seller):
        seller.shops.append(response.url)
        yield {
            "url": item["url"],
            "kind": item["kind"].value,
            "price": [item["price"].amount, *item["price"].history],
            "seller": [seller.name, *seller.shops],
            "comments": response.url,
        }
