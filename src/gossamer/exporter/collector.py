"""The collector: reads the frontier at a scrape, and keeps the answer for a moment so that many may scrape.

It keeps nothing else: everything it exports is in the frontier, so any number of exporters agree and none has to be kept alive.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector as Base

from gossamer.errors import GossamerError
from gossamer.exporter import families
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import Settings
from gossamer.status.overview import Overview, hasty, overview

logger = logging.getLogger(__name__)

FRESH_SECONDS = 2.0


class Collector(Base):
    """For a registry of prometheus_client. Connects at the first scrape, and again after an outage of the frontier."""

    def __init__(
        self, settings: Settings, fresh: float = FRESH_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = hasty(settings)
        self._hosts: int = settings["GOSSAMER_EXPORT_HOSTS"]
        self._stats = patterns(settings["GOSSAMER_EXPORT_STATS"])
        self._fresh, self._clock = fresh, clock
        self._lock = threading.Lock()
        self._frontier: ValkeyFrontier | None = None
        self._page: Sequence[Family] = ()
        self._read_at = float("-inf")
        self._trouble = ""

    def collect(self) -> Iterator[Family]:
        # A scrape that comes while another reads waits for that answer.
        with self._lock:
            if self._clock() - self._read_at >= self._fresh:
                self._page = self._read()
                self._read_at = self._clock()
            page = self._page
        yield from page

    def describe(self) -> list[Family]:
        """Nothing: registering must not read."""
        return []

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _read(self) -> list[Family]:
        began = self._clock()
        try:
            view = self._overview()
        except (GossamerError, OSError) as error:
            self._let_go()
            if str(error) != self._trouble:
                self._trouble = str(error)
                logger.warning("the crawl cannot be read: %s", error)
            return families.unreachable(self._settings["GOSSAMER_CRAWL"], self._clock() - began)
        if self._trouble:
            self._trouble = ""
            logger.warning("the crawl can be read again")
        return families.families(view, self._clock() - began, self._hosts, self._stats)

    def _overview(self) -> Overview:
        if self._frontier is None:
            self._frontier = ValkeyFrontier.find(self._settings)
        return overview(self._frontier, hosts=self._hosts)

    def _let_go(self) -> None:
        if self._frontier is not None:
            self._frontier.close()
            self._frontier = None


def patterns(text: str) -> tuple[str, ...]:
    """The patterns of a comma-separated list."""
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)
