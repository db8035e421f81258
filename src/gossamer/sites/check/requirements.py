"""What a site needs besides Gossamer itself: a driver for its database, a browser for its pages.

The machine that checks a file may not be the one that crawls: what is not installed here is a warning.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from gossamer.sites.file.problems import Path, did_you_mean
from gossamer.sites.format import RequestRule

if TYPE_CHECKING:
    from gossamer.sites.check.site import Checker

DRIVERS = {
    "sqlite": ("sqlite3", ""),
    "postgresql": ("psycopg", "postgres"),
    "postgres": ("psycopg", "postgres"),
    "mysql": ("pymysql", "mysql"),
    "mariadb": ("pymysql", "mysql"),
}
"""Scheme → the driver's module, the extra that installs it."""
BROWSER = "scrapy_playwright"


def check_needs(checker: Checker) -> None:
    site = checker.site
    if site.database is not None and not site.database.startswith("${"):
        _check_database(checker, site.database)
    asked: list[tuple[Path, RequestRule | None]] = [(("request",), site.request)]
    asked += [(("layers", name, "request"), layer.request) for name, layer in site.layers.items()]
    for path, request in asked:
        if request is not None and request.render and site.engine == "scrapy" and not installed(BROWSER):
            checker.warn((*path, "render"), "scrapy-playwright is not installed here", _install("render"))


def _check_database(checker: Checker, address: str) -> None:
    scheme, colon, _ = address.partition(":")
    name = scheme.partition("+")[0]
    if not colon or name not in DRIVERS:
        hint = did_you_mean(name, DRIVERS) if colon else "as sqlite:///records.db or postgresql://user:password@host/db"
        checker.add(("database",), "this is not the URL of a database", hint)
        return
    module, extra = DRIVERS[name]
    if not installed(module):
        checker.warn(("database",), f"{module} is not installed here", _install(extra))


def installed(module: str) -> bool:
    return find_spec(module) is not None


def _install(extra: str) -> str:
    return f"where it is crawled: pip install 'gossamer[{extra}]'"
