"""Items on their way into the stream, with the page that yielded them; those of no page go with the start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.utils.defer import deferred_from_coro
from twisted.python.failure import Failure

from gossamer.courier import Counters
from gossamer.errors import InvalidRequest
from gossamer.model.counter_names import ITEMS
from gossamer.model.reply import PIPELINE, UNSERIALIZABLE
from gossamer.scrapy.config import WorkerConfig
from gossamer.scrapy.page.page import LeasedPage, trace
from gossamer.scrapy.page.pages import LeasedPages
from gossamer.scrapy.process.start import SpiderStart

if TYPE_CHECKING:
    from scrapy.signalmanager import SignalManager

logger = logging.getLogger(__name__)


class ItemIntake:
    """Hears what became of items in the pipelines. `count` counts in Scrapy's stats, `pending_counters` in the crawl's."""

    def __init__(
        self,
        worker_config: WorkerConfig,
        pages: LeasedPages,
        start: SpiderStart,
        count: Callable[[str], None],
        pending_counters: Counters,
    ) -> None:
        self._worker_config, self._pages, self._start = worker_config, pages, start
        self._count, self._pending_counters = count, pending_counters

    def connect(self, signal_manager: SignalManager) -> None:
        signal_manager.connect(self._scraped, signals.item_scraped)
        signal_manager.connect(self._dropped, signals.item_dropped)
        signal_manager.connect(self._failed, signals.item_error)

    def _scraped(self, item: Any, response: Any) -> None:
        page = self._pages.of(response)
        if page is not None and page.content is not None:
            page.content.add(item)
        if not self._worker_config.streams:
            # Kept by a pipeline or a feed, or not at all; it was scraped.
            if page is not None:
                page.kept += 1
            else:
                self._pending_counters.add(ITEMS)
                self._start.item(None)
            return
        try:
            data = self._worker_config.encode_item(item)
        except Exception as error:
            self._refuse(error, page)
            return
        if page is None:
            self._start.item(data)
        else:
            page.items.append(data)

    def _refuse(self, error: Exception, page: LeasedPage | None) -> None:
        """It cannot be stored: its page is not done then, and without a page it is a dead letter itself."""
        self._count("gossamer/items_refused")
        why = str(error) if isinstance(error, InvalidRequest) else f"{type(error).__name__}: {error}"
        of = f" of {page.request}" if page is not None else ""
        logger.error("An item%s was not put into the stream: %s", of, why)
        if page is not None:
            page.misses(f"an item: {why}")
        else:
            deferred_from_coro(self._start.item_failed(UNSERIALIZABLE, f"an item: {why}"))

    def _dropped(self, response: Any) -> None:
        if self._pages.of(response) is None:
            self._start.item(None)

    def _failed(self, response: Any, failure: Failure) -> None:
        page = self._pages.of(response)
        if page is not None:
            page.failed(PIPELINE, failure)
        else:
            deferred_from_coro(self._start.item_failed(PIPELINE, trace(failure)))
