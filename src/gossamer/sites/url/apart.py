"""Which layers of a site read pages that other layers read, too. The layers of a site share one memory of the pages that were seen: a page
that is to be read twice, once by each of two layers, needs two identities."""

from __future__ import annotations

from gossamer.sites.crossing import crosses
from gossamer.sites.format import Follow, SiteSpec

_ELSE = {"to", "pages", "limit", "priority", "carry", "again", "headers", "cookies"}
"""What says nothing about which pages a rule leads to."""


def layers_apart(site: SiteSpec) -> frozenset[str]:
    """The layers whose pages have identities of their own: those to which a rule of `follow` leads with the same links as an earlier one
    that leads to another layer."""
    found: set[str] = set()
    for layer in site.layers.values():
        targets: dict[str, set[str | None]] = {}
        for follow in layer.follow:
            if follow.to is not None and crosses(follow.to):
                continue
            before = targets.setdefault(_links(follow), set())
            if follow.to is not None and before - {follow.to}:
                found.add(follow.to)
            before.add(follow.to)
    return frozenset(found)


def _links(follow: Follow) -> str:
    """Which links a rule finds: the same text for rules that find the same."""
    return follow.model_dump_json(exclude=_ELSE)
