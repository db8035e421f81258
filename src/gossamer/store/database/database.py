"""What differs from database to database, as one interface. Its implementations are sqlite, postgresql and mysql."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from sqlalchemy import Column as SqlColumn
from sqlalchemy import (
    Connection,
    Engine,
    ForeignKeyConstraint,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    func,
    inspect,
    text,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement
from sqlalchemy.types import UserDefinedType

from gossamer.model.table_layout import LINK, NAME_BYTES, TableLayout
from gossamer.store.failure import StoreFailure
from gossamer.store.values import CANONICAL, Take, same
from gossamer.store.watchdog import Watchdog


class NamedType(UserDefinedType[Any]):
    """A type by its name in the database. Values pass unchanged: `values` has converted them for the driver."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **options: Any) -> str:
        return self.name


class FoundColumn(NamedTuple):
    """A column as the database has it, its type in the database's words."""

    type: str
    nullable: bool


class Database(ABC):
    """The operations of one kind of database."""

    name: ClassVar[str]
    types: ClassVar[Mapping[str, str]]
    """The name of each of our types."""
    digest_type: ClassVar[str]
    alike: ClassVar[Mapping[str, frozenset[str]]]
    """For each of our types, the database's types that are the same, in its own words."""
    wider: ClassVar[Mapping[str, frozenset[str]]]
    """For each of our types, the database's types that become it without losing anything."""
    bind: ClassVar[Mapping[str, Take]] = {}
    """Converts the canonical value to what the driver takes, if they differ."""
    back: ClassVar[Mapping[str, Take]] = {}
    """Converts what the driver returns to Python's value, if they differ."""
    alike_again: ClassVar[Mapping[str, Take]] = {}
    """Makes one of two values that are equal and written in different ways, of which one was given and the other came back."""
    table_options: ClassVar[Mapping[str, Any]] = {}
    claim_lock: ClassVar[str] = " FOR UPDATE"
    """The end of a SELECT for rows that are to be changed in the same transaction, and by nobody else."""

    def __init__(self, url: URL, is_foreign: bool = False) -> None:
        self.url, self.is_foreign = url, is_foreign

    @abstractmethod
    def engine(self) -> Engine:
        """An engine whose connections are set up as the store needs them."""

    @abstractmethod
    def trouble(self, error: DBAPIError) -> StoreFailure:
        """What an error of this database means."""

    @abstractmethod
    def remedy(self, error: BaseException) -> str:
        """What to do if the connection fails, in one sentence."""

    @abstractmethod
    def columns(self, connection: Connection, table: str) -> dict[str, FoundColumn]:
        """The columns of a table by name; empty when there is no such table."""

    @abstractmethod
    def widen(self, connection: Connection, table: str, column: str, kind: str) -> None:
        """Change the type of a column that is not part of the key, keeping its values."""

    @abstractmethod
    def upsert(
        self, table: Table, columns: Sequence[str], primary: Sequence[str], *, fill: bool = False
    ) -> ClauseElement:
        """Insert a row or overwrite the one with the same primary key; `fill`: only where that one has NULL."""

    @abstractmethod
    def archive_table(self, connection: Connection, names: Mapping[str, str], shapes: Sequence[TableLayout]) -> None:
        """Rename tables (old name → new name; parents first) and create `shapes` in their place, so that no table is ever
        missing."""

    def only_read(self, connection: Connection) -> None:
        """Let the transaction that has just begun change nothing."""
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")

    def patient(self, engine: Engine) -> Engine:
        """An engine for changes of tables, which may take hours; `engine` itself if it has no limit."""
        return engine

    answer_seconds: float = 30.0
    """Seconds a statement may go unanswered before the watchdog checks whether the server still takes connections."""
    longest_seconds: float = 120.0
    """Seconds a statement that does not change tables may go unanswered."""

    def cut(self, connection: Any) -> None:  # noqa: B027
        """End the wait of another thread on this connection, if it could wait without end."""

    def reachable(self) -> bool:
        """Whether the server takes a connection."""
        engine = self.engine()
        try:
            engine.raw_connection().close()
        except Exception:
            return False
        finally:
            engine.dispose()
        return True

    def watchdog(self, engine: Engine, *, patient: bool) -> Watchdog:
        return Watchdog(
            engine,
            self.cut,
            self.reachable,
            seconds=self.answer_seconds,
            longest=0.0 if patient else self.longest_seconds,
        )

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        """A lock against other changes of tables."""
        yield

    def lock_history(self, connection: Connection, table: str) -> None:  # noqa: B027
        """A lock on this history until the transaction ends. Not needed if the transaction or its reads imply it."""

    def refuse_large(self, values: Mapping[str, Any]) -> None:  # noqa: B027
        """Raise ValueError for a row that the server would drop the connection for."""

    def careful(self, connection: Connection, shape: TableLayout) -> bool:
        """Whether `upsert` could overwrite the wrong row of this table."""
        return False

    def as_read(self, kind: str, value: Any) -> Any:
        """The value of a column of this type as it is when it comes back, in one form whether it was given or came back; one that the
        database refuses as it is."""
        if value is None:
            return None
        try:
            kept = CANONICAL[kind](value)
            self.bind.get(kind, same)(kept)
        except ValueError:
            return value
        return self.alike_again.get(kind, same)(json.loads(kept) if kind == "json" else kept)

    def takers(self, shape: TableLayout) -> dict[str, Take]:
        return {name: self.bind.get(column.type, same) for name, column in shape.columns.items()}

    def givers(self, shape: TableLayout) -> dict[str, Take]:
        return {name: self.back.get(column.type, same) for name, column in shape.columns.items()}

    def selected(self, table: Table, shape: TableLayout, names: Sequence[str]) -> list[Any]:
        """The columns to select, so that `givers` can read them."""
        return [table.c[name] for name in names]

    def table(self, shape: TableLayout, metadata: MetaData) -> Table:
        """A table for SQLAlchemy. Its parent, if it has one, must be in `metadata` already."""
        columns: list[Any] = [
            SqlColumn(name, NamedType(self.digest_type), nullable=False, autoincrement=False) for name in shape.system
        ]
        columns += [
            SqlColumn(
                name,
                NamedType(self.types.get(column.type, "TEXT")),
                nullable=name not in shape.required,
                autoincrement=False,
            )
            for name, column in shape.columns.items()
        ]
        columns.append(PrimaryKeyConstraint(*shape.primary))
        if shape.parent is not None and shape.bound_to_parent:
            targets = [f"{shape.parent.name}.{name}" for name in shape.parent.identity]
            columns.append(ForeignKeyConstraint(shape.link, targets, self.foreign_key_name(), ondelete="CASCADE"))
        table = Table(shape.name, metadata, *columns, **self.table_options)
        if LINK in shape.system:
            Index(link_index(shape.name), table.c[LINK])
        if shape.table.found_by:
            Index(fitted(f"{shape.name}_{shape.table.found_by}"), table.c[shape.table.found_by])
        return table

    def foreign_key_name(self) -> str | None:
        """A name for a new foreign key, if the database's own choice does not work."""
        return None

    def create(self, connection: Connection, shapes: Sequence[TableLayout]) -> None:
        """Make the tables of `shapes`, parents first."""
        for shape in shapes:
            self.table_with_ancestors(shape, MetaData()).create(connection)

    def table_with_ancestors(self, shape: TableLayout, metadata: MetaData) -> Table:
        """As `table`, its parents included."""
        if shape.parent is not None:
            self.table_with_ancestors(shape.parent, metadata)
        return self.table(shape, metadata)

    def add_column(self, connection: Connection, table: str, column: str, kind: str) -> None:
        name, added = self.quoted(connection, table), self.quoted(connection, column)
        connection.execute(text(f"ALTER TABLE {name} ADD COLUMN {added} {self.types[kind]}"))

    def primary_key(self, connection: Connection, table: str) -> frozenset[str]:
        return frozenset(inspect(connection).get_pk_constraint(table)["constrained_columns"])

    def unique_keys(self, connection: Connection, table: str) -> set[frozenset[str]]:
        """Sets of columns of which no two rows have the same values."""
        found = {self.primary_key(connection, table)}
        for index in inspect(connection).get_indexes(table):
            options = index.get("dialect_options", {})
            partial = any(name.endswith("_where") and value is not None for name, value in options.items())
            partial = partial or any(name.endswith("_length") and value for name, value in options.items())
            if index["unique"] and not partial and None not in index["column_names"]:
                found.add(frozenset(name for name in index["column_names"] if name is not None))
        for constraint in inspect(connection).get_unique_constraints(table):
            found.add(frozenset(constraint["column_names"]))
        return found - {frozenset()}

    def quoted(self, connection: Connection, name: str) -> str:
        # The text goes through SQLAlchemy's text(), which takes a colon for a parameter; names have none.
        return connection.dialect.identifier_preparer.quote_identifier(name)


