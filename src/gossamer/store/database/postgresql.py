"""PostgreSQL, by psycopg."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, NullPool, Table, Text, cast, create_engine, event, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement

from gossamer.errors import StoreError
from gossamer.model.table_layout import TableLayout
from gossamer.settings import concealed
from gossamer.store.database.database import Database, FoundColumn, fitted, on_conflict
from gossamer.store.failure import StoreFailure
from gossamer.store.values import Take, decimal_within, in_order, plain_decimal
from gossamer.store.watchdog import shut

_WHOLE = frozenset({"smallint", "integer", "bigint"})

# A server that vanishes without a word is noticed within about a minute.
_CONNECT = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "application_name": "gossamer",
}

# No file of passwords, no certificate of the user, no ticket of Kerberos.
_NO_FILES = {
    "passfile": f"{os.devnull}/none",
    "sslcertmode": "disable",
    "gssencmode": "disable",
    "require_auth": "!gss,!sspi",
}

_LOCK_SECONDS = 20
"""Seconds a write waits for another's lock before it reports that."""

# The classes of SQLSTATE: connections, resources, an operator's intervention, input and output, read-only transactions, logins, a
# database that has gone, a plan that is outdated (a new connection has none).
_UNAVAILABLE = ("08", "53", "57", "58", "25", "28", "3D", "0A000")
_AGAIN = ("40", "55P03", "57014")
_CHANGED = ("42P01", "42703", "42804", "3F", "26000")


# A text, or a number with an exponent.
_LARGE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?e\+\d+')


def _no_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("PostgreSQL takes no NUL character in text; remove it, or make the column bytes")
    return value


def _json(value: str) -> str:
    if "\\u0000" in value and "\0" in _all_text(json.loads(value)):
        raise ValueError("PostgreSQL takes no NUL character in JSON; remove it, or make the column bytes")
    # PostgreSQL gives 1e+20 back as a whole number, which is not the same; 100000000000000000000.0 it leaves alone.
    return _LARGE.sub(_without_exponent, value) if "e+" in value else value


def _without_exponent(found: re.Match[str]) -> str:
    token = found[0]
    return token if token.startswith('"') else f"{Decimal(token):f}.0"


