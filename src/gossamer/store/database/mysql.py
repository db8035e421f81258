"""MariaDB and MySQL, by PyMySQL.

Text is compared byte by byte (utf8mb4_bin), and the session is strict: what does not fit is an error, not cut off. Changes of tables
commit by themselves here, so each of them leaves a state from which the next call goes on.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, NullPool, Table, create_engine, event, text
from sqlalchemy.dialects.mysql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement

from gossamer.errors import StoreUnavailable
from gossamer.model.table_layout import TableLayout
from gossamer.store.database.database import Database, FoundColumn, excluded, fitted
from gossamer.store.failure import StoreFailure
from gossamer.store.values import Take, decimal_within, finite, in_order, json_numbers_within_64_bits, shortest_decimal
from gossamer.store.watchdog import shut

_WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_SHORTER = frozenset({"tinytext", "text", "mediumtext", "varchar", "char"})

_AGAIN = {1213, 1205, 3572, 1020}
# Connections, logins, a full disk, a read-only server, too many connections, a lost table space.
_UNAVAILABLE = {
    *(1021, 1026, 1030, 1036, 1037, 1038, 1040, 1041, 1045, 1049, 1053, 1077, 1079, 1114, 1129, 1130),
    *(1152, 1158, 1159, 1160, 1161, 1184, 1203, 1226, 1290, 1317, 1792, 1836, 1927, 2002, 2003, 2005, 2006, 2013),
    *(2014, 2045, 2055, 4031, 0),
}
_CHANGED = {1054, 1146, 1412, 1051}

# What a server that leaves a statement unanswered is given; waiting for another's lock takes up to 50 s by default.
_SECONDS = 120
_ROOM = 65_536
"""Bytes that are kept free in a packet for all but the values."""


class MySQL(Database):
    name = "mysql"
    types: ClassVar[Mapping[str, str]] = {
        "text": "LONGTEXT",
        "int": "BIGINT",
        "float": "DOUBLE",
        "decimal": "DECIMAL(65,30)",
        "bool": "TINYINT(1)",
        "date": "DATE",
        "datetime": "DATETIME(6)",
        "json": "JSON",
        "bytes": "LONGBLOB",
    }
    digest_type = "BINARY(32)"
    alike: ClassVar[Mapping[str, frozenset[str]]] = {kind: frozenset({name.lower()}) for kind, name in types.items()}
    wider: ClassVar[Mapping[str, frozenset[str]]] = {"int": _WHOLE, "text": _WHOLE | _SHORTER, "decimal": _WHOLE}
    bind: ClassVar[Mapping[str, Take]] = {
        "float": finite,
        "decimal": decimal_within(35, 30),
        "datetime": lambda value: value.replace(tzinfo=None),
        "json": json_numbers_within_64_bits,
    }
    back: ClassVar[Mapping[str, Take]] = {
        "bool": bool,
        "json": json.loads,
        "datetime": lambda value: value.replace(tzinfo=UTC),
    }
    alike_again: ClassVar[Mapping[str, Take]] = {"decimal": shortest_decimal, "json": in_order}
    table_options: ClassVar[Mapping[str, Any]] = {
        "mysql_engine": "InnoDB",
        "mysql_charset": "utf8mb4",
        "mysql_collate": "utf8mb4_bin",
    }

    packet_bytes = 16 * 2**20

    def engine(self) -> Engine:
        return self._engine({"read_timeout": _SECONDS})

    def patient(self, engine: Engine) -> Engine:
        return self._engine({})

    def cut(self, connection: Any) -> None:
        shut(connection._sock.fileno())

    def _engine(self, more: Mapping[str, Any]) -> Engine:
        given = {"connect_timeout": 10, "write_timeout": _SECONDS, "charset": "utf8mb4", **more}
        given = {name: value for name, value in given.items() if name not in self.url.query}
        # Otherwise a server may ask for any file that this process can read.
        given["local_infile"] = False
        engine = create_engine(self.url, poolclass=NullPool, connect_args=given)

        @event.listens_for(engine, "connect")
        def connected(connection: Any, record: Any) -> None:
            with connection.cursor() as cursor:
                # Columns of type TIMESTAMP, in tables that are not ours, then hold UTC as well.
                cursor.execute(
                    "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
                )
                cursor.execute("SELECT @@max_allowed_packet")
                self.packet_bytes = int(cursor.fetchone()[0])
                # The driver has a limit of its own, which it meets by giving up the connection.
                connection.max_allowed_packet = max(self.packet_bytes, 16 * 2**20)

        return engine

    def trouble(self, error: DBAPIError) -> StoreFailure:
        code = _code(error.orig)
        if code in _AGAIN:
            return StoreFailure.AGAIN
        if code in _CHANGED:
            return StoreFailure.CHANGED
        if error.connection_invalidated or code in _UNAVAILABLE:
            return StoreFailure.UNAVAILABLE
        return StoreFailure.REFUSED

    def remedy(self, error: BaseException) -> str:
        code = _code(error)
        if code == 1045:
            return "Check the user and the password in the URL (mysql://user:password@host/database)."
        if code in (1044, 1049):
            return f"Create the database {self.url.database} and give the user rights on it, or correct the URL."
        return "Check that the server runs and that host and port in the URL are right."

    def columns(self, connection: Connection, table: str) -> dict[str, FoundColumn]:
        rows = connection.execute(
            text(
                "SELECT column_name, column_type, is_nullable FROM information_schema.columns"
                " WHERE table_schema = DATABASE() AND table_name = :table ORDER BY ordinal_position"
            ),
            {"table": table},
        ).all()
        is_json = self._json_columns(connection, table)
        return {
            name: FoundColumn("json" if name in is_json else _plain(_text(kind)), nullable == "YES")
            for name, kind, nullable in rows
        }

    def _json_columns(self, connection: Connection, table: str) -> set[str]:
        """MariaDB's JSON is a long text with a check."""
        if not getattr(connection.dialect, "is_mariadb", False):
            return set()
        rows = connection.execute(
            text(
                "SELECT constraint_name, check_clause FROM information_schema.check_constraints"
                " WHERE constraint_schema = DATABASE() AND table_name = :table"
            ),
            {"table": table},
        )
        return {name for name, clause in rows if _text(clause) == f"json_valid(`{name}`)"}

    def widen(self, connection: Connection, table: str, column: str, kind: str) -> None:
        name, changed = self.quoted(connection, table), self.quoted(connection, column)
        connection.execute(text(f"ALTER TABLE {name} MODIFY COLUMN {changed} {self.types[kind]} NULL"))

    def upsert(
        self, table: Table, columns: Sequence[str], primary: Sequence[str], *, fill: bool = False
    ) -> ClauseElement:
        statement = insert(table)
        changes = excluded(columns, primary, statement.inserted, table if fill else None)
        if not changes:
            changes = {primary[0]: table.c[primary[0]]}
        return statement.on_duplicate_key_update(**changes)

    def careful(self, connection: Connection, shape: TableLayout) -> bool:
        # ON DUPLICATE KEY writes over the row that any unique key finds, be it another than the table's key.
        return shape.table.existing and len(self.unique_keys(connection, shape.name)) > 1

    def foreign_key_name(self) -> str:
        # Unique in the whole database, and kept when the table is renamed.
        return f"gossamer_{uuid.uuid4().hex}"

    def archive_table(self, connection: Connection, names: Mapping[str, str], shapes: Sequence[TableLayout]) -> None:
        fresh = {old: fitted(f"{old}__new") for old in names}
        for name in reversed(fresh.values()):
            connection.execute(text(f"DROP TABLE IF EXISTS {self.quoted(connection, name)}"))
        self.create(connection, _renamed(shapes, fresh))
        # One statement: whoever looks finds either the old tables or the new ones.
        moves = [pair for old in names for pair in ((old, names[old]), (fresh[old], old))]
        said = ", ".join(f"{self.quoted(connection, a)} TO {self.quoted(connection, b)}" for a, b in moves)
        connection.execute(text(f"RENAME TABLE {said}"))

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        # Names of locks are the whole server's, and no longer than 64 letters.
        name = "gossamer " + hashlib.sha256((self.url.database or "").encode()).hexdigest()[:32]
        if connection.scalar(text("SELECT GET_LOCK(:name, 3600)"), {"name": name}) != 1:
            raise StoreUnavailable(
                "Another process has been changing tables for an hour. Find it with SHOW PROCESSLIST."
            )
        try:
            yield
        finally:
            if not connection.invalidated:
                connection.execute(text("DO RELEASE_LOCK(:name)"), {"name": name})

    def refuse_large(self, values: Mapping[str, Any]) -> None:
        large = [value for value in values.values() if isinstance(value, str | bytes)]
        # Escaped, a value takes up to twice its bytes, and text up to four for each letter.
        if sum(map(len, large)) * 8 > self.packet_bytes - _ROOM:
            needed = sum(map(_escaped_bytes, large))
            if needed > self.packet_bytes - _ROOM:
                raise ValueError(
                    f"the row takes {needed} bytes, more than the server's max_allowed_packet ({self.packet_bytes}) has room for;"
                    " raise that, or store less"
                )


def _escaped_bytes(value: str | bytes) -> int:
    raw = value.encode() if isinstance(value, str) else value
    return len(raw) + sum(raw.count(letter) for letter in (b"\0", b"\n", b"\r", b"\x1a", b'"', b"'", b"\\")) + 16


def _renamed(shapes: Sequence[TableLayout], names: Mapping[str, str]) -> list[TableLayout]:
    made: dict[str, TableLayout] = {}
    for shape in shapes:
        parent = shape.parent
        if parent is not None:
            parent = made.get(parent.name, parent)
        made[shape.name] = replace(shape, table=shape.table._replace(name=names[shape.name]), parent=parent)
    return list(made.values())


def _code(error: BaseException | None) -> int:
    if error is not None and error.args and isinstance(error.args[0], int):
        return error.args[0]
    return -1


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _plain(kind: str) -> str:
    """A type without what says nothing: the width of whole numbers (but one bit is a truth value) and the lengths of text."""
    kind = kind.lower()
    name = kind.partition("(")[0]
    if kind == "tinyint(1)" or "unsigned" in kind:
        return kind
    return name if name in _WHOLE | _SHORTER else kind
