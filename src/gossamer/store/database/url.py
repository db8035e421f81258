"""From a URL to the database that it names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from sqlalchemy.engine import URL

from gossamer.errors import StoreError
from gossamer.model.database_url import parse
from gossamer.settings import concealed
from gossamer.store.database.database import Database
from gossamer.store.database.mysql import MySQL
from gossamer.store.database.postgresql import PostgreSQL
from gossamer.store.database.sqlite import Sqlite

FORMS = "sqlite:///records.db, postgresql://user:password@host/database, mysql://user:password@host/database"

# Scheme → database, SQLAlchemy's name for it with the driver, the driver's module, the extra that installs it.
_SCHEMES: dict[str, tuple[type[Database], str, str, str]] = {
    "sqlite": (Sqlite, "sqlite+pysqlite", "sqlite3", ""),
    "postgresql": (PostgreSQL, "postgresql+psycopg", "psycopg", "postgres"),
    "postgres": (PostgreSQL, "postgresql+psycopg", "psycopg", "postgres"),
    "mysql": (MySQL, "mysql+pymysql", "pymysql", "mysql"),
    "mariadb": (MySQL, "mysql+pymysql", "pymysql", "mysql"),
}


def database_of(address: str, is_foreign: bool = False) -> Database:
    """The database of a URL; StoreError if it names none, or if its driver is not installed. `is_foreign` is that of `Store.open`."""
    said = concealed(address)
    if address.partition(":")[0].partition("+")[0].lower() not in _SCHEMES:
        raise StoreError(f"{said!r} is not the URL of a database. Forms: {FORMS}.")
    try:
        parts = parse(address)
    except ValueError as error:
        raise StoreError(
            f"{said!r} cannot be read as a URL: {error}. Forms: {FORMS}. Write @ : / in a password as %40 %3A %2F."
        ) from None
    name, driver = parts.kind, parts.driver
    kind, full, module, extra = _SCHEMES[name]
    if driver and f"{name}+{driver}" != full:
        raise StoreError(f"{said}: the driver {driver} is not supported. Leave it out: {name}://…")
    url = URL.create(full, parts.user, parts.password, parts.host, parts.port, parts.database, parts.query)
    if name != "sqlite" and not url.database:
        raise StoreError(f"{said} names no database. Add it at the end: {name}://user:password@host/database.")
    if find_spec(module) is None:
        raise StoreError(f'{said}: the driver is not installed. Run: pip install "gossamer[{extra}]"')
    return kind(url, is_foreign)


_PORTS = {"postgresql": 5432, "mysql": 3306}
_HERE = ("", "127.0.0.1", "::1")


def place_of(url: URL) -> str:
    """Which database a URL names, however it is spelled: without user and password, and without options of the connection."""
    name = url.get_backend_name()
    if name == "sqlite":
        return f"sqlite:///{Path(url.database).resolve() if url.database else ''}"
    host = (url.host or "").lower()
    # The options of PostgreSQL may name a schema.
    more = "".join(f" {key}={url.query[key]}" for key in ("host", "unix_socket", "options") if key in url.query)
    return f"{name}://{'localhost' if host in _HERE else host}:{url.port or _PORTS.get(name, '')}/{url.database}{more}"
