"""The fields of a crawl of sites that found nothing, or nothing of their type, and records that are lost to others: rows full of nulls,
or too few of them, must not look like success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gossamer.cli import output
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model.counter_names import (
    CONTESTED,
    EMPTY,
    OVERWRITTEN,
    PAGES_READ,
    REDIRECTED,
    REPLACED,
    SKIPPED,
    UNLINKED,
    UNREADABLE,
)
from gossamer.sites.format import FieldRule, SiteSpec
from gossamer.sites.format.selector import is_helper

FEW = 2
"""Fewer pages than this say nothing about a field."""


class FieldCounts:
    """Which fields of the sites were found on no page since this was made, and which had values that could not be converted."""

    def __init__(self, frontier: ValkeyFrontier, sites: Sequence[SiteSpec]) -> None:
        self._sites = {site.site: site for site in sites}
        self._before = self._counters(frontier)
        self._nowhere: dict[str, dict[str, int]] = {}
        self._unreadable: dict[str, dict[str, int]] = {}
        self._overwritten: dict[str, dict[str, int]] = {}
        self._unlinked: dict[str, dict[str, int]] = {}
        self._contested: dict[str, dict[str, int]] = {}
        self._replaced: dict[str, dict[str, int]] = {}
        self._redirected: dict[str, dict[str, int]] = {}
        self._skipped: dict[str, dict[str, int]] = {}

    def _counters(self, frontier: ValkeyFrontier) -> dict[str, Mapping[str, float]]:
        return {row.group: row.counters for row in frontier.counts().groups if row.group in self._sites}

    def read(self, frontier: ValkeyFrontier) -> None:
        """Note what has come since."""
        for group, after in self._counters(frontier).items():
            before = self._before.get(group, {})
            grown = {name: many for name, value in after.items() if (many := round(value - before.get(name, 0))) > 0}
            self._unreadable[group] = _with(grown, UNREADABLE)
            self._overwritten[group] = _with(grown, OVERWRITTEN)
            self._unlinked[group] = _with(grown, UNLINKED)
            self._contested[group] = _with(grown, CONTESTED)
            self._replaced[group] = _with(grown, REPLACED)
            self._redirected[group] = _with(grown, REDIRECTED)
            self._skipped[group] = _with(grown, SKIPPED)
            read = _with(grown, PAGES_READ)
            self._nowhere[group] = {
                name: many
                for name, many in _with(grown, EMPTY).items()
                if many >= max(FEW, read.get(name.partition(".")[0], 0)) and _expected(self._sites[group], name)
            }

    def figures(self, group: str) -> dict[str, Any]:
        """One group's, for JSON: fields and on how many pages."""
        return {
            "found_nowhere": self._nowhere.get(group, {}),
            "unreadable": self._unreadable.get(group, {}),
            "overwritten": self._overwritten.get(group, {}),
            "unlinked": self._unlinked.get(group, {}),
            "contested": self._contested.get(group, {}),
            "replaced": self._replaced.get(group, {}),
            "redirected": self._redirected.get(group, {}),
            "skipped": self._skipped.get(group, {}),
        }

    def report(self) -> None:
        """Say which fields are empty in all rows, and which in some although the page has something."""
        for group in self._sites:
            for name, many in sorted(self._nowhere.get(group, {}).items()):
                output.write_notice(
                    f"{group}: {name} was found on none of {many:,} pages; look at one: gossamer site try URL"
                )
            for name, many in sorted(self._unreadable.get(group, {}).items()):
                pages = output.counted(many, "page")
                output.write_notice(
                    f"{group}: {name} could not be converted to its type on {pages}; look at one: gossamer site try URL"
                )
            for name, many in sorted(self._unlinked.get(group, {}).items()):
                pages = output.counted(many, "page")
                output.write_notice(
                    f"{group}: {name} left out links on {pages}, where a {{name}} of it is empty; look at one: gossamer site try URL"
                )
            for name, many in sorted(self._skipped.get(group, {}).items()):
                pages = output.counted(many, "page")
                output.write_notice(
                    f"{group}: {name} counts more records for a page than there are, on {pages}: those between may be left out; count as "
                    "many as a page has"
                )
            for name, many in sorted(self._contested.get(group, {}).items()):
                pages = output.counted(many, "page")
                output.write_notice(
                    f"{group}: {name} has links on {pages} that an earlier rule leads to another layer, where they are read instead; "
                    "keep them apart with match or skip"
                )
            for name, many in sorted(self._redirected.get(group, {}).items()):
                pages = output.counted(many, "page")
                output.write_notice(
                    f"{group}: {pages} of {name} redirected to another layer of the site, where what they led to is read instead; if it belongs "
                    f"to {name}, make that one's match fit it"
                )
            for name, many in sorted(self._overwritten.get(group, {}).items()):
                records = output.counted(many, "record")
                output.write_notice(
                    f"{group}: {records} of {name} are lost to others of their page, with the same key; name more fields in its key"
                )
            for name, many in sorted(self._replaced.get(group, {}).items()):
                records = output.counted(many, "record")
                output.write_notice(
                    f"{group}: {records} of {name} or more replaced others with the same key and other values, of other pages; unless these "
                    "are the same thing, name more fields in its key"
                )


def _with(counters: Mapping[str, int], head: str) -> dict[str, int]:
    return {name.removeprefix(head): value for name, value in counters.items() if name.startswith(head)}


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
