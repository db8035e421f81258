"""Requests for pages only if they have changed. A 304 is a response like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

NOT_MODIFIED = 304
_LONGEST = 512


class Validators(NamedTuple):
    """What identifies a version of a page, as the server says."""

    etag: str = ""
    modified: str = ""


def validators(headers: Mapping[str, str]) -> Validators:
    """The validators of a response, `headers` by lower-case name; empty if there are none that can be kept."""
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
