"""The store: rows into a SQL database, so that writing them twice is as good as once."""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, NoReturn, Self, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gossamer.closeable import Closeable
from gossamer.errors import GossamerError, StoreError, StoreRefused, StoreUnavailable, TableMismatch
from gossamer.model.table import GAPS, PAGES, SOURCES, Gap, Row, Table
from gossamer.model.table_layout import TableLayout, merged, shapes_of, united, with_undescribed
from gossamer.settings import concealed
from gossamer.store import query, schema, select, statements
from gossamer.store.batch import PreparedRow, RowPreparer, batches_of
from gossamer.store.database import free_query
from gossamer.store.database.database import Database
from gossamer.store.database.sqlite import READING
from gossamer.store.database.url import database_of, place_of
from gossamer.store.failure import StoreFailure, first_line
from gossamer.store.rows import archives, gaps, sources
from gossamer.store.select import ColumnTest

logger = logging.getLogger(__name__)

T = TypeVar("T")

TRIES = 12
AGAIN_SECONDS = 15.0
"""How often and how long a transaction is tried that others get in the way of; then the database counts as unavailable."""


class Store(Closeable):
    """A database with the tables that were prepared. One connection, to be used by one thread at a time; `prepare` and `archive`
    have a connection of their own and may be called by another thread meanwhile.

    Raises StoreUnavailable when the database cannot be reached or cannot write now (the next call connects again),
    StoreRefused for rows that it does not take, TableMismatch for tables that are not as described. A call that has raised has
    changed nothing, except that a lost connection may have lost the answer only: calling again is always safe.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._engine: Engine = database.engine()
        self._patient_engine: Engine = database.patient(self._engine)
        self._watchdog = database.watchdog(self._engine, patient=False)
        separate = self._patient_engine is not self._engine
        self._patient_watchdog = database.watchdog(self._patient_engine, patient=True) if separate else self._watchdog
        self._connection: Connection | None = None
        self._known = _PreparedTables({}, statements.TableStatements(database, {}), RowPreparer(database, {}))
        self._preparing = threading.Lock()
        self.created: set[str] = set()
        """The tables that were not there when they were prepared."""

    @classmethod
    def open(cls, url: str, is_foreign: bool = False) -> Self:
        """Connect at once, so that a wrong URL, password or host is known before work begins. `is_foreign`: somebody else has written the
        URL, so nothing else of this machine is used to connect: no variable of the environment, no file of the user."""
        store = cls(database_of(url, is_foreign))
        try:
            with store._watchdog.kept():
                store._connected()
        except BaseException:
            store.close()
            raise
        return store

    @property
    def url(self) -> str:
        """The URL as it may be shown to people."""
        url = self._database.url
        plain = url.set(drivername=url.get_backend_name())
        return str(concealed(plain.render_as_string(hide_password=True)))

    def as_read(self, kind: str, value: Any) -> Any:
        """The value of a column of this type as a row has it, in one form whether it was given or came back."""
        return self._database.as_read(kind, value)

    @property
    def database_place(self) -> str:
        """Which database it is, in the same words for every spelling of its URL."""
        return place_of(self._database.url)

    def prepare(self, tables: Iterable[Table]) -> None:
        """Make or check `tables`: what is missing is created, columns are added. May be called again, with other tables or
        the same ones changed, and from any number of processes at once. Known tables stay known."""
        wanted = merged(tables)
        with self._preparing:
            known = dict(self._known.tables)
            for name, table in wanted.items():
                same_rows = name in known and known[name]._replace(columns=()) == table._replace(columns=())
                known[name] = united(known[name], table) if same_rows else table
            before = self._known
            grows = any(table.growing for table in wanted.values())
            # Of a growing table, the database knows the columns: it is asked first.
            shapes = shapes_of(known, before.sql.shapes) if not grows else {}
            careful = self._known.sql.careful - wanted.keys()

            def change(connection: Connection) -> None:
                nonlocal shapes
                with self._database.schema_lock(connection):
                    if grows:
                        for name in wanted:
                            known[name] = schema.as_found(connection, self._database, known[name])
                        shapes = shapes_of(known, before.sql.shapes)
                    asked = [shape for shape in shapes.values() if shape.name in wanted]
                    self.created.update(schema.create_tables(connection, self._database, asked))
                    for shape in asked:
                        if shape.table.existing:
                            found = self._database.columns(connection, shape.name)
                            known[shape.name] = with_undescribed(shape, found)
                            if self._database.careful(connection, shape):
                                careful.add(shape.name)

            self.change_tables(change)
            shapes = shapes_of(known, shapes)
            sql = statements.TableStatements(self._database, shapes, before.sql)
            sql.careful = careful
            self._known = _PreparedTables(known, sql, RowPreparer(self._database, shapes, before.preparer))

    def columns_of(self, table: str) -> Mapping[str, str]:
        """The types of the columns of a prepared table, by name; empty if it was never prepared."""
        known = self._known.tables.get(table)
        return {column.name: column.type for column in known.columns} if known is not None else {}

    def write(self, rows: Iterable[Row]) -> None:
        """Write rows in one transaction: those with a known key are written over, children replaced as a set."""
        self.commit(self.place(rows))

    def place(self, rows: Iterable[Row]) -> list[PreparedRow]:
        """The first half of `write`: check the rows. Makes no call to the database."""
        return self._known.preparer.place(rows)

    def commit(self, prepared_rows: Iterable[PreparedRow]) -> None:
        """The second half of `write`: one transaction."""
        listed = list(prepared_rows)
        table_batches, visits = batches_of(listed, self._known.sql.shapes), sources.visits_of(listed)
        if not (table_batches or visits):
            return

        def work(connection: Connection) -> None:
            statements.write(connection, self._known.sql, table_batches, _now)
            if visits:
                sources.note(connection, self._known.sql, visits, _now)

        try:
            self._transaction(work)
        except _SchemaChanged as error:
            # Somebody has dropped or altered a table. If it can be as it was, it is.
            try:
                changed = self._with_ancestors(table_batch.shape for table_batch in table_batches)
                if any(table_batch.parts for table_batch in table_batches):
                    changed.append(PAGES)
                self.prepare([*changed, SOURCES] if visits else changed)
                self._transaction(work)
            except TableMismatch as mismatch:
                raise StoreRefused(str(mismatch)) from error
            except _SchemaChanged as again:
                raise StoreRefused(f"The database does not know what was described any more: {again}") from error

    def archive(self, tables: Iterable[Table | str], suffix: str) -> None:
        """Rename the tables (and their children) to name_suffix and go on with empty ones. For each suffix this is done once,
        however often and by however many it is called."""
        if not re.fullmatch(r"\w+", suffix):
            raise StoreError(f"{suffix!r} cannot be the end of a table's name. Use letters, digits and _.")
        asked, unknown = self._with_descendants(tables)

        def change(connection: Connection) -> None:
            with self._database.schema_lock(connection):
                schema.archive_table(connection, self._database, asked, suffix)

        self.change_tables(change)
        if unknown:
            self.prepare(unknown)

    def archive_round(self, tables: Iterable[Table], site: int, number: int, birth: str) -> None:
        """A round begins of the group that was born so: go on with empty tables. What they have is put aside by the name of its own
        round: name_r6 when round 7 begins. Once for each round, however often and by however many it is called."""
        asked, unknown = self._with_descendants(tables)
        self.prepare([GAPS])
        trees: list[list[TableLayout]] = []
        for shape in asked:
            above = next((tree for tree in trees if shape.parent in tree), None)
            if above is None:
                trees.append([shape])
            else:
                above.append(shape)

        def change(connection: Connection) -> None:
            with self._database.schema_lock(connection):
                for tree in trees:
                    archives.begin(connection, self._database, self._known.sql, tree, site, number, birth)

        self.change_tables(change)
        if unknown:
            self.prepare(unknown)

    def _with_descendants(self, tables: Iterable[Table | str]) -> tuple[list[TableLayout], list[Table]]:
        """The layouts of tables and of all below them, parents first, and those of the tables that are not prepared."""
        listed = list(tables)
        known = self._known.tables
        unknown = merged(table for table in listed if isinstance(table, Table) and table.name not in known)
        known = {**known, **unknown}
        chosen = {table if isinstance(table, str) else table.name for table in listed}
        for name in chosen - known.keys():
            raise StoreError(f"There is no table {name} among those prepared: {', '.join(known) or 'none'}.")
        asked: list[TableLayout] = []
        for shape in shapes_of(known).values():
            if shape.name in chosen or (shape.parent is not None and shape.parent in asked):
                asked.append(shape)
        return asked, list(unknown.values())

    def missing(
        self, parent: Table | str, child: Table | str, on: Mapping[str, str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """The keys of parents without a child. `on` (parent's column → child's column) where the child's table does not name
        the parent's as its parent."""
        return query.missing(self._ask, self._known.sql, self._shape(parent), self._shape(child), on)

    def select(self, table: str, columns: Sequence[str], tests: Sequence[ColumnTest]) -> Iterator[dict[str, Any]]:
        """The rows of any table of the database that meet conditions on columns; the table need not be prepared."""
        return select.chosen(self._ask, self._database, table, columns, tests, self.url)

    def query(self, sql: str, most: int) -> free_query.Rows:
        """The first rows of a query in SQL, up to a number. It changes nothing, and neither does this store after it."""
        return self.transaction(lambda connection: free_query.run(connection, self._database, sql, most), reading=True)

    def columns_in(self, table: str) -> frozenset[str]:
        """The columns that the database has of a table; none if it is not there."""
        return frozenset(self._ask(lambda connection: list(self._database.columns(connection, table))))

    def read(self, table: Table | str) -> Iterator[dict[str, Any]]:
        """All rows of a table, with the columns that were described."""
        return query.read(self._ask, self._known.sql, self._shape(table))

    def settle_round(
        self, site: int, layers: Sequence[int], number: int, after: sources.LineKey | None = None
    ) -> sources.LineKey | None:
        """Note as gone some of the rows that pages of these layers brought before a round, and not in it. Returns where to go on; None:
        it is done. May be called again, by several."""
        return self.transaction(
            lambda connection: sources.settle(connection, self._known.sql, site, layers, number, after, _now)
        )

    def begin_round(self, site: int, number: int, birth: str, rules: str) -> None:
        """Note that a round begins, by the rules of this version, of the group that was born so."""
        self.transaction(lambda connection: gaps.begin(connection, self._known.sql, site, number, birth, rules))

    def note_gap(self, site: int, number: int, gap: Gap) -> None:
        self.transaction(lambda connection: gaps.note(connection, self._known.sql, site, number, gap))

    def note_led(self, site: int, number: int, layers: Mapping[int, str]) -> None:
        """Note which layers of a round that is over have page turns that lead elsewhere now."""
        self.transaction(lambda connection: sources.note_led(connection, self._known.sql, site, number, layers))

    def gaps(self, site: int, number: int) -> list[Gap]:
        """What was noted of a round, and the birth of its group."""
        return self.transaction(lambda connection: gaps.known(connection, self._known.sql, site, number), reading=True)

    def gone_in_round(self, site: int, number: int) -> int:
        """How many rows of a site were found to be gone in a round, and have not come back."""
        return self.transaction(
            lambda connection: sources.count(connection, self._known.sql, site, number), reading=True
        )

    def outdated_pages(self, site: int) -> set[tuple[int, int]]:
        """The pages of a site, by layer, a row of which may have what another page said, which has lost it since."""
        return self.transaction(
            lambda connection: sources.outdated_pages(connection, self._known.sql, site), reading=True
        )

    def with_key(self, table: Table | str, key: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The row with this key, if it is there, of a table whose key is text."""
        return query.with_key(self._ask, self._known.sql, self._shape(table), key)

    @property
    def database(self) -> Database:
        return self._database

    def transaction(self, work: Callable[[Connection], T], *, reading: bool = False) -> T:
        """Any work in one transaction, tried again where others get in its way."""
        try:
            return self._transaction(work, reading=reading)
        except _SchemaChanged as error:
            raise StoreError(f"{self.url}: {error}") from error

    def disconnect(self) -> None:
        """Cut all connections, from any thread: calls that wait for the database fail with StoreUnavailable at once."""
        self._watchdog.disconnect()
        self._patient_watchdog.disconnect()

    def close(self) -> None:
        self._disconnect()
        self._engine.dispose()
        self._patient_engine.dispose()

    def _with_ancestors(self, shapes: Iterable[TableLayout]) -> list[Table]:
        names: dict[str, None] = {}
        for shape in shapes:
            ancestor: TableLayout | None = shape
            while ancestor is not None:
                names[ancestor.name] = None
                ancestor = ancestor.parent
        return [self._known.tables[name] for name in names]

    def _shape(self, table: Table | str) -> TableLayout:
        name = table if isinstance(table, str) else table.name
        shapes = self._known.sql.shapes
        if name not in shapes:
            raise StoreError(f"There is no table {name} among those prepared: {', '.join(shapes) or 'none'}.")
        return shapes[name]

    def _ask(self, question: Callable[[Connection], Sequence[Any]]) -> Sequence[Any]:
        try:
            return self._transaction(question, reading=True)
        except _SchemaChanged as error:
            raise TableMismatch(f"{self.url}: {error}. Prepare the tables again.") from error

    def change_tables(self, change: Callable[[Connection], None]) -> None:
        """A change of tables, on a connection of its own: it may take its time."""

        def attempt() -> None:
            with self._patient_watchdog.kept(), self._connect(self._patient_engine) as connection, connection.begin():
                change(connection)

        try:
            self._retried(attempt)
        except _SchemaChanged as error:
            raise StoreError(f"{self.url}: {error}") from error
        except StoreRefused as error:
            raise StoreError(str(error)) from error
        except GossamerError:
            raise
        except Exception as error:
            raise StoreError(self._unforeseen("its tables cannot be read or changed", error)) from error

    def _transaction(self, work: Callable[[Connection], T], *, reading: bool = False) -> T:
        def attempt() -> T:
            with self._watchdog.kept():
                connection = self._connected().execution_options(**{READING: reading})
                try:
                    with connection.begin():
                        return work(connection)
                except DBAPIError as error:
                    if connection.invalidated or self._database.trouble(error) is StoreFailure.UNAVAILABLE:
                        self._disconnect()
                    raise
                except BaseException:
                    self._disconnect()
                    raise

        return self._retried(attempt)

    def _retried(self, attempt: Callable[[], T]) -> T:
        pause = 0.01
        until = time.monotonic() + AGAIN_SECONDS
        for tried in range(1, TRIES + 1):
            try:
                return attempt()
            except DBAPIError as error:
                trouble = self._database.trouble(error)
                if trouble is not StoreFailure.AGAIN or tried == TRIES or time.monotonic() > until:
                    self._translate(error, trouble)
            except (OSError, SQLAlchemyError) as error:
                raise StoreUnavailable(f"{self.url}: {first_line(error)}") from error
            # Not in step with the other one.
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, 1.0)
        raise AssertionError("unreachable")

    def _translate(self, error: DBAPIError, trouble: StoreFailure) -> NoReturn:
        said = ": ".join([*error.detail, first_line(error.orig)])
        if trouble is StoreFailure.REFUSED:
            raise StoreRefused(f"{self.url}: {said}") from error
        if trouble is StoreFailure.CHANGED:
            raise _SchemaChanged(said) from error
        raise StoreUnavailable(f"{self.url}: {said}. {self._database.remedy(error.orig or error)}") from error

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._connect(self._engine)
        return self._connection

    def _connect(self, engine: Engine) -> Connection:
        assert engine.dialect.dbapi is not None
        for tried in range(1, TRIES + 1):
            try:
                return engine.connect()
            except (DBAPIError, engine.dialect.dbapi.Error, OSError) as error:
                cause = error.orig if isinstance(error, DBAPIError) else error
                wrapped = DBAPIError("", None, cause or error)
                if self._database.trouble(wrapped) is StoreFailure.AGAIN and tried < TRIES:
                    time.sleep(random.uniform(0.05, 0.2))  # Several processes turn one new SQLite file to WAL.
                    continue
                remedy = self._database.remedy(cause or error)
                raise StoreUnavailable(f"{self.url}: no connection: {first_line(cause)}. {remedy}") from error
            except Exception as error:
                raise StoreUnavailable(self._unforeseen("no connection", error)) from error
        raise AssertionError("unreachable")

    def _unforeseen(self, what: str, error: Exception) -> str:
        """For an error that is none of a database: usually of a driver that cannot make sense of an answer."""
        logger.debug("%s: %s", self.url, what, exc_info=error)
        return f"{self.url}: {what} ({type(error).__name__}: {first_line(error)})"

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.invalidate()
            with suppress(Exception):
                connection.close()


class _PreparedTables(NamedTuple):
    """The tables that were prepared, put in place of the former ones at one stroke."""

    tables: dict[str, Table]
    sql: statements.TableStatements
    preparer: RowPreparer


class _SchemaChanged(Exception):
    """A table or column is not there any more."""


def _now() -> datetime:
    return datetime.now(UTC)
