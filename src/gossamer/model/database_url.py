"""The URL of a database, taken apart in one place: what a site file may name is judged by the very parts that the store connects with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

_FORM = re.compile(
    r"(?P<kind>\w++)(?:\+(?P<driver>\w++))?://"
    r"(?:(?P<user>[^:/]*?)(?::(?P<password>[^@]*+))?@)?"
    r"(?:\[(?P<ipv6>[^\]/?]++)\]|(?P<host>[^:/?\[\]@]++))?(?::(?P<port>[^/?@]*+))?"
    r"(?:/(?P<database>[^?]*+))?(?:\?(?P<query>.*+))?",
    re.DOTALL,
)


class DatabaseUrl(NamedTuple):
    """`host` is None where none is named, and `database` "" where the URL ends with its slash; `query` are the options after ?."""

    kind: str
    driver: str = ""
    user: str | None = None
    password: str | None = None
    host: str | None = None
    port: int | None = None
    database: str | None = None
    query: Mapping[str, str | tuple[str, ...]] = {}


class StoreAddress(NamedTuple):
    """Where rows go. `is_foreign`: a site file of the crawl names the database, so that it is reached with nothing but what the URL has."""

    url: str
    is_foreign: bool = False


NO_STORE = StoreAddress("")


def parse(url: str) -> DatabaseUrl:
    """The parts of a URL. User, password and options are written with escapes (%40); a ValueError says what cannot be read."""
    found = _FORM.fullmatch(url)
    if found is None:
        raise ValueError("it is not of the form kind://user:password@host:port/database?options")
    port = found["port"]
    if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
        raise ValueError("what stands after the colon is not a port")
    options: dict[str, tuple[str, ...]] = {}
    for name, value in parse_qsl(found["query"] or "", keep_blank_values=True):
        options[name] = (*options.get(name, ()), value)
    return DatabaseUrl(
        found["kind"].lower(),
        (found["driver"] or "").lower(),
        None if found["user"] is None else unquote(found["user"]),
        None if found["password"] is None else unquote(found["password"]),
        found["ipv6"] or found["host"],
        int(port) if port else None,
        found["database"],
        {name: values[0] if len(values) == 1 else values for name, values in options.items()},
    )
