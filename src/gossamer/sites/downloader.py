"""Pages of sites that are fetched by somebody else's downloader (`engine: scrapy`): what is asked of it, what it answers, and how
it says that there is no answer. Values only, so that neither side need know the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from gossamer.sites.url.network import ANYWHERE, NetworkGuard


class DownloadRequest(NamedTuple):
    """One request, with everything that goes over the wire: cookies, passwords and proxies are chosen already."""

    url: str
    method: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    site: str
    layer: str
    timeout: float
    """Seconds for the whole answer, 0 for no limit."""
    max_size: int
    """Bytes of a body, as sent and as decoded."""
    proxy: str = ""
    verify: bool | str = True
    """Whether certificates are checked; a text is a file of certificate authorities."""
    render: bool = False
    """Whether a browser makes the page."""
    browser: bool = False
    """Whether one makes any page of the site."""
    raw: bool = False
    """Whether `sent` and `raw` of the answer are wanted."""
    guard: NetworkGuard = ANYWHERE
    """Which addresses may be connected to."""


class DownloadResponse(NamedTuple):
    """One answer. `headers` in their order; `body` without those content encodings that `headers` no longer name. `sent` and
    `raw` are both directions as they went over the wire, as far as that is known."""

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    sent: bytes = b""
    raw: bytes = b""


class DownloadFailed(Exception):
    """No answer; `reason` is one of the engine's words for it."""

    def __init__(self, reason: str, detail: str, retriable: bool = True) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.retriable = reason, detail, retriable


class PageDropped(Exception):
    """A page or a record that a project's own code wants nothing of."""


class ItemFailed(Exception):
    """A project's own code failed on a record; `detail` is the traceback."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Downloader(Protocol):
    """Somebody else's downloader."""

    async def begin(self, site: str, verify: bool | str, browser: bool) -> None:
        """Make sure that pages of such a kind can be fetched; SiteError says why they cannot."""

    async def download(self, wanted: DownloadRequest) -> DownloadResponse:
        """Raises DownloadFailed, or LeftOut where the page is not to be fetched at all."""

    async def item(self, site: str, item: Mapping[str, Any]) -> dict[str, Any]:
        """What the project makes of a record. Raises LeftOut and ItemFailed."""

    async def forget(self, site: str) -> None:
        """The site is no more."""

    async def close(self) -> None: ...
