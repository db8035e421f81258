"""The same spider as scrapy-redis wants it for a fleet: fed by a list of seeds, so that only one worker starts."""

from __future__ import annotations

from bench.crawls.spider import Walker
from scrapy_redis.spiders import RedisSpider


class RedisWalker(RedisSpider):  # type: ignore[misc]
    name = "walker"
    redis_key = "walker:start_urls"

    parse = Walker.parse
