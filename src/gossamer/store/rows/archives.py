"""Tables that begin empty in each round: which round a table has the rows of, and how it is named when it is put aside.

`GAPS` has two lines of each such table, which outlast a dropped group: `filled`, the round whose rows it has, and `group`, for each site that
fills it, which group that round was of. Rounds are counted from 0 again when a group is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select, text

from gossamer.model.table import GAPS
from gossamer.model.table_layout import TableLayout
from gossamer.store import schema
from gossamer.store.database.database import Database
from gossamer.store.parts import number_of

if TYPE_CHECKING:
    from gossamer.store.statements import TableStatements

ALWAYS = -2
"""Stands for all rounds of all groups."""
ALL_SITES = 0
BEFORE_ROUNDS = "before"
"""Ends the name of a table with rows that no round has brought."""


def begin(
    connection: Connection,
    database: Database,
    tables: TableStatements,
    tree: Sequence[TableLayout],
    site: int,
    number: int,
    birth: str,
) -> None:
    """A round begins: put aside a table and its children, as NAME_rN by the round N whose rows they have. Once for each round, also where it
    is called again. A name that is taken, by a group that was dropped, gets a number: NAME_rN_2."""
    name = tree[0].name
    filled, group = _line(connection, tables, ALL_SITES, "filled", name), _line(connection, tables, site, "group", name)
    is_done = filled == str(number) and group in (None, birth)
    # So did the version before, which named a table by the round that began.
    if not is_done and filled is None and number:
        is_done = bool(database.columns(connection, f"{name}_r{number}"))
    if not is_done:
        has_rows = any(_has_rows(connection, database, shape.name) for shape in tree)
        if filled is not None:
            former = f"r{filled}"
        elif has_rows:
            former = f"r{number - 1}" if number else BEFORE_ROUNDS
        else:
            former = ""
        if former and (suffix := _free(connection, database, tree, former, has_rows)):
            schema.archive_table(connection, database, list(tree), suffix)
    _note(connection, tables, ALL_SITES, "filled", name, str(number))
    _note(connection, tables, site, "group", name, birth)


def _free(
    connection: Connection, database: Database, tree: Sequence[TableLayout], former: str, has_rows: bool
) -> str | None:
    """An ending with which no table of the tree has been put aside; None if they have, and that they were was not noted."""
    suffix, number = former, 1
    while any(database.columns(connection, f"{shape.name}_{suffix}") for shape in tree):
        if not has_rows:
            return None
        number += 1
        suffix = f"{former}_{number}"
    return suffix


def _has_rows(connection: Connection, database: Database, name: str) -> bool:
    if not database.columns(connection, name):
        return False
    return connection.execute(text(f"SELECT 1 FROM {database.quoted(connection, name)} LIMIT 1")).first() is not None


def _line(connection: Connection, tables: TableStatements, site: int, kind: str, name: str) -> str | None:
    table = tables.of[GAPS.name]
    which = (table.c.site == site, table.c.round == ALWAYS, table.c.what == number_of(kind, name))
    found: str | None = connection.execute(select(table.c.detail).where(*which)).scalar()
    return found


def _note(connection: Connection, tables: TableStatements, site: int, kind: str, name: str, detail: str) -> None:
    what = number_of(kind, name)
    row = {"site": site, "round": ALWAYS, "what": what, "kind": kind, "layer": name, "detail": detail}
    connection.execute(tables.upsert(tables.shapes[GAPS.name], tuple(sorted(row))), [row])  # type: ignore[call-overload]
