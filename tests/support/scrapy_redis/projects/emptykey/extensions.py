from scrapy import signals


class CloseOnEmptyKey:
    """Closes a spider that is idle when its key has no seeds."""

    @classmethod
    def from_crawler(cls, crawler):
        made = cls()
        crawler.signals.connect(made.idle, signal=signals.spider_idle)
        return made

    def idle(self, spider):
        if not spider.server.exists(spider.redis_key) and spider.crawler.stats.get_value("response_received_count"):
            spider.crawler.engine.close_spider(spider, "key is empty")
