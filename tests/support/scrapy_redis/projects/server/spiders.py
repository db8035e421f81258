from scrapy import Request
from scrapy_redis.spiders import RedisSpider


class Shop(RedisSpider):
    """Keeps what it needs to know on the server, and puts seeds back that failed."""

    name = "shop"
    redis_key = "shop:start_urls"
    handle_httpstatus_list = [403]
    custom_settings = {"COOKIES_ENABLED": False}

    def make_request_from_data(self, data):
        user = self.server.hget("accounts", "reader").decode()
        return Request(data.decode(), headers={"Cookie": f"user={user}"}, dont_filter=True)

    def parse(self, response):
        if response.status == 403:
            if self.server.hincrby("tries", response.url, 1) < 3:
                self.server.lpush(self.redis_key, response.url)
            return
        if not self.server.sadd("titles", response.css("title::text").get() or "none"):
            return
        with self.server.pipeline() as pipe:
            pipe.incr("pages")
            pipe.zincrby("hosts", 1, "site")
            pipe.execute()
        # Of two addresses with one title either may come first.
        yield {"url": response.url.partition("?")[0], "pages": self.server.scard("titles") > 0}

    def closed(self, reason):
        self.server.set("closed", reason)
