"""The end of a worker in Scrapy: how long it may take."""

from __future__ import annotations

import logging
from typing import Any

from gossamer.model.plural import counted_were
from gossamer.scrapy.page import engine_hooks
from gossamer.scrapy.page.pages import LeasedPages
from gossamer.settings import Settings
from gossamer.shutdown import CALLS_SHARE, PAGES_SHARE

logger = logging.getLogger(__name__)

LEAST = 0.1
"""Seconds that a call to the frontier has to be answered, however late it is."""


class Shutdown:
    """Looks after an engine that closes its spider: after a while the pages in progress are given back to the frontier, and the
    engine waits for them no longer."""

    def __init__(self, engine: Any, link: Any, pages: LeasedPages, settings: Settings) -> None:
        self._engine, self._link, self._pages = engine, link, pages
        self._limit: float = settings["GOSSAMER_STOP_SECONDS"]
        self._close: float = settings["GOSSAMER_CLOSE_SECONDS"]
        self._until = float("inf")
        self.over = False
        """Set when the engine has no page in progress any more."""
        engine_hooks.on_close(engine, self._begin)

    def _begin(self) -> None:
        if self._limit:
            self._until = self._link.now() + self._limit * CALLS_SHARE
            self._link.later(self._limit * PAGES_SHARE, self._give_back)

    def _give_back(self) -> None:
        if self.over:
            return
        count = self._pages.give_back()
        logger.warning(
            "%s not through in time (GOSSAMER_STOP_SECONDS): given back, and done by others.",
            counted_were(count, "page"),
        )
        engine_hooks.abandon(self._engine)

    def patience(self) -> float:
        """Seconds that the end may still wait for the frontier."""
        return min(self._close, max(LEAST, self._until - float(self._link.now())))
