"""What is done with a page that was fetched: it is read, its records are stored, its links become requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from gossamer.engine import hooks
from gossamer.engine.archive.archive import Archive
from gossamer.engine.counters import SiteCounters
from gossamer.engine.http.scrapy_fetcher import ScrapyFetcher
from gossamer.engine.page.children import ChildRequests
from gossamer.engine.page.conditional import RememberedLinks
from gossamer.engine.page.failure import ARCHIVE, HELD_BACK, STORE_UNAVAILABLE, PageFailed
from gossamer.engine.page.feed import links_of
from gossamer.engine.page.same_keys import KeyMemory
from gossamer.engine.page.seeds import is_seed
from gossamer.engine.records import RecordSink
from gossamer.engine.rounds.hold import RoundHolds, check_hold
from gossamer.engine.sites import ServedLayer
from gossamer.errors import ArchiveFailed, StoreError, StoreRefused, StoreUnavailable
from gossamer.frontier import codec
from gossamer.model import Ending, Lease, PageVisit, Settlement
from gossamer.model.counter_names import (
    BLOCKED_PAGES,
    BROKEN,
    CONTESTED,
    COVERAGE,
    DAMAGED,
    DOUBTED,
    EMPTY,
    LACKING,
    LIMITED,
    LINKLESS,
    MISSING,
    NOWHERE,
    OVERLONG,
    OVERWRITTEN,
    PAGES_READ,
    REPLACED,
    ROWS,
    SEEDS_EMPTY,
    SKIPPED,
    TEXTLESS,
    UNLINKED,
    UNREADABLE,
)
from gossamer.model.page import NOTHING, PageRequest, Record, Response
from gossamer.model.plan.page_record import content_signature
from gossamer.model.reply import BLOCKED, PIPELINE
from gossamer.model.table import PageOutcome
from gossamer.sites.compile import SINCE
from gossamer.sites.downloader import ItemFailed
from gossamer.sites.extract.charset.charset import CHARSET, GUESSED
from gossamer.sites.extract.turns import MARK, has_lists
from gossamer.sites.extract.urls import LONGEST
from gossamer.sites.page import LimitExceeded, PageVerdict, Reading
from gossamer.sites.plan import FEED, SITEMAP
from gossamer.sites.rows.archive import is_packed
from gossamer.sites.tables.parts import turns
from gossamer.sites.tables.tables import PageRows, page_rows

logger = logging.getLogger(__name__)

ARCHIVE_PAUSE = 60.0
"""Seconds until a page is fetched again that could not be archived: the disk is full."""
BIG = 512 * 1024
"""Larger pages are read in a thread, so that the others do not wait."""


async def read_page(
    layer: ServedLayer, response: Response, round: int | None = None, before: str | None = None
) -> tuple[Response, Reading]:
    """What a page says, and the page itself, both after the hooks of the layer. `before` is the URL of the page that led to it."""
    if layer.after_download is not None:
        response = await hooks.call(layer.after_download, response)
        if sign := layer.blocked(response):
            return response, blocked_reading(sign)
    if layer.function is not None:
        reading = await layer.function.read(response, round, before)
    elif len(response.body) > BIG or is_packed(response.body):
        reading = await asyncio.to_thread(layer.site.compiled.read, layer.name, response)
    else:
        reading = layer.site.compiled.read(layer.name, response)
    if reading.blank:
        reading = _judged(layer, response, reading)
    if layer.after_extract is not None:
        reading = await hooks.call(layer.after_extract, response, reading)
    return response, reading


def _judged(layer: ServedLayer, response: Response, reading: Reading) -> Reading:
    """What a page counts as on which no field has a value: it is not the page that was asked for; or the list that a rule counts the pages
    of has ended before it."""
    rule = layer.rule
    assert rule is not None
    if reading.verdict is PageVerdict.LACK and rule.lacking != "keep":
        return reading
    if MARK in response.inherited and not rule.required and has_lists(rule):
        return reading._replace(records=[], coverage=NOTHING)
    reason = "no field that is read from the page has a value (require: none lets it pass)"
    return reading._replace(verdict=PageVerdict.LACK, reason=reason, records=[], links=[])


def blocked_reading(sign: str) -> Reading:
    """Of a wall, nothing is read."""
    return Reading(PageVerdict.BLOCKED, sign, [], [])


async def records_to_store(layer: ServedLayer, records: list[Record]) -> list[Record]:
    """The records that the hook before_store leaves, without values of the site's variables in their URLs."""
    if layer.before_store is not None:
        changed = [await hooks.call(layer.before_store, record) for record in records]
        records = [record for record in changed if record is not None]
    if (secrets := layer.site.compiled.secrets) is not None:
        records = [record._replace(fields=secrets.in_urls(record.fields)) for record in records]
    return records


