"""Spiders that are fed by tasks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

from scrapy import Request
from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import Rule
from tests.support.workers.recorder import path_of

from gossamer.scrapy.lanes import Lane
from gossamer.scrapy.spiders import FleetCrawlSpider, FleetSitemapSpider, FleetSpider


def die_before_settling() -> None:
    """The worker dies when its tasks' requests are added and the tasks are not yet settled."""
    from gossamer.courier import TaskIntake

    patched: Any = TaskIntake
    patched._settle = _die


def die_before_adding() -> None:
    """The worker dies with tasks in its hands."""
    from gossamer.courier import TaskIntake

    patched: Any = TaskIntake
    patched._add = _die


def _die(_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Keyed:
    """Takes tasks from the keys that the test names, divided by bars."""

    tasks: Any

    def __init__(self, keys: str = "", **named: Any) -> None:
        super().__init__(**named)
        if keys:
            self.tasks = tuple(keys.split("|"))


class Fed(Keyed, FleetSpider):
    """Its start is a page that the site may hold, so that the crawl goes on."""

    name = "fed"
    site = ""
    lanes = (Lane("urgent", tier=-1),)

    async def start(self) -> Any:
        if self.site:
            yield Request(self.site + "/start")

    def parse(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield {"id": path_of(response.request)}

    def parse_full(self, response: Response, **named: Any) -> Iterator[Any]:
        request = response.request
        assert request is not None
        meta = {name: value for name, value in request.meta.items() if not name.startswith(("download_", "depth"))}
        yield {
            "id": path_of(request), "named": named, "meta": meta, "priority": request.priority, "flags": request.flags,
            "encoding": request.encoding, "dont_filter": request.dont_filter, "cookies": request.cookies,
        }  # fmt: skip

    def on_error(self, failure: Any) -> Iterator[Any]:
        yield {"id": f"error of {path_of(failure.request)}"}


class Narrow(Keyed, FleetSpider):
    """Two requests may be queued, no more."""

    name = "narrow"
    lanes = (Lane("main", max_queued=2),)

    def parse(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield {"id": path_of(response.request)}


class Own(Keyed, FleetSpider):
    """Tasks of a form of its own."""

    name = "own"
    site = ""

    def make_requests(self, data: bytes) -> Any:
        if data == b"none":
            return None
        if data == b"bad":
            raise ValueError("not a task of mine")
        return [Request(f"{self.site}/{data.decode()}/{number}", dont_filter=True) for number in range(3)]

    def parse(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield {"id": path_of(response.request)}


class Rules(Keyed, FleetCrawlSpider):
    name = "rules"
    rules = (Rule(LinkExtractor(allow="/post/"), callback="parse_post"), Rule(LinkExtractor(allow="/list/")))

    def parse_post(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield {"id": path_of(response.request)}


class Map(Keyed, FleetSitemapSpider):
    name = "map"

    def parse(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield {"id": path_of(response.request)}
