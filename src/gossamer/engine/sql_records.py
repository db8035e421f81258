"""Records into SQL: a writer for each database, and for each site its tables."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from gossamer.engine.page.redirects import as_linked
from gossamer.engine.page.versions import rules_of
from gossamer.engine.sites import ServedLayer, ServedSite
from gossamer.errors import StoreError, StoreRefused, StoreUnavailable
from gossamer.model import changed_digest
from gossamer.model.database_url import NO_STORE, StoreAddress
from gossamer.model.page import PageRequest, Record, Response
from gossamer.model.table import UNREAD, PageThread, pass_number
from gossamer.settings import Settings
from gossamer.sites.compile import CompiledSite
from gossamer.sites.tables.parts import URL, digest, page_number, rank
from gossamer.sites.tables.tables import PageRows, table_name
from gossamer.store import PAGES, SOURCES, Gap, PageOutcome, PagePart, PageSource, Row, Table, in_thread

if TYPE_CHECKING:
    from gossamer.store import Store, TableGrowth, Writer
    from gossamer.store.rows.sources import LineKey

logger = logging.getLogger(__name__)

CLOSING = 5.0
"""Seconds that a database may take to close."""
LAST_PATIENCE = 5.0
"""Seconds that pages wait for a database when the worker has no more time."""
PAUSE = 60.0
"""Seconds until a page is fetched again whose database could not be reached, but no more than it had waited for it."""


class SqlRecordSink:
    """Opens a store with the first site that needs it, and closes all with the worker. A page whose records are not stored within
    GOSSAMER_STORE_SECONDS is given back, since it holds a lease; it is fetched again later."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._patience: float = settings["GOSSAMER_STORE_SECONDS"]
        self.pause = min(PAUSE, self._patience or PAUSE)
        self._waiting: defaultdict[StoreAddress, set[asyncio.Timeout]] = defaultdict(set)
        self._writers: dict[StoreAddress, Writer] = {}
        self._stores: dict[StoreAddress, Store] = {}
        self._growth: dict[StoreAddress, TableGrowth] = {}
        self._of: dict[str, StoreAddress] = {}
        # By version: pages in progress while a file changes end with the version they began with.
        self._urls: WeakKeyDictionary[ServedSite, StoreAddress] = WeakKeyDictionary()
        self._prepared: WeakSet[ServedSite] = WeakSet()
        self._without_pages: set[StoreAddress] = set()
        self._rules: WeakKeyDictionary[ServedSite, str] = WeakKeyDictionary()
        self._noted: WeakKeyDictionary[ServedSite, set[tuple[int, str, str]]] = WeakKeyDictionary()
        """What this worker has noted of rounds, for each version of a site."""
        self._outdated: WeakKeyDictionary[ServedSite, tuple[int, set[tuple[int, int]]]] = WeakKeyDictionary()
        """The pages that are outdated, by layer, as they were when a round began."""
        self.rounds: dict[str, int] = {}

    async def prepare_together(self, sites: Iterable[ServedSite]) -> dict[str, StoreUnavailable]:
        """Those of one database in one transaction. A site that fails there is prepared by itself later, and says why."""
        of: dict[StoreAddress, list[ServedSite]] = {}
        for site in sites:
            if site.compiled.site.store:
                of.setdefault(store_address(site.compiled, self._settings), []).append(site)
        unavailable: dict[str, StoreUnavailable] = {}

        async def together(url: StoreAddress, sites: list[ServedSite]) -> None:
            try:
                await self._prepare(url, [table for site in sites for table in site.compiled.tables()])
            except StoreUnavailable as error:
                unavailable.update((site.name, error) for site in sites)
            except StoreError:
                return
            else:
                self._prepared.update(sites)

        # Side by side: a database that does not answer keeps no other waiting.
        await asyncio.gather(*(together(url, sites) for url, sites in of.items()))
        return unavailable

    async def prepare(self, site: ServedSite) -> None:
        if not site.compiled.site.store:
            return
        url = store_address(site.compiled, self._settings)
        if site not in self._prepared:
            await self._prepare(url, site.compiled.tables())
        self._of[site.name] = self._urls[site] = url

    async def _prepare(self, url: StoreAddress, tables: list[Table]) -> None:
        from gossamer.store import Store, TableGrowth, Writer

        store = self._stores.get(url)
        if store is None:
            if url.url == f"sqlite:///{_usual_file(self._settings)}":
                _usual_file(self._settings).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            store = await in_thread(Store.open, *url)
            store = self._stores.setdefault(url, store)
        await in_thread(store.prepare, tables)
        if url not in self._writers:
            self._writers[url] = Writer(store)
            self._growth[url] = TableGrowth(store)

    def begun_anew(self, site: ServedSite) -> bool:
        store = self._stores.get(self._urls.get(site, NO_STORE))
        return store is not None and any(table.name in store.created for table in site.compiled.tables())

    async def archive(self, site: ServedSite, tables: Sequence[Table], number: int, birth: str) -> None:
        store = self._stores[self._urls[site]]
        await in_thread(store.archive_round, tables, site_number(site.name), number, birth)

    async def put(
        self,
        layer: ServedLayer,
        request: PageRequest,
        response: Response,
        records: list[Record],
        turns: Sequence[int] = (),
        whole: bool = True,
        has_records: bool = True,
        has_links: bool = False,
        all_links: bool = True,
    ) -> bool:
        # The round of the page goes before the one that this worker knows: the next round may have begun a moment ago.
        number = request.round if request.round is not None else self.rounds.get(layer.site.name, 0)
        _refuse_same_key(layer, records)
        facts = facts_of(layer, response, request, number)
        url, lists = self._urls[layer.site], _lists_of(layer, records)
        try:
            if lists and not await self._keeps_pages(url):
                lists = {}
        except StoreUnavailable:
            return False
        rows = [row for record in records for row in rows_of(layer, record, facts, request, turns, lists)]
        if layer.site.compiled.growing_tables:
            try:
                rows = await self._growth[url].fitted(rows, layer.site.compiled.growing_tables)
            except StoreUnavailable:
                return False
        if layer.site.keeps_gone and not _continues_thread(layer, request):
            source = source_of(layer, request, number, PageOutcome.READ if whole else PageOutcome.ADDED, further=turns)
            thread = self._thread_of(layer, request, source, turns if all_links else (*turns, UNREAD))
            source = source._replace(has_records=has_records, has_links=has_links, thread=thread)
            rows = [row._replace(source=source) for row in rows] or [Row(SOURCES.name, {}, source=source)]
        return await self._write(url, rows)

    async def put_outcome(
        self, layer: ServedLayer, request: PageRequest, outcome: PageOutcome, turns: Sequence[int] = ()
    ) -> bool:
        if _continues_thread(layer, request):
            return True  # The row has other pages.
        source = source_of(layer, request, self.rounds.get(layer.site.name, 0), outcome)
        if outcome is PageOutcome.LED:
            source = source._replace(there=0)
        else:
            source = source._replace(thread=self._thread_of(layer, request, source, turns))
        return await self._write(self._urls[layer.site], [Row(SOURCES.name, {}, source=source)])

    def _thread_of(
        self, layer: ServedLayer, request: PageRequest, source: PageSource, turns: Sequence[int]
    ) -> PageThread | None:
        """The pass over a thread that a page is read in, whose records of other layers a function yields. A page by other rules is of another
        pass."""
        is_gone = source.outcome is PageOutcome.ABSENT and not request.turn
        children = _other_tables(layer)
        if not children or request.round is None or not (request.changed or is_gone):
            return None
        firsts = request.firsts if request.turn else (request.fingerprint, *request.marks)
        text = f"{self._rules_of(layer.site)} {request.passage} {request.changed or request.round}"
        number = page_number(int(digest(text), 16))
        return PageThread(frozenset(map(page_number, firsts)), number, not request.turn, tuple(turns), children)

    async def begin_page(self, site: ServedSite, number: int) -> bool:
        if not await self._note_once(site, number, Gap("rules", "", self._rules_of(site))):
            return False
        if site.conditional and self._outdated.get(site, (-1, ()))[0] < number:
            try:
                found = await self._writers[self._urls[site]].call(
                    lambda store: store.outdated_pages(site_number(site.name))
                )
            except StoreUnavailable:
                return False
            self._outdated[site] = number, found
        return True

    def is_outdated(self, layer: ServedLayer, request: PageRequest) -> bool:
        _, pages = self._outdated.get(layer.site, (-1, frozenset[tuple[int, int]]()))
        if not pages:
            return False
        number = layer_number(layer.name)
        return any((number, page_number(name)) in pages for name in (request.mark, request.fingerprint))

    async def note_gap(self, site: ServedSite, number: int, layer: str, why: str) -> bool:
        return await self._note_once(site, number, Gap("gap", layer, why))

    async def _note_once(self, site: ServedSite, number: int, gap: Gap) -> bool:
        noted = self._noted.setdefault(site, set())
        name = (number, gap.kind, gap.layer)
        if name in noted:
            return True
        for other in [one for one in noted if one[0] < number - 1]:
            noted.discard(other)
        try:
            await self._writers[self._urls[site]].call(
                lambda store: store.note_gap(site_number(site.name), number, gap)
            )
        except StoreUnavailable:
            return False
        noted.add(name)
        return True

    async def begin_round(self, site: ServedSite, number: int, birth: str) -> None:
        rules = self._rules_of(site)
        await self._writers[self._urls[site]].call(
            lambda store: store.begin_round(site_number(site.name), number, birth, rules)
        )

    async def settle_round(self, site: ServedSite, number: int, layers: Iterable[str]) -> int:
        writer, own = self._writers[self._urls[site]], site_number(site.name)
        numbers = sorted(layer_number(name) for name in layers)
        growing = list(site.compiled.growing_tables.values())
        if growing:
            # Another worker may have made them, and this one has not written any of their rows.
            await writer.call(lambda store: store.prepare([table for table in growing if store.columns_in(table.name)]))
        after = None
        while numbers:
            # One transaction at a time: pages of other sites come in between.
            after = await writer.call(partial(_settle, own, numbers, number, after))
            if after is None:
                break
        return await writer.call(lambda store: store.gone_in_round(own, number))

    async def gaps(self, site: ServedSite, number: int) -> list[Gap]:
        writer, own = self._writers[self._urls[site]], site_number(site.name)
        layers = {layer_number(name): name for name in site.compiled.site.layers}
        await writer.call(lambda store: store.note_led(own, number, layers))
        noted = await writer.call(lambda store: store.gaps(own, number))
        return [*noted, Gap("rules", "", self._rules_of(site))]

    def _rules_of(self, site: ServedSite) -> str:
        known = self._rules.get(site)
        if known is None:
            known = self._rules[site] = rules_of(site)
        return known

    async def read_page(self, site: ServedSite, rows: PageRows, url: str) -> list[dict[str, Any]]:
        read = self._stores[self._urls[site]].as_read
        # Not beside the writer: a store has one connection.
        found = await self._writers[self._urls[site]].call(
            lambda store: list(store.with_key(rows.table, {rows.url: url}))
        )
        return [{field: read(column.type, row[column.name]) for field, column in rows.columns.items()} for row in found]

    def as_read(self, site: ServedSite, rows: PageRows, fields: Mapping[str, Any]) -> dict[str, Any]:
        # Times come back in UTC, for one.
        read = self._stores[self._urls[site]].as_read
        return {name: read(kind, value) for name, (kind, value) in rows.fitted(fields).items()}

    async def put_absent(self, layer: ServedLayer, request: PageRequest, to: int = 0) -> bool:
        site, thread = layer.site.compiled, request.thread
        part = site.part(layer.name)
        if part is None or part.whole or set(thread) != set(site.site.store[layer.name].key):
            return True  # The file has changed meanwhile.
        number = request.round if request.round is not None else self.rounds.get(layer.site.name, 0)
        turns = (page_number(to),) if to else ()
        part = part._replace(
            page=page_number(request.mark), turn=request.turn, turns=turns, round=_pass_of(request, number), absent=True
        )
        return await self._write(self._urls[layer.site], site.rows(Record(layer.name, dict(thread)), {}, part))

    async def _write(self, url: StoreAddress, rows: list[Row]) -> bool:
        """False if that took too long."""
        limit = asyncio.timeout(self._patience or None)
        waiting = self._waiting[url]
        waiting.add(limit)
        try:
            async with limit:
                await self._writers[url].write(rows)
        except TimeoutError:
            # Should it be written after all, the next fetch writes the same again.
            return False
        finally:
            waiting.discard(limit)
        return True

    async def _keeps_pages(self, url: StoreAddress) -> bool:
        """Prepare the table that tells the pages of threads apart; False if the database does not allow it."""
        store = self._stores[url]
        if store.columns_of(PAGES.name):
            return True
        if url not in self._without_pages:
            try:
                await in_thread(store.prepare, [PAGES])
            except StoreUnavailable:
                raise
            except StoreError as error:
                self._without_pages.add(url)
                logger.warning("Pages of a thread that replace each other's lists are not noticed: %s", error)
        return url not in self._without_pages

    def outages(self) -> dict[str, str]:
        return {name: self._writers[url].outage for name, url in self._of.items() if self._writers[url].outage}

    def parked(self) -> int:
        return sum(len(limits) for url, limits in self._waiting.items() if limits and self._writers[url].outage)

    def give_up(self) -> None:
        self.pause = 1.0  # This worker has no more time; the database may be fine.
        self._patience = min(self._patience or LAST_PATIENCE, LAST_PATIENCE)
        for limits in self._waiting.values():
            for limit in limits:
                if not limit.expired():
                    limit.reschedule(0.0)

    async def close(self) -> None:
        """Does not wait for rows that a writer still has: others store them again."""
        await asyncio.gather(*(writer.close(0.0 if writer.outage else CLOSING) for writer in self._writers.values()))
        for store in self._stores.values():
            # Ends the wait of those who still wait for the database.
            store.disconnect()
        closing = [asyncio.ensure_future(in_thread(store.close)) for store in self._stores.values()]
        if closing:
            await asyncio.wait(closing, timeout=CLOSING)


