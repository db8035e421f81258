"""Checks of `refresh`: its layer, and the columns of a table that this site fills itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.sites.file.params import names_in
from gossamer.sites.file.problems import Path, did_you_mean
from gossamer.sites.format import RefreshRule
from gossamer.sites.tables.refresh import owner_of, refresh_plan
from gossamer.sites.tables.tables import tables

if TYPE_CHECKING:
    from gossamer.sites.check.site import Checker

TIMES = ("datetime", "date")
UNCOMPARED = ("json", "bytes")


def check_refresh(checker: Checker) -> None:
    for place, rule in enumerate(checker.site.refresh):
        path: Path = ("refresh", place)
        checker.layer(rule.layer, (*path, "layer"))
        if checker.sound:
            _check_rule(checker, rule, path)


def _check_rule(checker: Checker, rule: RefreshRule, path: Path) -> None:
    owner, plan = owner_of(checker.site, rule), refresh_plan(checker.site, rule)
    if rule.url == "{url}" and owner != rule.layer:
        checker.add(
            path,
            f"the rows of {rule.table} have the addresses of their own pages, not of pages of {rule.layer}",
            "write url: with {columns} of the table",
        )
        return
    found = {table.name: table for table in tables(checker.site)}.get(rule.table)
    if owner == "" or found is None or found.growing or found.existing:
        return  # The database knows its columns.
    if found.archive:
        checker.add(
            (*path, "table"),
            "archive puts this table aside when a round begins, so there is nothing to refresh",
            "leave archive out, or refresh another table",
        )
    types = {column.name: column.type for column in found.columns}
    wanted: list[tuple[Path, str]] = [((*path, "where", column), column) for column in rule.where]
    names = [name for name in names_in(rule.url) if name not in checker.params.names]
    wanted += [((*path, "url"), plan.columns.get(name, name)) for name in names]
    wanted += [((*path, "pass"), plan.passed[name]) for name in plan.named]
    for where, column in wanted:
        if column not in types:
            hint = did_you_mean(column, types) or f"the table has {', '.join(types)}"
            checker.add(where, f"the table {rule.table} has no column {column}", hint)
    for column, condition in rule.where.items():
        kind = types.get(column, "datetime")
        if (condition.newer is not None or condition.older is not None) and kind not in TIMES:
            checker.add(
                (*path, "where", column),
                f"{column} is {kind}, and only a datetime or a date is newer or older",
                "name a column with a time, such as fetched_at in add",
            )
        elif kind in UNCOMPARED:
            checker.add((*path, "where", column), f"{column} is {kind} and cannot be compared", "name another column")
    if not plan.fixed and not types.keys() & set(plan.pages):
        checker.add(
            (*path, "url"),
            f"the table {rule.table} does not say which page each row comes from, so its hosts are not known",
            "write the host in url, or add url to the table",
        )
