"""Requests for pages only if they have changed. A 304 is a response like any other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

NOT_MODIFIED = 304
_LONGEST = 512
_COMPRESSED = re.compile("[-;]+(gzip|br|deflate|zstd|df)$")


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


def is_conditional(headers: Mapping[str, str]) -> bool:
    """Whether a request with these headers may be answered with 304. A server that answers so to another one has said nothing."""
    return any(name.lower() in ("if-none-match", "if-modified-since") for name in headers)


def is_same_version(known: Validators, told: Validators) -> bool:
    """Whether what a 304 says of itself fits the version that was asked about. Nothing said fits; so does the same tag as a weak one, or
    with the mark that servers add to it for compressed pages."""
    return not known.etag or not told.etag or _bare(known.etag) == _bare(told.etag)


def _bare(etag: str) -> str:
    return _COMPRESSED.sub("", etag.removeprefix("W/").strip('"'))


def _kept(value: str) -> str:
    value = value.strip()
    return value if len(value) <= _LONGEST and value.isprintable() and value.isascii() else ""
