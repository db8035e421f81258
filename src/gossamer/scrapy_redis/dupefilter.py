"""The seen memory of scrapy-redis: a set of digests, the same for old and new workers."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider
from scrapy.dupefilters import BaseDupeFilter
from scrapy.settings import BaseSettings
from scrapy.utils.python import to_bytes, to_unicode

from gossamer.scrapy.process import commands
from gossamer.scrapy.speedups.fingerprint import canonical
from gossamer.scrapy_redis import defaults
from gossamer.scrapy_redis.connection import Client, get_redis_from_settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


def digest(request: Request) -> bytes:
    """The fingerprint of scrapy-redis. Differs from Scrapy's."""
    return digest_of(request.method, request.url, request.body)


def digest_of(method: str, url: str, body: bytes) -> bytes:
    """SHA1 of method, canonical URL and body, written as scrapy-redis writes them."""
    told = {"body": (body or b"").hex(), "method": to_unicode(method), "url": canonical(url)}
    return hashlib.sha1(json.dumps(told).encode(), usedforsecurity=False).digest()


def old_digest_of(method: str, url: str, body: bytes) -> bytes:
    """SHA1 of method, canonical URL and body one after the other: what scrapy-redis 0.7.3 and older took from Scrapy."""
    hashed = hashlib.sha1(to_bytes(method), usedforsecurity=False)
    hashed.update(to_bytes(canonical(url)))
    hashed.update(body or b"")
    return hashed.digest()


class DigestFingerprinter:
    """For `REQUEST_FINGERPRINTER_CLASS`: the digests of scrapy-redis, so that an imported dupefilter is understood."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls()

    def fingerprint(self, request: Request) -> bytes:
        return digest(request)


class RFPDupeFilter(BaseDupeFilter):
    """Remembers requests in the set `key` of `server`. Also of use with Scrapy's own scheduler."""

    logger = logger

    def __init__(self, server: Client, key: str, debug: bool = False) -> None:
        self.server = server
        self.key = key
        self.debug = debug
        self.logdupes = True

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """With a key of its own for this moment: Scrapy's scheduler does not say which spider it is for."""
        key = defaults.DUPEFILTER_KEY % {"timestamp": int(time.time())}
        return cls(get_redis_from_settings(settings), key=key, debug=settings.getbool("DUPEFILTER_DEBUG"))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        if commands.is_read_only():
            return commands.dupefilter(crawler)
        return cls.from_settings(crawler.settings)

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """With the key of the spider, as the scheduler needs it."""
        settings = spider.settings
        key = settings.get("SCHEDULER_DUPEFILTER_KEY", defaults.SCHEDULER_DUPEFILTER_KEY) % {"spider": spider.name}
        return cls(get_redis_from_settings(settings), key=key, debug=settings.getbool("DUPEFILTER_DEBUG"))

    def request_seen(self, request: Request) -> bool:
        """Whether the request was seen before; from now on it was."""
        return bool(self.server.sadd(self.key, self.request_fingerprint(request)) == 0)

    def request_fingerprint(self, request: Request) -> str:
        """What the request is remembered by, 40 hexadecimal digits."""
        return digest(request).hex()

    def close(self, reason: str = "") -> None:
        """Forget all; called by Scrapy's scheduler."""
        self.clear()

    def clear(self) -> None:
        self.server.delete(self.key)

    def log(self, request: Request, spider: Spider) -> None:
        """Log a request that was filtered: the first one, or with `debug` every one."""
        said: dict[str, Any] = {"request": request}
        if self.debug:
            self.logger.debug("Filtered duplicate request: %(request)s", said, extra={"spider": spider})
        elif self.logdupes:
            self.logdupes = False
            self.logger.debug(
                "Filtered duplicate request %(request)s - no more duplicates will be shown"
                " (see DUPEFILTER_DEBUG to show all duplicates)",
                said,
                extra={"spider": spider},
            )


class OldRFPDupeFilter(RFPDupeFilter):
    """With the digests of scrapy-redis 0.7.3 and older: for a dupefilter that was filled by these, here or after an import."""

    def request_fingerprint(self, request: Request) -> str:
        return old_digest_of(request.method, request.url, request.body).hex()
