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


def untold(site: SiteSpec, edges: Mapping[str, Iterable[str]], lanes: Mapping[str, LanePolicy]) -> dict[str, list[str]]:
    """Of each layer with `gone` of which no round can tell which rows are gone, hardly on purpose: the layers because of which, for nothing in
    the file fetches their pages again. Not where pages of `changed`, `revisit`, `refresh`, feeds and the like are a part of all."""
    again = {rule.layer for rule in site.refresh}
    for name, layer in site.layers.items():
        for follow in layer.follow:
            if follow.changed is not None or follow.again:
                again |= {*edges[name]} if follow.to is None else {follow.to}
    once = {name for name in site.layers if lanes[name].records is None and not _each_round(lanes[name])} - again
    # A function may say `changed` of its links, and its records may be there for their table alone.
    alone = set() if any(layer.handler is not None for layer in site.layers.values()) else once
    found: dict[str, list[str]] = {}
    for name, rule in site.store.items():
        if rule.gone and name in alone:
            found[name] = [name]
        elif rule.gone and name not in once:
            found[name] = sorted(other for other in once if name in reached([other], edges))
    return {name: because for name, because in found.items() if because}


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
