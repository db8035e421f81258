"""Cookies of a site, by the rules of RFC 6265: which to take from a response, which to send with a request. Bounded.

Not aiohttp's jar: it is not bounded, knows no `__Host-` names, and takes 17 µs for the header of a request (this one 6,
http.cookiejar 59).
"""

from __future__ import annotations

import email.utils
import ipaddress
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

LARGEST = 4096
"""Bytes of name and value together; larger cookies are ignored."""
MOST, MOST_OF_DOMAIN = 3000, 180
LONGEST = 400 * 86400.0
"""The longest lifetime of a cookie, in seconds."""
_SECOND_LEVEL = frozenset(
    ["ac", "co", "com", "edu", "gob", "gouv", "gov", "go", "gv", "mil", "ne", "net", "nom", "or", "org", "sch"]
)
_BAD = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Cookie(NamedTuple):
    """`expires` is a Unix time, infinite for a session cookie. `host_only`: not for subdomains of `domain`."""

    name: str
    value: str
    domain: str
    path: str
    expires: float = math.inf
    secure: bool = False
    host_only: bool = True
    created: float = 0.0


class CookieTarget(NamedTuple):
    """What decides which cookies a request gets."""

    host: str
    path: str
    secure: bool


def place(url: str) -> CookieTarget:
    start = url.find("/", url.find("//") + 2)
    host, secure = _origin(url if start < 0 else url[:start])
    path = "/" if start < 0 else url[start:].partition("?")[0].partition("#")[0]
    return CookieTarget(host, path, secure)


@lru_cache(maxsize=4096)
def _origin(url: str) -> tuple[str, bool]:
    parts = urlsplit(url)
    return (parts.hostname or "").rstrip("."), parts.scheme == "https"


class CookieJar:
    """The cookies of one site."""

    def __init__(self, most: int = MOST, most_of_domain: int = MOST_OF_DOMAIN) -> None:
        self._most, self._most_of_domain = most, most_of_domain
        self._domains: dict[str, dict[tuple[str, str], Cookie]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Cookie]:
        for cookies in self._domains.values():
            yield from cookies.values()

    def take(self, url: str, lines: Iterable[str], now: float | None = None) -> int:
        """Keep the cookies of Set-Cookie headers; returns how many were accepted."""
        now = time.time() if now is None else now
        where, taken = place(url), 0
        for line in lines:
            cookie = parsed(line, where, now)
            if cookie is not None and self._put(cookie, where.secure, now):
                taken += 1
        return taken

    def put(self, cookies: Iterable[Cookie], now: float | None = None) -> None:
        """Keep cookies that another jar has had."""
        now = time.time() if now is None else now
        for cookie in cookies:
            self._put(cookie, True, now)

    def header(self, url: str, more: Mapping[str, str] | None = None, now: float | None = None) -> str:
        """The value of the Cookie header for a request, "" for none; `more` overrides the kept cookies."""
        pairs = [f"{name}={value}" for name, value in more.items()] if more else []
        for cookie in self.matching(url, now) if self._count else ():
            if not more or cookie.name not in more:
                pairs.append(f"{cookie.name}={cookie.value}" if cookie.name else cookie.value)
        return "; ".join(pairs)

    def matching(self, url: str, now: float | None = None) -> list[Cookie]:
        """The cookies of a request, in the order in which they are sent: longer paths first, then the older."""
        now = time.time() if now is None else now
        where, found = place(url), list[Cookie]()
        for domain in _upwards(where.host):
            cookies = self._domains.get(domain)
            for cookie in list(cookies.values()) if cookies else ():
                if cookie.expires <= now:
                    self._drop(cookie)
                elif (
                    (not cookie.host_only or domain == where.host)
                    and (where.secure or not cookie.secure)
                    and _path_matches(where.path, cookie.path)
                ):
                    found.append(cookie)
        if len(found) > 1:
            found.sort(key=lambda cookie: (-len(cookie.path), cookie.created))
        return found

    def _put(self, cookie: Cookie, from_secure: bool, now: float) -> bool:
        cookies = self._domains.setdefault(cookie.domain, {})
        key = (cookie.path, cookie.name)
        old = cookies.get(key)
        if old is not None and old.secure and not from_secure:
            return False
        if cookie.expires <= now:
            if old is not None:
                self._drop(old)
            elif not cookies:
                del self._domains[cookie.domain]
            return old is not None
        if old is not None:
            cookie = cookie._replace(created=old.created)
        else:
            self._count += 1
        cookies[key] = cookie
        if len(cookies) > self._most_of_domain:
            self._make_room(list(cookies.values()), now)
        if self._count > self._most:
            self._make_room(list(self), now)
        return True

    def _make_room(self, cookies: list[Cookie], now: float) -> None:
        expired = [cookie for cookie in cookies if cookie.expires <= now]
        for cookie in expired or [min(cookies, key=lambda cookie: cookie.created)]:
            self._drop(cookie)

    def _drop(self, cookie: Cookie) -> None:
        cookies = self._domains.get(cookie.domain, {})
        if cookies.pop((cookie.path, cookie.name), None) is not None:
            self._count -= 1
        if not cookies:
            self._domains.pop(cookie.domain, None)


