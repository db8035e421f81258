"""SQLite: one file, several processes.

Types are named so that the file tells what a column holds and SQLite's affinities bend nothing: decimals, dates and JSON are
text. Every transaction that writes says so when it begins; one that began by reading could not wait for its turn.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, NullPool, Table, create_engine, event, text
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement

from gossamer.errors import StoreError
from gossamer.model.table_layout import LINK, TableLayout
from gossamer.store.database.database import Database, FoundColumn, link_index, on_conflict
from gossamer.store.failure import StoreFailure
from gossamer.store.values import Take
from gossamer.store.watchdog import Watchdog

READING = "gossamer_reading"
BUSY_SECONDS = 5.0

_UNAVAILABLE = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
}


class Sqlite(Database):
    name = "sqlite"
    types: ClassVar[Mapping[str, str]] = {
        "text": "TEXT",
        "int": "BIGINT",
        "float": "REAL",
        "decimal": "DECIMAL_TEXT",
        "bool": "BOOLEAN",
        "date": "DATE_TEXT",
        "datetime": "DATETIME_TEXT",
        "json": "JSON_TEXT",
        "bytes": "BLOB",
    }
    digest_type = "BLOB"
    alike: ClassVar[Mapping[str, frozenset[str]]] = {
        kind: frozenset({name.lower()}) for kind, name in types.items()
    } | {
        # SQLite's whole numbers have 64 bits whatever their column's type is called.
        "int": frozenset({"bigint", "integer", "int", "smallint"}),
    }
    wider: ClassVar[Mapping[str, frozenset[str]]] = {
        "text": frozenset({"bigint", "integer", "int", "smallint"}),
        "decimal": frozenset({"bigint", "integer", "int", "smallint"}),
    }
    bind: ClassVar[Mapping[str, Take]] = {
        "decimal": str,
        "bool": int,
        "date": date.isoformat,
        "datetime": lambda value: value.replace(tzinfo=None).isoformat(" ", "microseconds"),
    }
    back: ClassVar[Mapping[str, Take]] = {
        "decimal": Decimal,
        "bool": bool,
        "date": date.fromisoformat,
        "datetime": lambda value: datetime.fromisoformat(value).replace(tzinfo=UTC),
        "json": json.loads,
    }

    claim_lock = ""  # a transaction that writes is alone

    def engine(self) -> Engine:
        path = self.url.database or ""
        if not path or path == ":memory:" or path.startswith("file:"):
            raise StoreError(
                f"{self.url}: a file is wanted, as in sqlite:///records.db or sqlite:////var/lib/records.db."
            )
        directory = Path(path).absolute().parent
        if not directory.is_dir():
            raise StoreError(
                f"{self.url}: the directory {directory} does not exist. Create it, or choose another file."
            )
        with suppress(OSError):
            # Nobody else may read records, whatever the umask says; the files beside it get the same mode. SQLite says what is wrong.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        # The store hands its connection from the thread that opens it to the one that writes.
        engine = create_engine(
            self.url, poolclass=NullPool, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False}
        )

        @event.listens_for(engine, "connect")
        def connected(connection: sqlite3.Connection, record: Any) -> None:
            connection.isolation_level = None
            # Full: what was acknowledged is on the disk. In this order: turning to WAL may have to wait, too.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                connection.execute("PRAGMA journal_mode = WAL")

        @event.listens_for(engine, "begin")
        def begun(connection: Connection) -> None:
            reading = connection.get_execution_options().get(READING)
            connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

        return engine

    def only_read(self, connection: Connection) -> None:
        # For as long as the connection lasts.
        connection.exec_driver_sql("PRAGMA query_only = ON")

    def watchdog(self, engine: Engine, *, patient: bool) -> Watchdog:
        # Nobody to wait for but other processes' locks, which has its limit.
        return Watchdog(engine, self.cut, self.reachable, seconds=0.0, longest=0.0)

    def trouble(self, error: DBAPIError) -> StoreFailure:
        orig = error.orig
        code = getattr(orig, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreFailure.AGAIN
        if code in _UNAVAILABLE:
            return StoreFailure.UNAVAILABLE
        if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA) and (
            "no such table" in str(orig) or "has no column" in str(orig) or "no such column" in str(orig)
        ):
            return StoreFailure.CHANGED
        return StoreFailure.REFUSED

    def remedy(self, error: BaseException) -> str:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return "Choose another file, or restore this one from a copy."
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return "Another process keeps it locked: end that one's transaction."
        return "Check that the file and its directory may be read and written, and that the disk has room."

    def columns(self, connection: Connection, table: str) -> dict[str, FoundColumn]:
        rows = connection.execute(text('SELECT name, type, "notnull" FROM pragma_table_info(:table)'), {"table": table})
        return {name: FoundColumn(kind.lower(), not notnull) for name, kind, notnull in rows}

    def widen(self, connection: Connection, table: str, column: str, kind: str) -> None:
        # SQLite cannot change a column's type, but it can put another column in its place.
        name, old = self.quoted(connection, table), self.quoted(connection, column)
        new = self.quoted(connection, f"{column[:50]}_wider")
        for statement in (
            f"ALTER TABLE {name} ADD COLUMN {new} {self.types[kind]}",
            f"UPDATE {name} SET {new} = CAST({old} AS TEXT)",
            f"ALTER TABLE {name} DROP COLUMN {old}",
            f"ALTER TABLE {name} RENAME COLUMN {new} TO {old}",
        ):
            connection.execute(text(statement))

    def upsert(
        self, table: Table, columns: Sequence[str], primary: Sequence[str], *, fill: bool = False
    ) -> ClauseElement:
        return on_conflict(insert(table), columns, primary, fill)

    def archive_table(self, connection: Connection, names: Mapping[str, str], shapes: Sequence[TableLayout]) -> None:
        for old, new in names.items():
            before, after = self.quoted(connection, old), self.quoted(connection, new)
            connection.execute(text(f"ALTER TABLE {before} RENAME TO {after}"))
            # The names of indexes are the whole file's, and an index cannot be renamed.
            ours = "SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = :name"
            if connection.execute(text(ours), {"name": link_index(old)}).first() is not None:
                index, later = self.quoted(connection, link_index(old)), self.quoted(connection, link_index(new))
                connection.execute(text(f"DROP INDEX {index}"))
                connection.execute(text(f"CREATE INDEX {later} ON {after} ({LINK})"))
        self.create(connection, shapes)