def site_number(name: str) -> int:
    """The number of a site among those whose pages bring rows."""
    return page_number(int(digest(name), 16))


layer_number = site_number


def source_of(
    layer: ServedLayer, request: PageRequest, number: int, outcome: PageOutcome, further: Sequence[int] = ()
) -> PageSource:
    """The page as one that brings rows; `number` is the round that is under way, as far as this worker knows."""
    # What a page of a list has, another page of it may have the next time.
    children = frozenset() if request.turn or further else _other_tables(layer)
    return PageSource(
        site_number(layer.site.name),
        layer_number(layer.name),
        page_number(request.mark),
        request.round,
        max(number, request.round or 0),
        outcome,
        children,
        layer.name,
        there=page_number(request.fingerprint) if request.fingerprint != request.mark else 0,
    )


def _other_tables(layer: ServedLayer) -> frozenset[str]:
    """The tables with `gone` of the other layers whose records a function may yield for its page."""
    site = layer.site.compiled.site
    if layer.function is None:
        return frozenset()
    tables = {table_name(site, name) for name, rule in site.store.items() if rule.gone and name != layer.name}
    return frozenset(tables) - ({table_name(site, layer.name)} if layer.name in site.store else set())


def _continues_thread(layer: ServedLayer, request: PageRequest) -> bool:
    """Whether a page is a further one of a thread that is one row: others say whether that is there."""
    part = layer.site.compiled.part(layer.name)
    return request.turn > 0 and part is not None and not part.whole


