"""Rows whose source is gone: `gone_at` says since when, of a row and of everything below it; a history gets a closing row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, bindparam, select, update

from gossamer.model.table import GONE
from gossamer.model.table_layout import TableLayout
from gossamer.store.rows.history import append_changes
from gossamer.store.rows.identities import Identity, among, chunks, plain

if TYPE_CHECKING:
    from gossamer.store.batch import Bound
    from gossamer.store.statements import TableStatements


def mark(
    connection: Connection,
    tables: TableStatements,
    shape: TableLayout,
    identities: Iterable[Identity],
    now: Callable[[], datetime],
) -> None:
    """Note of rows that they are gone, with all that is below them. One that is gone already keeps its time."""
    rows = sorted(identities)
    if not rows:
        return
    moment = now()
    at = tables.database.takers(shape)[GONE](moment)
    table = tables.of[shape.name]
    if shape.table.history:
        closing = {row: [{**dict(zip(shape.identity, row, strict=True)), GONE: at}] for row in rows}
        append_changes(connection, tables, shape, closing, (), now)
        return
    where = and_(
        *(table.c[name] == bindparam(f"gossamer_is_{name}") for name in shape.identity), table.c[GONE].is_(None)
    )
    names = [f"gossamer_is_{name}" for name in shape.identity]
    connection.execute(
        update(table).where(where).values({GONE: at}), [dict(zip(names, row, strict=True)) for row in rows]
    )
    for child in tables.shapes.values():
        if child.parent is shape and child.table.gone:
            mark(connection, tables, child, _below(connection, tables, child, rows), lambda: moment)


def clear(connection: Connection, tables: TableStatements, shape: TableLayout, identities: Iterable[Identity]) -> None:
    """Note of rows that they are there."""
    table = tables.of[shape.name]
    for rows in chunks(sorted(identities)):
        where = and_(among(table, shape.identity, rows), table.c[GONE].is_not(None))
        connection.execute(update(table).where(where).values({GONE: None}))


def revive(
    connection: Connection,
    tables: TableStatements,
    shape: TableLayout,
    identities: Iterable[Identity],
    now: Callable[[], datetime],
) -> None:
    """Note of rows that they are there again as they were, with what went with them."""
    rows = sorted(identities)
    if shape.table.history:
        there: dict[Identity, list[Bound]] = {
            row: [{**dict(zip(shape.identity, row, strict=True)), GONE: None}] for row in rows
        }
        append_changes(connection, tables, shape, there, (), now)
        return
    table = tables.of[shape.name]
    below = [one for one in tables.shapes.values() if one.parent is shape and one.table.gone]
    for some in chunks(rows):
        query = select(*(table.c[name] for name in (*shape.identity, GONE))).where(
            and_(among(table, shape.identity, some), table.c[GONE].is_not(None))
        )
        found = connection.execute(query.with_for_update()).all() if below else ()
        for child in below:
            _revive_below(connection, tables, child, {plain(row[:-1]): row[-1] for row in found})
    clear(connection, tables, shape, rows)


def _revive_below(
    connection: Connection, tables: TableStatements, shape: TableLayout, parents: Mapping[Identity, Any]
) -> None:
    """Revive the children that went with their parents, at the same time."""
    table = tables.of[shape.name]
    for parent, since in parents.items():
        where = and_(*(table.c[name] == value for name, value in zip(shape.link, parent, strict=True)))
        query = select(*(table.c[name] for name in shape.identity)).where(where, table.c[GONE] == since)
        rows = [plain(row) for row in connection.execute(query)]
        for child in tables.shapes.values():
            if child.parent is shape and child.table.gone:
                _revive_below(connection, tables, child, dict.fromkeys(rows, since))
        clear(connection, tables, shape, rows)


def locked(
    connection: Connection, tables: TableStatements, shape: TableLayout, identities: Iterable[Identity]
) -> set[Identity]:
    """Those of the rows that are there, gone or not. Nobody else writes them until the transaction ends."""
    table = tables.of[shape.name]
    if shape.table.history:
        tables.database.lock_history(connection, shape.name)
    found: set[Identity] = set()
    for rows in chunks(sorted(identities)):
        query = select(*(table.c[name] for name in shape.identity)).where(among(table, shape.identity, rows))
        found.update(plain(row) for row in connection.execute(query.with_for_update()))
    return found


def _below(
    connection: Connection, tables: TableStatements, child: TableLayout, parents: Sequence[Identity]
) -> list[Identity]:
    table = tables.of[child.name]
    found: list[Identity] = []
    for links in chunks(parents):
        query = select(*(table.c[name] for name in child.identity)).where(
            and_(among(table, child.link, links), table.c[GONE].is_(None))
        )
        found += [plain(row) for row in connection.execute(query)]
    return found
