"""Databases that accept and do not answer (SIGSTOP): nobody waits for one without a limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, text
from tests.store.tables import FORUM, post
from tests.support.servers.databases import DatabaseServer, MariaDBServer, PostgreSQLServer

from gossamer.errors import StoreUnavailable
from gossamer.store import Store, Writer, schema, watchdog
from gossamer.store.database.database import Database

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(params=[PostgreSQLServer, MariaDBServer], ids=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    with request.param().start() as one:
        yield one
        one.resume()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Database, "answer_seconds", 0.5)
    monkeypatch.setattr(watchdog, "PING_SECONDS", 3.0)


def test_a_write_is_given_up_and_works_again_later(server: DatabaseServer, soon: None) -> None:
    with Store.open(server.url()) as store:
        store.prepare(FORUM)
        store.write([post("http://x/1", "one", [])])
        server.pause()
        with pytest.raises(StoreUnavailable):
            store.write([post("http://x/2", "two", [])])
        server.resume()
        store.write([post("http://x/2", "two", [])])
        assert {row["url"] for row in store.read("posts")} == {"http://x/1", "http://x/2"}


def test_a_change_of_tables_is_given_up(server: DatabaseServer, soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server falls silent when the connection is there and the lock is held."""
    before = schema.create_tables

    def silent(*arguments: Any) -> Any:
        server.pause()
        return before(*arguments)

    with Store.open(server.url()) as store:
        monkeypatch.setattr(schema, "create_tables", silent)
        with pytest.raises(StoreUnavailable):
            store.prepare(FORUM)
        monkeypatch.setattr(schema, "create_tables", before)
        server.resume()
        store.prepare(FORUM)


def test_a_change_of_tables_that_takes_long_is_waited_for(
    server: DatabaseServer, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the server answers others."""
    before = schema.create_tables
    sleep = "SELECT SLEEP(4)" if isinstance(server, MariaDBServer) else "SELECT pg_sleep(4)"

    def slow(connection: Connection, *arguments: Any) -> Any:
        connection.execute(text(sleep))
        return before(connection, *arguments)

    monkeypatch.setattr(schema, "create_tables", slow)
    with Store.open(server.url()) as store:
        store.prepare(FORUM)
        store.write([post("http://x/1", "one", [])])


def test_a_write_takes_no_longer_than_its_limit(
    server: DatabaseServer, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the server answers others."""
    monkeypatch.setattr(Database, "longest_seconds", 1.5)
    lock = "LOCK TABLES posts WRITE" if isinstance(server, MariaDBServer) else "LOCK TABLE posts"
    with Store.open(server.url()) as store, Store.open(server.url()) as other:
        store.prepare(FORUM)
        with other._connected() as holder:
            holder.execute(text(lock))
            with pytest.raises(StoreUnavailable):
                store.write([post("http://x/1", "one", [])])


def test_who_waits_is_let_go_when_somebody_hangs_up(server: DatabaseServer) -> None:
    said: list[BaseException] = []
    with Store.open(server.url()) as store:
        store.prepare(FORUM)
        server.pause()

        def write() -> None:
            try:
                store.write([post("http://x/1", "one", [])])
            except StoreUnavailable as error:
                said.append(error)

        writing = threading.Thread(target=write, daemon=True)
        writing.start()
        while writing.is_alive():
            store.disconnect()
            writing.join(0.2)
        server.resume()
    assert len(said) == 1


async def test_a_writer_is_closed_within_its_limit(server: DatabaseServer) -> None:
    store = await asyncio.to_thread(Store.open, server.url())
    writer = Writer(store)
    await writer.prepare(FORUM)
    server.pause()
    waiting = asyncio.ensure_future(writer.write([post("http://x/1", "one", [])]))
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await writer.close(0.5)
        with pytest.raises(StoreUnavailable):
            await waiting
    store.disconnect()
    server.resume()
