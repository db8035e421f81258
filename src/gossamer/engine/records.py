"""Where the records of a worker's sites go: a writer for each database, and for each site its tables."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from gossamer.engine.page.payload import PageRequest
from gossamer.engine.sites import ServedLayer, ServedSite
from gossamer.errors import StoreAway, StoreError
from gossamer.settings import Settings
from gossamer.sites.page import PageResponse, Record
from gossamer.store import Row, Table, in_thread

if TYPE_CHECKING:
    from gossamer.store import Store, Writer

logger = logging.getLogger(__name__)

CLOSING = 5.0
"""Seconds that a database may take to let go."""
LAST_PATIENCE = 5.0
"""Seconds that pages wait which come to be stored when nobody has time any more."""
PAUSE = 60.0
"""Seconds until a page comes again whose database was away, but no more than it had waited for it."""


class RecordSink:
    """Stores are opened when the first site that needs one is served, and closed with the worker. A page that waits longer than
    GOSSAMER_STORE_SECONDS for its records to be stored is given back, to be fetched again when the database is there: it holds a lease."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._patience: float = settings["GOSSAMER_STORE_SECONDS"]
        self.pause = min(PAUSE, self._patience or PAUSE)
        """Seconds after which a page is fetched again whose records could not be stored in time."""
        self._waiting: defaultdict[str, set[asyncio.Timeout]] = defaultdict(set)
        self._writers: dict[str, Writer] = {}
        self._stores: dict[str, Store] = {}
        self._of: dict[str, str] = {}
        # By version: pages that are under way while a file changes end as they began.
        self._urls: WeakKeyDictionary[ServedSite, str] = WeakKeyDictionary()
        self._prepared: WeakSet[ServedSite] = WeakSet()
        self.rounds: dict[str, int] = {}
        """The round of each site, for records that say it."""

    def address(self, site: ServedSite) -> str:
        """The site's own database, that of the settings, or a file beside the embedded server's data."""
        return site.compiled.database or self._settings["GOSSAMER_STORE_URL"] or self._usual()

    def _usual(self) -> str:
        place = Path(self._settings["GOSSAMER_DATA_DIR"]).expanduser().absolute()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return f"sqlite:///{place / 'items.db'}"

    async def prepare_together(self, sites: Iterable[ServedSite]) -> dict[str, StoreAway]:
        """Prepare many sites at once, those of one database in one transaction. Answers the databases that are away. A site of
        which nothing is said is still to be prepared by itself: together they could not be, and one of them knows why."""
        of: dict[str, list[ServedSite]] = {}
        for site in sites:
            if site.compiled.tables():
                of.setdefault(self.address(site), []).append(site)
        away: dict[str, StoreAway] = {}

        async def together(url: str, sites: list[ServedSite]) -> None:
            try:
                await self._prepare(url, [table for site in sites for table in site.compiled.tables()])
            except StoreAway as error:
                away[url] = error
            except StoreError:
                return
            else:
                self._prepared.update(sites)

        # Side by side: one that does not answer keeps nobody else waiting.
        await asyncio.gather(*(together(url, sites) for url, sites in of.items()))
        return away

    async def prepare(self, site: ServedSite) -> None:
        """Open the site's database and make or check its tables; StoreError says what is wrong."""
        tables = site.compiled.tables()
        if not tables:
            return
        url = self.address(site)
        if site not in self._prepared:
            await self._prepare(url, tables)
        self._of[site.name] = self._urls[site] = url

    async def _prepare(self, url: str, tables: list[Table]) -> None:
        from gossamer.store import Store, Writer

        store = self._stores.get(url)
        if store is None:
            store = await in_thread(Store.open, url)
            store = self._stores.setdefault(url, store)
        await in_thread(store.prepare, tables)
        if url not in self._writers:
            self._writers[url] = Writer(store)

    async def archive(self, site: ServedSite, suffix: str) -> None:
        """Put the tables aside that begin anew with each round."""
        tables = [table for table in site.compiled.tables() if table.archive]
        if tables:
            store = self._stores[self._urls[site]]
            await in_thread(store.archive, tables, suffix)

    async def put(
        self, layer: ServedLayer, page_request: PageRequest, document: PageResponse, records: list[Record]
    ) -> bool:
        """Return when they are committed; False if the database was away for too long. StoreRefused for what it will not
        take."""
        # What a page carries goes before what this worker has heard: the next round may have begun a moment ago.
        number = page_request.round if page_request.round is not None else self.rounds.get(layer.site.name, 0)
        rows = [row for record in records for row in rows_of(layer, record, document, page_request, number)]
        url = self._urls[layer.site]
        limit = asyncio.timeout(self._patience or None)
        waiting = self._waiting[url]
        waiting.add(limit)
        try:
            async with limit:
                await self._writers[url].write(rows)
        except TimeoutError:
            # Should it be written after all, the next visit writes the same again.
            return False
        finally:
            waiting.discard(limit)
        return True

    def away(self) -> dict[str, str]:
        """The sites whose database cannot be reached, with the reason."""
        return {name: self._writers[url].away for name, url in self._of.items() if self._writers[url].away}

    def parked(self) -> int:
        """How many pages wait for a database that is away."""
        return sum(len(limits) for url, limits in self._waiting.items() if limits and self._writers[url].away)

    def give_up(self) -> None:
        """Let no page wait any longer; those that do are fetched again later, by others."""
        self.pause = 1.0  # It is this worker that has no more time, not they.
        self._patience = min(self._patience or LAST_PATIENCE, LAST_PATIENCE)
        for limits in self._waiting.values():
            for limit in limits:
                if not limit.expired():
                    limit.reschedule(0.0)

    async def close(self) -> None:
        """Nobody waits for what a writer still has: it is done again by others."""
        await asyncio.gather(*(writer.close(0.0 if writer.away else CLOSING) for writer in self._writers.values()))
        for store in self._stores.values():
            # Whoever still waits for an answer of the database need not wait any longer.
            store.disconnect()
        closing = [asyncio.ensure_future(in_thread(store.close)) for store in self._stores.values()]
        if closing:
            await asyncio.wait(closing, timeout=CLOSING)


def rows_of(
    layer: ServedLayer, record: Record, document: PageResponse, page_request: PageRequest, number: int
) -> list[Row]:
    extra: dict[str, Any] = {
        "url": document.url,
        "fetched_at": datetime.now(UTC),
        "round": number,
        "site": layer.site.name,
        "layer": layer.name,
        "status": document.status,
        "parent": page_request.trail[-1] if page_request.trail else None,
    }
    return layer.site.compiled.rows(record, extra)
