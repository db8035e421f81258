"""Duplicates, counted and logged as Scrapy's own filter does."""

from __future__ import annotations

import logging
from typing import Any

from scrapy import Request, Spider
from scrapy.statscollectors import StatsCollector
from scrapy.utils.request import referer_str

logger = logging.getLogger(__name__)

FILTERED = "dupefilter/filtered"


class DuplicateLog:
    """`own` is the project's filter, which logs them itself; None: it has none. `debug`: log all, not only the first."""

    def __init__(self, stats: StatsCollector | None, debug: bool, own: Any = None) -> None:
        self._stats, self._debug, self.own = stats, debug, own
        self._logged = False

    def filtered(self, request: Request, spider: Spider) -> None:
        if self.own is not None:
            self._log_by_own(request, spider)
            return
        self._count()
        if self._debug:
            logger.debug(
                "Filtered duplicate request: %s (referer: %s)", request, referer_str(request), extra={"spider": spider}
            )
        elif not self._logged:
            self._logged = True
            logger.debug(
                "Filtered duplicate request: %s - no more duplicates will be shown (see DUPEFILTER_DEBUG to show all duplicates)",
                request,
                extra={"spider": spider},
            )

    def _log_by_own(self, request: Request, spider: Spider) -> None:
        """Scrapy's `log` counts the duplicate, one of the project's may not."""
        before = self._stats.get_value(FILTERED) if self._stats is not None else None
        self.own.log(request, spider)
        if self._stats is not None and self._stats.get_value(FILTERED) == before:
            self._count()

    def _count(self) -> None:
        if self._stats is not None:
            self._stats.inc_value(FILTERED)
