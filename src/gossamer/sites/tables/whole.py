"""The layers of which a round fetches all pages anew, so that a row that it does not bring has no source any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gossamer.model import LanePolicy, SeenKind, SeenScope
from gossamer.sites.format import SiteSpec
from gossamer.sites.plan import LISTINGS


def whole_layers(site: SiteSpec, edges: Mapping[str, Iterable[str]], lanes: Mapping[str, LanePolicy]) -> set[str]:
    """Those with `seen: round` that only such layers lead to. Not those of feeds, of sitemaps that leave out what is old, and of stored rows,
    which name a part of the pages."""
    partial = {name for name in site.layers if not _each_round(lanes[name])}
    partial |= {rule.layer for rule in site.refresh}
    for seed in site.seeds:
        if seed.feed is not None or (seed.sitemap is not None and seed.since is not None):
            partial |= {seed.layer} if seed.layer is not None else set(site.layers)
    return site.layers.keys() - reached(partial, edges) - partial


def reached(layers: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """The layers that pages of these lead to, directly or not. Sitemaps and feeds may lead to any."""
    todo = list(layers)
    found: set[str] = set()
    while todo:
        name = todo.pop()
        more = set(edges if name in LISTINGS else edges.get(name, ())) - found
        found |= more
        todo += more
    return found


def _each_round(lane: LanePolicy) -> bool:
    """Whether a round fetches each page that it is led to."""
    if lane.records is not None:
        return False
    return lane.seen.scope is SeenScope.NEVER or (
        lane.seen.scope is SeenScope.ROUND and lane.seen.kind is SeenKind.EXACT
    )