def _settle(site: int, layers: Sequence[int], number: int, after: LineKey | None, store: Store) -> LineKey | None:
    return store.settle_round(site, layers, number, after)


def store_address(site: CompiledSite, settings: Settings) -> StoreAddress:
    """The site's own database, that of the settings, or a file beside the embedded server's data."""
    if site.database:
        return StoreAddress(site.database, site.has_foreign_database)
    return StoreAddress(settings["GOSSAMER_STORE_URL"] or f"sqlite:///{_usual_file(settings)}")


def _usual_file(settings: Settings) -> Path:
    return Path(settings["GOSSAMER_DATA_DIR"]).expanduser().absolute() / "items.db"


def _pass_of(request: PageRequest, number: int) -> int:
    return pass_number(number, changed_digest(request.changed) >> 8 if request.changed else 0)


def facts_of(layer: ServedLayer, response: Response, request: PageRequest, number: int) -> dict[str, Any]:
    """The columns of `tables.EXTRA`. A page is called by its identity, so that it has one row however its URL was written."""
    site = layer.site.compiled
    return {
        "url": site.canonical(layer.name, layer.own_url(response)),
        "fetched_url": response.url,
        "fetched_at": datetime.now(UTC),
        "round": number,
        "site": layer.site.name,
        "layer": layer.name,
        "status": response.status,
        "file": layer.file(response, request),
        "parent": site.identity(request.trail[-1]) if request.trail else None,
    }


