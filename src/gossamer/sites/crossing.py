"""Links that cross sites: `to: details.post` leads to the layer `post` of the site `details`.

Names of layers have no dot, so everything before the last one is the name of a site.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gossamer.sites.file.messages import problem_at
from gossamer.sites.file.problems import ERROR, WARNING, Path, Problem, did_you_mean
from gossamer.sites.file.yaml import Spot
from gossamer.sites.format import SiteSpec

ANY = "*"
"""In the place of a layer: the one whose `match` fits the URL."""


class Crossing(NamedTuple):
    """A rule whose links leave their site: where they lead, and a problem to report for it, with its place."""

    site: str
    layer: str
    place: Problem


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


def crossings(site: SiteSpec, spot: Spot) -> list[Crossing]:
    return [Crossing(*split(to), problem_at(spot, path, "", "")) for path, to in targets(site)]


def check_crossings(found: Iterable[Crossing], known: Mapping[str, Iterable[str]], *, whole: bool) -> Iterator[Problem]:
    """What is wrong with links to other sites. `known` has the layers of each site that was read. `whole`: there are no others; else
    an unknown site may be in the crawl, or in a file that comes later, and is reported as a warning."""
    for site, layer, place in found:
        layers = known.get(site)
        if layers is None:
            hint = did_you_mean(site, known) or "check the file of that site, too"
            yield place._replace(
                message=f"there is no site {site} in these files", hint=hint, severity=ERROR if whole else WARNING
            )
        elif layer != ANY and layer not in layers:
            hint = did_you_mean(layer, layers) or f"its layers are {', '.join(layers)}"
            yield place._replace(message=f"the site {site} has no layer {layer}", hint=hint)