def signature(response: Response, records: Sequence[Record], links: Sequence[PageRequest]) -> int:
    """What a page is known by to have changed: its records; without any, the pages that it leads to; without these, its body. So what
    changes with every visit, such as a clock or an advertisement, does not count."""
    if records:
        data = repr(records).encode("utf-8", "surrogatepass")
    elif links:
        data = b"".join(sorted({link.fingerprint.to_bytes(8, "big") for link in links}))
    else:
        data = response.body
    return content_signature(data)


class PageReader:
    """`scrapy_fetcher` runs the records of sites with `engine: scrapy` through their project's pipelines."""

    def __init__(
        self,
        children: ChildRequests,
        record_sink: RecordSink,
        archive: Archive,
        site_counters: SiteCounters,
        payload_max: int,
        holds: RoundHolds,
        scrapy_fetcher: ScrapyFetcher | None = None,
        streams: bool = False,
    ) -> None:
        """`streams`: all records go into the item stream, also those that are stored."""
        self._streams = streams
        self._children, self._record_sink, self._archive = children, record_sink, archive
        self._site_counters, self._payload_max, self._scrapy_fetcher = site_counters, payload_max, scrapy_fetcher
        self._keys, self._holds = KeyMemory(), holds

    def keep(self, layer: ServedLayer, response: Response) -> None:
        """Archive a response as it came, if its layer says so. Raises PageFailed."""
        if layer.saves:
            try:
                self._archive.keep(layer.site, response)
            except ArchiveFailed as error:
                raise PageFailed(ARCHIVE, str(error), after=ARCHIVE_PAUSE) from error

    async def read(
        self, lease: Lease, layer: ServedLayer, request: PageRequest, response: Response
    ) -> tuple[Settlement, bytes | None]:
        """The settlement, and, of a conditional page, what later rounds need of it while it does not change: its links, packed. None: they
        need all of it. Raises PageFailed."""
        if layer.rule is None:
            return await self._read_listing(lease, layer, request, response)
        status = response.status
        before = request.trail[-1] if request.trail else None
        response, reading = await read_page(layer, response, request.round, before)
        if reading.verdict in (PageVerdict.OK, PageVerdict.LACK) and layer.hold is not None:
            held = await check_hold(self._holds, layer, self._round(layer, request), reading.coverage)
            if held:
                raise PageFailed(HELD_BACK, held)
        self._count(layer, request, response.url, reading)
        self._count_coverage(layer, request, reading)
        if reading.verdict is PageVerdict.BLOCKED:
            self.blocked(layer, request)
            raise PageFailed(BLOCKED, reading.reason)
        if reading.verdict is PageVerdict.INVALID:
            # An unwanted status stays; a page that looks wrong may look right the next time.
            raise PageFailed("invalid", reading.reason, again=200 <= status < 300)
        if reading.verdict is PageVerdict.LIMIT:
            raise PageFailed("limit", reading.reason, again=False)
        if reading.verdict is PageVerdict.LACK and (
            layer.rule.lacking == "fail" or (reading.blank and layer.rule.lacking == "keep")
        ):
            raise PageFailed("lack", reading.reason, again=False)
        if reading.blank and reading.verdict is PageVerdict.OK:
            # The list has ended before this page, which is no part of the thread.
            await self.absent(layer, request)
        if layer.rule.follow or layer.rule.records is not None or layer.function is not None:
            self._note_empty(request, reading.records or reading.links)
        records = await records_to_store(layer, reading.records)
        if layer.options.fetched_by_scrapy and self._scrapy_fetcher is not None:
            try:
                records = await self._scrapy_fetcher.through(layer.site.name, response.url, records)
            except ItemFailed as error:
                raise PageFailed(PIPELINE, error.detail, again=False) from error
        if (name := layer.file(response, request)) is not None:
            try:
                await asyncio.to_thread(self._archive.keep_file, layer.site, name, response)
            except ArchiveFailed as error:
                raise PageFailed(ARCHIVE, str(error), after=ARCHIVE_PAUSE) from error
        row = layer.site.compiled.list_digests(layer.name, records) if layer.function is not None else ()
        if row:
            _refuse_replaced_lists(layer, request, row)
            reading = reading._replace(links=[_with_row(link, layer, row) for link in reading.links])
        part = layer.site.compiled.part(layer.name)
        further = turns(reading, layer.name) if part is not None or layer.function is not None else ()
        if further and records and (thread := self._thread(layer, request, response, records[0])):
            reading = reading._replace(links=[_of_thread(link, layer, thread) for link in reading.links])
        if layer.function is not None or layer.after_extract is not None:
            await self._children.define_targets(layer.site, reading.links)
        # Before anything is stored: a page with a link that cannot be queued fails as a whole.
        refused = self._children.refused
        children, withheld = self._children.of(reading.links, layer, request)
        why = "links could not be queued" if self._children.refused > refused else _why_partial(request, reading)
        if why:
            await self.note_gap(layer, request, why)
        complete = reading.verdict is not PageVerdict.LACK and not reading.broken
        all_links = not (why or self._children.only)
        items, kept = await self._store(
            layer, request, response, records, further, complete, bool(reading.links), all_links
        )
        visit = PageVisit(status, signature(response, records, reading.links)) if layer.recorded else None
        settlement = Settlement(lease, Ending.DONE, children, items, withheld=withheld, kept=kept, visit=visit)
        # A thread is known as a whole only if all its pages are read.
        whole = part is None or part.whole or not (request.turn or further)
        # A page that was read in part has to be read again: what is missing may not be.
        whole = whole and not why and not reading.asked_parent
        # Its page turns are fetched again with it.
        whole = whole and not (request.changed and any(link.turn for link in reading.links))
        return settlement, self._children.remembered(reading.links, layer, request) if whole else None

    def follow_again(
        self,
        lease: Lease,
        layer: ServedLayer,
        request: PageRequest,
        status: int,
        known: RememberedLinks | None,
        items: list[bytes],
    ) -> Settlement:
        """The settlement of a page that has not changed: it leads where it led; `items` are its rows, where they are to be written. Raises
        PageFailed."""
        visit = PageVisit(status) if layer.recorded else None
        links = known.of(layer.site.compiled, request.depth) if known is not None else []
        children, withheld = self._children.of(links, layer, request)
        return Settlement(lease, Ending.DONE, children, items, withheld=withheld, visit=visit)

    @staticmethod
    def _thread(layer: ServedLayer, request: PageRequest, response: Response, record: Record) -> Mapping[str, Any]:
        site = layer.site.compiled
        if (part := site.part(record.layer)) is None or part.whole:
            return NOTHING
        return site.thread_of(record, site.canonical(layer.name, layer.own_url(response)), request.round)

    async def absent(self, layer: ServedLayer, request: PageRequest, to: int = 0) -> None:
        """A page turn leads to no page of its own: a thread may be whole without it. `to` is its fingerprint where it redirects to; a page that is not
        there ends only the pages that a rule counts, since what a page links to should be there."""
        if not request.thread or not (to or MARK in request.inherited):
            return
        try:
            if not await self._record_sink.put_absent(layer, request, to):
                raise PageFailed(
                    STORE_UNAVAILABLE, "The database could not be reached in time.", after=self._record_sink.pause
                )
        except StoreRefused as error:
            raise PageFailed("store_refused", str(error), again=False) from error

    async def begin(self, layer: ServedLayer, request: PageRequest) -> None:
        """A page of a round is about to be fetched. Raises PageFailed, as what follows."""
        if layer.site.keeps_gone and request.round is not None:
            await self._noted(self._record_sink.begin_page(layer.site, request.round))
            if self._children.only:
                await self.note_gap(layer, request, "a worker crawled one layer only")

    async def note(
        self,
        layer: ServedLayer,
        request: PageRequest,
        outcome: PageOutcome,
        remembered: RememberedLinks | None = None,
    ) -> None:
        """Note what became of a page without records, for the rows that it had before. `remembered` is where it leads."""
        if layer.site.keeps_gone:
            links = remembered.of(layer.site.compiled, request.depth) if remembered is not None else []
            further = turns(Reading(PageVerdict.OK, "", [], links), layer.name)
            await self._noted(self._record_sink.put_outcome(layer, request, outcome, further))

    async def note_gap(self, layer: ServedLayer, request: PageRequest, why: str) -> None:
        """Note that not all is fetched in this round that the pages of a layer lead to."""
        if layer.site.keeps_gone and request.round is not None:
            await self._noted(self._record_sink.note_gap(layer.site, request.round, layer.name, why))

    async def _noted(self, noting: Awaitable[bool]) -> None:
        try:
            if not await noting:
                detail = "The database could not be reached in time."
                raise PageFailed(STORE_UNAVAILABLE, detail, after=self._record_sink.pause)
        except StoreError as error:
            raise PageFailed("store_refused", str(error), again=False) from error

    def led_away(
        self, lease: Lease, layer: ServedLayer, request: PageRequest, response: Response, there: str
    ) -> Settlement:
        """Settle a page that redirected to a page of another layer: that one is queued there, unless it was seen."""
        link = layer.site.compiled.link(
            response.url,
            there,
            method=request.method,
            headers=request.headers,
            cookies=request.cookies,
            body=request.body,
            inherited=request.inherited,
            depth=request.depth,
            dont_filter=request.always,
        )
        link = link._replace(
            secrets=request.secrets, task=request.task, changed=request.changed, passage=request.passage
        )
        children, withheld = self._children.of([link], layer, request._replace(url=request.first))
        visit = PageVisit(response.status) if layer.recorded else None
        # A task is over when the page is read there, or has failed. One that asks for what was not seen may be filtered there.
        ending = Ending.REPLACED if request.task and request.always and children else Ending.DONE
        return Settlement(lease, ending, children, withheld=withheld, visit=visit)

    def _note_empty(self, request: PageRequest, found: Sequence[object]) -> None:
        if not found and is_seed(request):
            self._site_counters.of(request.site).add(SEEDS_EMPTY)
            logger.warning("The seed %s has neither records nor links.", request.url)

    async def _read_listing(
        self, lease: Lease, layer: ServedLayer, request: PageRequest, response: Response
    ) -> tuple[Settlement, bytes | None]:
        """Read a sitemap or feed."""
        try:
            made = partial(links_of, layer.site.compiled, layer.name == FEED, response, SITEMAP)
            found = await asyncio.to_thread(made) if len(response.body) > BIG else made()
        except LimitExceeded as error:
            raise PageFailed("limit", str(error), again=False) from error
        kind = "feed" if layer.name == FEED else "sitemap"
        if found is None:
            raise PageFailed("invalid", f"{response.url} is not a {kind}.")
        links, fault, nowhere, overlong = found
        if nowhere:
            self._site_counters.of(layer.site.name).add(NOWHERE + kind, nowhere)
            logger.warning("%d entries of the %s %s have no address.", nowhere, kind, response.url)
        if fault:
            self._site_counters.of(layer.site.name).add(BROKEN + kind)
            logger.warning("The %s %s is not well-formed (%s): entries may be missing.", kind, response.url, fault)
        if overlong:
            self._site_counters.of(layer.site.name).add(OVERLONG + kind)
            logger.warning(
                "%s: the %s %s has an address of %d characters, more than %d, which was left out: %.100s …",
                layer.site.name,
                kind,
                response.url,
                len(overlong),
                LONGEST,
                overlong,
            )
        self._note_empty(request, links)
        is_partial = fault or nowhere or not links
        if is_partial:
            await self.note_gap(layer, request, f"a {kind} may have been read in part")
        children, withheld = self._children.of(links, layer, request)
        # What is too old for `since` is another part of it each day.
        is_partial = is_partial or SINCE in request.inherited
        remembered = None if is_partial else self._children.remembered(links, layer, request)
        return Settlement(lease, Ending.DONE, children, withheld=withheld), remembered

    async def _store(
        self,
        layer: ServedLayer,
        request: PageRequest,
        response: Response,
        records: list[Record],
        further: Sequence[int],
        whole: bool,
        has_links: bool,
        all_links: bool,
    ) -> tuple[list[bytes], int]:
        """Store records in the database, or make items of them: the items, and how many records are in the database."""
        # A function may yield records of other layers, too.
        tables = layer.site.compiled.site.store
        about = {"url": layer.own_url(response)}
        if (name := layer.file(response, request)) is not None:
            about["file"] = name
        # Where a later round may take them from the store, they are now as they will be then.
        rows = _rows(layer) if self._streams and layer.conditional else None
        items = [
            codec.encode(
                {
                    "layer": one.layer,
                    **about,
                    **(one.fields if rows is None else self._record_sink.as_read(layer.site, rows, one.fields)),
                },
                limit=self._payload_max,
            )
            for one in records
            if self._streams or one.layer not in tables
        ]
        has_records = bool(records)
        records = [one for one in records if one.layer in tables] if items else records
        if not (records or (layer.site.keeps_gone and layer.rule is not None)):
            return items, 0
        try:
            if not await self._record_sink.put(
                layer, request, response, records, further, whole, has_records, has_links, all_links
            ):
                raise PageFailed(
                    STORE_UNAVAILABLE,
                    "The database could not be reached in time.",
                    after=self._record_sink.pause,
                )
        except StoreRefused as error:
            raise PageFailed("store_refused", str(error), again=False) from error
        if not records:
            return items, 0
        counters = self._site_counters.of(layer.site.name)
        counters.add("site/records", len(records))
        counters.add(ROWS + layer.name, len(records))
        for name, lost in layer.site.compiled.overwritten(layer.name, records).items():
            counters.add(OVERWRITTEN + name, lost)
        self._count_replaced(layer, request, response, records)
        return items, 0 if self._streams else len(records)

    def wants_whole(self, layer: ServedLayer, request: PageRequest) -> bool:
        """Whether a page must be fetched whole, since its records are wanted and cannot be read back from the store, or may be another
        page's there."""
        return (layer.site.keeps_gone and self._record_sink.is_outdated(layer, request)) or (
            self._streams
            and layer.rule is not None
            and layer.site.compiled.brings_records(layer.name)
            and _rows(layer) is None
        )

    async def unchanged(self, layer: ServedLayer, request: PageRequest, response: Response) -> list[bytes] | None:
        """The records of a page that has not changed, as items, if they are wanted: from the store. None if they are not there."""
        if not self._streams and layer.rule is not None and layer.site.compiled.brings_records(layer.name):
            counters = self._site_counters.of(layer.site.name)
            counters.add(f"{COVERAGE}{self._round(layer, request)}|{layer.name}|u")
        if not self._streams or layer.rule is None or (rows := _rows(layer)) is None:
            return []
        url = layer.site.compiled.canonical(layer.name, response.url)
        try:
            records = await self._record_sink.read_page(layer.site, rows, url)
        except StoreUnavailable:
            raise PageFailed(
                STORE_UNAVAILABLE, "The database could not be reached in time.", after=self._record_sink.pause
            ) from None
        except StoreError as error:
            raise PageFailed("store_refused", str(error), again=False) from error
        about = {"layer": layer.name, "url": response.url}
        return [codec.encode({**about, **one}, limit=self._payload_max) for one in records] or None

    def _count_replaced(
        self, layer: ServedLayer, request: PageRequest, response: Response, records: Sequence[Record]
    ) -> None:
        """Count the records that replace those of another page of the round, or of another site with the same table. A page that
        redirected is the page that was linked."""
        site, counters = layer.site, self._site_counters.of(layer.site.name)
        url = site.compiled.canonical(layer.name, layer.own_url(response))
        for record in records:
            key = site.compiled.key_of(record, url)
            if key is None:
                continue
            scope = (*site.compiled.table_of(record.layer, request.round), frozenset(record.fields), key)
            if self._keys.replaces(scope, request.mark, record.fields, site.name, request.round):
                counters.add(REPLACED + record.layer)

    def blocked(self, layer: ServedLayer, request: PageRequest) -> None:
        """Count a wall that came instead of a page."""
        counters = self._site_counters.of(layer.site.name)
        counters.add(BLOCKED_PAGES)
        counters.add(f"{COVERAGE}{self._round(layer, request)}|{layer.name}|b")

    def _round(self, layer: ServedLayer, request: PageRequest) -> int:
        """The round that a page counts to; a page of a task or an operator belongs to none."""
        return request.round if request.round is not None else self._record_sink.rounds.get(layer.site.name, 0)

    def _count_coverage(self, layer: ServedLayer, request: PageRequest, reading: Reading) -> None:
        """Count which fields had a value; a page turn after the end of its list is no page."""
        ends = reading.blank and reading.verdict is PageVerdict.OK
        if ends or reading.verdict not in (PageVerdict.OK, PageVerdict.LACK):
            return
        counters, head = self._site_counters.of(layer.site.name), f"{COVERAGE}{self._round(layer, request)}|"
        added: list[tuple[str, float]] = [(f"{head}{layer.name}|n", 1)]
        if reading.records or (layer.leads_only and reading.links):
            added.append((f"{head}{layer.name}|v", 1))
        for name, (asked, found) in reading.coverage.items():
            if asked:
                added.append((f"{head}{name}|n", asked))
            if found:
                added.append((f"{head}{name}|v", found))
        counters.add_all(added)

    def _count(self, layer: ServedLayer, request: PageRequest, url: str, reading: Reading) -> None:
        counters = self._site_counters.of(layer.site.name)
        if reading.verdict not in (PageVerdict.OK, PageVerdict.BLOCKED):
            counters.add(f"site/{reading.verdict.value}")
        if reading.verdict in (PageVerdict.OK, PageVerdict.LACK):
            counters.add(PAGES_READ + layer.name)
        if reading.verdict is PageVerdict.LACK:
            counters.add(LACKING + layer.name)
        for name in reading.missing:
            counters.add(f"{MISSING}{layer.name}.{name}")
            if _is_empty((one.fields for one in reading.records), name.split(".")):
                counters.add(f"{EMPTY}{layer.name}.{name}")
        for name in reading.unlinked:
            counters.add(f"{UNLINKED}{layer.name}.{name}")
        for name in reading.textless:
            counters.add(f"{TEXTLESS}{layer.name}.{name}")
        for name in reading.linkless:
            counters.add(f"{LINKLESS}{layer.name}.{name}")
        if reading.broken:
            counters.add(BROKEN + layer.name)
        if reading.doubt:
            counters.add((DOUBTED if reading.doubt == GUESSED else DAMAGED) + layer.name)
        for name in reading.limited:
            counters.add(f"{LIMITED}{layer.name}.{name}")
        for name, why in reading.overlong.items():
            counters.add(f"{OVERLONG}{layer.name}.{name}")
            logger.warning("%s: %s.%s left out a link of %s: %s.", layer.site.name, layer.name, name, url, why)
        for name in reading.skipped:
            counters.add(f"{SKIPPED}{layer.name}.{name}")
        for name in reading.contested:
            counters.add(f"{CONTESTED}{layer.name}.{name}")
        if reading.notes:
            counters.add("site/notes", len(reading.notes))
            assert layer.rule is not None
            named = {note.partition(":")[0]: note for note in reading.notes if not note.startswith(CHARSET)}
            for name in named.keys() - set(reading.missing):
                if name.partition(".")[0] in layer.rule.fields:
                    counter = f"{UNREADABLE}{layer.name}.{name}"
                    counters.add(counter)
                    if self._site_counters.is_first(layer.site.name, request.round, counter):
                        logger.warning(
                            "%s: %s has a value that is not of its type: %s.%s",
                            layer.site.name,
                            request.url,
                            layer.name,
                            named[name],
                        )


