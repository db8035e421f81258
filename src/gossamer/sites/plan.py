"""What the frontier needs to know of a site: its lanes, limits and hosts; and the depth of its layers.

The depth of a layer is the longest way to it from the layers of the seeds, over links that change the layer; a way that comes
round again ends there. The deeper a layer, the sooner its pages are fetched, unless it names a tier itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from gossamer.model import (
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Order,
    RecordPolicy,
    RevisitRules,
    SeenKind,
    SeenPolicy,
    SeenScope,
    host_of,
)
from gossamer.sites.crossing import crosses
from gossamer.sites.file.params import Parameters
from gossamer.sites.format import Layer, PageRecords, Rediscover, Seed, Seen, SiteSpec
from gossamer.sites.seeds import hosts_of, unfold
from gossamer.sites.url.match import Matcher

SITEMAP = "_sitemap"
FEED = "_feed"
LISTINGS = (SITEMAP, FEED)
"""The lanes of sitemaps and feeds, which are read by rules of their own."""
AGAIN = "_again:"
"""Before the name of a layer: the lane of its pages that stored rows ask for (`refresh`) and of their page turns, which are fetched again
although the layer has seen them, once in each round."""
LISTING_TIER = 1
LOOKED_AT = 3
"""How many URLs of a seed are looked at to find the layers it leads to."""
DEEPEST = 1000
ORIGIN = re.compile(r"https?://[^/?#{}]+(?=[/?#]|$)", re.IGNORECASE)
"""The beginning of an address whose host is written in the file."""


class LayerGraph:
    """How the layers of a site are connected."""

    def __init__(self, site: SiteSpec, params: Parameters) -> None:
        self.site = site
        self.params = params
        self.hosts = own_hosts(site, params)
        """The site's own hosts; None: any."""
        self.matcher = Matcher(
            ((name, layer.match) for name, layer in site.layers.items() if layer.match is not None), self.hosts
        )
        self.edges = {name: list(_edges(site, name)) for name in site.layers}
        """The layers that each layer's links may lead to."""
        self.entries = self._entries() if site.seeds else self._first()
        """The layers that seeds lead to, in the file's order; without seeds, those that only other sites can lead to."""
        self.depths = _depths(self.entries, self.edges)
        """By layer; layers that nothing leads to are at depth 0."""

    def first_layer(self, url: str) -> str:
        """The layer of a seed or a task that names none: the one that matches, or else the first."""
        found = self.matcher.layer_of(url)
        return found[0] if found else next(iter(self.site.layers))

    def begins_in(self, layer: str) -> bool:
        """Whether a round of this layer alone has pages: those of seeds, of tasks or of stored rows, or visits that are due."""
        for seed in self.site.seeds:
            if layer == seed.layer and (seed.url is not None or seed.tasks is not None):
                return True
            if seed.layer is None and seed.url is not None:
                if any(self.first_layer(one.url) == layer for one in unfold(seed.url, self.params)):
                    return True
            elif seed.layer is None and seed.tasks is not None:
                return True
        return self.site.layers[layer].keeps_records or any(rule.layer == layer for rule in self.site.refresh)

    def reached(self) -> set[str]:
        """The layers that seeds and links lead to."""
        found, todo = set(self.entries), list(self.entries)
        while todo:
            for other in self.edges[todo.pop()]:
                if other not in found:
                    found.add(other)
                    todo.append(other)
        return found

    def _entries(self) -> list[str]:
        found = {layer for seed in self.site.seeds for layer in self._entries_of(seed)}
        found |= {rule.layer for rule in self.site.refresh}
        return [name for name in self.site.layers if name in found]

    def _first(self) -> list[str]:
        inner = {other for name, leads in self.edges.items() for other in leads if other != name}
        return [name for name in self.site.layers if name not in inner]

    def _entries_of(self, seed: Seed) -> Iterator[str]:
        if seed.layer is not None:
            yield seed.layer
        elif seed.url is not None:
            yield from (self.first_layer(one.url) for one in islice(unfold(seed.url, self.params), LOOKED_AT))
        else:
            yield from (name for name, layer in self.site.layers.items() if layer.match is not None)
            if seed.tasks is not None:
                yield next(iter(self.site.layers))


