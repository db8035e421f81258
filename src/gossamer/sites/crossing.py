"""Links that cross sites: `to: details.post` leads to the layer `post` of the site `details`.

Names of layers have no dot, so everything before the last one is the name of a site.
"""

from __future__ import annotations

from collections.abc import Iterator

from gossamer.sites.file.problems import Path
from gossamer.sites.format import SiteSpec

ANY = "*"
"""In the place of a layer: the one whose `match` fits the URL."""


def crosses(to: str | None) -> bool:
    return to is not None and "." in to


def split(to: str) -> tuple[str, str]:
    """Site and layer."""
    site, _, layer = to.rpartition(".")
    return site, layer


def targets(site: SiteSpec) -> Iterator[tuple[Path, str]]:
    """Every `to` that leads to another site, with its place."""
    for name, layer in site.layers.items():
        for place, follow in enumerate(layer.follow):
            if follow.to is not None and crosses(follow.to):
                yield ("layers", name, "follow", place, "to"), follow.to


def target_sites(site: SiteSpec) -> frozenset[str]:
    """The other sites that the links of a site lead to, as far as its file says so."""
    return frozenset(split(to)[0] for _, to in targets(site))


def has_functions(site: SiteSpec) -> bool:
    """Whether Python functions make links of its pages: these may lead to any site."""
    hooks = (site.hooks, *(layer.hooks for layer in site.layers.values()))
    return any(layer.handler for layer in site.layers.values()) or any(one.after_extract for one in hooks)