def _why_partial(request: PageRequest, reading: Reading) -> str:
    """Why a page does not lead to all that it should; "" if it does."""
    if reading.limited:
        return "links are beyond limit, pages or limits.depth"
    if reading.broken:
        return "pages may have been read in part"
    if reading.skipped:
        return "page turns may have skipped pages"
    if is_seed(request) and not (reading.records or reading.links):
        return "a seed has neither records nor links"
    return ""


def _of_thread(link: PageRequest, layer: ServedLayer, thread: Mapping[str, Any]) -> PageRequest:
    return link._replace(thread=thread) if link.turn and link.layer == layer.name else link


def _with_row(link: PageRequest, layer: ServedLayer, row: tuple[str, ...]) -> PageRequest:
    return link._replace(row=row) if link.turn and link.layer == layer.name else link


def _refuse_replaced_lists(layer: ServedLayer, request: PageRequest, row: tuple[str, ...]) -> None:
    """PageFailed for a further page of a thread whose record would replace that of the page before."""
    if request.row and request.row[0] == row[0] and request.row[1] != row[1]:
        key = ", ".join(layer.site.compiled.site.store[layer.name].key)
        raise PageFailed(
            "store_refused",
            f"The record of this page has the same key ({key}) as that of {request.before}, which led here, and other lists: one would "
            f"replace the other. Yield what the lists hold as records of a layer of their own, and the record of {layer.name} on the first "
            "page only (if not page.turn).",
            again=False,
        )


def _is_empty(records: Iterable[Any], path: Sequence[str]) -> bool:
    """Whether none of the records, or of those nested in them, has a field."""
    first, *more = path
    values = (record.get(first) for record in records if isinstance(record, dict))
    if more:
        return all(_is_empty(value if isinstance(value, list) else [value], more) for value in values)
    return all(value in (None, [], "") for value in values)


def _rows(layer: ServedLayer) -> PageRows | None:
    """Where the records of a page can be read back from; None where its rows do not tell all of them."""
    site = layer.site.compiled
    # Code of the project may have added what no column has, and the file of a page is named by its response.
    altered = layer.before_store is not None or layer.after_extract is not None or layer.options.fetched_by_scrapy
    if altered or layer.saves_files or layer.canonical or site.part(layer.name) is not None:
        return None
    return page_rows(site.site, layer.name)