def _refuse_same_key(layer: ServedLayer, records: Sequence[Record]) -> None:
    """StoreRefused for records of a page that would overwrite each other."""
    alike = Counter(
        (record.layer, key) for record in records if len(records) > 1 and (key := layer.site.compiled.page_key(record))
    )
    for (name, key), count in alike.items():
        if count > 1:
            raise StoreRefused(
                f"The page has {count} records of {name}, and its key ({', '.join(key)}) is the same for all of them: only one would "
                f"stay. Name fields in the key of {name} that tell them apart."
            )


def _lists_of(layer: ServedLayer, records: list[Record]) -> dict[str, int]:
    """A number of the lists in the only record of a layer that a function made, by layer."""
    if layer.function is None:
        return {}
    digests = {name: layer.site.compiled.list_digests(name, records) for name in {record.layer for record in records}}
    return {name: (int(digest[1], 16) >> 1) or 1 for name, digest in digests.items() if digest}


def rows_of(
    layer: ServedLayer,
    record: Record,
    facts: Mapping[str, Any],
    request: PageRequest,
    turns: Sequence[int],
    lists: Mapping[str, int],
) -> list[Row]:
    """The rows of a record, by what is known about its page."""
    site = layer.site.compiled
    part = site.part(record.layer)
    page = page_number(request.mark)
    if part is None and record.layer in lists:
        part = PagePart(page, turns=tuple(turns), lists=lists[record.layer])
    elif part is not None and record.layer != layer.name:
        part = part._replace(page=1, whole=True, round=facts["round"])
    elif part is not None:
        part = part._replace(
            page=page,
            turn=request.turn,
            turns=tuple(turns),
            round=_pass_of(request, facts["round"]),
            rank=rank(site.canonical(layer.name, request.first), last=not turns),
            alias=_alias_of(layer, request),
        )
        if layer.canonical and request.turn and facts["url"] == site.canonical(layer.name, facts["fetched_url"]):
            # A further page that is not called by the URL of the first has a row of its own, if that is what tells rows apart.
            part = part._replace(whole=part.whole or URL in site.site.store[layer.name].key)
    return site.rows(record, facts, part)


def _alias_of(layer: ServedLayer, request: PageRequest) -> int:
    """The number of the page that a page redirected to, if that is another one."""
    there = page_number(as_linked(layer, request)) if request.hops else 0
    return 0 if there == page_number(request.mark) else there
