"""Creates tables as described, checks them, and widens columns if nothing can be lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection

from gossamer.errors import StoreError, TableMismatch
from gossamer.model.table import GONE, Column, Table
from gossamer.model.table_layout import DIGEST, LINK, NAME_BYTES, PLACE, SINCE, TableLayout
from gossamer.store.database.database import Database, FoundColumn

OWN = frozenset({DIGEST, GONE, LINK, PLACE, SINCE})
"""Columns that the layout of a table adds."""
_REMEDY = "Give the field another column, change the column by hand, or put the table aside so that a new one is made."


def create_tables(connection: Connection, database: Database, shapes: Iterable[TableLayout]) -> list[str]:
    """Create the missing tables of `shapes` (parents first), add columns to the others, check the rest. Return the created ones."""
    created = []
    for shape in shapes:
        found = database.columns(connection, shape.name)
        if shape.table.existing:
            _check_existing(connection, database, shape, found)
        elif not found:
            database.create(connection, [shape])
            created.append(shape.name)
        else:
            _check_key(connection, database, shape, found)
            _check_types(connection, database, shape, found)
    return created


def as_found(connection: Connection, database: Database, table: Table) -> Table:
    """A growing table, with all columns that the database has, and their types. Any other as it is."""
    if not table.growing:
        return table
    found = database.columns(connection, table.name)
    described = {column.name for column in table.columns} | OWN
    key = [Column(name, "text") for name in table.key if name in found and name not in described]
    # Those of other workers, and of earlier rounds: a row may have no value for them any more.
    others = [
        Column(name, kind)
        for name, there in found.items()
        if there.nullable and name not in described and name not in table.key
        if (kind := _kind_of(database, there)) is not None
    ]
    table = table._replace(columns=(*table.columns, *key, *others))

    def typed(column: Column) -> Column:
        there = found.get(column.name)
        if there is None or there.type in database.alike[column.type]:
            return column
        return column._replace(type=_kind_of(database, there) or column.type)

    return table._replace(columns=tuple(map(typed, table.columns)))


def _kind_of(database: Database, column: FoundColumn) -> str | None:
    return next((kind for kind, names in database.alike.items() if column.type in names), None)


def _check_existing(
    connection: Connection, database: Database, shape: TableLayout, found: Mapping[str, FoundColumn]
) -> None:
    if not found:
        raise TableMismatch(
            f"There is no table {shape.name} in the database, and it is described as existing. Create it, or leave `existing` out."
        )
    missing = [name for name in shape.columns if name not in found]
    if missing:
        raise TableMismatch(
            f"Table {shape.name} has no column {', '.join(missing)}; it has {', '.join(found)}. Name the right columns, or add them."
        )
    if frozenset(shape.primary) not in database.unique_keys(connection, shape.name):
        raise TableMismatch(
            f"Table {shape.name} has no primary key or unique index on exactly ({', '.join(shape.primary)}), so that rows would be"
            " doubled. Create one, or choose the key that it has."
        )


def _check_key(
    connection: Connection, database: Database, shape: TableLayout, found: Mapping[str, FoundColumn]
) -> None:
    keyed = {name for name in shape.columns if name in found and not found[name].nullable}
    primary = database.primary_key(connection, shape.name)
    if (SINCE in primary) != shape.table.history:
        had = "keeps a history" if SINCE in primary else "keeps no history"
        raise TableMismatch(
            f"Table {shape.name} in the database {had}, and is now described otherwise. Use another table,"
            " or put this one aside so that a new one is made."
        )
    if primary != frozenset(shape.primary) or keyed != shape.required & shape.columns.keys():
        had = ", ".join(sorted(keyed)) or "other columns"
        raise TableMismatch(
            f"Table {shape.name} in the database has the key ({had}), the description says ({', '.join(sorted(shape.key))})."
            " Use another table, or put this one aside so that a new one is made."
        )


def _check_types(
    connection: Connection, database: Database, shape: TableLayout, found: Mapping[str, FoundColumn]
) -> None:
    for name, column in shape.columns.items():
        there = found.get(name)
        if there is None:
            database.add_column(connection, shape.name, name, column.type)
        elif there.type in database.alike[column.type]:
            continue
        elif there.type in database.wider.get(column.type, ()) and name not in shape.required:
            database.widen(connection, shape.name, name, column.type)
        else:
            raise TableMismatch(
                f"Table {shape.name}, column {name}: the database has {there.type}, the description says {column.type}"
                f" ({database.types[column.type].lower()}). {_REMEDY}"
            )


def archive_table(connection: Connection, database: Database, shapes: list[TableLayout], suffix: str) -> None:
    """Rename each table to name_suffix and make an empty one in its place, once for each suffix.

    A table that is not there yet leaves an empty one behind, too: otherwise a second call would take what was written since. A table
    that is not as described is put aside all the same; that is the way to start again.
    """
    waiting: dict[str, str] = {}
    for shape in shapes:
        later = f"{shape.name}_{suffix}"
        if shape.table.existing:
            raise StoreError(
                f"Table {shape.name} is described as existing and is never put aside. Leave `archive` out."
            )
        if len(later.encode()) > NAME_BYTES:
            raise StoreError(
                f"{later} is longer than {NAME_BYTES} bytes, which not every database takes. Shorten the table's name."
            )
        if not database.columns(connection, later):
            waiting[shape.name] = later
        if not database.columns(connection, shape.name):
            database.create(connection, [shape])
    if waiting:
        database.archive_table(connection, waiting, [shape for shape in shapes if shape.name in waiting])
