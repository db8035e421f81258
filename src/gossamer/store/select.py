"""Rows of any table that meet conditions on columns. Values are bound, never written into a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Column as SqlColumn
from sqlalchemy import Connection, Float, MetaData, and_, cast, literal, or_, select
from sqlalchemy import Table as SqlTable
from sqlalchemy.sql import ColumnElement

from gossamer.errors import StoreError
from gossamer.store.database.database import Database, NamedType
from gossamer.store.query import Ask, in_pages
from gossamer.store.values import CANONICAL, same


class ColumnTest(NamedTuple):
    """A condition on a column: `is`, `not` (or NULL), `min`, `max`, `since`, `before` and a value, or `one_of` and several. `is` and
    `not` take None for NULL."""

    column: str
    test: str
    value: Any


def chosen(
    ask: Ask, database: Database, name: str, columns: Sequence[str], tests: Sequence[ColumnTest], place: str
) -> Iterator[dict[str, Any]]:
    """The `columns` of the rows of a table that meet all `tests`. StoreError if it is not there, or has no such column."""

    def looked(connection: Connection) -> Sequence[Any]:
        there = database.columns(connection, name)
        return [there, database.primary_key(connection, name) if there else ()]

    found, primary = ask(looked)
    if not found:
        raise StoreError(f"{place}: there is no table {name}. Crawl the site that fills it first, or correct the name.")
    for column in (*columns, *(test.column for test in tests)):
        if column not in found:
            raise StoreError(f"{place}: the table {name} has no column {column}. It has: {', '.join(found)}.")
    if not primary:
        raise StoreError(f"{place}: the table {name} has no primary key, by which it could be read in parts. Add one.")
    kinds = {column: _kind(database, one.type) for column, one in found.items()}
    table = SqlTable(name, MetaData(), *(SqlColumn(column, NamedType(one.type)) for column, one in found.items()))
    wanted = list(dict.fromkeys(columns))
    order = sorted(primary)
    query = select(*(table.c[column] for column in (*order, *wanted)))
    if tests:
        query = query.where(and_(*(_condition(database, table, kinds, test, place) for test in tests)))
    for row in in_pages(ask, table, query, order):
        yield {
            column: None if raw is None else database.back.get(kinds[column], same)(raw)
            for column, raw in zip(wanted, row, strict=True)
        }


def _kind(database: Database, type: str) -> str:
    return next((kind for kind, names in database.alike.items() if type in names), "")


def _condition(
    database: Database, table: SqlTable, kinds: Mapping[str, str], test: ColumnTest, place: str
) -> ColumnElement[bool]:
    kind, column = kinds[test.column], table.c[test.column]
    where = f"{place}: table {table.name}, column {test.column}"
    if test.value is None:
        return column.is_(None) if test.test == "is" else column.is_not(None)
    if test.test in ("since", "before"):
        if kind not in ("datetime", "date"):
            raise StoreError(f"{where}: newer and older need a column of type datetime or date.")
        bound = _bound(database, kind, test.value, where)
        times: ColumnElement[bool] = column >= bound if test.test == "since" else column < bound
        return times
    if kind in ("json", "bytes"):
        raise StoreError(f"{where}: it is {kind} and cannot be compared. Choose another column.")
    left: Any = column
    if kind == "decimal" and database.name == "sqlite":
        left, kind = cast(column, Float), "float"  # SQLite keeps decimals as text.
    if test.test == "one_of":
        among: ColumnElement[bool] = left.in_([_bound(database, kind, value, where) for value in test.value])
        return among
    bound = _bound(database, kind, test.value, where)
    compared: ColumnElement[bool]
    match test.test:
        case "is":
            compared = left == literal(bound)
        case "not":
            compared = or_(left != literal(bound), left.is_(None))
        case "min":
            compared = left >= literal(bound)
        case _:
            compared = left <= literal(bound)
    return compared


def _bound(database: Database, kind: str, value: Any, where: str) -> Any:
    try:
        match kind:
            case "datetime":
                value = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
            case "date":
                value = value.date() if isinstance(value, datetime) else date.fromisoformat(str(value))
            case "decimal":
                value = Decimal(str(value))
            case "float":
                value = float(value)
            case "text":
                value = str(value)
        return database.bind.get(kind, same)(CANONICAL[kind](value)) if kind else value
    except (ValueError, ArithmeticError) as error:
        raise StoreError(f"{where}: {value!r} cannot be compared with {kind}: {error}.") from None
