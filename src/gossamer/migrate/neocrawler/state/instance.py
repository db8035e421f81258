"""Where a NEOCrawler instance keeps its data: by its settings.json, or by the URL of its server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from gossamer.errors import BadRules

KEYS = ("driller_info_redis_db", "url_info_redis_db", "url_report_redis_db")
"""In settings.json: rules and queues, URLs, reports. Each is host, port and number of the database."""
USUAL = (0, 1, 2)
"""Their databases, where only a server is named."""
PORTS = {"redis": 6379, "rediss": 6379, "ssdb": 8888}
"""The usual ones."""
SCHEMES = tuple(PORTS)


class InstanceDatabase(NamedTuple):
    """One database. `url` is without a password, for messages; SSDB has no numbers of databases."""

    host: str
    port: int
    db: int
    user: str = ""
    password: str = ""
    tls: bool = False

    @property
    def url(self) -> str:
        return f"{self.host}:{self.port}/{self.db}"

    @property
    def redis_url(self) -> str:
        secret = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.password else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{secret}{host}:{self.port}/{self.db}"


class Instance(NamedTuple):
    """The three databases of an instance."""

    rules: InstanceDatabase
    urls: InstanceDatabase
    reports: InstanceDatabase
    ssdb: bool = False

    @property
    def name(self) -> str:
        """What tells the instance from others."""
        return f"neocrawler {'ssdb' if self.ssdb else 'redis'} {self.urls.url}"


def names_instance(text: str) -> bool:
    """Whether this is the URL of a server, or the settings.json of an instance, and not a file of rules."""
    if urlsplit(text).scheme in SCHEMES:
        return True
    path = Path(text)
    try:
        return path.suffix == ".json" and path.is_file() and KEYS[0] in path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return False


def instance_of(text: str) -> Instance:
    """The instance that a URL or a settings.json names. BadRules says what is wrong with it."""
    if urlsplit(text).scheme in SCHEMES:
        return _from_url(text)
    return _from_settings(text)


def _from_url(text: str) -> Instance:
    parts = urlsplit(text)
    try:
        port = parts.port or PORTS[parts.scheme]
    except ValueError:
        port = 0
    if not parts.hostname or not port:
        raise BadRules(
            f"{text}: this URL names no server; write redis://HOST:PORT, or give the instance's settings.json."
        )
    if parts.path.strip("/"):
        raise BadRules(
            f"{text}: NEOCrawler has three databases. Without a number these are 0, 1 and 2; for others, give the instance's settings.json."
        )
    secret = (unquote(parts.username or ""), unquote(parts.password or ""), parts.scheme == "rediss")
    rules, urls, reports = (InstanceDatabase(parts.hostname, port, db, *secret) for db in USUAL)
    return Instance(rules, urls, reports, parts.scheme == "ssdb")


def _from_settings(name: str) -> Instance:
    try:
        data = json.loads(Path(name).read_text(encoding="utf-8-sig"))
    except (ValueError, UnicodeDecodeError) as error:
        raise BadRules(f"{name} is not JSON: {error}. NEOCrawler's settings.json has no comments.") from None
    if not isinstance(data, dict):
        raise BadRules(f"{name} is not the settings.json of an instance: it is not an object.")
    rules, urls, reports = (_place(data, key, name) for key in KEYS)
    return Instance(rules, urls, reports, data.get("use_ssdb") is True)


def _place(data: dict[str, Any], key: str, name: str) -> InstanceDatabase:
    given = data.get(key)
    match given:
        case [str(host), int(port), int(db)] if host and port > 0 and db >= 0:
            return InstanceDatabase(host, port, db)
    raise BadRules(f"{name}: {key} is {given!r}; it should be a host, a port and the number of a database.")
