"""Links of sitemaps and feeds, to the layers that match them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gossamer.engine.http.request import FetchResponse
from gossamer.engine.page.payload import PageRequest
from gossamer.sites.compile import LAYER, SINCE, CompiledSite
from gossamer.sites.feed import FeedEntry, read_feed, read_sitemap
from gossamer.sites.page import PageLink


def links_of(
    site: CompiledSite, is_feed: bool, page_request: PageRequest, fetch_response: FetchResponse, further_layer: str
) -> list[PageLink] | None:
    """None if the answer is not what it should be. What belongs to no layer is left alone."""
    listing = (
        read_feed(fetch_response.body, fetch_response.url)
        if is_feed
        else read_sitemap(fetch_response.body, fetch_response.url)
    )
    if listing is None:
        return None
    since = page_request.inherited.get(SINCE)
    oldest = datetime.now(UTC) - timedelta(seconds=since) if since else None
    wanted = page_request.inherited.get(LAYER)
    passed = {name: value for name, value in page_request.inherited.items() if name not in (SINCE, LAYER)}
    links = []
    for named in listing.pages:
        if not _old(named, oldest):
            found = site.layer_of(named.url)
            layer = wanted or (found[0] if found else None)
            if layer is not None:
                links.append(site.link(named.url, layer, inherited=passed, depth=page_request.depth))
    for named in listing.further:
        if not _old(named, oldest):
            fingerprint = site.fingerprint(further_layer, named.url)
            links.append(
                PageLink(
                    named.url, further_layer, fingerprint, inherited=page_request.inherited, depth=page_request.depth
                )
            )
    return links


def _old(named: FeedEntry, oldest: datetime | None) -> bool:
    return oldest is not None and named.changed is not None and named.changed < oldest
