"""Whatever is wrong with a URL or behind it is told in one line that says what to do."""

from __future__ import annotations

import importlib.util
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers.databases import MariaDBServer, PostgreSQLServer

from gossamer.errors import StoreError, StoreUnavailable
from gossamer.store import Column, Row, Store, Table
from gossamer.store.database.url import database_of, place_of
from gossamer.testing.process import free_port

THINGS = Table("things", (Column("id", "int"),), ("id",))


def told(url: str) -> str:
    with pytest.raises(StoreError) as caught:
        Store.open(url).close()
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("sqlite:///relative.db", "sqlite+pysqlite"),
        ("sqlite:////absolute/x.db", "sqlite+pysqlite"),
        ("postgresql://u:p@h/d", "postgresql+psycopg"),
        ("postgres://u:p@h/d", "postgresql+psycopg"),
        ("postgresql+psycopg://u:p@h/d", "postgresql+psycopg"),
        ("mysql://u:p@h/d", "mysql+pymysql"),
        ("mariadb://u:p@h/d", "mysql+pymysql"),
    ],
)
def test_a_scheme_leads_to_its_driver(url: str, driver: str) -> None:
    assert database_of(url).url.drivername == driver


@pytest.mark.parametrize(
    ("url", "user", "password"),
    [
        ("postgresql://ann@tenant:pw@h/d", "ann@tenant", "pw"),
        ("mysql://ann@tenant@h/d", "ann@tenant", None),
        ("postgresql://ann:a/b:c?d#e@h/d", "ann", "a/b:c?d#e"),
        ("postgresql://ann:%40%2F@[::1]:5433/d", "ann", "@/"),
        ("postgresql://ann@h:5432/a@b", "ann", None),
    ],
)
def test_users_and_passwords_have_odd_characters(url: str, user: str, password: str | None) -> None:
    found = database_of(url).url
    assert (found.username, found.password, found.host) == (user, password, "::1" if "[" in url else "h")


def test_a_database_is_the_same_however_its_url_is_spelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    same = [
        ("sqlite:///x.db", f"sqlite:///{tmp_path}/y/../x.db"),
        ("postgresql://u:p@H/d", "postgres://other@h:5432/d?connect_timeout=3"),
        ("mysql://u:p@127.0.0.1:3306/d", "mariadb://u@localhost/d"),
    ]
    places = [{place_of(database_of(url).url) for url in urls} for urls in same]
    assert [len(found) for found in places] == [1, 1, 1]
    others = [
        "sqlite:///z.db",
        "postgresql://h/e",
        "postgresql://h/d?options=-csearch_path=s",
        "mysql://h/d",
        "mysql://h:1/d",
    ]
    assert len(set().union(*places, {place_of(database_of(url).url) for url in others})) == len(same) + len(others)


@pytest.mark.parametrize("url", ["", "records.db", "oracle://u:secret@h/d", "redis://h", "postgresql", "http://h/d"])
def test_what_is_no_database_is_told_the_forms(url: str) -> None:
    assert "sqlite:///records.db" in told(url)


def test_another_driver_a_bad_port_and_a_missing_name_are_told() -> None:
    assert "Leave it out" in told("postgresql+psycopg2://u:secret@h/d")
    assert "%40" in told("mysql://u:secret@h:port/d")
    assert "names no database" in told("postgresql://u:secret@h")
    assert "names no database" in told("mysql://u:secret@h/")


def test_sqlite_wants_a_file_in_a_directory_that_exists(tmp_path: Path) -> None:
    assert "a file is wanted" in told("sqlite://")
    assert "a file is wanted" in told("sqlite:///:memory:")
    assert "Create it" in told(f"sqlite:///{tmp_path}/absent/x.db")
    (tmp_path / "page.html").write_text("<html>" * 1000)
    assert "Choose another file" in told(f"sqlite:///{tmp_path}/page.html")
    assert "may be read and written" in told(f"sqlite:///{tmp_path}")


def test_a_relative_path_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open("sqlite:///records.db") as store:
        store.prepare([THINGS])
        store.write([Row("things", {"id": 1})])
    assert (tmp_path / "records.db").exists()


@pytest.mark.parametrize(
    ("url", "extra"), [("postgresql://u:secret@h/d", "postgres"), ("mysql://u:secret@h/d", "mysql")]
)
def test_a_missing_driver_names_the_extra(url: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name in ("psycopg", "pymysql") else real(name, package)

    monkeypatch.setattr("gossamer.store.database.url.find_spec", without)
    assert f'pip install "gossamer[{extra}]"' in told(url)


def test_postgresql_says_what_is_wrong(postgresql: PostgreSQLServer) -> None:
    assert "password in the URL" in told(postgresql.url(password="secretly"))
    assert "createdb absent" in told(postgresql.url("absent"))
    assert "PostgreSQL runs" in told(f"postgresql://u:secret@127.0.0.1:{free_port()}/d")


def test_mariadb_says_what_is_wrong(mariadb: MariaDBServer) -> None:
    assert "password in the URL" in told(mariadb.url(password="secretly"))
    assert "Create the database absent" in told(mariadb.url("absent"))
    assert "server runs" in told(f"mysql://u:secret@127.0.0.1:{free_port()}/d")


def test_a_database_that_is_away_is_told_apart_from_one_that_is_wrong() -> None:
    with pytest.raises(StoreUnavailable):
        Store.open(f"postgresql://u:p@127.0.0.1:{free_port()}/d")


def test_the_password_is_never_shown(store: Store) -> None:
    assert "secret" not in store.url


def test_a_sqlite_file_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Store.open(f"sqlite:///{tmp_path}/items.db") as store:
            store.prepare([Table("t", (Column("a", "text"),), ("a",))])
            modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {0o600}
