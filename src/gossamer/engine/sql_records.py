"""Records into SQL: a writer for each database, and for each site its tables."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from gossamer.engine.sites import ServedLayer, ServedSite
from gossamer.errors import StoreAway, StoreError
from gossamer.model.page import PageRequest, Record, Response
from gossamer.settings import Settings
from gossamer.sites.compile import CompiledSite
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


class SqlRecordSink:
    """Stores are opened when the first site that needs one is served, and closed with the worker. A page that waits longer than
    GOSSAMER_STORE_SECONDS for its records to be stored is given back, to be fetched again when the database is there: it holds a lease."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._patience: float = settings["GOSSAMER_STORE_SECONDS"]
        self.pause = min(PAUSE, self._patience or PAUSE)
        self._waiting: defaultdict[str, set[asyncio.Timeout]] = defaultdict(set)
        self._writers: dict[str, Writer] = {}
        self._stores: dict[str, Store] = {}
        self._of: dict[str, str] = {}
        # By version: pages that are under way while a file changes end as they began.
        self._urls: WeakKeyDictionary[ServedSite, str] = WeakKeyDictionary()
        self._prepared: WeakSet[ServedSite] = WeakSet()
        self.rounds: dict[str, int] = {}

    async def prepare_together(self, sites: Iterable[ServedSite]) -> dict[str, StoreAway]:
        """Those of one database in one transaction. A site that fails there is prepared by itself later, and says why."""
        of: dict[str, list[ServedSite]] = {}
        for site in sites:
            if site.compiled.tables():
                of.setdefault(store_url(site.compiled, self._settings), []).append(site)
        away: dict[str, StoreAway] = {}

        async def together(url: str, sites: list[ServedSite]) -> None:
            try:
                await self._prepare(url, [table for site in sites for table in site.compiled.tables()])
            except StoreAway as error:
                away.update((site.name, error) for site in sites)
            except StoreError:
                return
            else:
                self._prepared.update(sites)

        # Side by side: one that does not answer keeps nobody else waiting.
        await asyncio.gather(*(together(url, sites) for url, sites in of.items()))
        return away

    async def prepare(self, site: ServedSite) -> None:
        tables = site.compiled.tables()
        if not tables:
            return
        url = store_url(site.compiled, self._settings)
        if site not in self._prepared:
            await self._prepare(url, tables)
        self._of[site.name] = self._urls[site] = url

    async def _prepare(self, url: str, tables: list[Table]) -> None:
        from gossamer.store import Store, Writer

        store = self._stores.get(url)
        if store is None:
            if url == f"sqlite:///{_usual_file(self._settings)}":
                _usual_file(self._settings).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            store = await in_thread(Store.open, url)
            store = self._stores.setdefault(url, store)
        await in_thread(store.prepare, tables)
        if url not in self._writers:
            self._writers[url] = Writer(store)

    async def archive(self, site: ServedSite, suffix: str) -> None:
        tables = [table for table in site.compiled.tables() if table.archive]
        if tables:
            store = self._stores[self._urls[site]]
            await in_thread(store.archive, tables, suffix)

    async def put(self, layer: ServedLayer, request: PageRequest, response: Response, records: list[Record]) -> bool:
        # What a page carries goes before what this worker has heard: the next round may have begun a moment ago.
        number = request.round if request.round is not None else self.rounds.get(layer.site.name, 0)
        rows = [row for record in records for row in rows_of(layer, record, response, request, number)]
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
        return {name: self._writers[url].away for name, url in self._of.items() if self._writers[url].away}

    def parked(self) -> int:
        return sum(len(limits) for url, limits in self._waiting.items() if limits and self._writers[url].away)

    def give_up(self) -> None:
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


def store_url(site: CompiledSite, settings: Settings) -> str:
    """The site's own database, that of the settings, or a file beside the embedded server's data."""
    return site.database or settings["GOSSAMER_STORE_URL"] or f"sqlite:///{_usual_file(settings)}"


def _usual_file(settings: Settings) -> Path:
    return Path(settings["GOSSAMER_DATA_DIR"]).expanduser().absolute() / "items.db"


def rows_of(layer: ServedLayer, record: Record, response: Response, request: PageRequest, number: int) -> list[Row]:
    extra: dict[str, Any] = {
        "url": response.url,
        "fetched_at": datetime.now(UTC),
        "round": number,
        "site": layer.site.name,
        "layer": layer.name,
        "status": response.status,
        "parent": request.trail[-1] if request.trail else None,
    }
    return layer.site.compiled.rows(record, extra)