def own_hosts(site: SiteSpec, params: Parameters) -> frozenset[str] | None:
    """The hosts that a site names itself; None: any."""
    texts = [text for seed in site.seeds for text in (seed.url, seed.sitemap, seed.feed) if text is not None]
    if not site.seeds:
        texts = [origin[0] for rule in site.refresh if (origin := ORIGIN.match(rule.url))]
    # Without seeds, links of other sites lead here, and nothing but these rules says which hosts are its own.
    return hosts_of(iter(texts), params) or (
        None if site.seeds else frozenset(map(host, site.politeness.hosts)) or None
    )


def _edges(site: SiteSpec, name: str) -> Iterator[str]:
    layer = site.layers[name]
    if layer.handler is not None or layer.hooks.after_extract is not None:  # Who knows where a function's links lead.
        yield from site.layers
        return
    for follow in layer.follow:
        if crosses(follow.to):
            continue
        if follow.to is not None:
            yield follow.to
        else:
            yield from (other for other, there in site.layers.items() if there.match is not None)


def _depths(entries: list[str], edges: Mapping[str, list[str]]) -> dict[str, int]:
    """The longest way to each layer. Links back to a layer that is on the way are left out; what remains has no circle."""
    onward: dict[str, list[str]] = {name: [] for name in edges}
    finished: list[str] = []
    state = dict.fromkeys(edges, "new")
    for entry in (*entries, *edges):
        if state[entry] != "new":
            continue
        state[entry] = "open"
        way = [(entry, iter(edges[entry]))]
        while way:
            name, rest = way[-1]
            for other in rest:
                if state.get(other) in (None, "open"):
                    continue
                onward[name].append(other)
                if state[other] == "new":
                    state[other] = "open"
                    way.append((other, iter(edges[other])))
                    break
            else:
                state[name] = "done"
                finished.append(name)
                way.pop()
    depths = dict.fromkeys(entries, 0)
    for name in reversed(finished):
        if name in depths:
            for other in onward[name]:
                depths[other] = max(depths.get(other, 0), depths[name] + 1)
    return {name: min(depths.get(name, 0), DEEPEST) for name in edges}


def lanes(layout: LayerGraph) -> dict[str, LanePolicy]:
    """The policy of each layer's lane, by layer; sitemaps and feeds, where there are any, have lanes of their own."""
    site, first = layout.site, _lists_tier(layout)
    found = {name: lane(site, layer, layout.depths[name], first) for name, layer in site.layers.items()}
    for name, used in ((SITEMAP, "sitemap"), (FEED, "feed")):
        if any(getattr(seed, used) is not None for seed in site.seeds):
            # Sitemaps stay behind: read beside their pages, they would fill the queue with all of these.
            tier = LISTING_TIER if first is None or name == SITEMAP else first
            found[name] = LanePolicy(tier=tier, seen=SeenPolicy(scope=SeenScope.ROUND))
    for name in dict.fromkeys(rule.layer for rule in site.refresh):
        if turns(site, name) and found[name].seen.scope is SeenScope.FOREVER:
            found[f"{AGAIN}{name}"] = replace(found[name], seen=SeenPolicy(scope=SeenScope.ROUND), records=None)
    return found


def turns(site: SiteSpec, name: str) -> bool:
    """Whether pages of a layer may lead to further pages of the same list or thread."""
    layer = site.layers[name]
    if layer.handler is not None or (layer.hooks.after_extract or site.hooks.after_extract) is not None:
        return True
    return any(follow.pages is not None and follow.to in (None, name) for follow in layer.follow)


def _lists_tier(layout: LayerGraph) -> int | None:
    """The tier of lists where rounds begin beside a backlog: that of the deepest layer, with which they share. Behind it, they would be read
    when nothing is left, and so no sooner than with `overlap: queue`. None: they are as deep as they are."""
    schedule, layers = layout.site.schedule, layout.site.layers
    if schedule is None or schedule.overlap != "reseed":
        return None
    return -max((layout.depths[name] for name, layer in layers.items() if layer.tier == "deepest"), default=0)


def lane(site: SiteSpec, layer: Layer, depth: int, lists: int | None = None) -> LanePolicy:
    """`lists`: the tier of layers that each round reads again, those of the seeds and those with `seen: round`; None: that of their depth."""
    again = depth == 0 or (layer.seen or site.seen).scope == "round"
    deepest = lists if lists is not None and again else -depth
    return LanePolicy(
        order=Order.LIFO if layer.order == "lifo" else Order.FIFO,
        tier=deepest if layer.tier == "deepest" else layer.tier,
        weight=layer.weight,
        seen=seen(layer.seen or site.seen),
        max_queued=layer.backlog,
        max_leased=layer.concurrency,
        stage=layer.stage or "",
        records=records(layer, (layer.seen or site.seen).scope),
    )


