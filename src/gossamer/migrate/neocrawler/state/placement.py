"""Where a URL of NEOCrawler belongs in a crawl: the site of its domain, and the layer of its rule or the one that matches it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from gossamer.engine.page.payload import pack
from gossamer.errors import GossamerError
from gossamer.migrate.neocrawler.convert import layer_names, site_name
from gossamer.migrate.neocrawler.rules import Rule
from gossamer.model import LanePolicy, Request
from gossamer.sites.compile import CompiledSite


class Placed(NamedTuple):
    """A URL as a request of a layer."""

    site: str
    layer: str
    request: Request
    policy: LanePolicy

    @property
    def lane(self) -> str:
        return f"{self.site}.{self.layer}"


class Unplaced(NamedTuple):
    """Why a URL has no place: `reason` is the same for many."""

    reason: str


class Placement:
    """The sites of a crawl, for the URLs of an instance with these rules. `limit` is the most bytes of a request."""

    def __init__(self, sites: Iterable[CompiledSite], rules: Iterable[Rule], limit: int) -> None:
        self.sites: Mapping[str, CompiledSite] = {site.name: site for site in sites}
        self.lanes = {name: site.lanes() for name, site in self.sites.items()}
        self._limit = limit
        self._layers = layer_names(rules)
        """By domain and alias: site and layer."""

    def place(self, url: str, rule: tuple[str, str] | None, referer: str = "") -> Placed | Unplaced:
        """The layer that its rule became; if that is not there, the one that matches it."""
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            return Unplaced("it is not a URL of http or https")
        named = self._layers.get(rule) if rule is not None else None
        if named is not None and named[1] in getattr(self.sites.get(named[0]), "layers", ()):
            return self._placed(url, *named, referer)
        for name in self._candidates(url, rule):
            if (found := self.sites[name].layer_of(url)) is not None:
                return self._placed(url, name, found[0], referer)
        return Unplaced(self._why(rule, named))

    def _candidates(self, url: str, rule: tuple[str, str] | None) -> list[str]:
        """The sites that may match a URL: that of its rule's domain, of its host, then all others."""
        host = urlsplit(url).hostname or ""
        first = [site_name(rule[0])] if rule is not None else []
        first += [site_name(host), site_name(host.partition(".")[2])]
        return [name for name in dict.fromkeys((*first, *self.sites)) if name in self.sites]

    def _why(self, rule: tuple[str, str] | None, named: tuple[str, str] | None) -> str:
        if rule is None:
            return "it has no rule, and no site of the crawl matches it"
        if site_name(rule[0]) not in self.sites:
            return f"the crawl has no site {site_name(rule[0])}, and no other matches it"
        if named is None:
            return f"the rule {rule[0]}:{rule[1]} is not there any more, and no layer of the crawl matches it"
        return f"the site {named[0]} has no layer {named[1]} (the rule {rule[1]}), and none matches it"

    def _placed(self, url: str, site: str, layer: str, referer: str) -> Placed | Unplaced:
        compiled = self.sites[site]
        try:
            link = compiled.link(url, layer, depth=compiled.depths.get(layer, 0))
            link = link._replace(trail=(referer,) if referer else ())
            request = pack(link, f"{site}.{layer}", self._limit)
        except (GossamerError, ValueError) as error:
            return Unplaced(f"it cannot be a request: {error}")
        return Placed(site, layer, request, self.lanes[site][layer])
