import hashlib

from scrapy_redis.connection import get_redis_from_settings
from scrapy_redis.defaults import SCHEDULER_DUPEFILTER_KEY
from scrapy_redis.dupefilter import RFPDupeFilter


class BloomDupeFilter(RFPDupeFilter):
    """Bits of one string on the server."""

    def __init__(self, server, key, debug=False, bits=20, hashes=6):
        super().__init__(server, key, debug)
        self.bits, self.hashes = bits, hashes

    @classmethod
    def from_spider(cls, spider):
        settings = spider.settings
        key = settings.get("SCHEDULER_DUPEFILTER_KEY", SCHEDULER_DUPEFILTER_KEY) % {"spider": spider.name}
        return cls(
            get_redis_from_settings(settings),
            key,
            settings.getbool("DUPEFILTER_DEBUG"),
            settings.getint("BLOOM_BITS"),
            settings.getint("BLOOM_HASHES"),
        )

    def places(self, request):
        digest = hashlib.md5(self.request_fingerprint(request).encode()).digest()
        return [int.from_bytes(digest[n * 3 : n * 3 + 3], "big") % (1 << self.bits) for n in range(self.hashes)]

    def request_seen(self, request):
        before = [self.server.setbit(self.key, place, 1) for place in self.places(request)]
        return all(before)
