"""Checks links that cross sites: whether what they lead to is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gossamer.sites.crossing import ANY, split, targets
from gossamer.sites.file.messages import problem_at
from gossamer.sites.file.problems import ERROR, WARNING, Problem, did_you_mean
from gossamer.sites.file.yaml import Spot
from gossamer.sites.format import SiteSpec


class Crossing(NamedTuple):
    """A rule whose links leave their site: where they lead, and a problem to report for it, with its place."""

    site: str
    layer: str
    place: Problem


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
