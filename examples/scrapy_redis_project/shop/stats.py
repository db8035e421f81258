from scrapy_redis.stats import RedisStatsCollector
from scrapy_redis.utils import bytes_to_str


class Stats(RedisStatsCollector):
    """Keeps only what can be added up over workers: a worker's own times are no totals."""

    def set_value(self, key, value, spider=None):
        if isinstance(bytes_to_str(value), int) and not isinstance(value, bool):
            super().set_value(key, value)

    def get_value(self, key, default=None, spider=None):
        if key in ("start_time", "finish_time"):
            return default
        return super().get_value(key, default)
