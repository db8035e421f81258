"""What fetches pages. `AiohttpFetcher` and `ScrapyFetcher` are such; another one needs no more than this."""

from __future__ import annotations

from typing import Protocol

from gossamer.engine.http.sessions import Sessions
from gossamer.model.page import PageRequest, Response


class Fetcher(Protocol):
    """Fetches one page, one hop: it follows no redirect. Whatever goes wrong is a FetchError with its reason."""

    @property
    def sessions(self) -> Sessions:
        """The cookies and proxies of the sites."""

    async def fetch(self, request: PageRequest) -> Response:
        """A fetch that is cancelled leaves nothing behind."""

    def forget(self, site: str) -> None:
        """Drop what is kept for a site."""

    async def close(self) -> None: ...
