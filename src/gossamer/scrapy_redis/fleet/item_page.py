"""Which page an item belongs to while it is in the pipelines, so that a pipeline can let its data go with the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gossamer.frontier.checks import by_key
from gossamer.scrapy.page.page import LeasedPage

PAGE: ContextVar[LeasedPage | None] = ContextVar("gossamer_page", default=None)
"""The page whose item is in the pipelines, where its scheduler takes data along."""


def push(page: LeasedPage, key: str, data: Any) -> None:
    """Append data to a list when the page is settled; `InvalidRequest` for a key or data that cannot be used."""
    entry = (key, data if isinstance(data, bytes) else str(data).encode())
    by_key([entry])
    page.push.append(entry)


def attach(scraper: Any, page_of: Callable[[Any], LeasedPage | None]) -> bool:
    """Let pipelines know the page of their item; False if this Scrapy does not allow it."""
    for name, wrap in (("start_itemproc_async", _awaited), ("start_itemproc", _called)):
        if hasattr(scraper, name):
            setattr(scraper, name, wrap(getattr(scraper, name), page_of))
            return True
    return False


@contextmanager
def _item_of(page: LeasedPage | None) -> Iterator[None]:
    """While pipelines have an item of this page."""
    PAGE.set(page)
    try:
        yield
    finally:
        PAGE.set(None)


def _awaited(original: Any, page_of: Callable[[Any], LeasedPage | None]) -> Any:
    async def start_itemproc_async(item: Any, *, response: Any) -> None:
        with _item_of(page_of(response)):
            await original(item, response=response)

    return start_itemproc_async


def _called(original: Any, page_of: Callable[[Any], LeasedPage | None]) -> Any:
    def start_itemproc(item: Any, *, response: Any) -> Any:
        # Scrapy 2.13 makes a Deferred of a coroutine here, which keeps what is set now for as long as it runs.
        with _item_of(page_of(response)):
            return original(item, response=response)

    return start_itemproc
