"""Reads whole tables, and parents without children, in pages by key so that no writer waits long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, exists, or_, select
from sqlalchemy import Table as SqlTable
from sqlalchemy.sql import ColumnElement

from gossamer.errors import StoreError
from gossamer.model.table_layout import DIGEST, LINK, TableLayout
from gossamer.store.rows.identities import plain
from gossamer.store.statements import TableStatements

PAGE = 1000

Ask = Callable[[Callable[[Connection], Sequence[Row[Any]]]], Sequence[Row[Any]]]
"""Runs a query in its own transaction."""


def read(ask: Ask, tables: TableStatements, shape: TableLayout) -> Iterator[dict[str, Any]]:
    """All rows of a table, by primary key, as Python's values."""
    table = tables.of[shape.name]
    names = list(shape.columns)
    query = select(*(table.c[name] for name in shape.primary), *tables.database.selected(table, shape, names))
    yield from _pages(ask, tables, shape, query, shape.primary, names)


def with_key(ask: Ask, tables: TableStatements, shape: TableLayout, key: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The row with this key, as Python's values, of a table that is found by the digest of its key."""
    table, names = tables.of[shape.name], list(shape.columns)
    query = select(*(table.c[name] for name in shape.primary), *tables.database.selected(table, shape, names))
    query = query.where(table.c[DIGEST] == shape.digest_of(key))
    yield from _pages(ask, tables, shape, query, shape.primary, names)


def missing(
    ask: Ask, tables: TableStatements, parent: TableLayout, child: TableLayout, on: Mapping[str, str] | None
) -> Iterator[dict[str, Any]]:
    """The keys of the rows of `parent` without a row of `child`."""
    above, below = tables.of[parent.name], tables.of[child.name]
    pairs = _pairs(parent, child, on)
    belongs = and_(*(below.c[theirs] == above.c[ours] for ours, theirs in pairs))
    names = list(parent.key)
    query = (
        select(*(above.c[name] for name in parent.identity), *tables.database.selected(above, parent, names))
        .where(~exists().where(belongs))
        .distinct()
    )
    yield from _pages(ask, tables, parent, query, parent.identity, names)


def _pairs(parent: TableLayout, child: TableLayout, on: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """Columns of the parent, each with the column of the child that must be equal."""
    if on is not None:
        for shape, names in ((parent, on.keys()), (child, on.values())):
            for name in names:
                if name not in shape.columns:
                    raise StoreError(f"Table {shape.name} has no column {name}. It has: {', '.join(shape.columns)}.")
        return list(on.items())
    if child.parent is None or child.parent.name != parent.name:
        raise StoreError(
            f"Table {child.name} has not the parent {parent.name}. Say which columns belong together (on=…)."
        )
    if child.link == (LINK,) and parent.digested:
        return [(parent.identity[0], LINK)]
    return [(name, f"parent_{name}") for name in parent.key]


def _pages(
    ask: Ask,
    tables: TableStatements,
    shape: TableLayout,
    query: Select[Any],
    order: Sequence[str],
    names: Sequence[str],
) -> Iterator[dict[str, Any]]:
    givers = tables.database.givers(shape)
    for row in in_pages(ask, tables.of[shape.name], query, order):
        yield {name: None if raw is None else givers[name](raw) for name, raw in zip(names, row, strict=True)}


def in_pages(ask: Ask, table: SqlTable, query: Select[Any], order: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """All rows of a query that selects the columns of `order` first, in this order, without these columns."""
    width = len(order)
    query = query.order_by(*(table.c[name] for name in order)).limit(PAGE)
    after: tuple[Any, ...] | None = None
    while True:
        page = query if after is None else query.where(behind(table, order, after))
        rows = ask(lambda connection, page=page: connection.execute(page).all())  # type: ignore[misc]
        for row in rows:
            yield row[width:]
        if len(rows) < PAGE:
            return
        after = plain(rows[-1][:width])


def behind(table: SqlTable, order: Sequence[str], after: Sequence[Any]) -> ColumnElement[bool]:
    """A condition: a row comes after another one, by these columns."""
    conditions = []
    for place, name in enumerate(order):
        equal = [table.c[before] == after[number] for number, before in enumerate(order[:place])]
        conditions.append(and_(*equal, table.c[name] > after[place]))
    return or_(*conditions)
