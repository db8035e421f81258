"""The download slots of a worker: leased requests go out at once, others keep Scrapy's own limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scrapy import Request

from gossamer.model import host_of

APART = "apart "
"""Before the host, the name of a slot for downloads that are no leases."""


def loosen(downloader: Any) -> None:
    """The frontier spaces requests for the whole fleet; the downloader of one worker sends what it gets at once."""
    concurrency = downloader.total_concurrency or 1000
    downloader.per_slot_settings = UndelayedSlots(concurrency, downloader.per_slot_settings)


class UndelayedSlots(dict[str, dict[str, Any]]):
    """The settings of download slots: no delay, and no limit but the worker's own. Downloads that are no leases (see
    `apart`) are in slots of their own, for which the project's settings hold."""

    def __init__(self, concurrency: int, own: Mapping[str, dict[str, Any]]) -> None:
        super().__init__()
        self._slot = {"concurrency": concurrency, "delay": 0.0, "jitter": 0.0}
        self._own = own

    def get(self, key: str, default: Any = None) -> Any:
        if key.startswith(APART):
            return self._own.get(key.removeprefix(APART), default)
        return self._slot


def apart(engine: Any, leased: Callable[[Request], bool]) -> None:
    """Downloads that are no leases (inline downloads, media, robots.txt) keep Scrapy's own limits, in slots of their own:
    the frontier does not know of them."""
    original = engine._download

    def download(request: Request) -> Any:
        if not leased(request) and "download_slot" not in request.meta:
            request.meta["download_slot"] = f"{APART}{host_of(request.url)}"
        return original(request)

    engine._download = download
