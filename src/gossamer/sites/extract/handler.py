"""Layers whose pages a Python function reads instead of rules: `async def post(page): yield {…}; yield page.follow(…)`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import urljoin

from parsel import Selector

from gossamer.errors import SiteError
from gossamer.model.page import NOTHING, PageRequest, Record, Response
from gossamer.sites.compile import CompiledSite
from gossamer.sites.extract import charset
from gossamer.sites.page import PageVerdict, Reading


class HandlerPage:
    """What a handler gets: the page as received, and the usual ways to query it."""

    def __init__(self, site: CompiledSite, layer: str, document: Response) -> None:
        self._site = site
        self.layer, self.url, self.status = layer, document.url, document.status
        self.headers, self.body, self.inherited = document.headers, document.body, document.inherited
        self.turn, self.depth = document.turn, document.depth

    @cached_property
    def text(self) -> str:
        return charset.decode(self.body, charset.find(self.body, self.headers.get("content-type", "")))[0]

    @cached_property
    def selector(self) -> Selector:
        return Selector(self.text, base_url=self.url)

    def css(self, query: str) -> Any:
        return self.selector.css(query)

    def xpath(self, query: str) -> Any:
        return self.selector.xpath(query)

    def json(self) -> Any:
        return json.loads(self.text)

    def follow(
        self,
        url: str,
        to: str | None = None,
        *,
        inherited: Mapping[str, Any] = NOTHING,
        method: str = "GET",
        headers: Mapping[str, str] = NOTHING,
        cookies: Mapping[str, str] = NOTHING,
        body: bytes = b"",
        priority: int = 0,
        again: bool = False,
    ) -> PageRequest:
        """A link to yield; `url` may be relative. Without `to`, the layer that matches it."""
        address = urljoin(self.url, url)
        layer = to
        if layer is None:
            found = self._site.layer_of(address)
            if found is None:
                raise SiteError(f"page.follow: no layer matches {address}; name one with `to`.")
            layer = found[0]
        same = layer == self.layer
        return self._site.link(
            address, layer, inherited=inherited, method=method, headers=headers, cookies=cookies, body=body,
            priority=priority, turn=self.turn + 1 if same else 0, depth=self.depth + (0 if same else 1), dont_filter=again,
        )  # fmt: skip


async def handler_reader(
    handler: Callable[[HandlerPage], Any], site: CompiledSite, layer: str, document: Response
) -> Reading:
    """What a handler yields or returns as a list: dicts are records, results of `page.follow()` are links."""
    records: list[Record] = []
    links: list[PageRequest] = []

    def take(output: Any) -> None:
        if isinstance(output, PageRequest):
            links.append(output)
        elif isinstance(output, Record):
            records.append(output)
        elif isinstance(output, Mapping):
            records.append(Record(layer, dict(output)))
        elif output is not None:
            raise SiteError(
                f"The handler of {layer} yielded {type(output).__name__}; it may yield dicts and what page.follow() gives."
            )

    answer = handler(HandlerPage(site, layer, document))
    if inspect.isasyncgen(answer):
        async for output in answer:
            take(output)
    else:
        if inspect.isawaitable(answer):
            answer = await answer
        for output in [answer] if isinstance(answer, Mapping | PageRequest | Record) else answer or ():
            take(output)
    return Reading(PageVerdict.OK, "", records, links)
