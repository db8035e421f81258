"""How a described table is laid out in a database: its columns, its key, and the link from children to their parent.

A key that may be long (text, bytes, decimals) cannot be a primary key everywhere: MySQL takes 3072 bytes, PostgreSQL 2700, and URLs are
longer. Such a table has its key's SHA-256 as primary key, `gossamer_key`, in every database alike; its children
refer to it by `gossamer_parent`. Short keys are primary keys themselves, as are the keys of tables that are not ours.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gossamer.errors import StoreError
from gossamer.model.table import GONE, TYPES, Column, Table

DIGEST = "gossamer_key"
LINK = "gossamer_parent"
PLACE = "place"
SINCE = "valid_from"

ANY = "any"
"""The type of columns whose type is unknown."""

NAME_BYTES = 63
"""The longest name that every database takes."""

_NAME = re.compile(r"[^\W\d]\w*")
_SHORT = frozenset({"int", "bool", "date", "datetime"})
_NO_KEY = frozenset({"float", "json", ANY})


@dataclass(frozen=True, slots=True)
class TableLayout:
    """A table's form. `columns` are all but the digests; `key` is the whole key, that of the parent included; `identity` is the
    database's key (without `valid_from`); `link` are the columns that name the parent."""

    table: Table
    columns: Mapping[str, Column]
    key: tuple[str, ...]
    identity: tuple[str, ...]
    parent: TableLayout | None = None
    link: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def digested(self) -> bool:
        return self.identity == (DIGEST,)

    @property
    def primary(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return (*self.identity, SINCE) if self.table.history else self.identity

    @property
    def system(self) -> tuple[str, ...]:
        """The columns that hold digests."""
        return ((DIGEST,) if self.digested else ()) + (self.link if self.link == (LINK,) else ())

    @property
    def bound_to_parent(self) -> bool:
        """Whether a foreign key binds children to their parent. Existing tables keep their own."""
        return self.parent is not None and not self.table.existing and not self.parent.table.existing

    @property
    def required(self) -> frozenset[str]:
        """The columns that are never NULL."""
        return frozenset((*self.key, *self.primary, *self.system))

    def digest_of(self, values: Mapping[str, Any]) -> bytes:
        """The digest of a row's key. `values` are Python's, so it is the same in every database."""
        parts = [_as_bytes(values[name]) for name in sorted(self.key)]
        if len(parts) > 1:
            parts = [b"%d:%b" % (len(part), part) for part in parts]
        return hashlib.sha256(b"".join(parts)).digest()


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        significant = "".join(map(str, digits)).rstrip("0")
        assert isinstance(exponent, int)
        return (
            f"{'-' * sign}{significant}e{exponent + len(digits) - len(significant)}".encode() if significant else b"0"
        )
    return str(value).encode()


def merged(tables: Iterable[Table]) -> dict[str, Table]:
    """Tables by name. Several descriptions of one table, as when many sites share it, are merged: all of their columns."""
    found: dict[str, Table] = {}
    for table in tables:
        if len({column.name for column in table.columns}) < len(table.columns):
            raise StoreError(f"Table {table.name} has two columns of one name. Rename one of them.")
        known = found.setdefault(table.name, table)
        if known._replace(columns=()) != table._replace(columns=()):
            raise StoreError(
                f"Table {table.name} is described twice, with another key, parent or option. Give one of them another name."
            )
        found[table.name] = united(known, table)
    return found


def united(before: Table, after: Table) -> Table:
    """`after`, with the columns that only `before` has."""
    columns = {column.name: column for column in (*before.columns, *after.columns)}
    return after._replace(columns=tuple(columns.values()))


def with_undescribed(shape: TableLayout, found: Iterable[str]) -> Table:
    """A table with the columns that the database has besides the described ones: rows may name them, with values of any type."""
    more = tuple(Column(name, ANY) for name in found if name not in shape.columns)
    return shape.table._replace(columns=(*shape.table.columns, *more))


def shapes_of(tables: Mapping[str, Table], before: Mapping[str, TableLayout] | None = None) -> dict[str, TableLayout]:
    """The shapes of all tables, parents first; the same objects as `before` where nothing has changed. StoreError for
    descriptions that contradict each other."""
    before = before or {}
    folded: dict[str, str] = {}
    for name in tables:
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            raise StoreError(
                f"Tables {other} and {name} differ by case only, which not every database sees. Rename one."
            )
    shapes: dict[str, TableLayout] = {}

    def shape(name: str, within: tuple[str, ...]) -> TableLayout:
        if name in within:
            raise StoreError(f"Table {name} is its own ancestor: {' → '.join((*within, name))}. Leave one parent out.")
        if name not in shapes:
            parent = tables[name].parent
            if parent and parent not in tables:
                raise StoreError(f"Table {name} has the parent {parent}, which is not described. Describe it.")
            above = shape(parent, (*within, name)) if parent else None
            old = before.get(name)
            same = old is not None and old.table == tables[name] and old.parent is above
            shapes[name] = old if old is not None and same else _shape(tables[name], above)
        return shapes[name]

    for name in tables:
        shape(name, ())
    return shapes


def _shape(table: Table, parent: TableLayout | None) -> TableLayout:
    _check_name(table.name, f"Table {table.name!r}")
    columns = {column.name: column for column in table.columns}
    added: list[Column] = []
    link: tuple[str, ...] = ()
    key = table.key
    if parent is not None:
        if parent.table.history:
            raise StoreError(
                f"Table {parent.name} has a history and therefore no children. Keep {table.name} in a json column of it,"
                " or leave the history out."
            )
        if table.history:
            raise StoreError(f"Table {table.name} has a parent and therefore no history. Leave one of them out.")
        inherited = tuple(f"parent_{name}" for name in parent.key)
        added += [Column(f"parent_{name}", parent.columns[name].type) for name in parent.key]
        link = inherited if table.existing or _short(parent.columns, parent.key) else (LINK,)
        own_key = tuple(name for name in key if name not in inherited) or (PLACE,)
        if own_key == (PLACE,):
            added.append(Column(PLACE, "int"))
        key = (*inherited, *own_key)
    if table.history:
        added.append(Column(SINCE, "datetime"))
    if table.gone:
        added.append(Column(GONE, "datetime"))
    for column in added:
        if columns.setdefault(column.name, column).type != column.type:
            raise StoreError(
                f"Table {table.name}: the column {column.name} is the store's own and {column.type}. Rename yours."
            )
    _check_columns(table, columns, key)
    identity = key if table.existing or _short(columns, key) else (DIGEST,)
    return TableLayout(table, columns, key, identity, parent, link)


def _short(columns: Mapping[str, Column], key: tuple[str, ...]) -> bool:
    return all(columns[name].type in _SHORT for name in key)


def _check_columns(table: Table, columns: Mapping[str, Column], key: tuple[str, ...]) -> None:
    folded: dict[str, str] = {}
    for name, column in columns.items():
        if column.type == ANY and table.existing:
            continue  # Whatever it is called, it is there.
        _check_name(name, f"Table {table.name}: column {name!r}")
        if name in (DIGEST, LINK):
            raise StoreError(f"Table {table.name}: {name} is a name of the store's own. Rename the column.")
        if column.type not in TYPES:
            raise StoreError(
                f"Table {table.name}, column {name}: {column.type!r} is not a type. Types: {', '.join(TYPES)}."
            )
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            raise StoreError(f"Table {table.name}: columns {other} and {name} differ by case only. Rename one of them.")
    if not key:
        raise StoreError(f"Table {table.name} has no key. Name the columns that tell its rows apart.")
    for name in key:
        if name not in columns:
            raise StoreError(
                f"Table {table.name} has no column {name}, which its key names. It has: {', '.join(columns)}."
            )
        if columns[name].type in _NO_KEY:
            raise StoreError(
                f"Table {table.name}: {name} is {columns[name].type} and cannot be a key. Choose other columns."
            )


def _check_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise StoreError(f"{what} cannot be a name in every database. Use letters, digits and _, not a digit first.")
    if len(name.encode()) > NAME_BYTES:
        raise StoreError(f"{what} is longer than {NAME_BYTES} bytes, which not every database takes. Shorten it.")
