"""The links of a page as requests to the frontier, without those that it is known to have seen."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from gossamer.courier import OmittedRequests, SeenCache
from gossamer.engine.counters import SiteCounters
from gossamer.engine.page import payload
from gossamer.engine.page.conditional import pack_links
from gossamer.engine.page.failure import PageFailed
from gossamer.engine.sites import ServedLayer, ServedSite
from gossamer.errors import EncodingError, GossamerError, PayloadTooLarge
from gossamer.model import Request
from gossamer.model.counter_names import FILTERED
from gossamer.model.page import PageRequest
from gossamer.sites.compile import CompiledSite
from gossamer.sites.crossing import crosses, split

logger = logging.getLogger(__name__)


class ChildRequests:
    """`known` has the fingerprints that the frontier is known to have seen. `only` is the one layer to crawl, "" for all. `define_targets`
    defines the groups of the other sites that links of a site lead to."""

    def __init__(
        self,
        known: SeenCache,
        site_counters: SiteCounters,
        payload_max: int,
        define_targets: Callable[[ServedSite], Awaitable[None]],
        only: str = "",
    ) -> None:
        self._known, self._site_counters, self._payload_max = known, site_counters, payload_max
        self._define_targets, self.only = define_targets, only
        self.refused = 0
        """How many links could not be followed."""
        self._rounds: dict[str, int] = {}
        """The round of each site that its pages were last of."""

    async def define_targets(self, site: ServedSite, links: Sequence[PageRequest]) -> None:
        """Links of functions may lead to sites that no file names: see to it that these have their queues."""
        names = {split(link.layer)[0] for link in links if crosses(link.layer)}
        if not names <= site.target_sites:
            site.target_sites |= names
            await self._define_targets(site)

    def of(
        self, links: Sequence[PageRequest], layer: ServedLayer, request: PageRequest
    ) -> tuple[list[Request], OmittedRequests | None]:
        """The requests of a page's links without those known to be seen; and what makes these, too. PageFailed for a link that cannot be
        queued: without it, the page would be read in part."""
        omitted: list[PageRequest] = []
        self._enter_round(layer.site.name, request.round)
        children = self._requests(links, layer, request, omitted)
        if not omitted:
            return children, None
        self._site_counters.of(layer.site.name).add(FILTERED, len(omitted))
        return children, OmittedRequests(self._known.edition, lambda: self._requests(omitted, layer, request, None))

    def remembered(self, links: Sequence[PageRequest], layer: ServedLayer, request: PageRequest) -> bytes | None:
        """These links, packed, for the rounds in which their page has not changed; None if the page is to be fetched whole: it is not
        conditional, or its links are too many to be kept, or lead to another site, whose file may change."""
        if not layer.conditional or layer.leads_to_sites or any(crosses(link.layer) for link in links):
            return None
        site = layer.site.compiled
        return pack_links([_without_secrets(link, site) for link in links], site, request.depth)

    def _enter_round(self, site: str, number: int | None) -> None:
        """With a new round, pages that failed in an earlier one are wanted again: the frontier is asked again about what is known to be seen."""
        before = self._rounds.get(site)
        if number is not None and (before is None or number > before):
            self._rounds[site] = number
            if before is not None:
                self._known.clear()

    def _requests(
        self,
        links: Sequence[PageRequest],
        layer: ServedLayer,
        request: PageRequest,
        omitted: list[PageRequest] | None,
    ) -> list[Request]:
        """Requests of the links. Those known to be seen go into `omitted` instead; None: make all."""
        site, known, trail = layer.site, self._known.has, None
        remembering, lanes, again = site.remembering, layer.link_lanes, request.again
        children, has_secrets = [], site.compiled.secrets is not None
        for link in links:
            if link.turn:
                if request.changed:
                    link = _of_changed(link, request)
            elif link.changed and not link.passage:
                number = self._rounds.get(site.name, 0) if request.round is None else request.round
                link = link._replace(passage=1 + number)
            if has_secrets:
                link = _without_secrets(link, site.compiled)
            lane = lanes[link.layer, link.turn > 0]
            unfiltered = link.dont_filter or (again != "" and link.layer == again)
            if (
                omitted is not None
                and lane in remembering
                and not unfiltered
                and not link.changed
                and known(lane, link.fingerprint)
            ):
                omitted.append(link)
                continue
            if self.only and link.layer != self.only:
                continue
            trail = trail or request.after
            try:
                child = link.on(trail, None if crosses(link.layer) else request.round, unfiltered)
                children.append(payload.pack(child, lane, self._payload_max))
            except (GossamerError, ValueError) as error:
                if isinstance(error, EncodingError) and omitted is not None:
                    reason = "limit" if isinstance(error, PayloadTooLarge) else "engine"
                    raise PageFailed(
                        reason, f"The link to {link.url} cannot be queued: {error}", again=False
                    ) from error
                self._site_counters.of(site.name).add("site/links_refused")
                self.refused += 1
                logger.warning("A link of %s cannot be followed: %s", request.url, error)
        return children


def _of_changed(link: PageRequest, request: PageRequest) -> PageRequest:
    """A page turn of a page that is fetched again because its list says that it has changed."""
    link = link._replace(firsts=request.firsts or (request.fingerprint, *request.marks))
    return link if link.changed else link._replace(changed=request.changed, passage=request.passage)


def _without_secrets(link: PageRequest, site: CompiledSite) -> PageRequest:
    """The link as it is kept: a server may repeat a key in its links."""
    if site.secrets is None:
        return link
    url, names = site.secrets.named(link.url)
    if not names:
        return link
    number = site.fingerprint(link.layer, url, link.method, link.body)
    return link._replace(url=url, fingerprint=number, secrets=(*link.secrets, *names))
