"""Links of sitemaps and feeds, to the layers that match them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gossamer.engine.http.request import Got
from gossamer.engine.page.payload import Errand
from gossamer.sites.compile import LAYER, SINCE, CompiledSite
from gossamer.sites.feed import Named, read_feed, read_sitemap
from gossamer.sites.page import Link


def links_of(site: CompiledSite, is_feed: bool, errand: Errand, got: Got, further_layer: str) -> list[Link] | None:
    """None if the answer is not what it should be. What belongs to no layer is left alone."""
    listing = read_feed(got.body, got.url) if is_feed else read_sitemap(got.body, got.url)
    if listing is None:
        return None
    since = errand.inherited.get(SINCE)
    oldest = datetime.now(UTC) - timedelta(seconds=since) if since else None
    wanted = errand.inherited.get(LAYER)
    passed = {name: value for name, value in errand.inherited.items() if name not in (SINCE, LAYER)}
    links = []
    for named in listing.pages:
        if not _old(named, oldest):
            found = site.layer_of(named.url)
            layer = wanted or (found[0] if found else None)
            if layer is not None:
                links.append(site.link(named.url, layer, inherited=passed, depth=errand.depth))
    for named in listing.further:
        if not _old(named, oldest):
            fingerprint = site.fingerprint(further_layer, named.url)
            links.append(Link(named.url, further_layer, fingerprint, inherited=errand.inherited, depth=errand.depth))
    return links


def _old(named: Named, oldest: datetime | None) -> bool:
    return oldest is not None and named.changed is not None and named.changed < oldest
