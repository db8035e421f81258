"""A spider that uses what Scrapy offers: links, forms, cookies, headers, redirects, retries, refreshes, compression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest, Response


class Tuned(Spider):
    name = "tuned"

    def __init__(self, site: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.site, self.start_urls = site, [f"{site}/"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"path": response.url.removeprefix(self.site), "status": response.status, "size": len(response.body)}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse)
        if response.url == f"{self.site}/":
            yield Request(f"{self.site}/headers", self.parse, headers={"X-One": ["a", "b"], "Accept": "text/plain"})
            yield Request(f"{self.site}/cookies", self.parse, cookies={"given": "1"})
            yield FormRequest(f"{self.site}/form", self.parse, formdata={"a": "1", "b": ["2", "3"]})
            yield JsonRequest(f"{self.site}/json", callback=self.parse, data={"a": [1, None]})
            yield Request(f"{self.site}/head", self.parse, method="HEAD")
            yield Request(f"{self.site}/put", self.parse, method="PUT", body=b"\x00\xff")
            yield Request(f"{self.site}/unicode/é?b=ü&a=1", self.parse)
            yield Request(f"{self.site}/wanted", self.parse, meta={"handle_httpstatus_list": [418]})
            for _ in range(2):
                yield Request(f"{self.site}/same", self.parse, dont_filter=True)
