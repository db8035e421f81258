import time

from scrapy import signals
from scrapy.exceptions import NotConfigured


class SmartIdle:
    """Closes a spider after so many idle signals in a row without a seed; one comes every five seconds."""

    def __init__(self, crawler, number):
        self.crawler, self.number = crawler, number
        self.times = []
        self.last = None

    @classmethod
    def from_crawler(cls, crawler):
        if not crawler.settings.getbool("MYEXT_ENABLED") or "redis_key" not in vars(crawler.spidercls):
            raise NotConfigured
        made = cls(crawler, crawler.settings.getint("IDLE_NUMBER"))
        crawler.signals.connect(made.idle, signal=signals.spider_idle)
        crawler.signals.connect(made.busy, signal=signals.request_reached_downloader)
        return made

    def busy(self, request, spider):
        self.last = None

    def idle(self, spider):
        now = time.monotonic()
        if self.last is not None:
            spider.server.rpush("apart", now - self.last)
        self.last = now
        self.times.append(now)
        if spider.server.exists(spider.redis_key):
            self.times = self.times[-1:]
        elif len(self.times) > self.number:
            self.crawler.engine.close_spider(spider, "idle for long")
