"""Tables whose columns come with their rows: a column is added when a row first has a value for it, of that value's type.

A column keeps its type. A value that does not fit it is refused, as everywhere in the store. Workers may do this side by side: what the
database has counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gossamer.errors import StoreError, StoreRefused, StoreUnavailable
from gossamer.model.table import Column, Row, Table
from gossamer.store.schema import OWN
from gossamer.store.thread import in_thread
from gossamer.store.values import kind_of

if TYPE_CHECKING:
    from gossamer.store.store import Store

LOOK = 1.0
"""Seconds until it is asked again whether other workers have brought a column."""


class TableGrowth:
    """The growing tables of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._look_at: dict[str, float] = {}
        """When the columns of a table that the database has are looked at again."""
        self._found: dict[str, frozenset[str]] = {}

    async def fitted(self, rows: Sequence[Row], growing: Mapping[str, Table]) -> list[Row]:
        """The rows, when their tables have all the columns that they need. A column for which there has never been a value is left
        out. StoreRefused for rows that no table can have."""
        if self._wanted(rows, growing) or self._due(rows, growing):
            async with self._lock:
                # Another page may have brought the same columns meanwhile.
                if wanted := self._wanted(rows, growing):
                    await self._grow([growing[name] for name in wanted], wanted)
                for name in self._due(rows, growing):
                    await self._look(growing[name])
        return [self._without_unknown(row) if row.table in growing else row for row in rows]

    def _wanted(self, rows: Sequence[Row], growing: Mapping[str, Table]) -> dict[str, dict[str, str]]:
        """The columns that are missing, with their types, by table."""
        wanted: dict[str, dict[str, str]] = {}
        for row in rows:
            if row.table in growing:
                known = self._store.columns_of(row.table)
                for name, value in row.values.items():
                    if value is not None and name not in known:
                        wanted.setdefault(row.table, {}).setdefault(name, kind_of(value))
                for name in growing[row.table].key:
                    if row.values.get(name) is None:
                        raise StoreRefused(f"Table {row.table}, column {name}: it is part of the key and has no value.")
        return wanted

    def _due(self, rows: Sequence[Row], growing: Mapping[str, Table]) -> set[str]:
        """The tables whose columns are to be looked at again: others may have brought one that a row has no value for, and that of an earlier
        round must not stay."""
        now = time.monotonic()
        return {
            row.table
            for row in rows
            if row.table in growing
            and now >= self._look_at.get(row.table, 0.0)
            and (growing[row.table].history or not row.values.keys() <= self._store.columns_of(row.table).keys())
        }

    async def _look(self, table: Table) -> None:
        self._look_at[table.name] = time.monotonic() + LOOK
        found = await in_thread(self._store.columns_in, table.name)
        if found != self._found.get(table.name) and found - self._store.columns_of(table.name).keys() - OWN:
            await self._grow([table], {table.name: {}})
        self._found[table.name] = found

    async def _grow(self, tables: Sequence[Table], wanted: Mapping[str, Mapping[str, str]]) -> None:
        described = []
        for table in tables:
            own = {column.name: column for column in table.columns}
            new = {name: Column(name, kind) for name, kind in wanted[table.name].items()}
            described.append(table._replace(columns=tuple({**new, **own}.values())))
        try:
            await in_thread(self._store.prepare, described)
        except StoreUnavailable:
            raise
        except StoreError as error:
            raise StoreRefused(str(error)) from error

    def _without_unknown(self, row: Row) -> Row:
        known = self._store.columns_of(row.table)
        if row.values.keys() <= known.keys():
            return row
        return row._replace(values={name: value for name, value in row.values.items() if name in known})
