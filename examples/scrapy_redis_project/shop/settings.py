import os

BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
ROBOTSTXT_OBEY = False
TELNETCONSOLE_ENABLED = False

SCHEDULER = "scrapy_redis.scheduler.Scheduler"
DUPEFILTER_CLASS = "shop.dupefilter.SessionlessDupeFilter"
STATS_CLASS = "shop.stats.Stats"
ITEM_PIPELINES = {
    "shop.pipelines.Numbers": 200,
    "shop.pipelines.ByKind": 300,
}

SCHEDULER_PERSIST = True
MAX_IDLE_TIME_BEFORE_CLOSE = 2

# scrapy-redis does not understand all answers of the newer protocol, which the driver speaks by default.
REDIS_PARAMS = {"protocol": 2}
if "REDIS_URL" in os.environ:
    REDIS_URL = os.environ["REDIS_URL"]
