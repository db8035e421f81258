"""The fields of a crawl of sites that found nothing, or nothing of their type, and records that are lost to others: rows full of nulls,
or too few of them, must not look like success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gossamer.cli import output
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model.counter_names import (
    CONTESTED,
    DAMAGED,
    DOUBTED,
    EMPTY,
    LINKED_DENIED,
    LINKED_GONE,
    LINKLESS,
    OVERLONG,
    OVERWRITTEN,
    PAGES_READ,
    REDIRECTED,
    REDIRECTED_SEEN,
    REPLACED,
    SKIPPED,
    TEXTLESS,
    UNLINKED,
    UNREADABLE,
)
from gossamer.sites.format import FieldRule, SiteSpec
from gossamer.sites.format.selector import is_helper

FEW = 2
"""Fewer pages than this say nothing about a field."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What is said of one kind of loss; ``name`` is a field or a layer, ``many`` counts pages or records of it."""

    counter: str
    counted: str
    text: str


NOTICES: Final[Mapping[str, Notice]] = {
    "found_nowhere": Notice(EMPTY, "page", "{name} was found on none of {many}; look at one: gossamer site try URL"),
    "unreadable": Notice(
        UNREADABLE,
        "page",
        "{name} could not be converted to its type on {many}; the log of the workers names one, and its text",
    ),
    "charset_guessed": Notice(
        DOUBTED,
        "page",
        "the character set of {many} of {name} was guessed, or is another than they say; write encoding: in the layer; look at one: "
        "gossamer site try URL",
    ),
    "charset_replaced": Notice(
        DAMAGED,
        "page",
        "on {many} of {name}, bytes that are no characters were replaced; if the character set is wrong, write encoding: in the "
        "layer; look at one: gossamer site try URL",
    ),
    "linkless": Notice(
        LINKLESS,
        "page",
        "{name} found no link on {many}, all that were read; if there should be some, look at one: gossamer site try URL",
    ),
    "unlinked": Notice(
        UNLINKED,
        "page",
        "{name} left out links on {many}, where a {{name}} of it is empty; look at one: gossamer site try URL",
    ),
    "textless": Notice(
        TEXTLESS,
        "page",
        "{name} has links on {many} for which changed is empty: of their pages only new ones are fetched; look at one: gossamer site try URL",
    ),
    "overlong": Notice(
        OVERLONG,
        "page",
        "{name} left out links on {many} that are longer than 8,000 characters; the log of the workers names them",
    ),
    "skipped": Notice(
        SKIPPED,
        "page",
        "{name} counts more records for a page than there are, on {many}: those between may be left out; count as many as a page has",
    ),
    "contested": Notice(
        CONTESTED,
        "page",
        "{name} has links on {many} that an earlier rule leads to another layer, where they are read instead; keep them apart with match "
        "or skip",
    ),
    "redirected": Notice(
        REDIRECTED,
        "page",
        "{many} of {name} redirected to another layer of the site, where what they led to is read instead; if it belongs to {name}, make "
        "that one's match fit it",
    ),
    "redirected_seen": Notice(
        REDIRECTED_SEEN,
        "page",
        "{many} of {name} redirected to pages that were seen before, and are not read again; if these show something else to each who is "
        "sent there, look at one: gossamer site try URL",
    ),
    "gone": Notice(
        LINKED_GONE,
        "page",
        "{many} of {name} do not exist (404, 410); the log of the workers names one; if they should, look at the links that lead there: gossamer site "
        "try URL",
    ),
    "robots_denied": Notice(
        LINKED_DENIED,
        "page",
        "robots.txt forbids {many} of {name}, which were not fetched; if you may fetch them, write politeness: {{robots: ignore}}",
    ),
    "overwritten": Notice(
        OVERWRITTEN,
        "record",
        "{many} of {name} are lost to others of their page, with the same key; name more fields in its key",
    ),
    "replaced": Notice(
        REPLACED,
        "record",
        "{many} of {name} or more replaced others with the same key and other values, of other pages; unless these are the same thing, "
        "name more fields in its key",
    ),
}
"""The kinds of loss, in the order in which they are said; the names are those of the JSON output."""


