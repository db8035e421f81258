"""The spiders of bench/questions.py, and one worker of theirs: `python -m bench.crawls.question_spiders SPIDER SETTINGS`, where SETTINGS are JSON.

Its last line on standard output is JSON: the stats, and what the spider itself noted.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast
from urllib.parse import urlsplit

import scrapy
from scrapy.crawler import CrawlerProcess

KINDS = ("plain", "lambda", "lock", "object")
EACH = 10
"""Requests of each kind on the page of `Mixed`."""


class Session:
    """Something with a state, as people put into meta: a browser, a login, a counter."""

    def __init__(self) -> None:
        self.uses = 0


class Walk(scrapy.Spider):
    """Follows every link, with the meta of the page that it is on if `copies` says so. Notes the slots it met."""

    name = "walk"
    copies = False

    def __init__(self, front: str, **more: Any) -> None:
        super().__init__(**more)
        self.front = front
        self.noted: dict[str, Any] = {"slots": {}, "lanes": {}}

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.front)

    def parse(self, response: Any, **more: Any) -> Iterator[Any]:
        host, slot = urlsplit(response.url).netloc, response.meta.get("download_slot", "")
        right = "own" if slot in (host, host.partition(":")[0]) else "another's"
        self.noted["slots"][right] = self.noted["slots"].get(right, 0) + 1
        yield {"url": response.url}
        for link in response.css("a"):
            yield response.follow(link, meta=response.meta if self.copies else None)


class Copying(Walk):
    copies = True


class Laned(Copying):
    """Its first page is in a lane of its own; children copy the meta."""

    lanes = ("first",)

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.front, meta={"lane": "first"})


class Mixed(Walk):
    """On the front page, by turns: requests that can be stored and requests that cannot."""

    def parse(self, response: Any, **more: Any) -> Iterator[Any]:
        if urlsplit(response.url).path != "/":
            yield {"url": response.url}
            return
        session = Session()
        for number in range(EACH):
            for kind in KINDS:
                url = response.urljoin(f"/{kind}/{number}")
                if kind == "lambda":
                    yield scrapy.Request(url, cast(Any, lambda response: {"url": response.url}))
                else:
                    metas: dict[str, dict[str, Any]] = {
                        "lock": {"lock": threading.Lock()},
                        "object": {"login": {"session": session}},
                    }
                    yield scrapy.Request(url, meta=metas.get(kind, {}))


class Following(Walk):
    """Follows the links of the front page one by one, numbered from 10 on. Notes which it may not follow, and which pages it read."""

    def __init__(self, front: str, **more: Any) -> None:
        super().__init__(front, **more)
        self.noted = {"links": 0, "refused": {}, "read": []}

    def parse(self, response: Any, **more: Any) -> Iterator[Any]:
        if "number" in more:
            self.noted["read"].append(more["number"])
            yield {"url": response.url, "text": response.text}
            return
        for number, link in enumerate(response.css("a"), 10):
            self.noted["links"] += 1
            try:
                yield response.follow(link, cb_kwargs={"number": number})
            except ValueError as error:
                self.noted["refused"][number] = str(error)


class LoggedIn(Walk):
    """Gets a cookie on the front page; the pages behind want it. The cookie jar is Scrapy's, in this process."""

    def parse(self, response: Any, **more: Any) -> Iterator[Any]:
        yield {"url": response.url}
        for link in response.css("a"):
            yield response.follow(link, cookies=self.carried(response))

    def carried(self, response: Any) -> dict[str, str]:
        return {}


class Carrying(LoggedIn):
    """Gives each request the cookie, so that it does not matter who sends it."""

    def carried(self, response: Any) -> dict[str, str]:
        return {"key": "gold"}


def main(name: str, given: str) -> None:
    plan = json.loads(given)
    process = CrawlerProcess({"LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False, **plan["settings"]})
    crawler = process.create_crawler(globals()[name])
    process.crawl(crawler, front=plan["front"])
    process.start()
    assert crawler.stats is not None
    stats = {key: value for key, value in crawler.stats.get_stats().items() if isinstance(value, str | int | float)}
    noted = crawler.spider.noted if crawler.spider is not None else {}  # type: ignore[attr-defined]
    sys.stdout.write(json.dumps({"stats": stats, "noted": noted}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
