import time

from scrapy import signals
from scrapy.exceptions import NotConfigured


class SmartIdle:
    """Closes a spider after so many idle signals in a row without a seed; one comes every five seconds."""

    def __init__(self, crawler, number):
        self.crawler, self.number = crawler, number
        self.times = []

    @classmethod
    def from_crawler(cls, crawler):
        if not crawler.settings.getbool("MYEXT_ENABLED") or "redis_key" not in vars(crawler.spidercls):
            raise NotConfigured
        made = cls(crawler, crawler.settings.getint("IDLE_NUMBER"))
        crawler.signals.connect(made.idle, signal=signals.spider_idle)
        crawler.signals.connect(made.closed, signal=signals.spider_closed)
        return made

    def idle(self, spider):
        self.times.append(time.time())
        if spider.server.exists(spider.redis_key):
            self.times = self.times[-1:]
        elif len(self.times) > self.number:
            self.crawler.engine.close_spider(spider, "idle for long")

    def closed(self, spider):
        spider.server.set("waited", self.times[-1] - self.times[0])