class FieldCounts:
    """Which fields of the sites were found on no page since this was made, and which had values that could not be converted. `only`: the one
    layer that is crawled, whose links to others are not followed."""

    def __init__(self, frontier: ValkeyFrontier, sites: Sequence[SiteSpec], only: str = "") -> None:
        self._only = only
        self._sites = {site.site: site for site in sites}
        self._before = self._counters(frontier)
        self._figures: dict[str, dict[str, dict[str, int]]] = {}
        self._unreached: dict[str, list[str]] = {}

    def _counters(self, frontier: ValkeyFrontier) -> dict[str, Mapping[str, float]]:
        return {row.group: row.counters for row in frontier.counts().groups if row.group in self._sites}

    def read(self, frontier: ValkeyFrontier) -> None:
        """Note what has come since."""
        for group, after in self._counters(frontier).items():
            before = self._before.get(group, {})
            grown = {name: many for name, value in after.items() if (many := round(value - before.get(name, 0))) > 0}
            figures = {kind: _with(grown, notice.counter) for kind, notice in NOTICES.items()}
            read = _with(grown, PAGES_READ)
            figures["found_nowhere"] = {
                name: many
                for name, many in figures["found_nowhere"].items()
                if many >= max(FEW, read.get(name.partition(".")[0], 0)) and _expected(self._sites[group], name)
            }
            figures["linkless"] = {
                name: many for name, many in figures["linkless"].items() if many >= read.get(name.partition(".")[0], 0)
            }
            self._figures[group] = figures
        counts = frontier.counts()
        reached = {row.lane for row in counts.lanes if row.added or row.duplicates or row.pages}
        for row in counts.groups:
            site = self._sites.get(row.group)
            if site is not None and not row.open and not self._only:  # Else they may come yet.
                others = {rule.layer for rule in site.refresh} | _tables_of_functions(site)
                known = {name for name in site.layers if f"{row.group}.{name}" in reached}
                self._unreached[row.group] = [
                    name for name in site.layers if name not in known | others and name in _led_to(site, known)
                ]

    def figures(self, group: str) -> dict[str, Any]:
        """One group's, for JSON: fields or layers, and on how many pages or records; and layers that nothing has led to yet."""
        figures = self._figures.get(group, {kind: {} for kind in NOTICES})
        return {**figures, "unreached": self._unreached.get(group, [])}

    def report(self) -> None:
        """Say which fields are empty in all rows, which in some although the page has something, and what else is lost."""
        for group in self._sites:
            figures = self.figures(group)
            for name in figures["unreached"]:
                output.write_notice(
                    f"{group}: no link has led to {name} in any round; look at a page that should have one: gossamer site try URL"
                )
            for kind, notice in NOTICES.items():
                for name, many in sorted(figures[kind].items()):
                    output.write_notice(
                        f"{group}: {notice.text.format(name=name, many=output.counted(many, notice.counted))}"
                    )


def _with(counters: Mapping[str, int], head: str) -> dict[str, int]:
    return {name.removeprefix(head): value for name, value in counters.items() if name.startswith(head)}


def _led_to(site: SiteSpec, layers: set[str]) -> set[str | None]:
    """The layers that links of these may lead to. Nothing leads to others: front pages of a paper whose seed is a feed."""
    found = {rule.to for name in layers for rule in site.layers[name].follow}
    if None in found or any(site.layers[name].handler is not None for name in layers):
        return {*site.layers}
    return found


def _tables_of_functions(site: SiteSpec) -> set[str]:
    """The layers that may be there only for their table, with records that functions make of other pages."""
    linked = {rule.to for layer in site.layers.values() for rule in layer.follow} | {seed.layer for seed in site.seeds}
    return {
        name
        for name, layer in site.layers.items()
        if layer.handler is not None and layer.match is None and name in site.store and name not in linked
    }


def _expected(site: SiteSpec, name: str) -> bool:
    """Whether a field that is never found is worth a word: one that is stored, and has no default or condition."""
    layer, *path = name.split(".")
    rule = site.layers.get(layer)
    if rule is None:
        return False
    if path == ["records"]:
        return True
    fields: Mapping[str, FieldRule] = rule.fields
    for part in path:
        field = fields.get(part)
        if field is None or is_helper(part) or field.default is not None or field.when is not None:
            return False
        fields = field.fields
    return True
