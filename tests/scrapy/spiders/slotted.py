"""A spider in a project that names download slots in places of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from scrapy import Request, Spider
from scrapy.core.downloader import Downloader
from scrapy.http import Response


class Slotted(Spider):
    """Asks for three pages, one of them in a slot that it names itself."""

    name = "slotted"

    def __init__(self, site: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.site = site

    async def start(self) -> AsyncIterator[Request]:
        yield Request(f"{self.site}/a")
        yield Request(f"{self.site}/b")
        yield Request(f"{self.site}/c", meta={"download_slot": "said"})

    def parse(self, response: Response) -> None:
        crawler: Any = self.crawler
        crawler.recorder.note("mark", response.url.rpartition("/")[2], slot=response.meta["download_slot"])


class SlotSetter:
    """A downloader middleware. Also robots.txt goes through it."""

    def process_request(self, request: Request, spider: Any = None) -> None:
        if request.url.endswith("/robots.txt"):
            request.meta["download_slot"] = "robots"
        else:
            request.meta.setdefault("download_slot", "mine")

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Response:
        if request.url.endswith("/robots.txt"):
            self.crawler.recorder.note("mark", "robots.txt", slot=request.meta["download_slot"])
        return response

    @classmethod
    def from_crawler(cls, crawler: Any) -> SlotSetter:
        made = cls()
        made.crawler = crawler
        return made

    crawler: Any


class SlotByPath(Downloader):
    def get_slot_key(self, request: Request) -> str:
        return request.url.rpartition("/")[2]


class SlotAlike(Downloader):
    """Leaves slots alone."""
