"""Spiders whose callbacks hold up the event loop."""

from __future__ import annotations

import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from tests.support.workers.recorder import path_of

PAGES = 6


class Blocking(Spider):
    """The callback of its first page waits for another page, as code does that knows nothing of event loops. Its start may do
    so too."""

    name = "blocking"
    site = ""
    start_waits = ""

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.site + "/slow", self.parse_slow, priority=1)
        for number in range(PAGES):
            yield Request(f"{self.site}/{number}")
        if self.start_waits:
            urllib.request.urlopen(self.site + "/gate-of-start").read()

    def parse_slow(self, response: Response) -> Iterator[Any]:
        urllib.request.urlopen(self.site + "/gate").read()
        yield {"id": "/slow"}

    def parse(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield {"id": path_of(response.request)}