def _in_utc(value: datetime) -> datetime:
    # A column without a time zone, in a table that is not ours, holds UTC: the session's zone.
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _all_text(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(key + _all_text(item) for key, item in value.items())
    if isinstance(value, list):
        return "".join(map(_all_text, value))
    return value if isinstance(value, str) else ""


class PostgreSQL(Database):
    name = "postgresql"
    claim_lock = " FOR UPDATE SKIP LOCKED"
    types: ClassVar[Mapping[str, str]] = {
        "text": "TEXT",
        "int": "BIGINT",
        "float": "DOUBLE PRECISION",
        "decimal": "NUMERIC",
        "bool": "BOOLEAN",
        "date": "DATE",
        "datetime": "TIMESTAMP WITH TIME ZONE",
        "json": "JSONB",
        "bytes": "BYTEA",
    }
    digest_type = "BYTEA"
    alike: ClassVar[Mapping[str, frozenset[str]]] = {
        kind: frozenset({name.lower()}) for kind, name in types.items()
    } | {
        "text": frozenset({"text", "character varying"}),
        "json": frozenset({"jsonb", "json"}),
    }
    wider: ClassVar[Mapping[str, frozenset[str]]] = {"int": _WHOLE, "text": _WHOLE, "decimal": _WHOLE}
    bind: ClassVar[Mapping[str, Take]] = {
        "text": _no_nul,
        "json": _json,
        "decimal": decimal_within(131_072, 16_383),
    }
    back: ClassVar[Mapping[str, Take]] = {
        "json": json.loads,
        "bytes": bytes,
        "datetime": _in_utc,
    }
    alike_again: ClassVar[Mapping[str, Take]] = {"decimal": plain_decimal, "json": in_order}

    def engine(self) -> Engine:
        given = {name: value for name, value in _CONNECT.items() if name not in self.url.query}
        if self.is_foreign:
            given |= self._nothing_of_the_owner()
        engine = create_engine(self.url, poolclass=NullPool, connect_args=given)

        @event.listens_for(engine, "connect")
        def connected(connection: Any, record: Any) -> None:
            # Columns without a time zone, in tables that are not ours, then hold UTC as well.
            connection.execute("SET TIME ZONE 'UTC'")
            connection.execute(f"SET lock_timeout = '{_LOCK_SECONDS}s'")
            connection.commit()

        return engine

    def _nothing_of_the_owner(self) -> dict[str, str]:
        """Values for what libpq would otherwise take from variables, files and tickets of the user."""
        from psycopg.pq import Conninfo

        if "PGSERVICE" in os.environ:
            raise StoreError(
                f"{concealed(str(self.url))}: a site file of the crawl names this database, and the variable PGSERVICE would say more of it. "
                "Unset it, and set GOSSAMER_STORE_URL instead."
            )
        options = {option.keyword.decode(): option for option in Conninfo.get_defaults()}
        given = {
            name: (option.compiled or b"").decode()
            for name, option in options.items()
            if option.envvar is not None and option.envvar.decode() in os.environ
        }
        given |= {name: value for name, value in _NO_FILES.items() if name in options}
        url = self.url
        given |= {"password": url.password or "", "port": str(url.port or 5432)}
        return {name: value for name, value in given.items() if name not in {"host", "user", "dbname", *url.query}}

    def patient(self, engine: Engine) -> Engine:
        # Another one, since the watch over it is another.
        return self.engine()

    def cut(self, connection: Any) -> None:
        shut(connection.fileno())

    def trouble(self, error: DBAPIError) -> StoreFailure:
        state = getattr(error.orig, "sqlstate", None) or ""
        if state.startswith(_AGAIN):
            return StoreFailure.AGAIN
        if state.startswith(_CHANGED):
            return StoreFailure.CHANGED
        if error.connection_invalidated or state.startswith(_UNAVAILABLE):
            return StoreFailure.UNAVAILABLE
        if not state and type(error.orig).__name__ in ("OperationalError", "InterfaceError"):
            return StoreFailure.UNAVAILABLE
        return StoreFailure.REFUSED

    def remedy(self, error: BaseException) -> str:
        said = str(error)
        if "password" in said or "authentication" in said:
            return "Check the user and the password in the URL (postgresql://user:password@host/database)."
        if "database" in said and "does not exist" in said:
            return f"Create it (createdb {self.url.database}), or correct the name in the URL."
        if "role" in said and "does not exist" in said:
            return "Create that user, or correct the name in the URL."
        return "Check that PostgreSQL runs and that host and port in the URL are right."

    def columns(self, connection: Connection, table: str) -> dict[str, FoundColumn]:
        rows = connection.execute(
            text(
                "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
                " WHERE attrelid = to_regclass(:name) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
            ),
            {"name": self.quoted(connection, table)},
        )
        return {name: FoundColumn(kind, not notnull) for name, kind, notnull in rows}

    def widen(self, connection: Connection, table: str, column: str, kind: str) -> None:
        name, changed, wanted = self.quoted(connection, table), self.quoted(connection, column), self.types[kind]
        # The colons of :: would be taken for parameters.
        statement = f"ALTER TABLE {name} ALTER COLUMN {changed} TYPE {wanted} USING CAST({changed} AS {wanted})"
        connection.execute(text(statement))

    def upsert(
        self, table: Table, columns: Sequence[str], primary: Sequence[str], *, fill: bool = False
    ) -> ClauseElement:
        return on_conflict(insert(table), columns, primary, fill)

    def archive_table(self, connection: Connection, names: Mapping[str, str], shapes: Sequence[TableLayout]) -> None:
        for old, new in names.items():
            indexes = connection.execute(
                text(
                    "SELECT relname FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid"
                    " WHERE indrelid = to_regclass(:name)"
                ),
                {"name": self.quoted(connection, old)},
            ).scalars()
            renamed = {index: fitted(new + index.removeprefix(old)) for index in indexes if index.startswith(old)}
            connection.execute(
                text(f"ALTER TABLE {self.quoted(connection, old)} RENAME TO {self.quoted(connection, new)}")
            )
            for index, later in renamed.items():
                before, after = self.quoted(connection, index), self.quoted(connection, later)
                connection.execute(text(f"ALTER INDEX {before} RENAME TO {after}"))
        self.create(connection, shapes)

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        _lock(connection, "tables")
        yield

    def lock_history(self, connection: Connection, table: str) -> None:
        _lock(connection, f"history {table}")

    def selected(self, table: Table, shape: TableLayout, names: Sequence[str]) -> list[Any]:
        # As text: the driver would read JSON by itself, and then a text that was in it looks like JSON.
        return [
            cast(table.c[name], Text).label(name)
            if name in shape.columns and shape.columns[name].type == "json"
            else table.c[name]
            for name in names
        ]


def _lock(connection: Connection, what: str) -> None:
    """A lock of this name until the transaction ends, in this database."""
    number = int.from_bytes(hashlib.sha256(f"gossamer {what}".encode()).digest()[:8], signed=True)
    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
