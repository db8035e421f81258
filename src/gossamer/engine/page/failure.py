"""Pages that failed: each is retried later, or becomes a dead letter."""

from __future__ import annotations

import logging
from time import monotonic

from gossamer.engine import hooks
from gossamer.engine.counters import SiteCounters
from gossamer.engine.page import retry
from gossamer.engine.page.seeds import SeedReport
from gossamer.engine.sites import ServedLayer
from gossamer.model import Ending, Lease, Settlement
from gossamer.model.counter_names import RETRIES
from gossamer.model.page import PageRequest

logger = logging.getLogger(__name__)

STORE_UNAVAILABLE, ARCHIVE, HELD_BACK = "store_unavailable", "archive", "held"
TOLD_EVERY = 60.0
"""Seconds between two lines of the log on pages that wait for room on the disk."""


class PageFailed(Exception):
    """The page failed. `again` says whether another try may help, `after` how many seconds to wait at least."""

    def __init__(self, reason: str, detail: str, again: bool = True, after: float = 0.0) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.again, self.after = reason, detail, again, after


class PageFailures:
    """Settles the pages that failed."""

    def __init__(self, site_counters: SiteCounters, seeds: SeedReport) -> None:
        self._site_counters, self._seeds = site_counters, seeds
        self._tell_at = 0.0

    async def settle(
        self, lease: Lease, layer: ServedLayer | None, request: PageRequest | None, failed: PageFailed
    ) -> Settlement:
        """`layer` and `request` are None where they are not known."""
        counters = self._site_counters.of(lease.lane.rpartition(".")[0])
        counters.add(f"engine/failed/{failed.reason}")
        if failed.reason in (STORE_UNAVAILABLE, HELD_BACK):
            # Not the fault of the page: it is fetched again as often as it takes.
            return Settlement(lease, Ending.RETRY, delay=max(failed.after, 1.0))
        retries = layer.retries if layer is not None else 0
        pause = retry.delay(lease.attempt, retries, retriable=failed.again, asked=failed.after)
        if pause is not None:
            counters.add(RETRIES)
            if failed.reason == ARCHIVE and (now := monotonic()) >= self._tell_at:
                self._tell_at = now + TOLD_EVERY
                logger.warning(
                    "A page of %s is fetched again in %.0f s, since it was not kept: %s",
                    lease.lane,
                    pause,
                    failed.detail,
                )
            return Settlement(lease, Ending.RETRY, delay=pause)
        url = request.url if request is not None else ""
        logger.warning(
            "%s failed for good (%s): %s",
            url or f"A request of {lease.lane}",
            failed.reason,
            failed.detail.strip()[:500],
        )
        if request is not None:
            self._seeds.unread(request, failed.reason)
        if layer is not None and layer.on_fail is not None:
            try:
                await hooks.call(layer.on_fail, url, failed.reason, failed.detail)
            except Exception:
                logger.exception("The hook on_fail of %s failed itself.", layer.lane)
        return Settlement(lease, Ending.FAILED, reason=failed.reason, detail=failed.detail)
