"""One page from its lease to its settlement: asked for, judged, read, stored.

Every way through ends in exactly one settlement, and the host's slot is freed exactly once, as soon as the answer is there.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Mapping, Sequence

from gossamer.courier import Known, Withheld
from gossamer.courier.leases import Identity, identity
from gossamer.engine import hooks
from gossamer.engine.archive.archive import Archive
from gossamer.engine.counters import Tallies
from gossamer.engine.download_counters import Meter
from gossamer.engine.http.conditional import NOT_MODIFIED
from gossamer.engine.http.redirect import location, next_hop
from gossamer.engine.http.request import Ask, FetchError, Got
from gossamer.engine.http.robots import Robots
from gossamer.engine.http.scrapy_fetcher import Borrowed
from gossamer.engine.page import payload as errands
from gossamer.engine.page import retry
from gossamer.engine.page.feed import links_of
from gossamer.engine.page.payload import Errand
from gossamer.engine.page.versions import Versions
from gossamer.engine.records import Shelf
from gossamer.engine.sites import Book, ServedLayer, ServedSite
from gossamer.errors import ArchiveFailed, GossamerError, StoreRefused
from gossamer.frontier import codec
from gossamer.model import Ending, Feedback, Lease, Request, Settlement, Verdict
from gossamer.model.counter_names import FILTERED, RETRIES
from gossamer.sites.downloader import ItemFailed, LeftOut
from gossamer.sites.extract.handler import handled
from gossamer.sites.page import Document, Link, Reading, Record
from gossamer.sites.page import Verdict as Judged
from gossamer.sites.plan import FEED, SITEMAP

logger = logging.getLogger(__name__)

THROTTLED = frozenset({429, 503})
GONE = frozenset({404, 410})
"""The page is no more: that is an answer, not a failure."""
ARCHIVE_PAUSE = 60.0
"""Seconds until a page comes again that could not be kept: room has to be made."""
BIG = 512 * 1024
"""Pages larger than this are read in a thread, so that the others need not wait."""

Landed = Callable[[Feedback | None], None]
OK = Feedback(Verdict.OK)


class Failed(Exception):
    """The page failed. `again` says whether another try may help, `after` how many seconds to wait at least."""

    def __init__(self, reason: str, detail: str, again: bool = True, after: float = 0.0) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.again, self.after = reason, detail, again, after


class Visits:
    """Everything that a visit needs, shared by all of them. `only` is the one layer that is crawled, "" for all."""

    def __init__(
        self,
        book: Book,
        fetcher: Meter,
        robots: Robots,
        tallies: Tallies,
        shelf: Shelf,
        archive: Archive,
        payload_max: int,
        only: str = "",
    ) -> None:
        self._book, self._fetcher, self._robots, self._tallies = book, fetcher, robots, tallies
        self._shelf, self._archive, self._payload_max = shelf, archive, payload_max
        self._only, self._versions = only, Versions()
        self._came: dict[Identity, tuple[ServedSite | None, Mapping[str, str]]] = {}
        """Conditional pages that are to be settled."""
        self.known = Known()
        """The fingerprints that would surely be refused as seen."""
        self.borrowed: Borrowed | None = None
        """Whose project has a word in what becomes of the records of some sites."""

    async def visit(self, lease: Lease, landed: Landed) -> Settlement | None:
        """`landed` is called once, when the answer is there or will not come. None: the page's own turn is still to come. The
        host was asked for its robots.txt instead, in the page's place; or its site is served no more."""
        layer = self._book.layer(lease.lane)
        told = False

        def once(feedback: Feedback | None) -> None:
            nonlocal told
            if not told:
                told = True
                landed(feedback)

        errand: Errand | None = None
        try:
            errand = errands.unpack(lease)
            if layer is None:
                layer = self._matched_again(lease, errand)
                if layer is None:
                    told = True
                    return None
            if layer.site.obeys and self._robots.known(errand.url, layer.agent) is None:
                # The host's slot and its turn are used up by that: pages that waited for it must not come bunched up.
                await self._robots.ask(
                    errand.url, layer.agent, layer.site.name, layer.manner(errand.url, errand.before)[0]
                )
                told = True
                return None
            return await self._visit(lease, layer, errand, once)
        except Failed as failed:
            return await self._failed(lease, layer, errand, failed)
        except LeftOut:
            self._tallies.of(lease.lane.rpartition(".")[0]).add("site/left_out")
            return Settlement(lease)
        except FetchError as error:
            once(Feedback(Verdict.ERROR))
            return await self._failed(
                lease, layer, errand, Failed(error.reason, error.detail, error.retriable, error.after)
            )
        except GossamerError as error:
            reason = getattr(error, "reason", "garbage")
            return await self._failed(lease, layer, errand, Failed(reason, str(error), again=False))
        except Exception as error:
            # A bug, here or in a hook: it must not take the worker with it, and somebody should see it.
            detail = "".join(traceback.format_exception(error))
            return await self._failed(lease, layer, errand, Failed("engine", detail, again=False))
        finally:
            once(None)

    def forget(self, site: str) -> None:
        """A site that has changed, or is served no more."""
        self._versions.forget(site)

    def went_back(self) -> None:
        """The frontier may have an older state: a page that counted may count no more, and must be had whole."""
        self._versions.clear()
        self._came.clear()

    def settled(self, lease: Lease, counts: bool) -> None:
        """Only now a version of a page is one that was seen: what could not be read, stored or settled must come whole the next
        time; so must what was read by rules that have changed since."""
        if not self._came:
            return
        site, headers = self._came.pop(identity(lease), (None, {}))
        if counts and site is not None and self._book.sites.get(site.name) is site:
            self._versions.note(lease.lane, lease.fingerprint, headers)

    def _matched_again(self, lease: Lease, errand: Errand) -> ServedLayer | None:
        """Its layer is no more in the site's file: the one that fits the URL now. None: the site was taken away while its
        pages lay here, and others may serve it, or this worker later."""
        name = lease.lane.rpartition(".")[0]
        site = self._book.sites.get(name)
        if site is None:
            return None
        found = site.compiled.layer_of(errand.url)
        if found is None:
            raise Failed(
                "unknown_layer",
                f"The site {name} has no layer {lease.lane.rpartition('.')[2]}, and none matches {errand.url}.",
                again=False,
            )
        return site.layers[found[0]]

    async def _visit(self, lease: Lease, layer: ServedLayer, errand: Errand, landed: Landed) -> Settlement:
        site = layer.site
        if site.obeys:
            word = self._robots.known(errand.url, layer.agent)
            if word is not None and not word.allowed:
                if word.why is not None:
                    detail = f"robots.txt could not be asked for: {word.why.detail}"
                    raise Failed(word.why.reason, detail, word.why.retriable, word.after)
                if word.after:
                    raise Failed(
                        "robots", "robots.txt could not be had; until it can be, nothing is fetched.", after=word.after
                    )
                self._tallies.of(site.name).add("site/robots_denied")
                return Settlement(lease)
        options, cookies = layer.manner(errand.url, errand.before)
        cookies = {**cookies, **errand.cookies} if cookies else errand.cookies
        ask = Ask(errand.url, errand.method, errand.headers, cookies, errand.body, site.name, options)
        conditional = layer.conditional and errand.method == "GET"
        if conditional and (conditions := self._versions.conditions(lease.lane, lease.fingerprint)):
            ask = ask._replace(headers={**errand.headers, **conditions})
        if layer.before_request is not None:
            ask = await hooks.call(layer.before_request, ask)
            if ask is None:
                self._tallies.of(site.name).add("site/left_out")
                return Settlement(lease)
        got = await self._fetcher.fetch(ask)
        tally = self._tallies.of(site.name)
        status = got.status
        if status in THROTTLED:
            asked = retry.retry_after(got.headers.get("retry-after", ""), time.time())
            landed(Feedback(Verdict.THROTTLED, got.seconds, asked or None))
        else:
            landed(Feedback(Verdict.ERROR if status >= 500 else Verdict.OK, got.seconds))
        if layer.saves:
            try:
                self._archive.keep(site, got)
            except ArchiveFailed as error:
                raise Failed("archive", str(error), after=ARCHIVE_PAUSE) from error
        if status in layer.retry_status and not (layer.rule and status in layer.rule.valid.status):
            asked = retry.retry_after(got.headers.get("retry-after", ""), time.time())
            raise Failed(f"http_{status}", f"The answer was {status}.", after=asked)
        if 300 <= status < 400 and layer.redirects and (target := location(got)) is not None:
            return self._redirected(lease, layer, errand, ask, got, target)
        if status in GONE and not (layer.rule and status in layer.rule.valid.status):
            tally.add("site/gone")
            return Settlement(lease)
        if conditional and status == NOT_MODIFIED:
            tally.add("site/unchanged")
            return Settlement(lease)
        settlement = await self._read(lease, layer, errand, got)
        if conditional:
            self._came[identity(lease)] = site, got.headers
        return settlement

    def _redirected(
        self, lease: Lease, layer: ServedLayer, errand: Errand, ask: Ask, got: Got, target: str
    ) -> Settlement:
        hop = next_hop(ask, got, target, errand.hops, layer.redirects)
        fingerprint = layer.site.compiled.fingerprint(layer.name, hop.url, hop.method, hop.body)
        # A page that leads to itself (to set a cookie) is the same page: as a new one it would be refused.
        unfiltered = errand.always or fingerprint == lease.fingerprint
        link = Link(
            hop.url, layer.name, fingerprint, lease.priority, hop.method, hop.headers, errand.cookies and hop.cookies, hop.body,
            errand.inherited, errand.turn, errand.depth, unfiltered,
        )  # fmt: skip
        request = errands.pack(
            link, layer.lane, errand.trail, [*errand.hops, errand.url], self._payload_max, errand.round, errand.again,
            errand.always,
        )  # fmt: skip
        return Settlement(lease, Ending.REPLACED, [request])

    async def _read(self, lease: Lease, layer: ServedLayer, errand: Errand, got: Got) -> Settlement:
        if layer.rule is None:
            return self._listed(lease, layer, errand, got)
        document = Document(got.url, got.status, got.headers, got.body, errand.inherited, errand.turn, errand.depth)
        if layer.after_download is not None:
            document = await hooks.call(layer.after_download, document)
        if layer.handler is not None:
            reading = await handled(layer.handler, layer.site.compiled, layer.name, document)
        elif len(document.body) > BIG:
            reading = await asyncio.to_thread(layer.site.compiled.read, layer.name, document)
        else:
            reading = layer.site.compiled.read(layer.name, document)
        if layer.after_extract is not None:
            reading = await hooks.call(layer.after_extract, document, reading)
        self._count(layer, reading)
        if reading.verdict is Judged.INVALID:
            # A status that is not wanted stays what it is; a page that looks wrong may look right the next time.
            raise Failed("invalid", reading.reason, again=200 <= got.status < 300)
        if reading.verdict is Judged.LACK and layer.rule.lacking == "fail":
            raise Failed("lack", reading.reason, again=False)
        records = reading.records
        if layer.before_store is not None:
            changed = [await hooks.call(layer.before_store, record) for record in records]
            records = [record for record in changed if record is not None]
        if layer.options.lent and self.borrowed is not None:
            try:
                records = await self.borrowed.through(layer.site.name, document.url, records)
            except ItemFailed as error:
                raise Failed("pipeline", error.detail, again=False) from error
        items, kept = await self._stored(layer, errand, document, records)
        children, withheld = self._children(reading.links, layer, errand)
        return Settlement(lease, Ending.DONE, children, items, withheld=withheld, kept=kept)

    def _children(
        self, links: Sequence[Link], layer: ServedLayer, errand: Errand
    ) -> tuple[list[Request], Withheld | None]:
        """What is to be asked for next, without what would be refused anyway; and how to ask for that, too."""
        known: list[Link] = []
        children = self._asked(links, layer, errand, known)
        if not known:
            return children, None
        self._tallies.of(layer.site.name).add(FILTERED, len(known))
        return children, Withheld(self.known.edition, lambda: self._asked(known, layer, errand, None))

    def _asked(
        self, links: Sequence[Link], layer: ServedLayer, errand: Errand, left_out: list[Link] | None
    ) -> list[Request]:
        """Those that are known are put into `left_out` instead; None: all are asked for."""
        site, known, trail = layer.site, self.known.has, None
        remembering = site.remembering
        children = []
        for link in links:
            lane = site.layers[link.layer].lane
            if errand.again and link.layer == errand.again:
                link = link._replace(dont_filter=True)
            if left_out is not None and lane in remembering and not link.dont_filter and known(lane, link.fingerprint):
                left_out.append(link)
                continue
            if self._only and link.layer != self._only:
                continue
            trail = trail or errand.after
            try:
                children.append(errands.pack(link, lane, trail, (), self._payload_max, errand.round))
            except (GossamerError, ValueError) as error:
                self._tallies.of(site.name).add("site/links_refused")
                logger.warning("A link of %s cannot be followed: %s", errand.url, error)
        return children

    async def _stored(
        self, layer: ServedLayer, errand: Errand, document: Document, records: list[Record]
    ) -> tuple[list[bytes], int]:
        """Into the database, or as items for the stream: those, and how many are in the database."""
        if not records:
            return [], 0
        if not layer.stored:
            return [
                codec.encode({"layer": one.layer, "url": document.url, **one.fields}, limit=self._payload_max)
                for one in records
            ], 0
        try:
            if not await self._shelf.put(layer, errand, document, records):
                raise Failed(
                    "store_away",
                    "The database could not be reached in time.",
                    after=self._shelf.pause,
                )
        except StoreRefused as error:
            raise Failed("store_refused", str(error), again=False) from error
        self._tallies.of(layer.site.name).add("site/records", len(records))
        return [], len(records)

    def _listed(self, lease: Lease, layer: ServedLayer, errand: Errand, got: Got) -> Settlement:
        links = links_of(layer.site.compiled, layer.name == FEED, errand, got, SITEMAP)
        if links is None:
            raise Failed("invalid", f"{got.url} is no {'feed' if layer.name == FEED else 'sitemap'}.")
        children, withheld = self._children(links, layer, errand)
        return Settlement(lease, Ending.DONE, children, withheld=withheld)

    def _count(self, layer: ServedLayer, reading: Reading) -> None:
        tally = self._tallies.of(layer.site.name)
        if reading.verdict is not Judged.OK:
            tally.add(f"site/{reading.verdict.value}")
        for name in reading.missing:
            tally.add(f"site/missing/{layer.name}.{name}")
        if reading.notes:
            tally.add("site/notes", len(reading.notes))

    async def _failed(
        self, lease: Lease, layer: ServedLayer | None, errand: Errand | None, failed: Failed
    ) -> Settlement:
        group = lease.lane.rpartition(".")[0]
        tally = self._tallies.of(group)
        tally.add(f"engine/failed/{failed.reason}")
        retries = layer.retries if layer is not None else 0
        if failed.reason == "store_away":
            # No fault of the page: it comes again as often as it takes.
            return Settlement(lease, Ending.RETRY, delay=max(failed.after, 1.0))
        pause = retry.delay(lease.attempt, retries, retriable=failed.again, asked=failed.after)
        if pause is not None:
            tally.add(RETRIES)
            return Settlement(lease, Ending.RETRY, delay=pause)
        url = errand.url if errand is not None else ""
        logger.warning(
            "%s failed for good (%s): %s",
            url or f"A request of {lease.lane}",
            failed.reason,
            failed.detail.strip()[:500],
        )
        await self._tell(layer, url, failed)
        return Settlement(lease, Ending.FAILED, reason=failed.reason, detail=failed.detail)

    async def _tell(self, layer: ServedLayer | None, url: str, failed: Failed) -> None:
        if layer is None or layer.on_fail is None:
            return
        try:
            await hooks.call(layer.on_fail, url, failed.reason, failed.detail)
        except Exception:
            logger.exception("The hook on_fail of %s failed itself.", layer.lane)
