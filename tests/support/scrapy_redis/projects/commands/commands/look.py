from scrapy.commands import ScrapyCommand
from scrapy_redis.scheduler import Scheduler


class Command(ScrapyCommand):
    """How much of a crawl is left."""

    requires_project = True

    def short_desc(self):
        return "Say what is queued"

    def run(self, args, opts):
        crawler = self.crawler_process.create_crawler(args[0])
        spider = crawler.spidercls.from_crawler(crawler)
        scheduler = Scheduler.from_settings(self.settings)
        scheduler.open(spider)
        print("queued:", len(scheduler.queue), scheduler.has_pending_requests())
        if "clear" in args:
            scheduler.flush()
