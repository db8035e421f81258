"""The spider that every contender runs, an ordinary one, and what it costs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import scrapy
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.http import Response, TextResponse

REPORT = "BENCH_REPORT"
OPENED, PART = ".opened", ".part"


class Walker(scrapy.Spider):
    """Follows every link; one item for each page. `site` is the front page."""

    name = "walker"

    def __init__(self, site: str = "", **more: Any) -> None:
        super().__init__(**more)
        if site:
            self.start_urls = [site]

    def parse(self, response: Response, **more: Any) -> Iterator[Any]:
        assert isinstance(response, TextResponse)
        yield {"page": int(response.url.rpartition("/")[2])}
        yield from response.follow_all(css="a", callback=self.parse)


class Meter:
    """A Scrapy extension that writes what the crawl cost this process to the file that BENCH_REPORT names: from the moment
    the spider was opened, so that imports do not count, until it was closed, and why it was. A file beside it says that the spider is open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cpu = self._wall = 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        meter = cls(Path(os.environ[REPORT]))
        crawler.signals.connect(meter.opened, signals.spider_opened)
        crawler.signals.connect(meter.closed, signals.spider_closed)
        return meter

    def opened(self) -> None:
        self._path.with_suffix(OPENED).touch()
        self._cpu, self._wall = time.process_time(), time.monotonic()

    def closed(self, reason: str) -> None:
        found = {"cpu": time.process_time() - self._cpu, "wall": time.monotonic() - self._wall, "reason": reason}
        # Under its name only when it is whole: whoever waits for it may read it at once.
        draft = self._path.with_suffix(PART)
        draft.write_text(json.dumps(found))
        draft.replace(self._path)
