"""A spider whose pages lead somewhere, and a resolver that knows more names than the system's."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response


class Leading(Spider):
    """Follows every link. `vouch`: it says itself that these links may lead anywhere."""

    name = "leading"
    first = vouch = ""

    async def start(self) -> AsyncIterator[Any]:
        for url in self.first.split():
            yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"id": response.url.rpartition("/")[2]}
        for link in response.css("a::attr(href)").getall():
            meta = {"private_addresses": True} if self.vouch else None
            yield response.follow(link, meta=meta)


def names() -> None:
    """NAMES has them, as name=address, divided by commas."""
    known: dict[Any, str] = {one.partition("=")[0]: one.partition("=")[2] for one in os.environ["NAMES"].split(",")}
    lookup, by_name = socket.getaddrinfo, socket.gethostbyname

    def getaddrinfo(host: Any, *args: Any, **named: Any) -> Any:
        return lookup(known.get(host, host), *args, **named)

    try:
        from aiohttp.resolver import ThreadedResolver
    except ImportError:
        pass
    else:
        # An event loop may have a lookup of its own.
        resolve = ThreadedResolver.resolve

        async def resolved(self: Any, host: str, *args: Any, **named: Any) -> Any:
            return await resolve(self, known.get(host, host), *args, **named)

        ThreadedResolver.resolve = resolved  # type: ignore[method-assign]
    socket.getaddrinfo = getaddrinfo
    socket.gethostbyname = lambda host: by_name(known.get(host, host))
