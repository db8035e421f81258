"""Which layer a URL belongs to.

A `match` is looked for in path and query, so it fits on the site's own hosts only: those of its seeds, with or without www.
A `match` that begins with http (or ^http) is looked for in the whole URL and fits on any host; so do all of a site whose seeds
name no host (tasks only). A link with `to` is not matched at all: it may lead anywhere, unless its rule says `hosts: own`. Where several fit, the one that takes
up most of the URL counts, then the longest pattern, then the first in the file. What follows # is never looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial

from gossamer.model import host_of
from gossamer.sites.url.pattern import LONG, url_pattern

REMEMBERED = 65_536
"""Maximum number of URLs whose layer a process caches, for all its sites together."""

NO_GROUPS: Mapping[str, str] = {}
Found = tuple[str, Mapping[str, str]]


@lru_cache(8_192)
def pattern_of(text: str) -> re.Pattern[str]:
    """A compiled pattern. Raises re.error."""
    return re.compile(text)


def is_whole(pattern: str) -> bool:
    """Whether a pattern is one of whole URLs."""
    return pattern.lstrip("^(").startswith("http")


def own_host(host: str) -> str:
    return host.removeprefix("www.")


def path_and_query(url: str) -> str:
    start = url.find("//")
    start = start + 2 if start >= 0 else 0
    ends = [place for place in (url.find(sign, start) for sign in "/?") if place >= 0]
    path = url[min(ends) :] if ends else "/"
    return path if path[0] == "/" else f"/{path}"


class Matcher:
    """The patterns of one site. `hosts` are the site's own; None: any."""

    def __init__(self, patterns: Iterable[tuple[str, str]], hosts: frozenset[str] | None) -> None:
        self._rules = [(layer, url_pattern(text), is_whole(text), len(text)) for layer, text in patterns]
        self._by_layer = {layer: (pattern, whole) for layer, pattern, whole, _ in self._rules}
        self._hosts = None if not hosts else frozenset(map(own_host, hosts))
        self.layer_of = partial(_layer_of, self)
        """The layer of a URL and the named groups of its pattern; None if no pattern fits."""
        self.groups = partial(_groups, self)
        """The named groups of a layer's pattern in a URL; none if it does not fit."""

    def is_own(self, url: str) -> bool:
        """Whether a URL is on a host of the site."""
        if self._hosts is None:
            return True
        try:
            return own_host(host_of(url)) in self._hosts
        except ValueError:
            return False

    def find(self, url: str) -> Found | None:
        if len(url) > LONG:
            return None
        url = url.partition("#")[0]
        own = self.is_own(url)
        path = path_and_query(url)
        best, best_rank = None, (-1, -1)
        for layer, pattern, whole, length in self._rules:
            if not (whole or own):
                continue
            found = pattern.search(url if whole else path)
            if found is None:
                continue
            if (rank := (found.end() - found.start(), length)) > best_rank:
                best, best_rank = (layer, found), rank
        return None if best is None else (best[0], _named(best[1]))

    def fits(self, layer: str, url: str) -> bool:
        """Whether the pattern of a layer fits a URL, be there a better one or not."""
        rule = self._by_layer.get(layer)
        if rule is None or len(url) > LONG:
            return False
        pattern, whole = rule
        url = url.partition("#")[0]
        return (whole or self.is_own(url)) and pattern.search(url if whole else path_and_query(url)) is not None

    def find_groups(self, layer: str, url: str) -> Mapping[str, str]:
        rule = self._by_layer.get(layer)
        if rule is None or len(url) > LONG:
            return NO_GROUPS
        pattern, whole = rule
        url = url.partition("#")[0]
        found = pattern.search(url if whole else path_and_query(url))
        return NO_GROUPS if found is None else _named(found)


@lru_cache(REMEMBERED)
def _layer_of(matcher: Matcher, url: str) -> Found | None:
    return matcher.find(url)


@lru_cache(REMEMBERED)
def _groups(matcher: Matcher, layer: str, url: str) -> Mapping[str, str]:
    return matcher.find_groups(layer, url)


def _named(found: re.Match[str]) -> Mapping[str, str]:
    return (
        {name: text for name, text in found.groupdict().items() if text is not None}
        if found.re.groupindex
        else NO_GROUPS
    )
