"""The statements of one transaction: delete children that are gone, insert or overwrite rows, add to histories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, MetaData, and_, bindparam, delete, func, insert, select, update
from sqlalchemy import Table as SqlTable
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement

from gossamer.model.table import GONE, PAGES
from gossamer.model.table_layout import PLACE, TableLayout
from gossamer.store.batch import Bound, TableBatch
from gossamer.store.database.database import Database
from gossamer.store.parts import POSITIONS, ChildSweep, Columns, PartDecisions, decide, number_of
from gossamer.store.rows import gone, history
from gossamer.store.rows.identities import Identity, among, chunks, plain


class TableStatements:
    """SQLAlchemy's tables for shapes, and the statements that were made for them. Those of `before` are kept where their shape
    is the same: a worker of many sites adds a few tables to many, again and again."""

    def __init__(
        self, database: Database, shapes: Mapping[str, TableLayout], before: TableStatements | None = None
    ) -> None:
        self.database = database
        self.shapes = shapes
        kept = {} if before is None else {name: one for name, one in before.of.items() if same(name, before, shapes)}
        self.of: dict[str, SqlTable] = {
            name: kept[name] if name in kept else database.table_with_ancestors(shape, MetaData())
            for name, shape in shapes.items()
        }
        self.careful: set[str] = set()
        """Existing tables whose rows must be found before they are overwritten."""
        self._upserts: dict[tuple[str, tuple[str, ...], bool], ClauseElement] = {}
        if before is not None:
            # A copy: another thread may be writing with the former ones.
            self._upserts = {key: made for key, made in dict(before._upserts).items() if key[0] in kept}

    def upsert(self, shape: TableLayout, columns: tuple[str, ...], *, fill: bool = False) -> ClauseElement:
        key = (shape.name, columns, fill)
        if key not in self._upserts:
            self._upserts[key] = self.database.upsert(self.of[shape.name], columns, shape.primary, fill=fill)
        return self._upserts[key]


def same(name: str, before: TableStatements, shapes: Mapping[str, TableLayout]) -> bool:
    return name in shapes and before.shapes[name] is shapes[name]


def write(
    connection: Connection, tables: TableStatements, table_batches: Sequence[TableBatch], now: Callable[[], datetime]
) -> None:
    """Write `table_batches` in their order. An error of the database gets the table as a detail."""
    try:
        decided = decide(connection, tables, (one for batch in table_batches for one in batch.parts))
    except DBAPIError as error:
        error.add_detail(f"Table {PAGES.name}")
        raise
    for table_batch in table_batches:
        try:
            if table_batch.shape.table.history:
                _add_changes(connection, tables, table_batch, decided, now)
            else:
                _write_batch(connection, tables, table_batch, decided, now)
        except DBAPIError as error:
            error.add_detail(f"Table {table_batch.shape.name}")
            raise


def _write_batch(
    connection: Connection,
    tables: TableStatements,
    table_batch: TableBatch,
    decided: PartDecisions,
    now: Callable[[], datetime],
) -> None:
    shape = table_batch.shape
    if table_batch.sets:
        _remove_missing(connection, tables, table_batch, now)
    if sweeps := decided.sweeps.get(shape.name):
        _sweep(connection, tables, shape, sweeps, now)
    _write_rows(connection, tables, shape, table_batch.rows(), fill=False)
    if table_batch.parts:
        whole: dict[Identity, Bound] = {}
        further: dict[Identity, Bound] = {}
        for one in table_batch.parts:
            columns = decided.columns[id(one)]
            if columns is Columns.LEAVES:
                continue
            if columns is Columns.FILLS:
                known = further.setdefault(one.identity, {})
                known.update({name: value for name, value in one.values.items() if known.get(name) is None})
            else:
                whole.setdefault(one.identity, {}).update(said_by(one.values, columns))
        _write_rows(connection, tables, shape, sorted(whole.items()), fill=False)
        _write_rows(connection, tables, shape, sorted(further.items()), fill=True)
        if shape.table.gone:
            gone.clear(connection, tables, shape, further)


def said_by(values: Bound, columns: Columns) -> Bound:
    """The values of a page; without the empty ones where another page may have brought something."""
    if columns is not Columns.JOINS:
        return values
    return {name: value for name, value in values.items() if value is not None or name == GONE}


def _write_rows(
    connection: Connection,
    tables: TableStatements,
    shape: TableLayout,
    every: Iterable[tuple[Identity, Bound]],
    *,
    fill: bool,
) -> None:
    by_columns: dict[tuple[str, ...], list[Bound]] = {}
    for _, values in every:
        by_columns.setdefault(tuple(sorted(values)), []).append(values)
    for columns, rows in sorted(by_columns.items()):
        if shape.name in tables.careful:
            _write_carefully(connection, tables.of[shape.name], shape, columns, rows, fill=fill)
        else:
            _many(connection, tables.upsert(shape, columns, fill=fill), rows)


def _many(connection: Connection, statement: ClauseElement, rows: Sequence[Bound]) -> None:
    connection.execute(statement, rows)  # type: ignore[call-overload]


def _remove_missing(
    connection: Connection, tables: TableStatements, table_batch: TableBatch, now: Callable[[], datetime]
) -> None:
    """Remove the children that the complete sets do not have."""
    shape, table = table_batch.shape, tables.of[table_batch.shape.name]
    missing: list[Identity] = []
    width = len(shape.link)
    columns = [table.c[name] for name in (*shape.link, *shape.identity)]
    for links in chunks(sorted(table_batch.sets)):
        for row in connection.execute(select(*columns).where(among(table, shape.link, links))):
            link, identity = plain(row[:width]), plain(row[width:])
            if identity not in table_batch.sets[link]:
                missing.append(identity)
    _remove(connection, tables, shape, missing, now)


def _sweep(
    connection: Connection,
    tables: TableStatements,
    shape: TableLayout,
    sweeps: Mapping[Identity, ChildSweep],
    now: Callable[[], datetime],
) -> None:
    """Remove the children that no page of a wholly read row has any more."""
    table = tables.of[shape.name]
    missing: list[Identity] = []
    width = len(shape.link)
    columns = [table.c[name] for name in (*shape.link, *shape.identity)]
    for links in chunks(sorted(link for link, one in sweeps.items() if one.keep is not None or one.drop)):
        for row in connection.execute(select(*columns).where(among(table, shape.link, links))):
            identity = plain(row[width:])
            if sweeps[plain(row[:width])].removes(number_of(shape.name, *identity)):
                missing.append(identity)
    _remove(connection, tables, shape, missing, now)
    if PLACE in shape.key:
        for links in chunks(sorted(link for link, one in sweeps.items() if one.new)):
            old = table.c[PLACE] < POSITIONS
            connection.execute(delete(table).where(and_(among(table, shape.link, links), old)))


def _remove(
    connection: Connection,
    tables: TableStatements,
    shape: TableLayout,
    missing: Sequence[Identity],
    now: Callable[[], datetime],
) -> None:
    """Delete children, or say since when they are gone."""
    if shape.table.gone:
        gone.mark(connection, tables, shape, missing, now)
    else:
        _delete(connection, tables.of[shape.name], shape, missing)


def _delete(connection: Connection, table: SqlTable, shape: TableLayout, missing: Iterable[Identity]) -> None:
    where = and_(*(table.c[name] == bindparam(f"gone_{name}") for name in shape.identity))
    names = [f"gone_{name}" for name in shape.identity]
    if rows := [dict(zip(names, identity, strict=True)) for identity in sorted(missing)]:
        connection.execute(delete(table).where(where), rows)


def _write_carefully(
    connection: Connection,
    table: SqlTable,
    shape: TableLayout,
    columns: tuple[str, ...],
    rows: Sequence[Bound],
    *,
    fill: bool,
) -> None:
    changed = [name for name in columns if name not in shape.primary]
    where = and_(*(table.c[name] == bindparam(f"gossamer_is_{name}") for name in shape.primary))
    for row in rows:
        key = {f"gossamer_is_{name}": row[name] for name in shape.primary}
        found = select(*(table.c[name] for name in shape.primary)).where(where).with_for_update()
        if connection.execute(found, key).first() is None:
            connection.execute(insert(table), [row])
        elif changed:
            values = {name: func.coalesce(table.c[name], row[name]) if fill else row[name] for name in changed}
            connection.execute(update(table).where(where).values(values), key)


def _add_changes(
    connection: Connection,
    tables: TableStatements,
    table_batch: TableBatch,
    decided: PartDecisions,
    now: Callable[[], datetime],
) -> None:
    further: set[int] = set()
    every = {identity: list(changes) for identity, changes in table_batch.changes.items()}
    for one in table_batch.parts:
        columns = decided.columns[id(one)]
        if columns is Columns.LEAVES:
            continue
        every.setdefault(one.identity, []).append(values := said_by(one.values, columns))
        if columns is Columns.FILLS:
            further.add(id(values))
    history.append_changes(connection, tables, table_batch.shape, every, further, now)
