"""The download slots of a worker: leased requests go out at once, others keep Scrapy's own limits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.core.downloader import Downloader

from gossamer.errors import SettingError
from gossamer.model import host_of

logger = logging.getLogger(__name__)

SLOT = "download_slot"
MOST_NAMES = 10_000
APART = "apart "
"""Before the host, the name of a slot for downloads that are no leases."""


def check(downloader: Any) -> None:
    """SettingError for a DOWNLOADER that names slots in a way of its own."""
    kind = type(downloader)
    own = [
        name
        for name in ("get_slot_key", "_get_slot_key")
        if getattr(kind, name, None) is not getattr(Downloader, name, None)
    ]
    if own:
        raise SettingError(
            f"DOWNLOADER {kind.__module__}.{kind.__qualname__} has {' and '.join(own)} of its own, which a fleet cannot use: the frontier "
            'spaces requests before a worker gets them, by the slot that they have then. Set meta["download_slot"] on requests before '
            "they are yielded (in the spider, or in a spider middleware), and set DOWNLOADER to scrapy.core.downloader.Downloader or to "
            "a class that leaves slots alone."
        )


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
        if not leased(request) and SLOT not in request.meta:
            request.meta[SLOT] = f"{APART}{host_of(request.url)}"
        return original(request)

    engine._download = download


class SlotWatcher:
    """Tells where a downloader middleware gives a request another slot: the frontier has counted it for the one before."""

    _began: ClassVar[WeakKeyDictionary[Request, str]] = WeakKeyDictionary()
    """The slots that requests had before all middlewares, where they had one."""

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler
        self._told: set[str] = set()

    @classmethod
    def begin(cls, request: Request) -> None:
        if (slot := request.meta.get(SLOT)) is not None:
            cls._began[request] = str(slot)

    def end(self, request: Request) -> None:
        slot = request.meta.get(SLOT)
        if slot is None or str(slot) == (before := self._began.get(request, "")):
            return
        downloader = getattr(getattr(self._crawler, "engine", None), "downloader", None)
        if not isinstance(getattr(downloader, "per_slot_settings", None), UndelayedSlots):
            return  # No worker of a fleet: Scrapy keeps the slots.
        if before.startswith(APART):
            # The frontier does not know of it: Scrapy's limits for the new slot hold.
            request.meta[SLOT] = f"{APART}{slot}"
        elif slot not in self._told and len(self._told) < MOST_NAMES:
            self._told.add(slot)
            logger.warning(
                'A downloader middleware set meta["download_slot"] of %s to %r, which does not count: the fleet has kept the delay of %s '
                'for it already. Set meta["download_slot"] where requests are made (in the spider, or in a spider middleware).',
                request,
                slot,
                before or host_of(request.url),
            )
