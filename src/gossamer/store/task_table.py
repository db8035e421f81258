"""A table of tasks: its rows become tasks, and their state comes back to the row.

The table is the user's own. Four columns beside his are ours: `task_state` (NULL: not given out yet; waiting, running, done, failed, lost),
`task_tries` (how often it was given out), `task_at` (when the state changed last, UTC) and `task_detail` (why it failed; while it is open, the
key that its task was given to: a table may feed several). Others may change them at any time: an empty state counts as NULL, no number of tries as 0, and rows in any other state are counted as such. Every method is one
transaction; those that change rows may be repeated after a failure, also where only the answer was lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, inspect, text

from gossamer.errors import StoreError, TableMismatch
from gossamer.store.database.database import fitted
from gossamer.store.store import Store
from gossamer.store.values import same

WAITING, RUNNING, DONE, FAILED, LOST = "waiting", "running", "done", "failed", "lost"
STATES = (WAITING, RUNNING, DONE, FAILED, LOST)
OTHER = "other"
"""The count of rows with any other state, written by someone else. They are not given out."""
STATE, TRIES, AT, DETAIL = "task_state", "task_tries", "task_at", "task_detail"
TRIED = f"COALESCE({TRIES}, 0)"
# What is reported of a row that was never given out was said of another one, which had its key.
KNOWN = f"NOT ({TRIED} = 0 AND ({STATE} IS NULL OR {STATE} = ''))"
# An open row that somebody has made one says of no key that it has it.
OPEN = f"{STATE} IN ('{WAITING}', '{RUNNING}') AND ({DETAIL} IS NULL OR {DETAIL} = :given OR {DETAIL} NOT LIKE :others)"
# A short text that can be part of an index.
_TYPES = {STATE: "VARCHAR(16)", TRIES: "INTEGER", AT: "datetime", DETAIL: "text"}
DETAIL_MAX = 1000
GIVEN = "given to "
"""The detail of an open row, with the key of its task."""


class TaskRow(NamedTuple):
    """A row that was given out. `key` is the text of its primary key, `values` what was asked for of it."""

    key: str
    tries: int
    state: str
    values: Mapping[str, Any]


class TaskEnding(NamedTuple):
    """How the try of a row ended: done or failed."""

    key: str
    tries: int
    state: str
    detail: str = ""


class Ended(NamedTuple):
    """What came of endings: how many rows are done now and were not before, or have failed; and the keys of those that a later try has."""

    done: int
    failed: int
    tried_again: frozenset[str]


class TaskTable:
    """One table. `columns` are those that tasks are made of; `where` is a condition in SQL for rows that are given out, `key` names to whom:
    open rows of another key are not looked at."""

    def __init__(self, store: Store, name: str, columns: Sequence[str], where: str = "", key: str = "") -> None:
        self._store, self.name = store, name
        self._given = _stored(f"{GIVEN}{key}")
        # A colon would name a parameter.
        self._where = re.sub(r"(?<!:):(?!:)", r"\\:", where)
        self._columns = tuple(dict.fromkeys(columns))
        self.primary: tuple[str, ...] = ()

    def check(self, *, prepare: bool) -> None:
        """Look at the table; TableMismatch says what it lacks. `prepare`: add our columns, and an index, where they are missing."""
        database = self._store.database

        def look(connection: Connection) -> list[str]:
            found = {name.lower(): name for name in database.columns(connection, self.name)}
            if not found:
                raise TableMismatch(f"{self._store.url}: there is no table {self.name}.")
            # In the order of the table: a key is a set to some databases.
            primary = database.primary_key(connection, self.name)
            self.primary = tuple(name for name in found.values() if name in primary)
            if not self.primary:
                raise TableMismatch(
                    f"The table {self.name} has no primary key, which tells its rows apart. Add one: ALTER TABLE … ADD PRIMARY KEY."
                )
            missing = [name for name in self._columns if name.lower() not in found]
            if missing:
                raise TableMismatch(
                    f"The table {self.name} has no column {', '.join(missing)}; it has {', '.join(found.values())}."
                )
            return [name for name in _TYPES if name not in found]

        def add(connection: Connection) -> None:
            with database.schema_lock(connection):
                table = database.quoted(connection, self.name)
                for name in look(connection):
                    kind = database.types.get(_TYPES[name], _TYPES[name])
                    connection.execute(text(f"ALTER TABLE {table} ADD COLUMN {self._quoted(connection, name)} {kind}"))
                index = fitted(f"{self.name}_task_state")
                if index not in {one["name"] for one in inspect(connection).get_indexes(self.name)}:
                    named = ", ".join(self._quoted(connection, name) for name in (STATE, *self.primary))
                    connection.execute(text(f"CREATE INDEX {self._quoted(connection, index)} ON {table} ({named})"))

        if prepare:
            self._store.change_tables(add)
        lacking = self._store.transaction(look, reading=True)
        if lacking:
            raise TableMismatch(
                f"The table {self.name} has no column {', '.join(lacking)} for the state of its tasks. With --prepare they are added."
            )

    def claim(self, limit: int) -> list[TaskRow]:
        """Give out rows that were lost, then new ones, in the order of their keys: they are `waiting` from now on."""

        def take(connection: Connection) -> list[TaskRow]:
            rows: list[TaskRow] = []
            for condition in (f"{STATE} = '{LOST}'", f"{STATE} IS NULL", f"{STATE} = ''"):
                if len(rows) < limit:
                    rows += self._select(connection, condition, limit - len(rows), lock=True)
            given = [row._replace(tries=row.tries + 1, state=WAITING) for row in rows]
            changed = self._update(
                connection,
                f"{STATE} = '{WAITING}', {TRIES} = :tries, {DETAIL} = :given",
                "1 = 1",
                [{"key": row.key, "tries": row.tries, "given": self._given} for row in given],
            )
            if changed != len(given):
                self._must_wait(connection, given)
            return given

        return self._store.transaction(take) if limit > 0 else []

    def open_rows(self, after: str, limit: int) -> list[TaskRow]:
        """Rows that wait or run, in the order of their keys, after one of them ("": from the first)."""
        return self._store.transaction(
            lambda connection: self._select(connection, OPEN, limit, after=after, open=True),
            reading=True,
        )

    def change(self, rows: Iterable[TaskRow], before: str, after: str) -> None:
        """Move rows from one state to another, if this is still their present try."""
        changed = [{"key": row.key, "tries": row.tries} for row in rows]
        if not changed:
            return
        condition = f"{STATE} = '{before}' AND {TRIED} = :tries"
        self._store.transaction(lambda connection: self._update(connection, f"{STATE} = '{after}'", condition, changed))

    def end(self, endings: Iterable[TaskEnding]) -> Ended:
        """How tries ended. What is done stays done, and what was never given out stays new; the failure of an earlier try than the present
        one says nothing of it."""
        by_state: dict[str, list[dict[str, Any]]] = {DONE: [], FAILED: []}
        for ending in endings:
            detail = _stored(ending.detail) or None
            by_state[ending.state].append({"key": ending.key, "tries": ending.tries, "detail": detail})

        def write(connection: Connection) -> Ended:
            done = [{"key": each["key"], "detail": each["detail"]} for each in by_state[DONE]]
            other = f"({STATE} IS NULL OR {STATE} <> '{DONE}') AND {KNOWN}"
            changed = self._update(connection, f"{STATE} = '{DONE}', {DETAIL} = :detail", other, done)
            other += f" AND {TRIED} <= :tries"
            failed = self._update(connection, f"{STATE} = '{FAILED}', {DETAIL} = :detail", other, by_state[FAILED])
            later = (each["key"] for each in by_state[FAILED] if self._tried(connection, each["key"]) > each["tries"])
            return Ended(changed, failed, frozenset(later))

        return self._store.transaction(write)

    def lose(self, rows: Iterable[TaskRow], most: int) -> None:
        """These tries are lost: give the rows out again, or mark them as failed if they were tried too often."""
        rows = list(rows)
        again = [{"key": row.key, "tries": row.tries} for row in rows if row.tries < most]
        given_up = [{"key": row.key, "tries": row.tries} for row in rows if row.tries >= most]
        condition = f"{STATE} IN ('{WAITING}', '{RUNNING}') AND {TRIED} = :tries"

        def write(connection: Connection) -> None:
            self._update(connection, f"{STATE} = '{LOST}', {DETAIL} = NULL", condition, again)
            self._update(connection, f"{STATE} = '{FAILED}', {DETAIL} = 'lost, {most} times'", condition, given_up)

        self._store.transaction(write)

    def renew_failed(self) -> int:
        """Give out again what has failed; returns how many rows."""

        def write(connection: Connection) -> int:
            done = connection.execute(
                text(f"UPDATE {self._table(connection)} SET {STATE} = NULL WHERE {STATE} = '{FAILED}'{self._and()}")
            )
            return int(done.rowcount)

        return self._store.transaction(write)

    def counts(self) -> dict[str, int]:
        """How many rows are in each state; "new" has not been given out, "other" is in none of them."""

        def read(connection: Connection) -> dict[str, int]:
            where = f" WHERE {self._where}" if self._where else ""
            rows = connection.execute(
                text(f"SELECT {STATE}, COUNT(*) FROM {self._table(connection)}{where} GROUP BY {STATE}")
            )
            found = dict.fromkeys(("new", *STATES, OTHER), 0)
            for state, count in rows:
                found[(state if state in STATES else OTHER) if state else "new"] += int(count)
            return found

        return self._store.transaction(read, reading=True)

    def open_count(self) -> int:
        """How many rows wait or run."""

        def read(connection: Connection) -> int:
            query = text(f"SELECT COUNT(*) FROM {self._table(connection)} WHERE {OPEN}")
            return int(connection.execute(query, self._own()).scalar_one())

        return self._store.transaction(read, reading=True)

    def given_elsewhere(self) -> dict[str, int]:
        """How many open rows other keys have, by key: a feeder of that key has to take their state back."""

        def read(connection: Connection) -> dict[str, int]:
            query = (
                f"SELECT {DETAIL}, COUNT(*) FROM {self._table(connection)} WHERE {STATE} IN ('{WAITING}', '{RUNNING}') "
                f"AND {DETAIL} LIKE :others AND {DETAIL} <> :given{self._and()} GROUP BY {DETAIL}"
            )
            found = connection.execute(text(query), self._own())
            return {str(detail).removeprefix(GIVEN): int(count) for detail, count in found}

        return self._store.transaction(read, reading=True)

    def left(self) -> bool:
        """Whether a row is new, lost, or waits or runs; also one that was given out and does not meet the condition any more."""
        states = f"{STATE} IS NULL OR {STATE} IN ('', '{LOST}', '{WAITING}', '{RUNNING}')"

        def read(connection: Connection) -> bool:
            beginning = f"SELECT 1 FROM {self._table(connection)} WHERE"
            found = connection.execute(text(f"{beginning} ({states}){self._and()} LIMIT 1")).first()
            return (found or connection.execute(text(f"{beginning} {OPEN} LIMIT 1"), self._own()).first()) is not None

        return self._store.transaction(read, reading=True)

    def _own(self) -> dict[str, str]:
        return {"given": self._given, "others": f"{GIVEN}%"}

    def _and(self) -> str:
        return f" AND ({self._where})" if self._where else ""

    def _quoted(self, connection: Connection, name: str) -> str:
        return self._store.database.quoted(connection, name)

    def _table(self, connection: Connection) -> str:
        return self._quoted(connection, self.name)

    def _select(
        self,
        connection: Connection,
        condition: str,
        limit: int,
        *,
        after: str = "",
        open: bool = False,
        lock: bool = False,
    ) -> list[TaskRow]:
        quoted = [self._quoted(connection, name) for name in (*self.primary, *self._columns)]
        # Rows to be given out are all in one state: named first, it makes the index serve this order.
        order = quoted[: len(self.primary)]
        bound: dict[str, Any] = {"limit": limit, **(self._own() if open else {})}
        if after:
            values = _values(after)
            bound |= {f"a{number}": value for number, value in enumerate(values)}
            condition += f" AND ({_later(order)})"
        condition += "" if open else self._and()
        query = (
            f"SELECT {TRIES}, {STATE}, {', '.join(quoted)} FROM {self._table(connection)} WHERE {condition} "
            f"ORDER BY {', '.join([STATE, *order] if lock else order)} LIMIT :limit"
        )
        if lock:
            query += self._store.database.claim_lock
        found = []
        for tries, state, *values in connection.execute(text(query), bound):
            key = _key(values[: len(order)])
            found.append(
                TaskRow(key, int(tries or 0), state or "", dict(zip(self._columns, values[len(order) :], strict=True)))
            )
        return found

    def _tried(self, connection: Connection, key: str) -> int:
        """How often a row that is not done was given out; 0 for any other."""
        values = _values(key)
        if len(values) != len(self.primary):
            return 0
        query = f"SELECT {TRIES} FROM {self._table(connection)} WHERE {self._named(connection)} AND {STATE} <> '{DONE}'"
        found = connection.execute(text(query), {f"k{number}": value for number, value in enumerate(values)}).first()
        return int(found[0] or 0) if found is not None else 0

    def _must_wait(self, connection: Connection, rows: Iterable[TaskRow]) -> None:
        """StoreError if a row that is given out does not say so: it would be given out for ever."""
        query = text(
            f"SELECT 1 FROM {self._table(connection)} WHERE {self._named(connection)} AND {STATE} = '{WAITING}' AND {TRIES} = :tries"
        )
        for row in rows:
            bound = {f"k{number}": value for number, value in enumerate(_values(row.key))}
            if connection.execute(query, {**bound, "tries": row.tries}).first() is None:
                raise StoreError(
                    f"The row of {self.name} with the primary key {row.key} cannot be changed: the database does not find it by that value, "
                    "as with FLOAT, or keeps its old one. Use a key of whole numbers, text or DECIMAL, or leave the row out with --where."
                )

    def _named(self, connection: Connection) -> str:
        return " AND ".join(
            f"{self._quoted(connection, name)} = :k{number}" for number, name in enumerate(self.primary)
        )

    def _update(self, connection: Connection, changes: str, condition: str, rows: Sequence[Mapping[str, Any]]) -> int:
        """How many rows were changed."""
        if not rows:
            return 0
        statement = text(
            f"UPDATE {self._table(connection)} SET {changes}, {AT} = :now WHERE {self._named(connection)} AND {condition}"
        )
        now = self._store.database.bind.get("datetime", same)(datetime.now(UTC))
        bound = []
        # In one order, so that writers do not wait for each other.
        for row in sorted(rows, key=lambda row: str(row["key"])):
            values = _values(row["key"])
            if len(values) != len(self.primary):
                continue
            rest = {name: value for name, value in row.items() if name != "key"}
            bound.append({**rest, "now": now, **{f"k{number}": value for number, value in enumerate(values)}})
        return connection.execute(statement, bound).rowcount if bound else 0


def _stored(detail: str) -> str:
    """A detail in plain ASCII: what the user's table can hold is unknown."""
    return detail[:DETAIL_MAX].encode("ascii", "backslashreplace").decode()


