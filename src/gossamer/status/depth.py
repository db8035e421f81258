"""The sites of a crawl by depth: how much waits and is in progress at each distance from their seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LaneCounts
from gossamer.registry import KIND
from gossamer.sites.file.load import load_kept
from gossamer.sites.file.params import Parameters, parameters
from gossamer.sites.file.problems import SiteErrors
from gossamer.sites.format import SiteSpec
from gossamer.sites.plan import AGAIN, LISTINGS, DepthRow, LayerGraph, by_depth

MANY = 20


def depths_of(frontier: ValkeyFrontier, lanes: Sequence[LaneCounts]) -> list[tuple[str, DepthRow]]:
    """The rows of every site of which there are lanes, by site; of more than MANY sites, of those with something left. A crawl
    without site files has none. Sitemaps and feeds, which come before all layers, are left out."""
    counts: dict[str, dict[str, tuple[int, int]]] = {}
    for lane in lanes:
        group, _, layer = lane.lane.rpartition(".")
        if layer not in LISTINGS:
            here = counts.setdefault(group, {})
            waiting, leased = here.get(layer := layer.removeprefix(AGAIN), (0, 0))
            here[layer] = (waiting + lane.waiting, leased + lane.leased)
    if len(counts) > MANY:
        counts = {group: layers for group, layers in counts.items() if any(map(any, layers.values()))}
    if not counts:
        return []
    found: list[tuple[str, DepthRow]] = []
    for site in _sites(frontier, set(counts)):
        if site.site in counts:
            known = parameters(site.params) if site.params else Parameters()
            rows = by_depth(LayerGraph(site, known).depths, counts[site.site])
            found += [(site.site, row) for row in rows]
    return sorted(found, key=lambda row: row[0])


def _sites(frontier: ValkeyFrontier, wanted: set[str]) -> Iterator[SiteSpec]:
    """The sites of the crawl's files, until all that are wanted were among them: files that are called like them first."""
    names = [info.name for info in frontier.documents(KIND) if not info.deleted]
    for name in sorted(names, key=lambda name: name not in wanted):
        if not wanted:
            return
        try:
            sites = load_kept(frontier.document(KIND, name).text, name)
        except SiteErrors:
            continue  # `gossamer site list` reports it
        wanted.difference_update(site.site for site in sites)
        yield from sites