def parsed(line: str, where: CookieTarget, now: float) -> Cookie | None:
    """The cookie of a Set-Cookie header; None if it must be rejected."""
    if _BAD.search(line):
        return None
    pair, *attributes = line.split(";")
    name, equals, value = pair.partition("=")
    if not equals:
        name, value = "", pair
    name, value = name.strip(" \t"), value.strip(" \t")
    if (not name and not value) or len(name.encode()) + len(value.encode()) > LARGEST:
        return None
    said = {}
    for attribute in attributes:
        key, _, content = attribute.partition("=")
        said[key.strip(" \t").lower()] = content.strip(" \t")
    domain = said.get("domain", "").lower().removeprefix(".")
    host_only = True
    if domain:
        if not _domain_matches(where.host, domain):
            return None
        host_only = domain == where.host and (_is_address(domain) or is_public_suffix(domain))
        if domain != where.host and is_public_suffix(domain):
            return None
    secure, path = "secure" in said, said.get("path", "")
    if not path.startswith("/"):
        path = where.path.rpartition("/")[0] or "/"
    if secure and not where.secure:
        return None
    if name.startswith(("__Secure-", "__Host-")) and not secure:
        return None
    if name.startswith("__Host-") and (domain or said.get("path") != "/"):
        return None
    return Cookie(name, value, domain or where.host, path, _expires(said, now), secure, host_only, now)


def is_public_suffix(domain: str) -> bool:
    """By a simple rule: one label, or a common second level of a country (co.uk, com.br)."""
    labels = domain.split(".")
    return len(labels) == 1 or (len(labels) == 2 and len(labels[1]) == 2 and labels[0] in _SECOND_LEVEL)


def _expires(said: Mapping[str, str], now: float) -> float:
    age = said.get("max-age", "")
    if re.fullmatch(r"-?[0-9]+", age):
        seconds = -1.0 if age.startswith("-") else float(age[:12])
        return now + min(seconds, LONGEST) if seconds > 0 else -math.inf
    try:
        at = email.utils.parsedate_to_datetime(said.get("expires", "").replace("-", " ")).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return math.inf
    return min(at, now + LONGEST)


@lru_cache(maxsize=4096)
def _upwards(host: str) -> list[str]:
    """The host and the domains above it."""
    if _is_address(host):
        return [host]
    labels = host.split(".")
    return [".".join(labels[index:]) for index in range(len(labels))]


def _domain_matches(host: str, domain: str) -> bool:
    return host == domain or (host.endswith("." + domain) and not _is_address(host))


def _path_matches(path: str, prefix: str) -> bool:
    return path == prefix or (path.startswith(prefix) and (prefix.endswith("/") or path[len(prefix)] == "/"))


def _is_address(host: str) -> bool:
    if not host or not (host[-1].isdigit() or ":" in host):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