def link_index(table: str) -> str:
    """The name of the index by which a parent's children are found."""
    return fitted(f"{table}_parent")


def fitted(name: str) -> str:
    """`name`, or one of a length that every database takes."""
    if len(name.encode()) <= NAME_BYTES:
        return name
    return name.encode()[:40].decode(errors="ignore") + "_" + hashlib.sha256(name.encode()).hexdigest()[:16]


def excluded(columns: Sequence[str], primary: Sequence[str], row: Any, kept: Table | None = None) -> dict[str, Any]:
    """What an upsert sets: all columns but the primary key, to the values of the row that was not inserted; values that `kept`
    has stay."""
    changed = [name for name in columns if name not in primary]
    return {name: row[name] if kept is None else func.coalesce(kept.c[name], row[name]) for name in changed}


def on_conflict(insert: Any, columns: Sequence[str], primary: Sequence[str], fill: bool) -> ClauseElement:
    """An insert that overwrites the row with the same primary key, for PostgreSQL and SQLite."""
    changes = excluded(columns, primary, insert.excluded, insert.table if fill else None)
    statement: ClauseElement = (
        insert.on_conflict_do_update(index_elements=list(primary), set_=changes)
        if changes
        else insert.on_conflict_do_nothing(index_elements=list(primary))
    )
    return statement
