"""The public names of scrapy-redis on Gossamer: replacing the import prefix moves a project over."""

from gossamer.scrapy_redis.connection import get_redis, get_redis_from_settings

__all__ = ["get_redis", "get_redis_from_settings"]