def records(layer: Layer, scope: str) -> RecordPolicy | None:
    """By which rules a layer keeps page records; None if it keeps none. Raises PolicyError where a time is out of bounds."""
    again, told, bounds = layer.revisit, layer.rediscover or Rediscover(), layer.page_records or PageRecords()
    if not layer.keeps_records:
        return None
    rules = None if again is None else RevisitRules(again.every, again.min, again.max, again.adaptive, again.gone)
    usual = again.every if again is not None else None
    finished = (0.0 if scope == "never" else None) if again is None else None if again.adaptive else again.every
    return RecordPolicy(
        rules,
        failed=_after(told.failed, 0.0),
        finished=_after(told.finished, finished),
        gone=_after(told.gone, usual),
        newer=scope == "round" if told.newer is None else told.newer,
        max_pages=bounds.max,
        max_age=bounds.age,
    )


def _after(told: str | float | None, usual: float | None) -> float | None:
    if told is None:
        return usual
    return {"now": 0.0, "never": None}[told] if isinstance(told, str) else told


def seen(rule: Seen) -> SeenPolicy:
    """Raises PolicyError where a window is missing or out of bounds."""
    return SeenPolicy(
        kind=SeenKind(rule.policy),
        scope=SeenScope(rule.scope),
        capacity=rule.capacity,
        error=rule.error,
        window=rule.window,
        window_count=rule.count,
        window_rounds=rule.rounds,
    )


def group(site: SiteSpec) -> GroupPolicy:
    return GroupPolicy(
        max_queued=site.limits.backlog,
        max_pages=site.limits.pages,
        weight=site.weight or 1.0,  # One that is paused has none to share with.
        delay=site.politeness.delay,
        concurrency=site.politeness.concurrency,
        start=bool(site.refresh) or any(seed.tasks is None for seed in site.seeds),
        tasks=tuple(dict.fromkeys(seed.tasks for seed in site.seeds if seed.tasks is not None)),
        gone=any(rule.gone for rule in site.store.values()),
    )


def hosts(layout: LayerGraph) -> dict[str, HostPolicy]:
    """Hosts with rules of their own: those in `politeness.hosts` and, if the delay adapts to responses, the site's own."""
    rules = layout.site.politeness
    found = {}
    if rules.adaptive:
        plain = HostPolicy(
            delay=rules.delay, concurrency=rules.concurrency or 8, adaptive=True, min_delay=min(rules.delay, 60.0)
        )
        found = dict.fromkeys(sorted(layout.hosts or ()), plain)
    for name, rule in rules.hosts.items():
        found[host(name)] = HostPolicy(
            delay=rule.delay,
            concurrency=rule.concurrency,
            adaptive=rule.adaptive,
            min_delay=min(rule.delay, 60.0) if rule.adaptive else 0.0,
        )
    return found


def host(name: str) -> str:
    """A host as the frontier knows it, from what people write: a name, a name with a port, or a URL. Raises ValueError."""
    found = host_of(name if "//" in name else f"//{name}/")
    if not found:
        raise ValueError(f"{name!r} is not a host")
    return found


class DepthRow(NamedTuple):
    """One depth of a site: its layers, and how many of their pages wait and are in progress."""

    depth: int
    layers: tuple[str, ...]
    waiting: int
    in_progress: int


def by_depth(depths: Mapping[str, int], counts: Mapping[str, tuple[int, int]]) -> list[DepthRow]:
    """The table of layer_crawler: for each depth what waits and what is in progress. `counts` has both by layer; layers that
    it lacks have neither. Layers that it has but the site does not come last, at depth -1."""
    rows: dict[int, list[str]] = {}
    for name in dict.fromkeys((*depths, *counts)):
        rows.setdefault(depths.get(name, -1), []).append(name)
    none = (0, 0)
    return [
        DepthRow(
            depth,
            tuple(names),
            sum(counts.get(name, none)[0] for name in names),
            sum(counts.get(name, none)[1] for name in names),
        )
        for depth, names in sorted(rows.items(), key=lambda row: (row[0] < 0, row[0]))
    ]
