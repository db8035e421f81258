from scrapy_redis import connection
from scrapy_redis.scheduler import Scheduler


class BloomScheduler(Scheduler):
    """Reads settings of its own and says how full the filter is."""

    def __init__(self, server, bits=0, **kwargs):
        super().__init__(server=server, **kwargs)
        self.bits = bits

    @classmethod
    def from_settings(cls, settings):
        server = connection.from_settings(settings)
        server.ping()
        return cls(
            server=server,
            bits=settings.getint("BLOOM_BITS"),
            persist=settings.getbool("SCHEDULER_PERSIST"),
            dupefilter_cls=settings.get("DUPEFILTER_CLASS"),
        )

    def open(self, spider):
        super().open(spider)
        self.server.hset("bloom", "queued before", len(self.queue))

    def enqueue_request(self, request):
        taken = super().enqueue_request(request)
        self.server.hincrby("bloom", "taken" if taken else "refused", 1)
        return taken

    def close(self, reason):
        self.server.hset("bloom", "bits", self.server.bitcount(self.df.key))
        self.server.hset("bloom", "of", 1 << self.bits)
        super().close(reason)
