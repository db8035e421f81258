"""Which URLs are the same page: the canonical form, rewritten, less the parameters of query and path that do not count."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote, unquote_plus

from gossamer.model import fingerprint
from gossamer.sites.extract.regex import Pattern, TooSlow
from gossamer.sites.format import Identity
from gossamer.sites.url.canonical import canonical

REMEMBERED = 65_536
"""How many URLs' numbers a process keeps, whatever the number of its sites: about 20 MB when full."""
LONG = 2_048
"""A longer URL is not kept."""
PATIENCE = 0.05
"""Seconds for all rewrites of one URL."""
SESSIONS = frozenset({"jsessionid"})
"""Parameters of a path that never tell pages apart."""
_PATH_PARAMETER = re.compile(r";([^;/=]+)(?:=[^;/]*)?")
logger = logging.getLogger(__name__)


class _UrlBudget:
    def __init__(self) -> None:
        self.patience = PATIENCE


class Identifier:
    """Turns URLs into their canonical form and requests into their fingerprints, by one `identity` of a site file. Fingerprints with
    different `apart` differ: a page of one layer is another one than that of another layer with the same URL."""

    def __init__(self, identity: Identity, apart: str = "") -> None:
        self.fragment = identity.fragment
        self._apart = f"{apart} " if apart else ""
        self._keeps = _chooser(identity)
        self._dropped = _namer(identity.drop)
        self._rewrites = [(Pattern(text), by) for text, by in identity.rewrite]
        for pattern, by in self._rewrites:
            pattern.check_replacement(by)

    def canonical(self, url: str) -> str:
        url = canonical(url, self.fragment)
        if self._rewrites:
            url = canonical(self._rewritten(url), self.fragment)
        if ";" in url:
            url = self._without_path_parameters(url)
        keeps = self._keeps
        if keeps is None or "?" not in url:
            return url
        url, hash_, fragment = url.partition("#")
        base, mark, query = url.partition("?")
        if not mark:
            return f"{base}{hash_}{fragment}"
        query = "&".join([argument for argument in query.split("&") if keeps(argument)])
        return f"{base}?{query}{hash_}{fragment}" if query else f"{base}{hash_}{fragment}"

    def _rewritten(self, url: str) -> str:
        budget = _UrlBudget()
        try:
            for pattern, by in self._rewrites:
                url = pattern.replaced(url, by, budget)
        except TooSlow as error:
            logger.warning("identity.rewrite: %s; such URLs are compared as they are.", error)
        return url

    def _without_path_parameters(self, url: str) -> str:
        """Without those parameters of the path (;name=value) that do not count: sessions, and what `drop` names."""
        end = min((place for place in (url.find(sign) for sign in "?#") if place >= 0), default=len(url))

        def one(found: re.Match[str]) -> str:
            name = unquote(found[1])
            return "" if name.lower() in SESSIONS or self._dropped(name) else found[0]

        return _PATH_PARAMETER.sub(one, url[:end]) + url[end:]

    def fingerprint(self, url: str, method: str = "GET", body: bytes = b"") -> int:
        if body or method != "GET":
            return fingerprint(self._compared(url), method.upper(), body)
        return _known(self, url) if len(url) <= LONG else fingerprint(self._compared(url))

    def _compared(self, url: str) -> str:
        return self._apart + self.canonical(url)


@lru_cache(REMEMBERED)
def _known(identifier: Identifier, url: str) -> int:
    return fingerprint(identifier._compared(url))


def _chooser(identity: Identity) -> Callable[[str], bool] | None:
    """Whether an argument of a canonical query counts; None if all do."""
    keep, drop = identity.keep, identity.drop
    if keep is None and not drop:
        return None
    kept, dropped = _namer(keep or ()), _namer(drop)

    @lru_cache(1024)
    def keeps(name: str) -> bool:
        name = unquote_plus(name)
        return (keep is None or kept(name)) and not dropped(name)

    return lambda argument: keeps(argument.partition("=")[0])


def _namer(names: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a name is one of these; a * at the end stands for anything."""
    exact = frozenset(name for name in names if not name.endswith("*"))
    begins = tuple(name[:-1] for name in names if name.endswith("*"))
    return lambda name: name in exact or (bool(begins) and name.startswith(begins))
