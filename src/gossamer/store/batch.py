"""Rows, taken apart: checked values, the key that the database will know each by, and which sets of children they complete.

Several writes become one transaction with the meaning that they would have one after the other: later values win, a set of children
replaces the earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from gossamer.errors import StoreRefused
from gossamer.model.table import GONE, SOURCES, PagePart, PageSource, Row
from gossamer.model.table_layout import ANY, DIGEST, LINK, PLACE, SINCE, TableLayout
from gossamer.store.database.database import Database
from gossamer.store.parts import first_position
from gossamer.store.rows.identities import Identity
from gossamer.store.values import CANONICAL, Take, kind_of, same

Bound = dict[str, Any]


class PreparedRow(NamedTuple):
    """A row ready for its table. `link` names its parent; `links` name the row itself to its children, by table; `sets` are its
    children by table: all of them, or those of its `part`."""

    shape: TableLayout
    identity: Identity
    link: Identity
    values: Bound
    links: Mapping[str, Identity]
    sets: Mapping[str, list[PreparedRow]]
    part: PagePart | None = None
    """For a row that comes in parts: `sets` are what this part has of its children."""
    source: PageSource | None = None
    """The page that brought it."""


class RowPreparer:
    """Prepares rows of known tables; keeps what `before` has for the same shapes."""

    def __init__(
        self, database: Database, shapes: Mapping[str, TableLayout], before: RowPreparer | None = None
    ) -> None:
        self._database = database
        self._shapes = shapes
        old = before._shapes if before is not None else {}
        kept = before._takers if before is not None else {}
        self._takers: dict[str, dict[str, tuple[Take, Take]]] = {
            name: kept[name] if old.get(name) is shape else _takers(database, shape) for name, shape in shapes.items()
        }
        self._children_of: dict[str, list[TableLayout]] = {name: [] for name in shapes}
        for shape in shapes.values():
            if shape.parent is not None:
                self._children_of[shape.parent.name].append(shape)

    def place(self, rows: Iterable[Row]) -> list[PreparedRow]:
        """Raises StoreRefused for a row that cannot be stored, naming table, column and reason."""
        return [self._place(row, {}) for row in rows]

    def _place(self, row: Row, given: Mapping[str, Any]) -> PreparedRow:
        shape = self._shapes.get(row.table)
        if shape is None:
            raise StoreRefused(
                f"There is no table {row.table} among those prepared: {', '.join(self._shapes) or 'none'}."
            )
        if row.source is not None and row.table == SOURCES.name:
            return PreparedRow(shape, (), (), {}, {}, {}, None, row.source)
        canonical: Bound = {}
        bound: Bound = {}
        takers = self._takers[shape.name]
        for name, value in {**row.values, **given}.items():
            if name not in takers:
                raise StoreRefused(f"Table {shape.name} has no column {name}. It has: {', '.join(shape.columns)}.")
            if value is None:
                bound[name] = None
                continue
            check, bind = takers[name]
            try:
                canonical[name] = check(value)
                bound[name] = bind(canonical[name])
            except ValueError as error:
                raise StoreRefused(
                    f"Table {shape.name}, column {name}: {error}. The value was {_short(value)}."
                ) from None
        for name in shape.key:
            if name not in canonical:
                raise StoreRefused(f"Table {shape.name}, column {name}: it is part of the key and has no value.")
        try:
            self._database.refuse_large(bound)
        except ValueError as error:
            raise StoreRefused(f"Table {shape.name}: {error}.") from None
        if shape.table.history:
            bound.pop(SINCE, None)
        if shape.table.gone:
            bound[GONE] = None  # Whatever comes is there.
        children = self._children_of[shape.name]
        own: Identity = (
            (shape.digest_of(canonical),) if shape.digested or any(LINK in child.link for child in children) else ()
        )
        if shape.digested:
            bound[DIGEST] = own[0]
        if shape.parent is not None and shape.link == (LINK,):
            bound[LINK] = shape.parent.digest_of({name: canonical[f"parent_{name}"] for name in shape.parent.key})
        named = tuple(bound[name] for name in shape.key)
        links = {child.name: own if child.link == (LINK,) else named for child in children}
        inherited = {f"parent_{name}": canonical[name] for name in shape.key}
        sets = {
            table: self._children(shape, table, rows, inherited, first_position(row.part, len(rows)) if row.part else 0)
            for table, rows in row.children.items()
        }
        identity = tuple(bound[name] for name in shape.identity)
        return PreparedRow(
            shape, identity, tuple(bound[name] for name in shape.link), bound, links, sets, row.part, row.source
        )

    def _children(
        self, shape: TableLayout, table: str, children: Iterable[Row], inherited: Mapping[str, Any], first: int
    ) -> list[PreparedRow]:
        own = next((child for child in self._children_of[shape.name] if child.name == table), None)
        if own is None:
            raise StoreRefused(
                f"Table {table} holds no children of {shape.name}. Describe it with parent={shape.name}."
            )
        prepared_rows = []
        for number, child in enumerate(children, first):
            if child.table != table:
                raise StoreRefused(
                    f"A row of {child.table} is among the children in {table}. Put it under its own table."
                )
            numbered = PLACE in own.key and PLACE not in child.values
            prepared_rows.append(self._place(child, {**inherited, PLACE: number} if numbered else inherited))
        return prepared_rows


def _takers(database: Database, shape: TableLayout) -> dict[str, tuple[Take, Take]]:
    binders = database.takers(shape)
    return {
        name: (CANONICAL[column.type], binders[name]) if column.type != ANY else (same, partial(_take_any, database))
        for name, column in shape.columns.items()
    }


def _take_any(database: Database, value: Any) -> Any:
    kind = kind_of(value)
    return database.bind.get(kind, same)(CANONICAL[kind](value))


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 60 else said[:57] + "…"


class TableBatch:
    """What one transaction does to one table. Either `loose` rows, or the complete `sets` of parents' children."""

    def __init__(self, shape: TableLayout) -> None:
        self.shape = shape
        self.loose: dict[Identity, dict[Identity, Bound]] = {}
        self.sets: dict[Identity, dict[Identity, Bound]] = {}
        self.links: dict[Identity, Mapping[str, Identity]] = {}
        self.changes: dict[Identity, list[Bound]] = {}
        """For a history: all rows, in order."""
        self.parts: list[PreparedRow] = []
        """Rows that come in parts, in order. Their children are among the others' `loose` rows."""

    def rows(self) -> list[tuple[Identity, Bound]]:
        """In the same order for all workers, so that they wait for each other instead of deadlocking."""
        every = [pair for group in (*self.loose.values(), *self.sets.values()) for pair in group.items()]
        return sorted(every, key=lambda pair: pair[0])


