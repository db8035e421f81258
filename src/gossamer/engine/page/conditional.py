"""Pages that are asked for only if they have changed. A 304 is an answer like any other. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

NOT_MODIFIED = 304
_LONGEST = 512


class Validators(NamedTuple):
    """What tells a page's versions apart, by the server's own account."""

    etag: str = ""
    modified: str = ""


def validators(headers: Mapping[str, str]) -> Validators:
    """Of an answer, `headers` by lower-case name; empty where there are none, or none that could be kept."""
    return Validators(_kept(headers.get("etag", "")), _kept(headers.get("last-modified", "")))


def conditions(known: Validators) -> dict[str, str]:
    """The headers that make a request conditional."""
    asked = {}
    if known.etag:
        asked["If-None-Match"] = known.etag
    if known.modified:
        asked["If-Modified-Since"] = known.modified
    return asked


def _kept(value: str) -> str:
    value = value.strip()
    return value if len(value) <= _LONGEST and value.isprintable() and value.isascii() else ""
