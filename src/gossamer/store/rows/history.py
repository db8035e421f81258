"""Histories: a row for each change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, bindparam, insert, select

from gossamer.model.table import GONE
from gossamer.model.table_layout import SINCE, TableLayout
from gossamer.store.rows.identities import Identity
from gossamer.store.values import CANONICAL

if TYPE_CHECKING:
    from gossamer.store.batch import Bound
    from gossamer.store.statements import TableStatements


def append_changes(
    connection: Connection,
    tables: TableStatements,
    shape: TableLayout,
    every: Mapping[Identity, Sequence[Bound]],
    further: Collection[int],
    now: Callable[[], datetime],
) -> None:
    """Add a row to a history for each change that is one. Changes among `further`, by their `id`, fill what is empty; one that says that the
    row is gone says nothing else, and nothing of a row that is gone already, or was never there."""
    table, database = tables.of[shape.name], tables.database
    database.lock_history(connection, shape.name)
    names = [name for name in shape.columns if name != SINCE]
    givers = database.givers(shape)
    bind_since = database.takers(shape)[SINCE]
    counted = [name for name in names if shape.columns[name].counts]
    latest = (
        select(table.c[SINCE], *database.selected(table, shape, names))
        .where(and_(*(table.c[name] == bindparam(f"gossamer_is_{name}") for name in shape.identity)))
        .order_by(table.c[SINCE].desc())
        .limit(1)
    )
    if database.name == "mysql":
        latest = latest.with_for_update()
    added: list[Bound] = []
    for identity, changes in sorted(every.items()):
        key = {f"gossamer_is_{name}": value for name, value in zip(shape.identity, identity, strict=True)}
        found = connection.execute(latest, key).first()
        known: Bound | None = None
        since = datetime.min.replace(tzinfo=UTC)
        if found is not None:
            since = givers[SINCE](found[0])
            known = {name: _given(givers[name], raw) for name, raw in zip(names, found[1:], strict=True)}
        for bound in changes:
            if bound.get(GONE) is not None and (known is None or known[GONE] is not None):
                continue
            if known is not None and id(bound) in further:
                bound = {
                    name: value
                    for name, value in bound.items()
                    if known.get(name) is None or name in shape.key or name == GONE
                }
            said = {name: _given(givers[name], bound[name]) for name in names if name in bound}
            if known is not None and all(said[name] == known[name] for name in counted if name in said):
                continue
            carried = (
                {} if known is None else {n: _bound_again(tables, shape, n, known[n]) for n in names if n not in bound}
            )
            since = max(now(), since + timedelta(microseconds=1))
            added.append({**dict.fromkeys(names), **carried, **bound, SINCE: bind_since(since)})
            known = {**dict.fromkeys(names), **(known or {}), **said}
    if added:
        connection.execute(insert(table), added)


def _given(give: Callable[[Any], Any], raw: Any) -> Any:
    return None if raw is None else give(raw)


def _bound_again(tables: TableStatements, shape: TableLayout, name: str, value: Any) -> Any:
    return None if value is None else tables.database.takers(shape)[name](CANONICAL[shape.columns[name].type](value))