def _later(order: Sequence[str]) -> str:
    """The condition for rows after one, in the order of several columns."""
    parts = []
    for last in range(len(order)):
        same = [f"{name} = :a{number}" for number, name in enumerate(order[:last])]
        parts.append(" AND ".join([*same, f"{order[last]} > :a{last}"]))
    return " OR ".join(f"({part})" for part in parts)


def _key(values: Sequence[Any]) -> str:
    """A primary key as text: whole numbers and texts as JSON has them, anything else as its text."""
    if any(isinstance(value, bytes | bytearray | memoryview) for value in values):
        raise StoreError("A primary key of bytes cannot name a task. Use a column of text or numbers.")
    if None in values:
        # SQLite allows it. No condition would find the row again: it would be given out for ever.
        raise StoreError(
            "A row has NULL in its primary key, which names no task. Give it a value, or leave it out with --where."
        )
    plain = [value if type(value) in (int, str) else str(value) for value in values]
    return json.dumps(plain[0] if len(plain) == 1 else plain, ensure_ascii=False)


def _values(key: str) -> list[Any]:
    """The values of a primary key; [] for a text that is not a key."""
    try:
        value = json.loads(key)
    except ValueError:
        return []
    values = value if isinstance(value, list) else [value]
    return values if all(type(one) in (int, str) for one in values) else []
