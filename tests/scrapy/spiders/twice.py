"""A spider that finds every page twice, under a URL of its own each time, and dupefilters that a project may have."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.http import Response


class Twice(Spider):
    name = "twice"

    def __init__(self, site: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = [f"{site}/"]

    def parse(self, response: Response) -> Iterator[Request]:
        for path in ("/a?session=1", "/a?session=1", "/a?session=2"):
            yield response.follow(path, self.ended)

    def ended(self, response: Response) -> None: ...


class WithoutSession(RFPDupeFilter):
    """Tells requests apart, and logs, in its own way."""

    def request_fingerprint(self, request: Request) -> str:
        return hashlib.sha1(request.url.partition("?")[0].encode()).hexdigest()

    def log(self, request: Request, spider: Spider) -> None:
        spider.logger.info("Mine: %s", request.url.rpartition("/")[2])


class OfItsOwn(RFPDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return "session=2" in request.url


class ByPath:
    """A fingerprinter."""

    def fingerprint(self, request: Request) -> bytes:
        return hashlib.sha1(request.url.partition("?")[0].encode()).digest()


class MadeWithFingerprinter(RFPDupeFilter):
    @classmethod
    def from_crawler(cls, crawler: Any) -> MadeWithFingerprinter:
        return cls(debug=True, fingerprinter=ByPath())


class SetsFingerprinter(RFPDupeFilter):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.fingerprinter = ByPath()


class MadeAlike(RFPDupeFilter):
    """Leaves all to the class that it is made of."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)


class Knowing(RFPDupeFilter):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.request_seen(Request("https://site.example/a?session=1"))


class Unlike:
    def request_seen(self, request: Request) -> bool:
        return False


class Silent(BaseDupeFilter):
    """Filters nothing, as the class that it is made of."""
