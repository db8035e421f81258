"""A spider that logs in, and one page that only its first worker can have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from tests.support.workers.recorder import path_of

PAGES = 8


class Members(Spider):
    """Logs in twice, once for each of two jars, by an answer that redirects. A third gets a session and loses it."""

    name = "members"
    site = ""

    async def start(self) -> AsyncIterator[Any]:
        for jar in (1, "b"):
            yield Request(f"{self.site}/login-{jar}", self.logged_in, meta={"cookiejar": jar}, dont_filter=True)

    def logged_in(self, response: Response) -> Iterator[Any]:
        jar = response.meta["cookiejar"]
        for number in range(PAGES):
            yield Request(f"{self.site}/{jar}/{number}", meta={"cookiejar": jar}, priority=PAGES - number)
        if jar == 1:
            yield self.third("/renewed", "/with-another", "/logout", "/without")

    def third(self, path: str, *rest: str) -> Request:
        """Pages of a third jar, one after the other."""
        return Request(
            self.site + path, self.then, cb_kwargs={"rest": list(rest)}, meta={"cookiejar": "c"}, priority=-1
        )

    def then(self, response: Response, rest: list[str]) -> Iterator[Any]:
        if rest:
            yield self.third(*rest)

    def parse(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield {"id": path_of(response.request)}
