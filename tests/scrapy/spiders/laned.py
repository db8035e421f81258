"""Spiders with lanes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response

from gossamer.model import SeenPolicy, SeenScope
from gossamer.scrapy.lanes import Lane, lane


class Laned(Spider):
    """Requests join lanes in every way there is."""

    name = "laned"
    site = ""
    lanes = (Lane("post"), "comment", Lane("always", seen=SeenPolicy(scope=SeenScope.NEVER)))

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.site + "/start")

    def parse(self, response: Response) -> Iterator[Any]:
        site = self.site
        yield Request(site + "/by-meta", self.parse_inherit, meta={"lane": "post"})
        yield Lane("post")(Request(site + "/by-lane", self.parse_leaf))
        yield Lane("comment").request(site + "/by-lane-request", self.parse_leaf)
        yield Request(site + "/by-decorator", self.parse_decorated)
        yield Request(site + "/by-decorator-with-policy", self.parse_deep)
        yield Request(site + "/meta-before-decorator", self.parse_decorated, meta={"lane": "comment"})
        yield Request(site + "/redirected", self.parse_leaf, meta={"lane": "post"})
        yield Request(site + "/retried", self.parse_leaf, meta={"lane": "post"})
        yield Request(site + "/always", self.parse_again, meta={"lane": "always"}, cb_kwargs={"more": 2})
        yield Request(site + "/always", self.parse_again, meta={"lane": "always"}, cb_kwargs={"more": 0})
        yield Request(site + "/own-slot", self.parse_inherit, meta={"download_slot": "mine"})
        yield Request(site + "/unknown", self.parse_leaf, meta={"lane": "nowhere"})
        yield Request(site + "/foreign", self.parse_leaf, meta={"lane": "others.lane"})
        yield Request(site + "/no-name", self.parse_leaf, meta={"lane": 7})
        yield Request(site + "/after", self.parse_leaf)

    def parse_inherit(self, response: Response) -> Iterator[Any]:
        yield Request(response.url + "/child", self.parse_leaf, meta=response.meta)
        yield response.follow(response.url + "/follow", self.parse_leaf)

    def parse_again(self, response: Response, more: int) -> Iterator[Any]:
        if more:
            yield Request(
                self.site + "/always", self.parse_again, meta={"lane": "always"}, cb_kwargs={"more": more - 1}
            )

    def parse_leaf(self, response: Response) -> None: ...

    @lane("decorated")
    def parse_decorated(self, response: Response) -> None: ...

    @Lane("deep", tier=5)
    def parse_deep(self, response: Response) -> None: ...


class Ordered(Spider):
    """A page whose links lie in lanes of different tier and order."""

    name = "ordered"
    site = ""
    lanes = (Lane("late", tier=2), Lane("first", tier=-1), Lane("lifo", tier=1, order="lifo"))

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.site + "/start")

    def parse(self, response: Response) -> Iterator[Any]:
        for name in ("late", "lifo", "first"):
            for number, priority in ((1, 0), (2, 0), (3, 5), (4, -5)):
                yield Lane(name)(Request(f"{self.site}/{name}/{number}", self.leaf, priority=priority))

    def leaf(self, response: Response) -> None: ...


class Staged(Spider):
    """Lists and posts, served by different workers."""

    name = "staged"
    site = ""
    lanes: Any = (Lane("list"), Lane("post", stage="posts"))

    async def start(self) -> AsyncIterator[Any]:
        yield Lane("list")(Request(self.site + "/list/1"))

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"id": response.url.removeprefix(self.site)}
        if "/list/" in response.url:
            number = int(response.url.rpartition("/")[2])
            if number < 4:
                yield Lane("list")(Request(f"{self.site}/list/{number + 1}"))
            for post in range(3):
                yield Lane("post")(Request(f"{self.site}/post/{number}{post}"))
