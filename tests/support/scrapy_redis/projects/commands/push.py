"""Fills the key of the spider, and says what is there: run beside the crawl, by hand or by cron."""

import sys

from scrapy.utils.project import get_project_settings
from scrapy_redis import get_redis_from_settings
from scrapy_redis.connection import from_settings

settings = get_project_settings()
server = get_redis_from_settings(settings)
server.delete("shop:start_urls")
for path in sys.argv[1:]:
    server.lpush("shop:start_urls", "http://site" + path)
print("seeds:", from_settings(settings).llen("shop:start_urls"))
