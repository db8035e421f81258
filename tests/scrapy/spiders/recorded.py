"""A spider whose pages are visited again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response

from gossamer.model import RecordPolicy, RevisitRules
from gossamer.scrapy.lanes import Lane

PAGES = tuple(f"/page/{name}" for name in ("steady", "changing", "links", "tagged", "missing", "moved", "broken"))


class Recorded(Spider):
    name = "recorded"
    site = ""
    lanes = (Lane("page", records=RecordPolicy(RevisitRules(1.0, gone=2))),)

    async def start(self) -> AsyncIterator[Any]:
        for path in PAGES:
            yield Request(self.site + path, meta={"lane": "page"}, headers={"If-None-Match": '"1"'})

    def parse(self, response: Response) -> Iterator[Any]:
        if response.url.endswith("/links"):
            for path in response.css("a::attr(href)").getall():
                yield response.follow(path, self.parse_linked)
        else:
            yield {"id": response.url, "title": response.css("title::text").get(), "tags": {"b", "a", "c"}}

    def parse_linked(self, response: Response) -> None: ...
