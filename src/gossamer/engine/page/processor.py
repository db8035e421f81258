"""One page from its lease to its settlement: fetched, checked, read, stored.

Every path ends in exactly one settlement, and frees the host's slot exactly once, as soon as the response is there.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from gossamer.courier import OmittedRequests, SeenCache
from gossamer.courier.leases import Identity, identity
from gossamer.engine import hooks
from gossamer.engine.archive.archive import Archive
from gossamer.engine.counters import DownloadCounters, SiteCounters
from gossamer.engine.http.credentials import is_own_url
from gossamer.engine.http.redirect import location, next_hop
from gossamer.engine.http.robots import Robots
from gossamer.engine.http.scrapy_fetcher import ScrapyFetcher
from gossamer.engine.http.url import referer
from gossamer.engine.login import LoginFailed, SiteLogins
from gossamer.engine.page import payload, retry
from gossamer.engine.page.conditional import NOT_MODIFIED
from gossamer.engine.page.feed import links_of
from gossamer.engine.page.versions import KnownVersion, PageVersions
from gossamer.engine.records import RecordSink
from gossamer.engine.sites import ServedLayer, ServedSite, SiteSet
from gossamer.errors import ArchiveFailed, GossamerError, StoreRefused
from gossamer.frontier import codec
from gossamer.model import Ending, Feedback, HostVerdict, Lease, Request, Settlement
from gossamer.model.counter_names import FILTERED, RETRIES, SEEDS_READ, SEEDS_UNREAD
from gossamer.model.fetch import FetchError
from gossamer.model.page import PageRequest, Record, Response
from gossamer.model.politeness import THROTTLED, retry_after
from gossamer.model.reply import GARBAGE, PIPELINE, of_status
from gossamer.sites.crossing import crosses, split
from gossamer.sites.downloader import ItemFailed, PageDropped
from gossamer.sites.page import LimitExceeded, Reading
from gossamer.sites.page import PageVerdict as Judged
from gossamer.sites.plan import FEED, SITEMAP
from gossamer.sites.secrets import WRITTEN, Secrets, names_of
from gossamer.sites.tables.parts import turns

logger = logging.getLogger(__name__)

GONE = frozenset({404, 410})
"""The page does not exist any more: that is a result, not a failure."""
LOGIN_PAUSE = 60.0
"""Seconds until a page is leased again whose site could not be logged in to."""
ARCHIVE_PAUSE = 60.0
"""Seconds until a page is fetched again that could not be archived: the disk is full."""
BIG = 512 * 1024
"""Larger pages are read in a thread, so that the others do not wait."""

NO_SECRETS = Secrets({})
Landed = Callable[[Feedback | None], None]
OK = Feedback(HostVerdict.OK)


async def _nobody(site: ServedSite) -> None:
    """Nothing to define."""


def is_seed(request: PageRequest) -> bool:
    """Whether a round began with this page, or with one that redirected to it. Stored rows ask for pages at the depth of their layer:
    that one of those is gone is nothing to report."""
    return request.round is not None and not request.trail and not request.depth


class PageFailed(Exception):
    """The page failed. `again` says whether another try may help, `after` how many seconds to wait at least."""

    def __init__(self, reason: str, detail: str, again: bool = True, after: float = 0.0) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.again, self.after = reason, detail, again, after


class PageProcessor:
    """Processes the pages of all sites. `only` is the one layer to crawl, "" for all."""

    def __init__(
        self,
        site_set: SiteSet,
        fetcher: DownloadCounters,
        robots: Robots,
        site_counters: SiteCounters,
        record_sink: RecordSink,
        archive: Archive,
        payload_max: int,
        versions: PageVersions,
        only: str = "",
    ) -> None:
        self._site_set, self._fetcher, self._robots, self._site_counters = site_set, fetcher, robots, site_counters
        self._record_sink, self._archive, self._payload_max = record_sink, archive, payload_max
        self._only, self._versions = only, versions
        self._came: dict[Identity, tuple[ServedSite, KnownVersion, Mapping[str, str]]] = {}
        """Conditional pages that wait to be settled."""
        self._rounds: dict[str, int] = {}
        """The round of each site that its pages were last of."""
        self.known = SeenCache()
        """The fingerprints that the frontier is known to have seen."""
        self.scrapy_fetcher: ScrapyFetcher | None = None
        """Runs the records of sites with `engine: scrapy` through their project's pipelines."""
        self.logins: SiteLogins | None = None
        self.introduce: Callable[[ServedSite], Awaitable[None]] = _nobody
        """Defines the groups of the other sites that links of a site lead to."""

    async def process(self, lease: Lease, landed: Landed) -> Settlement | None:
        """Calls `landed` once, when the response is there or will not come. None: the page was not fetched, and is to be given back.
        Its host's robots.txt was fetched in its place, or its site is not served any more."""
        layer = self._site_set.layer(lease.lane)
        told = False

        def once(feedback: Feedback | None) -> None:
            nonlocal told
            if not told:
                told = True
                landed(feedback)

        request: PageRequest | None = None
        try:
            request = payload.unpack(lease)
            if layer is None:
                layer = self._matched_again(lease, request)
                if layer is None:
                    told = True
                    return None
            if layer.site.obeys and self._robots.known(request.url, layer.agent) is None:
                # That uses up the host's slot and turn: pages that waited for it must not come in a bunch.
                await self._robots.ask(
                    request.url,
                    layer.agent,
                    layer.site.name,
                    layer.manner(request.url, request.before)[0],
                )
                told = True
                return None
            return await self._process(lease, layer, request, once)
        except PageFailed as failed:
            return await self._failed(lease, layer, request, failed)
        except LoginFailed as error:
            if error.refused:
                # The site is stopped: its pages wait, unsent.
                told = True
                return None
            self._site_counters.of(lease.lane.rpartition(".")[0]).add("engine/failed/login")
            return Settlement(lease, Ending.RETRY, delay=LOGIN_PAUSE)
        except PageDropped:
            self._site_counters.of(lease.lane.rpartition(".")[0]).add("site/left_out")
            return Settlement(lease)
        except FetchError as error:
            once(Feedback(HostVerdict.ERROR))
            return await self._failed(
                lease, layer, request, PageFailed(error.reason, error.detail, error.retriable, error.after)
            )
        except GossamerError as error:
            reason = getattr(error, "reason", GARBAGE)
            return await self._failed(lease, layer, request, PageFailed(reason, str(error), again=False))
        except Exception as error:
            # A bug, here or in a hook: it must not end the worker, and has to be seen.
            detail = "".join(traceback.format_exception(error))
            return await self._failed(lease, layer, request, PageFailed("engine", detail, again=False))
        finally:
            once(None)

    def forget(self, site: str) -> None:
        """Forget a site that has changed, or is not served any more."""
        self._versions.forget(site)
        if self.logins is not None:
            self.logins.forget(site)

    def rolled_back(self) -> None:
        """The frontier may have an older state: pages that were settled may not be, and have to be fetched whole."""
        self._versions.rolled_back([site.name for site in self._site_set if site.conditional])
        self._came.clear()

    def settled(self, lease: Lease, counts: bool) -> None:
        """Note the version of a page only now: a page that was not read, stored or settled has to be fetched whole the next time; so
        has a page that was read by rules that have changed since."""
        if not self._came:
            return
        came = self._came.pop(identity(lease), None)
        if counts and came is not None and self._site_set.sites.get(came[0].name) is came[0]:
            self._versions.note(*came)

    def _matched_again(self, lease: Lease, request: PageRequest) -> ServedLayer | None:
        """The layer that fits the URL now that its own is gone from the site's file. None: this worker does not serve the site
        any more; others may, or this one later."""
        name = lease.lane.rpartition(".")[0]
        site = self._site_set.sites.get(name)
        if site is None:
            return None
        found = site.compiled.layer_of(request.url)
        if found is None:
            raise PageFailed(
                "unknown_layer",
                f"The site {name} has no layer {lease.lane.rpartition('.')[2]}, and none matches {request.url}.",
                again=False,
            )
        return site.layers[found[0]]

    async def _process(self, lease: Lease, layer: ServedLayer, request: PageRequest, landed: Landed) -> Settlement:
        site = layer.site
        if site.obeys:
            word = self._robots.known(request.url, layer.agent)
            if word is not None and not word.allowed:
                if word.why is not None:
                    detail = f"robots.txt could not be fetched: {word.why.detail}"
                    raise PageFailed(word.why.reason, detail, word.why.retriable, word.after)
                if word.after:
                    raise PageFailed(
                        "robots", "robots.txt could not be fetched; until it is, no page is.", after=word.after
                    )
                self._site_counters.of(site.name).add("site/robots_denied")
                self._unread_seed(lease, request, "robots_denied")
                return Settlement(lease)
        session = await self.logins.ready(site) if site.login is not None and self.logins is not None else 0
        options, cookies = layer.manner(request.url, request.before)
        sent = request._replace(
            cookies={**cookies, **request.cookies} if cookies else request.cookies,
            site=site.name,
            options=options,
            # A redirect does not change it.
            referer=referer(request.trail[-1], request.url) if layer.referer and request.trail else "",
        )
        known: KnownVersion | None = None
        # Whoever looks for missing children wants the links of a page, changed or not.
        if layer.conditional and self._versions.enabled and request.method == "GET" and not request.again:
            known = await self._versions.known(site, lease)
            if known.conditions:
                sent = sent._replace(headers={**request.headers, **known.conditions})
        if layer.before_request is not None:
            sent = await hooks.call(layer.before_request, sent)
            if sent is None:
                self._site_counters.of(site.name).add("site/left_out")
                return Settlement(lease)
        if (secrets := site.compiled.secrets) is not None or sent.secrets:
            if sent.referer:
                sent = sent._replace(referer=WRITTEN.split(sent.referer)[0])
            response = await self._fetch_with(secrets or NO_SECRETS, sent)
        else:
            response = await self._fetcher.fetch(sent)
        pending_counters = self._site_counters.of(site.name)
        status = response.status
        asked = retry_after(response.headers.get("retry-after", ""), time.time()) or 0.0
        if status in THROTTLED:
            landed(Feedback(HostVerdict.THROTTLED, response.seconds, asked or None))
        else:
            landed(Feedback(HostVerdict.ERROR if status >= 500 else HostVerdict.OK, response.seconds))
        if session and (why := self._over(site, response, session)):
            raise PageFailed("session_over", f"The session is over: {why}.")
        if layer.saves:
            try:
                self._archive.keep(site, response)
            except ArchiveFailed as error:
                raise PageFailed("archive", str(error), after=ARCHIVE_PAUSE) from error
        if status in layer.retry_status and not (layer.rule and status in layer.rule.valid.status):
            raise PageFailed(of_status(status), f"The response had status {status}.", after=asked)
        if 300 <= status < 400 and layer.redirects and (target := location(response)) is not None:
            return self._redirected(
                lease, layer, request, next_hop(sent, response, target, request.hops, layer.redirects)
            )
        if (target := layer.refresh(response)) is not None:
            return self._redirected(
                lease, layer, request, next_hop(sent, response, target, request.hops, layer.redirects)
            )
        if status in GONE and not (layer.rule and status in layer.rule.valid.status):
            pending_counters.add("site/gone")
            self._unread_seed(lease, request, "gone")
            return Settlement(lease)
        if known is not None and status == NOT_MODIFIED:
            pending_counters.add("site/unchanged")
            if is_seed(request):
                pending_counters.add(SEEDS_READ)
            self._came[identity(lease)] = site, known, {}
            return Settlement(lease)
        if known is not None:
            try:
                await self._versions.changed(site, known)
            except GossamerError as error:
                raise PageFailed("frontier", f"What was known of the page could not be forgotten: {error}") from error
        settlement = await self._read(lease, layer, request, response)
        if is_seed(request):
            pending_counters.add(SEEDS_READ)
        if known is not None:
            self._came[identity(lease)] = site, known, response.headers
        return settlement

    async def _fetch_with(self, secrets: Secrets, sent: PageRequest) -> Response:
        """Look up the variables of a request just before it is sent; nothing that comes back has their values in its URLs."""
        try:
            response = await self._fetcher.fetch(secrets.revealed(sent, is_own_url(sent.url, sent.options)))
        except FetchError as error:
            raise FetchError(error.reason, secrets.hidden(error.detail), error.retriable, error.after) from None
        return secrets.response(response, sent)

    def _over(self, site: ServedSite, response: Response, session: int) -> str:
        """Whether a page shows that the session is over; the next page logs in again."""
        if site.login is None or self.logins is None:
            return ""
        why = site.login.over(response, location(response))
        if why:
            self._site_counters.of(site.name).add("site/sessions_over")
            self.logins.ended(site, session)
        return why

    def _redirected(self, lease: Lease, layer: ServedLayer, request: PageRequest, hop: PageRequest) -> Settlement:
        fingerprint = layer.site.compiled.fingerprint(layer.name, hop.url, hop.method, hop.body)
        replacing = request._replace(
            url=hop.url,
            method=hop.method,
            headers=hop.headers,
            cookies=request.cookies and hop.cookies,
            body=hop.body,
            fingerprint=fingerprint,
            # A page that redirects to itself (to set a cookie) is the same page: as a new one it would be filtered.
            dont_filter=request.always or fingerprint == lease.fingerprint,
            hops=[*request.hops, request.url],
        )
        return Settlement(lease, Ending.REPLACED, [payload.pack(replacing, layer.lane, self._payload_max)])

    async def _read(self, lease: Lease, layer: ServedLayer, request: PageRequest, response: Response) -> Settlement:
        if layer.rule is None:
            return await self._listed(lease, layer, request, response)
        status = response.status
        if layer.after_download is not None:
            response = await hooks.call(layer.after_download, response)
        if layer.function is not None:
            reading = await layer.function.read(response, request.round)
        elif len(response.body) > BIG:
            reading = await asyncio.to_thread(layer.site.compiled.read, layer.name, response)
        else:
            reading = layer.site.compiled.read(layer.name, response)
        if layer.after_extract is not None:
            reading = await hooks.call(layer.after_extract, response, reading)
        self._count(layer, reading)
        if reading.verdict is Judged.INVALID:
            # An unwanted status stays; a page that looks wrong may look right the next time.
            raise PageFailed("invalid", reading.reason, again=200 <= status < 300)
        if reading.verdict is Judged.LIMIT:
            raise PageFailed("limit", reading.reason, again=False)
        if reading.verdict is Judged.LACK and layer.rule.lacking == "fail":
            raise PageFailed("lack", reading.reason, again=False)
        records = reading.records
        if layer.before_store is not None:
            changed = [await hooks.call(layer.before_store, record) for record in records]
            records = [record for record in changed if record is not None]
        if layer.options.fetched_by_scrapy and self.scrapy_fetcher is not None:
            try:
                records = await self.scrapy_fetcher.through(layer.site.name, response.url, records)
            except ItemFailed as error:
                raise PageFailed(PIPELINE, error.detail, again=False) from error
        if (name := layer.file(response)) is not None:
            try:
                await asyncio.to_thread(self._archive.keep_file, layer.site, name, response)
            except ArchiveFailed as error:
                raise PageFailed("archive", str(error), after=ARCHIVE_PAUSE) from error
        further = turns(reading, layer.name) if layer.site.compiled.part(layer.name) is not None else ()
        items, kept = await self._stored(layer, request, response, records, further)
        if layer.function is not None or layer.after_extract is not None:
            await self._meet(layer.site, reading.links)
        children, withheld = self._children(reading.links, layer, request)
        return Settlement(lease, Ending.DONE, children, items, withheld=withheld, kept=kept)

    async def _meet(self, site: ServedSite, links: Sequence[PageRequest]) -> None:
        """Links of functions may lead to sites that no file names: see to it that these have their queues."""
        names = {split(link.layer)[0] for link in links if crosses(link.layer)}
        if not names <= site.leads:
            site.leads |= names
            await self.introduce(site)

    def _enter_round(self, site: str, number: int | None) -> None:
        """With a new round, pages that failed in an earlier one are wanted again: what is known to be seen is asked for anew."""
        before = self._rounds.get(site)
        if number is not None and (before is None or number > before):
            self._rounds[site] = number
            if before is not None:
                self.known.clear()

    def _children(
        self, links: Sequence[PageRequest], layer: ServedLayer, request: PageRequest
    ) -> tuple[list[Request], OmittedRequests | None]:
        """The requests of a page's links without those known to be seen; and what makes these, too."""
        known: list[PageRequest] = []
        self._enter_round(layer.site.name, request.round)
        children = self._asked(links, layer, request, known)
        if not known:
            return children, None
        self._site_counters.of(layer.site.name).add(FILTERED, len(known))
        return children, OmittedRequests(self.known.edition, lambda: self._asked(known, layer, request, None))

    def _asked(
        self,
        links: Sequence[PageRequest],
        layer: ServedLayer,
        request: PageRequest,
        left_out: list[PageRequest] | None,
    ) -> list[Request]:
        """Requests of the links. Those known to be seen go into `left_out` instead; None: make all."""
        site, known, trail = layer.site, self.known.has, None
        remembering = site.remembering
        children = []
        hide = None if site.compiled.secrets is None else site.compiled.secrets.hidden
        for link in links:
            if hide is not None and (url := hide(link.url)) != link.url:
                # A server that repeats a key in its links.
                number = site.compiled.fingerprint(link.layer, url, link.method, link.body)
                names = (*link.secrets, *names_of(url))
                link = link._replace(url=url, fingerprint=number, secrets=names)
            crossing = crosses(link.layer)
            lane = link.layer if crossing else site.layers[link.layer].lane
            unfiltered = link.dont_filter or (bool(request.again) and link.layer == request.again)
            if left_out is not None and lane in remembering and not unfiltered and known(lane, link.fingerprint):
                left_out.append(link)
                continue
            if self._only and link.layer != self._only:
                continue
            trail = trail or request.after
            try:
                child = link.on(trail, None if crossing else request.round, unfiltered)
                children.append(payload.pack(child, lane, self._payload_max))
            except (GossamerError, ValueError) as error:
                self._site_counters.of(site.name).add("site/links_refused")
                logger.warning("A link of %s cannot be followed: %s", request.url, error)
        return children

    async def _stored(
        self,
        layer: ServedLayer,
        request: PageRequest,
        response: Response,
        records: list[Record],
        further: Sequence[int],
    ) -> tuple[list[bytes], int]:
        """Store records in the database, or make items of them: the items, and how many records are in the database."""
        # A function may yield records of other layers, too.
        tables = layer.site.compiled.site.store
        about = {"url": layer.own_url(response)}
        if (name := layer.file(response)) is not None:
            about["file"] = name
        items = [
            codec.encode({"layer": one.layer, **about, **one.fields}, limit=self._payload_max)
            for one in records
            if one.layer not in tables
        ]
        records = [one for one in records if one.layer in tables] if items else records
        if not records:
            return items, 0
        try:
            if not await self._record_sink.put(layer, request, response, records, further):
                raise PageFailed(
                    "store_away",
                    "The database could not be reached in time.",
                    after=self._record_sink.pause,
                )
        except StoreRefused as error:
            raise PageFailed("store_refused", str(error), again=False) from error
        self._site_counters.of(layer.site.name).add("site/records", len(records))
        return items, len(records)

    async def _listed(self, lease: Lease, layer: ServedLayer, request: PageRequest, response: Response) -> Settlement:
        try:
            made = partial(links_of, layer.site.compiled, layer.name == FEED, response, SITEMAP)
            links = await asyncio.to_thread(made) if len(response.body) > BIG else made()
        except LimitExceeded as error:
            raise PageFailed("limit", str(error), again=False) from error
        if links is None:
            raise PageFailed("invalid", f"{response.url} is not a {'feed' if layer.name == FEED else 'sitemap'}.")
        children, withheld = self._children(links, layer, request)
        return Settlement(lease, Ending.DONE, children, withheld=withheld)

    def _count(self, layer: ServedLayer, reading: Reading) -> None:
        pending_counters = self._site_counters.of(layer.site.name)
        if reading.verdict is not Judged.OK:
            pending_counters.add(f"site/{reading.verdict.value}")
        for name in reading.missing:
            pending_counters.add(f"site/missing/{layer.name}.{name}")
        if reading.notes:
            pending_counters.add("site/notes", len(reading.notes))

    async def _failed(
        self, lease: Lease, layer: ServedLayer | None, request: PageRequest | None, failed: PageFailed
    ) -> Settlement:
        group = lease.lane.rpartition(".")[0]
        pending_counters = self._site_counters.of(group)
        pending_counters.add(f"engine/failed/{failed.reason}")
        retries = layer.retries if layer is not None else 0
        if failed.reason == "store_away":
            # Not the fault of the page: it is fetched again as often as it takes.
            return Settlement(lease, Ending.RETRY, delay=max(failed.after, 1.0))
        pause = retry.delay(lease.attempt, retries, retriable=failed.again, asked=failed.after)
        if pause is not None:
            pending_counters.add(RETRIES)
            return Settlement(lease, Ending.RETRY, delay=pause)
        url = request.url if request is not None else ""
        logger.warning(
            "%s failed for good (%s): %s",
            url or f"A request of {lease.lane}",
            failed.reason,
            failed.detail.strip()[:500],
        )
        if request is not None:
            self._unread_seed(lease, request, failed.reason)
        await self._tell(layer, url, failed)
        return Settlement(lease, Ending.FAILED, reason=failed.reason, detail=failed.detail)

    def _unread_seed(self, lease: Lease, request: PageRequest, reason: str) -> None:
        """Where a round cannot begin is reported, also where the page being gone is a result like another."""
        if is_seed(request):
            self._site_counters.of(lease.lane.rpartition(".")[0]).add(SEEDS_UNREAD + reason)
            logger.warning(
                "The seed %s could not be read: %s.", request.hops[0] if request.hops else request.url, reason
            )

    async def _tell(self, layer: ServedLayer | None, url: str, failed: PageFailed) -> None:
        if layer is None or layer.on_fail is None:
            return
        try:
            await hooks.call(layer.on_fail, url, failed.reason, failed.detail)
        except Exception:
            logger.exception("The hook on_fail of %s failed itself.", layer.lane)
