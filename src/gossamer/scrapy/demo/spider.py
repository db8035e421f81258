"""The spider of `gossamer demo`: an ordinary one for the bundled forum, with a lane for each kind of page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response, TextResponse

from gossamer.scrapy.lanes import Lane, lane


class ForumSpider(Spider):
    """Follows every link; one item for each post and each page of comments. `forum` is the front page."""

    name = "forum"
    lanes = (Lane("list", tier=0), Lane("post", tier=1), Lane("comment", tier=2))

    def __init__(self, forum: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.forum = forum

    async def start(self) -> AsyncIterator[Any]:
        # Filtered like any other request, which requests of a start usually are not: lists link back to it.
        yield Request(self.forum, self.parse_list)

    @lane("list")
    def parse_list(self, response: Response) -> Iterator[Request]:
        yield from self.follow(response)

    @lane("post")
    def parse_post(self, response: Response) -> Iterator[Any]:
        yield self.item(response)
        yield from self.follow(response)

    @lane("comment")
    def parse_comment(self, response: Response) -> Iterator[Any]:
        yield self.item(response)
        yield from self.follow(response)

    def follow(self, response: Response) -> Iterator[Request]:
        callbacks = {"post": self.parse_post, "comments": self.parse_comment}
        assert isinstance(response, TextResponse)
        for link in response.css("a"):
            yield response.follow(link, callbacks.get(link.attrib.get("class", ""), self.parse_list))

    def item(self, response: Response) -> dict[str, Any]:
        return {
            "url": response.url,
            "title": response.css("h1.title::text").get(),
            "author": response.css("span.author::text").get(),
        }
