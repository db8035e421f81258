"""Tables that several sites feed. Layers of one site know of each other; sites do not: where their rows have the same key, one replaces
the nested records of the other, or the whole row."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gossamer.sites.file.messages import problem_at
from gossamer.sites.file.params import Parameters, parameters
from gossamer.sites.file.problems import WARNING, Problem
from gossamer.sites.file.yaml import Spot
from gossamer.sites.format import Kind, SiteSpec
from gossamer.sites.plan import own_hosts
from gossamer.sites.tables.tables import EXTRA, described

_SAME = {"postgres": "postgresql", "mariadb": "mysql"}
_PORTS = {"postgresql": ":5432", "postgres": ":5432", "mysql": ":3306", "mariadb": ":3306"}
SAYS_SITE = ("site", "url", "fetched_url", "parent", "file")
"""Columns about the page that no two sites have alike, as a rule."""


class FedTable(NamedTuple):
    """A table with a name of its own that a layer feeds, whose key does not say which site a row is of; and a problem to report for it,
    with its place."""

    site: str
    hosts: frozenset[str]
    """The site's own; empty: any."""
    database: str | None
    table: str
    key: tuple[str, ...]
    columns: frozenset[str]
    """Those that are not of the key, nor about the page."""
    children: frozenset[str]
    """The tables of its nested records."""
    place: Problem


def fed_tables(site: SiteSpec, spot: Spot) -> list[FedTable]:
    """`site` must be sound."""
    found = []
    for layer, rule in site.store.items():
        fields = site.layers[layer].fields
        told_apart = any(
            fields[name].type is Kind.URL if name in fields else name in SAYS_SITE and name not in rule.types
            for name in rule.key
        )
        if told_apart or (rule.table is None and not any(child.table for child in rule.children.values())):
            continue
        first, *below = described(site, layer)
        columns = frozenset(column.name for column in first.columns) - {*first.key, *EXTRA}
        children = frozenset(table.name for table in below)
        hosts = own_hosts(site, parameters(site.params) if site.params else Parameters()) or frozenset()
        place = problem_at(spot, ("store", layer), "", severity=WARNING)
        found.append(FedTable(site.site, hosts, site.database, first.name, first.key, columns, children, place))
    return found


def clashes(found: Iterable[FedTable]) -> Iterator[Problem]:
    """For each table that several sites feed, the first two of them that may overwrite each other."""
    tables: dict[tuple[str | None, str], list[FedTable]] = {}
    for fed in found:
        tables.setdefault((same_database(fed.database), fed.table.lower()), []).append(fed)
    for feeding in tables.values():
        if (clash := _clash(feeding)) is not None:
            yield clash


def same_database(url: str | None) -> str | None:
    """One form of all URLs of a database: without user, password and options, which say how to reach it."""
    if url is None:
        return None
    address = url.partition("?")[0]
    scheme, _, rest = address.partition("://")
    name = scheme.partition("+")[0].lower()
    if name == "sqlite":
        return f"sqlite:///{posixpath.normpath(rest.removeprefix('/'))}"
    host, _, database = rest.rpartition("@")[2].partition("/")
    port = _PORTS.get(name, "")
    return f"{_SAME.get(name, name)}://{host.lower().removesuffix(port)}/{database}"


def _clash(feeding: list[FedTable]) -> Problem | None:
    for nested in (True, False):
        first: dict[str, FedTable] = {}
        for fed in feeding:
            for name in sorted(fed.children if nested else fed.columns):
                other = first.setdefault(name, fed)
                if other.site == fed.site or not (nested or _strangers(fed, other)):
                    continue
                key, lost = ", ".join(fed.key), f"{name} of each other" if nested else "each other"
                message = f"the sites {other.site} and {fed.site} both feed {fed.table}: rows with the same {key} replace {lost}"
                hint = f"write key: [site, {key}] in both, or give each site tables of its own"
                return fed.place._replace(message=message, hint=hint)
    return None


def _strangers(one: FedTable, other: FedTable) -> bool:
    """Whether the same key means another thing at the other site. What is on one host may well be read by two sites."""
    return bool(one.hosts and other.hosts) and one.hosts.isdisjoint(other.hosts)
