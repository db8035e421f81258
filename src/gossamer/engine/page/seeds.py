"""Which seeds of a round were read: a round that cannot begin is reported, also where a missing page is a result like another."""

from __future__ import annotations

import logging

from gossamer.engine.counters import SiteCounters
from gossamer.model.counter_names import SEEDS_READ, SEEDS_UNREAD
from gossamer.model.page import PageRequest
from gossamer.sites.plan import SITEMAP

logger = logging.getLogger(__name__)


def is_seed(request: PageRequest) -> bool:
    """Whether a round began with this page, or with one that redirected to it, or it is a sitemap that another one names. Stored rows ask
    for pages at the depth of their layer: that one of those is gone is nothing to report."""
    return request.round is not None and not request.depth and (not request.trail or request.layer == SITEMAP)


class SeedReport:
    """Counts the seeds that were read, and logs those that were not. Ignores all other pages."""

    def __init__(self, site_counters: SiteCounters) -> None:
        self._site_counters = site_counters

    def read(self, request: PageRequest) -> None:
        if is_seed(request):
            self._site_counters.of(request.site).add(SEEDS_READ)

    def unread(self, request: PageRequest, reason: str) -> None:
        if is_seed(request):
            self._site_counters.of(request.site).add(SEEDS_UNREAD + reason)
            logger.warning("The seed %s could not be read: %s.", request.first, reason)
