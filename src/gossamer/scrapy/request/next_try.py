"""Requests that take the place of their page: retries and redirects, as middlewares make them.

They are copies of a request that was stored, with what was put into its meta while it was downloaded: a timer, a browser's page. What
of that cannot be stored is left out, so that the next try begins as the first one did.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from scrapy import Request
from scrapy.utils.defer import deferred_from_coro

from gossamer.frontier.codec.types import name_of

logger = logging.getLogger(__name__)


class NextTry:
    """Makes such requests ready for the queue. `can_store` says of a value of meta whether it may go there."""

    def __init__(self, can_store: Callable[[Any], bool]) -> None:
        self._can_store = can_store
        self._noted: set[str] = set()

    def leave_out(self, request: Request, last: Request, stored: dict[str, Any]) -> None:
        """Leave out of its meta what the last try had got and cannot be stored; what stood there when it was stored, `stored`, is put
        back. What is the request's own stays, and is refused."""
        meta = request.meta
        for key in [key for key, value in meta.items() if last.meta.get(key) is value and not self._can_store(value)]:
            value = last.meta[key]
            del meta[key]
            if key in stored:
                meta[key] = stored[key]
            self._note(request, key, value)
            if type(value).__module__.startswith("playwright."):
                # Nobody else would: it counts among those that may be open until it is closed.
                deferred_from_coro(_closed(value))

    def _note(self, request: Request, key: Any, value: Any) -> None:
        if repr(key) not in self._noted:
            self._noted.add(repr(key))
            logger.warning(
                "The next try of %s begins without meta[%r] of the last one: a %s cannot be stored.",
                request, key, name_of(type(value)),
            )  # fmt: skip


async def _closed(page: Any) -> None:
    try:
        await page.close()
    except Exception as error:
        logger.warning("A page of the browser was not closed: %s", error)
