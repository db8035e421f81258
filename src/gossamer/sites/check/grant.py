"""Checks that a site file uses only what is granted to it: functions, variables, paths, databases. Imports and fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as File

from gossamer.errors import MissingVariable
from gossamer.model.database_url import DatabaseUrl, parse
from gossamer.sites.check.hooks import hooks_of
from gossamer.sites.file.environment import REFERENCE, revealed, variables
from gossamer.sites.file.functions import refusal
from gossamer.sites.file.grant import OURS, Grant
from gossamer.sites.file.messages import problem_at
from gossamer.sites.file.problems import Path, Problem
from gossamer.sites.file.yaml import Spot
from gossamer.sites.format import SiteSpec

PATHS, VARIABLES, TABLES = "GOSSAMER_SITE_PATHS", "GOSSAMER_SITE_VARIABLES", "GOSSAMER_SITE_TABLES"
DATABASES = "GOSSAMER_SITE_DATABASES"
SQLITE_NAMES = (".db", ".sqlite", ".sqlite3")
"""How the names of SQLite files end: the data directory has other files, which must not be taken for one."""
OPTIONS = frozenset({"application_name", "charset", "client_encoding", "connect_timeout", "options", "sslmode"})
"""What a pushed URL of a database may say after ?: drivers know others, which name files to be read or sent."""
ODD = re.compile(r"[\s#\\\x00-\x1f\x7f]")
"""Characters that one reader of URLs takes for another thing than the next one does."""
NAMES = re.compile(r"[\w.$-]+")
HOST = re.compile(r"[\w.:-]+", re.ASCII)
WHOLE = "let the whole URL be a variable: ${SITE_DATABASE}"

Refusal = tuple[Path, str, str]


def check_grant(
    site: SiteSpec, spot: Spot, grant: Grant, environment: Mapping[str, str] | None = None
) -> list[Problem]:
    """Everything that a site uses without a grant, with its place and the remedy."""
    refused = [*_functions(site, grant), *_variables(site, grant), *_tables(site, grant)]
    if not refused:
        refused += _paths(site, grant)
        refused += _database(site, grant, grant.environment(environment))
    return [problem_at(spot, *one) for one in refused]


def _functions(site: SiteSpec, grant: Grant) -> Iterator[Refusal]:
    for entry, places in hooks_of(site).items():
        if (why := refusal(entry, grant)) is not None:
            yield from ((tuple(place.split(".")), why.message, why.hint) for place in places)


def _variables(site: SiteSpec, grant: Grant) -> Iterator[Refusal]:
    for name, paths in variables(site).items():
        # Our own are refused by the check of every file.
        if not grant.knows(name) and not name.upper().startswith(OURS):
            said = f"{name} is not a variable that this worker lets site files of the crawl read"
            for path in paths:
                yield path, said, f"call it SITE_{name}, or allow it: {VARIABLES}=SITE_*,{name}"


def _tables(site: SiteSpec, grant: Grant) -> Iterator[Refusal]:
    for place, rule in enumerate(site.refresh):
        if not grant.reads(rule.table):
            said = f"{rule.table} is not a table that this worker lets site files of the crawl read"
            yield ("refresh", place, "table"), said, f"allow it: {TABLES}={rule.table}"


def _paths(site: SiteSpec, grant: Grant) -> Iterator[Refusal]:
    if site.archive_pages and not grant.reaches(File(site.archive_pages).expanduser()):
        yield ("archive_pages",), *_elsewhere(site.archive_pages, grant, "leave it out, ")
    for name, group in site.proxies.items():
        if group.file is not None and not grant.reaches(group.file):
            yield ("proxies", name, "file"), *_elsewhere(group.file, grant)
    requests: list[tuple[Path, object]] = [(("request",), site.request)]
    requests += [(("layers", name, "request"), layer.request) for name, layer in site.layers.items()]
    for path, request in requests:
        verify = getattr(request, "verify", None)
        if isinstance(verify, str) and not grant.reaches(verify):
            yield (*path, "verify"), *_elsewhere(verify, grant)


def _elsewhere(path: str, grant: Grant, first: str = "") -> tuple[str, str]:
    roots = ", ".join(map(str, grant.paths or ()))
    hint = f"{first}choose a place there, or allow another: {PATHS}=/directory"
    return f"{path} does not lie below {roots}, where site files of the crawl may read and write", hint


def _database(site: SiteSpec, grant: Grant, environment: Mapping[str, str]) -> Iterator[Refusal]:
    if site.database is not None:
        for said, hint in database_refusals(site.database, grant, environment):
            yield ("database",), said, hint


def database_refusals(database: str, grant: Grant, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Why a file of the crawl may not name this database, each with its remedy."""
    # A value that is only a variable is chosen by the worker's owner, who sets it.
    if grant.paths is None or REFERENCE.fullmatch(database):
        return
    try:
        url = revealed(database, environment)
    except MissingVariable:
        return  # That is said when it is looked up.
    if odd := ODD.search(url):
        yield f"the URL of a database has the character {odd[0]!r}", f"write %{ord(odd[0]):02X}, or leave it out"
        return
    try:
        parts = parse(url)
    except ValueError as error:
        yield f"the URL of the database cannot be read: {error}", "as postgresql://user:password@host/name"
        return
    yield from _sqlite_refusals(parts, grant) if parts.kind == "sqlite" else _server_refusals(parts, grant)


def _sqlite_refusals(parts: DatabaseUrl, grant: Grant) -> Iterator[tuple[str, str]]:
    file = parts.database or ""
    if not grant.reaches(file):
        yield _elsewhere(file, grant, "leave it out, ")
    elif not file.endswith(SQLITE_NAMES):
        yield f"{file} is not the name of a SQLite file", f"let it end in {', '.join(SQLITE_NAMES)}"
    elif parts.query or parts.host:
        yield "the URL of a SQLite file has no host and no ? in a site file of the crawl", "as sqlite:////var/lib/x.db"


def _server_refusals(parts: DatabaseUrl, grant: Grant) -> Iterator[tuple[str, str]]:
    if not parts.host or not HOST.fullmatch(parts.host):
        yield "the database of a site file of the crawl has to name its host", "as postgresql://user@host/name"
    elif not parts.user:
        yield "the database of a site file of the crawl has to name its user", "as postgresql://user@host/name"
    elif not grant.connects(parts.host):
        said = f"{parts.host} is not a host whose databases this worker lets site files of the crawl name"
        yield said, f"allow it: {DATABASES}={','.join((*grant.databases, parts.host))}, or {WHOLE}"
    if not NAMES.fullmatch(parts.database or "-"):
        yield f"{parts.database!r} is no name of a database in a site file of the crawl", WHOLE
    for name, value in parts.query.items():
        if name not in OPTIONS or not isinstance(value, str):
            hint = f"leave it out, or {WHOLE}"
            yield f"the option {name} is not allowed in a site file of the crawl", hint
