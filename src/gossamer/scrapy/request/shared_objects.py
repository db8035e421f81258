"""Requests that have one object together, as spiders have it that wait for several pages to complete an item.

In the queue each request has a copy. What the callback of one changes, no other sees, so such an item would never be complete: it is
logged, once.
"""

from __future__ import annotations

import functools
import logging
from types import FunctionType
from typing import Any

from scrapy import Request
from scrapy.http.headers import Headers

from gossamer.frontier.codec.types import name_of
from gossamer.scrapy.page.page import LeasedPage

logger = logging.getLogger(__name__)

_CONSTANT = frozenset({str, int, float, bool, bytes, type(None), tuple})
_CONTAINERS = frozenset({dict, list, set, Headers})
_OF_SCRAPY = frozenset({"redirect_urls", "redirect_reasons"})
_MOST = 100


class SharedObjects:
    """Remembers what requests carry. Containers are often shared and only read: that is worth a line, an object is worth a warning."""

    def __init__(self) -> None:
        self._noted: set[int] = set()
        self._of_start: dict[int, Any] = {}

    def look(self, request: Request, page: LeasedPage | None) -> None:
        """Compare what a request carries with what the others of its page do, or those without a page."""
        if len(self._noted) == 2:
            return
        for field, carried in (("meta", request.meta), ("cb_kwargs", request.cb_kwargs)):
            for key, value in carried.items():
                if type(value) not in _CONSTANT and key not in _OF_SCRAPY:
                    self._compare(request, f"{field}[{key!r}]", value, self._of_start if page is None else page.carried)

    def _compare(self, request: Request, path: str, value: Any, known: dict[int, Any], depth: int = 2) -> None:
        kind = type(value)
        if not (kind in _CONTAINERS or _can_change(value)):
            return
        if id(value) in known:
            if known[id(value)][1] is not request:
                self._note(request, path, kind)
        elif len(known) < _MOST:
            known[id(value)] = value, request  # kept, so that no other gets its id
            for key, part in value.items() if kind is dict and depth else ():
                if type(part) not in _CONSTANT:
                    self._compare(request, f"{path}[{key!r}]", part, known, depth - 1)

    def _note(self, request: Request, path: str, kind: type) -> None:
        level = logging.INFO if kind in _CONTAINERS else logging.WARNING
        if level not in self._noted:
            self._noted.add(level)
            logger.log(
                level,
                "Requests share an object: %s of %s is the same %s as that of another request. In the queue each has a copy: what the "
                "callback of one changes in it, the other does not see. Where an item needs several pages, ask for them one after the "
                "other, each with the item, or await them in one callback (self.crawler.engine.download).",
                path, request, name_of(kind),
            )  # fmt: skip


def _can_change(value: Any) -> bool:
    """Whether an object may be changed: its class has no hash, or the one of every object."""
    hashing: Any = type(value).__hash__
    if hashing is None:
        return True
    return (
        hashing is object.__hash__
        and bool(type(value).__dictoffset__)
        and not isinstance(value, (type, FunctionType, functools.partial))
    )
