"""One page from its lease to its settlement: fetched, checked, read, stored.

Every path ends in exactly one settlement, or gives the page back unsent.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence

from gossamer.courier.leases import Identity, identity
from gossamer.engine import hooks
from gossamer.engine.counters import DownloadCounters, SiteCounters
from gossamer.engine.http.redirect import location, next_hop
from gossamer.engine.http.robots import Robots
from gossamer.engine.login import LoginFailed, SiteLogins
from gossamer.engine.page import payload, redirects
from gossamer.engine.page.conditional import NOT_MODIFIED, is_conditional
from gossamer.engine.page.failure import PageFailed, PageFailures
from gossamer.engine.page.reader import PageReader
from gossamer.engine.page.seeds import SeedReport, is_seed
from gossamer.engine.page.send import fetch, prepared
from gossamer.engine.page.unserved_lanes import UnservedLanes
from gossamer.engine.page.versions import KnownVersion, PageVersions, context_of
from gossamer.engine.sites import ServedLayer, ServedSite, SiteSet
from gossamer.errors import DecodingError, GossamerError
from gossamer.model import AddOutcome, Ending, Feedback, HostVerdict, Lease, PageVisit, Settlement
from gossamer.model.counter_names import (
    GONE,
    LEFT_OUT,
    LINKED_DENIED,
    LINKED_GONE,
    REDIRECTED,
    REDIRECTED_SEEN,
    ROBOTS_DENIED,
)
from gossamer.model.fetch import FetchError
from gossamer.model.page import PageRequest, Response
from gossamer.model.politeness import REFUSALS, refusal, retry_after
from gossamer.model.reply import BLOCKED, GARBAGE, of_status
from gossamer.model.table import PageOutcome
from gossamer.sites.downloader import PageDropped
from gossamer.sites.extract.turns import MARK
from gossamer.sites.extract.validity import sign_of

logger = logging.getLogger(__name__)

LOGIN_PAUSE = 60.0
"""Seconds until a page is leased again whose site could not be logged in to."""

Landed = Callable[[Feedback], None]


def _is_cancelled() -> bool:
    """Whether this page is given up. A function of a site, too, may await something that was cancelled, and pass that on."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