def batches_of(prepared_rows: Iterable[PreparedRow], shapes: Mapping[str, TableLayout]) -> list[TableBatch]:
    """One batch for each table, in the order in which to write them."""
    table_batches: dict[str, TableBatch] = {}

    def table_batch(name: str) -> TableBatch:
        return table_batches.setdefault(name, TableBatch(shapes[name]))

    def add(one: PreparedRow) -> None:
        mine = table_batch(one.shape.name)
        if one.part is not None:
            mine.parts.append(one)
            for table, children in one.sets.items():
                table_batch(table)
                for child in children:
                    add(child)
            return
        if one.shape.table.history:
            mine.changes.setdefault(one.identity, []).append(one.values)
            return
        group = mine.sets.get(one.link) if one.shape.link else None
        if group is None:
            group = mine.loose.setdefault(one.link, {})
        group.setdefault(one.identity, {}).update(one.values)
        mine.links[one.identity] = one.links
        for table, children in one.sets.items():
            replace(table, one.links[table], children)

    def replace(table: str, link: Identity, children: list[PreparedRow]) -> None:
        mine = table_batch(table)
        before = {**mine.loose.pop(link, {}), **mine.sets.get(link, {})}
        kept = {child.identity for child in children}
        for identity in before.keys() - kept:
            # A child that is gone takes its own children along.
            for other, its_link in mine.links[identity].items():
                replace(other, its_link, [])
        mine.sets[link] = {identity: values for identity, values in before.items() if identity in kept}
        for child in children:
            add(child)

    for one in prepared_rows:
        if one.values:
            add(one)
    # All roots before any child: a transaction that holds a root's row has all its children to itself.
    return sorted(
        (table_batches[name] for name in shapes if name in table_batches),
        key=lambda table_batch: table_batch.shape.depth,
    )
