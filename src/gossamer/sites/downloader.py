"""How the engine and Scrapy meet for sites with `engine: scrapy`; neither needs to know the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gossamer.model.page import PageRequest, Response


class PageDropped(Exception):
    """The project's own code wants nothing of a page or record."""


class ItemFailed(Exception):
    """The project's own code failed on a record; `detail` is the traceback."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Downloader(Protocol):
    """Scrapy, as the engine sees it."""

    async def begin(self, site: str, verify: bool | str, browser: bool) -> None:
        """Make sure that pages of such a kind can be fetched; SiteError says why they cannot."""

    async def download(self, request: PageRequest) -> Response:
        """Fetch a page. The request has everything that goes over the wire: its headers include cookies and passwords, and
        `options.proxy` is the URL of the proxy to use. Raises FetchError, or PageDropped."""

    async def item(self, site: str, item: Mapping[str, Any]) -> dict[str, Any]:
        """What the project makes of a record. Raises PageDropped and ItemFailed."""

    async def forget(self, site: str) -> None:
        """End the crawlers of a site."""

    async def close(self) -> None: ...
