"""What a page of a lane with page records was like: its status, and a signature of what it brought."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scrapy.http import Response

from gossamer.model import PageVisit
from gossamer.model.plan.page_record import content_signature
from gossamer.scrapy.item import plain

STATUS_ALONE = (304, 404, 410)
"""Statuses that say all: it has not changed, or does not exist."""


class VisitContent:
    """The items of a page, as far as they tell whether it has changed. Their order does not count: pipelines may change it."""

    __slots__ = ("items", "signature")

    def __init__(self) -> None:
        self.items = self.signature = 0

    def add(self, item: Any) -> None:
        data = repr(_ordered(plain(item))).encode("utf-8", "surrogatepass")
        self.items += 1
        self.signature = (self.signature + content_signature(data)) % 2**64

    def visit(self, response: Response, links: Iterable[int]) -> PageVisit:
        """A page is known by its items; without any, by the fingerprints of the requests that it yielded; without these, by its body if the
        server sent it without an error."""
        status = response.status
        if status in STATUS_ALONE:
            return PageVisit(status)
        if self.items:
            return PageVisit(status, self.signature or 1)
        if found := sorted(set(links)):
            return PageVisit(status, content_signature(b"".join(link.to_bytes(8, "big") for link in found)))
        return PageVisit(status, content_signature(response.body) if 200 <= status < 300 else 0)


def _ordered(value: Any) -> Any:
    """Sets in an order of their own: that of their members changes with the process."""
    if isinstance(value, dict):
        return {key: _ordered(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_ordered(part) for part in value]
    return sorted(map(repr, value)) if isinstance(value, set | frozenset) else value
