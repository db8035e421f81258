"""Whether a layer's `match` can fit any URL: it is looked for in path and query, which begin with / and have no host. Whether those
of links can, which are looked for in whole URLs. And whether links with `to`, which no `match` holds back, may lead from host to host
without end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import regex  # type: ignore[import-untyped]

from gossamer.sites.extract.regex import stoppable
from gossamer.sites.file.problems import Path
from gossamer.sites.format import Follow
from gossamer.sites.url.match import is_whole, own_host

if TYPE_CHECKING:
    from gossamer.sites.check.site import Checker

STAY = "hosts: own to stay on the hosts of the seeds"
NAME_HOST = "a match that begins with ^https?:// and the host"
PATIENCE = 0.2
"""Seconds for one pattern: on a single character, only a pattern that is made for it takes as long."""
_QUERY = re.compile(r"(?<![\\\\(\[])(?<=[\w/])\?(?=[A-Za-z_][\w-]*=)")
"""The ? before the first parameter of a query, as in list?page=, where a pattern takes it for something else."""
_FITS_MARK = re.compile(r"\\[?WSD]|\[[^\]]*\?|\[\^|\.[*+{]")
"""What may fit the ? of a URL."""


def check_match(checker: Checker, pattern: str, path: Path, hosts: Iterable[str]) -> None:
    """Report a pattern that no URL can fit, and one that looks for a host where none is. `hosts` are the site's own."""
    _check_query(checker, pattern, path)
    if is_whole(pattern):
        return
    named = _host_in(pattern, hosts)
    if named:
        rest = pattern[named.end() :]
        ours = f"match is looked for in path and query, where the host {named[0].replace(chr(92), '')} never stands"
        hint = f"write '^{rest or '/'}', or the whole URL: '^https?://{re.escape(_plain(named[0]))}{rest}'"
        (checker.warn if fits_a_path(pattern) else checker.add)(path, ours, hint)
    elif "://" in pattern:
        checker.warn(
            path, "match is looked for in path and query, unless it begins with http", "begin it with ^https?://"
        )
    elif not fits_a_path(pattern):
        checker.add(
            path,
            "no path fits this: what is looked at begins with /",
            f"write '^/{pattern.removeprefix('^').removeprefix('/')}'",
        )


def check_link_patterns(checker: Checker, follow: Follow, path: Path) -> None:
    """Report patterns of a rule of `follow` that no URL can fit: they are looked for in the whole of it, other than those of layers."""
    for key, tell in (("match", checker.add), ("skip", checker.warn)):
        pattern = getattr(follow, key)
        if pattern is None:
            continue
        if fits_beginning(pattern, "h"):
            _check_query(checker, pattern, (*path, key))
            continue
        rest = pattern.removeprefix("^").removeprefix("/")
        tell(
            (*path, key),
            "no URL fits this: what is looked at is the whole URL, which begins with http",
            f"leave out ^, or write ^https?://[^/]+/{rest}",
        )


def _check_query(checker: Checker, pattern: str, path: Path) -> None:
    found = _QUERY.search(pattern)
    if found and not _FITS_MARK.search(pattern, 0, found.start()):
        written = f"{pattern[: found.start()]}\\{pattern[found.start() :]}"
        checker.warn(
            path,
            "? makes the sign before it optional, and nothing here fits the ? of a URL",
            f"write '{written}'",
        )


def check_hosts(checker: Checker, hosts: Iterable[str]) -> None:
    """Report rules of `follow` by which a crawl may go on from any host to any other. `hosts` are the site's own."""
    site, own = checker.site, list(hosts)
    roaming = {
        name: [
            (place, follow.to)
            for place, follow in enumerate(layer.follow)
            if follow.to in site.layers and _roams(follow, own)
        ]
        for name, layer in site.layers.items()
    }
    for name, layer in site.layers.items():
        for place, follow in enumerate(layer.follow):
            if follow.hosts == "own" and not own:
                checker.warn(
                    ("layers", name, "follow", place, "hosts"),
                    "the seeds name no host, so these links may lead anywhere",
                    f"write {NAME_HOST}",
                )
        for place, to in roaming[name] if not site.limits.depth else ():
            if name in _reached(roaming, to):
                checker.warn(
                    ("layers", name, "follow", place),
                    "these links may lead to any host, and links there to further hosts: nothing keeps the crawl on the site",
                    f"write {STAY if own else NAME_HOST}, or hosts: any if you mean it",
                )


def _roams(follow: Follow, hosts: Iterable[str]) -> bool:
    """Whether nothing says on which hosts the links of a rule with `to` are."""
    if follow.hosts is not None or follow.pages is not None:
        return False
    if follow.url is not None and not follow.url.lstrip().startswith("{"):
        return False
    return follow.match is None or not (is_whole(follow.match) or _names_host(follow.match, hosts))


def _names_host(pattern: str, hosts: Iterable[str]) -> bool:
    return any(own_host(host) in _plain(pattern) for host in hosts)


def _reached(roaming: Mapping[str, Sequence[tuple[int, str]]], first: str) -> set[str]:
    """The layers that such links lead to from a layer on, which is one of them."""
    found, new = {first}, [first]
    while new:
        new = [to for name in new for _, to in roaming[name] if to not in found]
        found.update(new)
    return found


def fits_a_path(pattern: str) -> bool:
    return fits_beginning(pattern, "/")


@lru_cache(8_192)
def fits_beginning(pattern: str, first: str) -> bool:
    """Whether a text that begins with `first` may fit, as it is or with more after it."""
    if pattern.startswith(f"^{first}") or not ("^" in pattern or "\\A" in pattern):
        return True  # Most are like this, and the other engine takes long to compile them.
    try:
        return stoppable(pattern).search(first, partial=True, timeout=PATIENCE) is not None
    except (regex.error, TimeoutError, RecursionError):
        return True  # Unknown.


def _plain(text: str) -> str:
    return text.replace("\\", "")


def _host_in(pattern: str, hosts: Iterable[str]) -> re.Match[str] | None:
    """Where a pattern names a host of the site, its dots escaped or not."""
    for host in sorted(set(map(own_host, hosts)), key=len, reverse=True):
        if "." not in host and ":" not in host:
            continue  # A word as localhost may well stand in a path.
        spelled = re.escape(host).replace(r"\.", r"\\?\.")
        if found := re.search(rf"(?:www\\?\.)?{spelled}(?=/|\\/|$|\$|\()", pattern):
            return found
    return None
