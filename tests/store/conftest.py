"""Each test of the store runs on SQLite, PostgreSQL and MariaDB, each time in an empty database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.support.servers.databases import DatabaseServer, MariaDBServer, PostgreSQLServer

from gossamer.store import Store
from gossamer.store.database.url import database_of

KINDS = ("sqlite", "postgresql", "mysql")

Sql = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQLServer]:
    # Not durable, for speed: tests that kill a server start their own.
    with PostgreSQLServer().start("-c", "fsync=off") as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDBServer]:
    with MariaDBServer().start("--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0") as server:
        yield server


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# One database for all tests of a server: making one takes longer than most tests.
EMPTY = {
    "postgresql": ["DROP SCHEMA public CASCADE", "CREATE SCHEMA public"],
    "mysql": ["DROP DATABASE gossamer", "CREATE DATABASE gossamer"],
}


@pytest.fixture
def url(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of an empty database."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/records.db"
    server: DatabaseServer = request.getfixturevalue("postgresql" if kind == "postgresql" else "mariadb")
    engine = database_of(server.url()).engine()
    with engine.begin() as connection:
        for statement in EMPTY[kind]:
            connection.execute(text(statement))
    engine.dispose()
    return server.url()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened


@pytest.fixture
def sql(url: str) -> Iterator[Sql]:
    """Runs a statement past the store and returns its rows."""
    engine = database_of(url).engine()

    def run(statement: str) -> list[tuple[Any, ...]]:
        with engine.begin() as connection:
            result = connection.execute(text(statement))
            return [tuple(row) for row in result] if result.returns_rows else []

    yield run
    engine.dispose()