class PageProcessor:
    """Processes the pages of all sites. `is_behind` says whether this worker serves a site by an older file than the crawl has."""

    def __init__(
        self,
        site_set: SiteSet,
        fetcher: DownloadCounters,
        robots: Robots,
        logins: SiteLogins,
        versions: PageVersions,
        reader: PageReader,
        site_counters: SiteCounters,
        payload_max: int,
        is_behind: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._unserved = UnservedLanes(site_set, is_behind, payload_max)
        self._site_set, self._fetcher, self._robots, self._logins = site_set, fetcher, robots, logins
        self._versions, self._reader = versions, reader
        self._site_counters, self._payload_max = site_counters, payload_max
        self._seeds = SeedReport(site_counters)
        self._failures = PageFailures(site_counters, self._seeds)
        self._came: dict[Identity, tuple[ServedSite, KnownVersion, Mapping[str, str], bytes]] = {}
        """Conditional pages that wait to be settled: what was known, the headers of another version, and the links, packed."""
        self._unread: dict[Identity, tuple[int, ...]] = {}
        """Pages that their lists say have changed, that nobody asked for, and that wait to be settled: their fingerprints."""
        self._redirects: dict[Identity, ServedLayer] = {}
        """Pages that redirected within their layer and wait to be settled: whether what they lead to was seen is known then."""

    async def process(self, lease: Lease, landed: Landed) -> Settlement | None:
        """Calls `landed` when the response is there. None: the page was not fetched, and is to be given back. Its host's robots.txt was
        fetched in its place, or its site is stopped or not served any more."""
        layer = self._site_set.layer(lease.lane)
        request: PageRequest | None = None
        try:
            request = payload.unpack(lease)
            if lease.visit:
                request = payload.visited_again(request)
            if layer is None:
                found = await self._unserved.layer_of(lease, request)
                if not isinstance(found, ServedLayer):
                    return found
                layer = found
            if request.hops:
                request = redirects.marked(layer, request)
            if layer.site.obeys and self._robots.known(request.url, layer.agent) is None:
                # That uses up the host's slot and turn: pages that waited for it must not come in a bunch.
                options, _ = layer.manner(request.url, request.before)
                word = await self._robots.ask(request.url, layer.agent, layer.site.name, options)
                if not word.after:
                    return None
                # It could not be fetched, and nor can the page: that is a try of the page.
            return await self._process(lease, layer, request, landed)
        except PageFailed as failed:
            return await self._failures.settle(lease, layer, request, failed)
        except LoginFailed as error:
            if error.refused:
                # The site is stopped: its pages wait, unsent.
                return None
            self._site_counters.of(lease.lane.rpartition(".")[0]).add("engine/failed/login")
            return Settlement(lease, Ending.RETRY, delay=LOGIN_PAUSE)
        except PageDropped:
            self._site_counters.of(lease.lane.rpartition(".")[0]).add(LEFT_OUT)
            try:
                return await self._left_out(lease, layer, request, "a middleware dropped pages")
            except PageFailed as failed:
                return await self._failures.settle(lease, layer, request, failed)
        except FetchError as error:
            landed(Feedback(HostVerdict.ERROR))
            return await self._failures.settle(
                lease, layer, request, PageFailed(error.reason, error.detail, error.retriable, error.after)
            )
        except GossamerError as error:
            reason = getattr(error, "reason", GARBAGE)
            return await self._failures.settle(lease, layer, request, PageFailed(reason, str(error), again=False))
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            # A bug, here or in a hook: it must not end the worker, and has to be seen.
            detail = "".join(traceback.format_exception(error))
            return await self._failures.settle(lease, layer, request, PageFailed("engine", detail, again=False))

    def _note_unread(self, lease: Lease, request: PageRequest) -> None:
        # A page turn counts as read: without it, its thread would be fetched again in each round.
        if request.changed and not request.turn:
            self._unread[identity(lease)] = request.fingerprint, *request.marks

    def is_blocked(self, request: PageRequest, response: Response) -> bool:
        """Whether a wall came instead of a page: that counts against the proxy that fetched it."""
        site = self._site_set.sites.get(request.site)
        layer = site.layers.get(request.layer) if site is not None else None
        return layer is not None and bool(self._sign(layer, response, layer.redirect(response)))

    @staticmethod
    def _sign(layer: ServedLayer, response: Response, target: str | None) -> str:
        """The sign that a wall came. What a hook makes of the body is looked at when it has."""
        return sign_of(response, target) if layer.after_download is not None else layer.blocked(response, target)

    def forget(self, site: str) -> None:
        """Forget a site that has changed, or is not served any more."""
        self._versions.forget(site)
        self._logins.forget(site)

    def rolled_back(self) -> None:
        """The frontier may have an older state: pages that were settled may not be, and have to be fetched whole."""
        self._versions.rolled_back([site.name for site in self._site_set if site.conditional])
        self._came.clear()
        self._unread.clear()
        self._redirects.clear()

    def settled(self, lease: Lease, counts: bool, children: Sequence[AddOutcome]) -> None:
        """Note the version of a page only now: a page that was not read, stored or settled has to be fetched whole the next time; so
        has a page that was read by rules that have changed since."""
        layer = self._redirects.pop(identity(lease), None) if self._redirects else None
        if layer is not None and counts and AddOutcome.DUPLICATE in children:
            self._site_counters.of(layer.site.name).add(REDIRECTED_SEEN + layer.name)
        unread = self._unread.pop(identity(lease), None) if self._unread else None
        if unread is not None and counts:
            self._versions.forget_texts(lease.lane, unread)
        if not self._came:
            return
        came = self._came.pop(identity(lease), None)
        if counts and came is not None and self._site_set.sites.get(came[0].name) is came[0]:
            self._versions.note(*came)

    async def _process(self, lease: Lease, layer: ServedLayer, request: PageRequest, landed: Landed) -> Settlement:
        site, counters = layer.site, self._site_counters.of(layer.site.name)
        await self._reader.begin(layer, request)
        if site.obeys and not self._allowed(layer, request):
            counters.add(ROBOTS_DENIED)
            self._seeds.unread(request, "robots_denied")
            if not is_seed(request):
                counters.add(f"{LINKED_DENIED}{layer.name}")
            return await self._left_out(lease, layer, request, "robots.txt forbids pages")
        session = await self._logins.ready(site) if site.login is not None else 0
        if session and 0 < request.way.session < session:
            return self._replaced(lease, layer, redirects.begun_again(request, counts=False))
        known = await self._known(lease, layer, request) if layer.conditional else None
        sent = prepared(layer, request, known)
        if layer.before_request is not None:
            changed: PageRequest | None = await hooks.call(layer.before_request, sent)
            if changed is None:
                counters.add(LEFT_OUT)
                return await self._left_out(lease, layer, request, "the hook before_request left out pages")
            sent = changed
        response = await fetch(self._fetcher, site, sent)
        status, said = response.status, response.headers.get("retry-after")
        asked = (retry_after(said, time.time()) or 0.0) if said else 0.0
        target = layer.redirect(response)
        if sign := self._sign(layer, response, target):
            # Before all else: it tells nothing of the session, and is no other version of the page.
            landed(Feedback(HostVerdict.THROTTLED, response.seconds, asked or None))
            self._reader.keep(layer, response)
            self._reader.blocked(layer, request)
            raise PageFailed(BLOCKED, sign, after=asked)
        if status in REFUSALS:
            landed(Feedback(refusal(status, asked, lease.attempt > 1), response.seconds, asked or None))
        else:
            landed(Feedback(HostVerdict.ERROR if status >= 500 else HostVerdict.OK, response.seconds))
        if session and (why := self._session_over(layer, response, session)):
            if not request.way.session:
                raise PageFailed("session_over", why)
            again = redirects.begun_again(request, counts=True)
            if again.way.begun > layer.retries:
                raise PageFailed("session_over", f"{why} The page is {again.url}.", again=False)
            return self._replaced(lease, layer, again)
        self._reader.keep(layer, response)
        if layer.retries_status(status):
            raise PageFailed(of_status(status), f"The response had status {status}.", after=asked)
        if target is not None:
            if known is not None:
                # What it leads to takes the place of its rows: if it comes back, it is to be read.
                await self._forget(site, known)
            hop = next_hop(sent, response, target, request.hops, layer.redirects)
            return await self._redirected(lease, layer, request, hop, session)
        if layer.is_gone(status):
            await self._reader.absent(layer, request)
            await self._reader.note(layer, request, PageOutcome.ABSENT)
            if is_seed(request):
                await self._reader.note_gap(layer, request, "a seed does not exist")
            counters.add(GONE)
            self._seeds.unread(request, "gone")
            if not is_seed(request) and MARK not in request.inherited:
                counters.add(f"{LINKED_GONE}{layer.name}")
                if self._site_counters.is_first(site.name, request.round, LINKED_GONE + layer.name):
                    logger.warning(
                        "%s: %s of %s does not exist: status %d.", site.name, request.url, layer.name, status
                    )
            return Settlement(lease, visit=PageVisit(status) if layer.recorded else None)
        if known is not None and status == NOT_MODIFIED and is_conditional(sent.headers):
            if not known.is_confirmed(response.headers):
                # The server answers for another version than the one that was read: the next try has the page whole.
                await self._forget(site, known)
                raise PageFailed("invalid", "status 304 for another version (ETag) than the one that was asked for.")
            if (items := await self._reader.unchanged(layer, request, response)) is None:
                # It had no record, or its row is gone: it is fetched whole, for which it can do nothing.
                await self._forget(site, known)
                return Settlement(lease, Ending.RETRY)
            try:
                remembered = known.remembered()
            except DecodingError as error:
                await self._forget(site, known)
                raise PageFailed("invalid", f"status 304 for a page whose links are lost ({error})") from error
            await self._reader.note(layer, request, PageOutcome.UNCHANGED, remembered)
            counters.add("site/unchanged")
            self._seeds.read(request)
            settlement = self._reader.follow_again(lease, layer, request, status, remembered, items)
            self._came[identity(lease)] = site, known, {}, known.links
            return settlement
        if known is not None:
            await self._forget(site, known)
        if there := redirects.other_layer(layer, request, response.url):
            if not request.hops:
                counters.add(REDIRECTED + layer.name)  # A browser followed it.
            self._seeds.read(request)
            return self._reader.led_away(lease, layer, request, response, there)
        if request.way.session and (wanted := redirects.arrived(layer, request)) is not None:
            return self._replaced(lease, layer, wanted)
        settlement, links = await self._reader.read(lease, layer, request, response)
        self._seeds.read(request)
        if known is not None and links is not None:
            self._came[identity(lease)] = site, known, response.headers, links
        return settlement

    async def _left_out(
        self, lease: Lease, layer: ServedLayer | None, request: PageRequest | None, why: str
    ) -> Settlement:
        """Settle a page that is not asked for: nobody knows what it has now, nor what it leads to."""
        if layer is not None and request is not None:
            await self._reader.note(layer, request, PageOutcome.KEPT)
            await self._reader.note_gap(layer, request, why)
            self._note_unread(lease, request)
        return Settlement(lease)

    async def _forget(self, site: ServedSite, known: KnownVersion) -> None:
        """Forget what is known of a page. PageFailed if the frontier cannot be told."""
        try:
            await self._versions.changed(site, known)
        except GossamerError as error:
            raise PageFailed("frontier", f"What was known of the page could not be forgotten: {error}") from error

    def _allowed(self, layer: ServedLayer, request: PageRequest) -> bool:
        """Whether robots.txt allows the page. PageFailed if it could not be fetched."""
        word = self._robots.known(request.url, layer.agent)
        if word is None or word.allowed:
            return True
        if word.why is not None:
            detail = f"robots.txt could not be fetched: {word.why.detail}"
            raise PageFailed(word.why.reason, detail, word.why.retriable, word.after)
        if word.after:
            raise PageFailed(
                "robots", "robots.txt could not be fetched; no page of the host is fetched before it.", after=word.after
            )
        return False

    async def _known(self, lease: Lease, layer: ServedLayer, request: PageRequest) -> KnownVersion | None:
        """What is known of a conditional page; None if it is fetched whole in any case."""
        # Whoever looks for missing children wants the links of a page, changed or not.
        whole = request.again or request.way.session
        if self._versions.enabled and request.method == "GET" and not whole:
            known = await self._versions.known(layer.site, lease, context_of(request, layer))
            return known._replace(read_with="") if self._reader.wants_whole(layer, request) else known
        return None

    def _session_over(self, layer: ServedLayer, response: Response, session: int) -> str:
        """Why the session is over, if a page shows that; the next page logs in again."""
        site = layer.site
        assert site.login is not None
        why = site.login.over(response, location(response) or layer.redirect(response))
        if not why:
            return ""
        self._site_counters.of(site.name).add("site/sessions_over")
        self._logins.ended(site, session)
        return f"The session is over: {why}."

    async def _redirected(
        self, lease: Lease, layer: ServedLayer, request: PageRequest, hop: PageRequest, session: int
    ) -> Settlement:
        there = redirects.followed(layer, request, hop, session)
        away = redirects.other_layer(layer, request, there.url)
        if not redirects.leads_to_itself(layer, there):
            # A page of another layer is none of the thread's: so ends what is counted, as where a page is not there.
            await self._reader.absent(layer, request, 0 if away else redirects.as_linked(layer, there))
            if request.turn:
                await self._reader.note(layer, request, PageOutcome.LED)
        if away and not redirects.other_layer(layer, request, request.url):
            # Each page once. Here, since the pages that lead to the same one after the first are filtered.
            self._site_counters.of(layer.site.name).add(REDIRECTED + layer.name)
        return self._replaced(lease, layer, there)

    def _replaced(self, lease: Lease, layer: ServedLayer, request: PageRequest) -> Settlement:
        """The page goes on as this request."""
        # The pages of a list end so, too, and what another visit leads to is known.
        if not (
            request.dont_filter or request.turn or lease.visit or redirects.other_layer(layer, request, request.url)
        ):
            self._redirects[identity(lease)] = layer
        return Settlement(lease, Ending.REPLACED, [payload.pack(request, layer.lane, self._payload_max)])
