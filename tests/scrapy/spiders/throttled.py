"""A spider that follows the links of one page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy import Spider


class Throttled(Spider):
    name = "throttled"
    url = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.start_urls = [f"{self.url}/"]

    def parse(self, response: Any, **kwargs: Any) -> Iterator[Any]:
        yield {"id": response.url}
        yield from response.follow_all(css="a")
