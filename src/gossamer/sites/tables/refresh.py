"""What `refresh` of a site file means: which columns of a table it needs, and what its pages inherit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gossamer.sites.format import SELECTORS, RefreshRule, SiteSpec
from gossamer.sites.plan import ORIGIN
from gossamer.sites.tables.tables import column_of, table_name


class RefreshPlan(NamedTuple):
    """`columns` are those that are not called as their field; `passed` what a page inherits, name and column, of which `named` must be
    there; `pages` are the columns that may have the page that led to it, the best first; `fixed`: the file names the host, or the page is the one that the row was read from."""

    columns: Mapping[str, str]
    passed: Mapping[str, str]
    named: frozenset[str]
    pages: tuple[str, ...]
    fixed: bool


def refresh_plan(site: SiteSpec, rule: RefreshRule) -> RefreshPlan:
    owner = owner_of(site, rule)
    store = site.store[owner] if owner else None
    columns = {field: column_of(store, field) for field in site.layers[owner].fields} if owner and store else {}
    if store is not None:
        columns["url"] = column_of(store, "url")
    passed: dict[str, str] = {}
    for name, one in site.layers[rule.layer].fields.items():
        first, _, rest = one.source.partition(".")
        if first == "parent" and rest and "." not in rest:
            if owner != rule.layer:
                passed[rest] = columns.get(rest, rest)
            elif all(getattr(one, way) is None for way in SELECTORS):
                passed[rest] = columns.get(name, name)
    said = rule.inherited if isinstance(rule.inherited, dict) else {name: name for name in rule.inherited}
    passed |= {name: columns.get(column, column) for name, column in said.items()}
    again = owner == rule.layer and rule.url == "{url}"
    pages = [columns.get("url", "url")]
    if again and store is not None:
        # The page that led to it then.
        pages = [column_of(store, "parent")]
    return RefreshPlan(columns, passed, frozenset(said), tuple(pages), ORIGIN.match(rule.url) is not None or again)


def owner_of(site: SiteSpec, rule: RefreshRule) -> str:
    """The layer of this site that fills the table, the rule's own if it does; "" if none does."""
    filling = [name for name in site.store if name in site.layers and table_name(site, name) == rule.table]
    return rule.layer if rule.layer in filling else filling[0] if filling else ""
