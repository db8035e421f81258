"""Links of sitemaps and feeds, to the layers that match them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from gossamer.model.page import PageRequest, Response
from gossamer.sites.compile import LAYER, SINCE, CompiledSite
from gossamer.sites.extract.urls import LONGEST
from gossamer.sites.feed import DATE, TITLE, FeedEntry, read_feed, read_sitemap


class ListedLinks(NamedTuple):
    """The `links` of a feed or sitemap, why it is not well-formed (`fault`), how many of its entries have no address (`nowhere`), and one of
    those whose address is longer than URLs may be (`overlong`)."""

    links: list[PageRequest]
    fault: str
    nowhere: int
    overlong: str = ""


def links_of(site: CompiledSite, is_feed: bool, response: Response, further_layer: str) -> ListedLinks | None:
    """What a feed or sitemap leads to; None for a response that is none. Links that belong to no layer are skipped."""
    listing = (read_feed if is_feed else read_sitemap)(response.body, response.url)
    if listing is None:
        return None
    since = response.inherited.get(SINCE)
    oldest = datetime.now(UTC) - timedelta(seconds=since) if since else None
    wanted = response.inherited.get(LAYER)
    passed = {name: value for name, value in response.inherited.items() if name not in (SINCE, LAYER)}
    links = []
    overlong = next((named.url for named in (*listing.pages, *listing.further) if len(named.url) > LONGEST), "")
    if overlong:
        listing = listing._replace(pages=_short(listing.pages), further=_short(listing.further))
    for named in listing.pages:
        if not _old(named, oldest):
            found = site.layer_of(named.url)
            layer = wanted or (found[0] if found else None)
            if layer is not None:
                inherited = {**_said(named), **passed} if is_feed else passed
                links.append(site.link(named.url, layer, inherited=inherited, depth=response.depth))
    for named in listing.further:
        if not _old(named, oldest):
            links.append(
                PageRequest(
                    named.url,
                    layer=further_layer,
                    fingerprint=site.fingerprint(further_layer, named.url),
                    inherited=response.inherited,
                    depth=response.depth,
                )
            )
    return ListedLinks(links, listing.fault, listing.nowhere, overlong)


def _short(entries: list[FeedEntry]) -> list[FeedEntry]:
    return [named for named in entries if len(named.url) <= LONGEST]


def _said(named: FeedEntry) -> dict[str, str]:
    """What a page inherits from its entry: the feed may say what the page does not."""
    said = {TITLE: named.title, DATE: named.date.isoformat() if named.date is not None else ""}
    return {name: value for name, value in said.items() if value}


def _old(named: FeedEntry, oldest: datetime | None) -> bool:
    return oldest is not None and named.changed is not None and named.changed < oldest
