"""What goes into the interpretation of a page and what comes out of it. Engine-neutral."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = {}


class PageResponse(NamedTuple):
    """A page as it was fetched. `headers` by lower-case name. `turn` says how many page turns it is from its list's first
    page, `depth` how many steps from the seeds, `inherited` what its parent passed on."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    inherited: Mapping[str, Any] = NOTHING
    turn: int = 0
    depth: int = 0


class PageLink(NamedTuple):
    """What to ask for next. `fingerprint` is its identity for the seen memory."""

    url: str
    layer: str
    fingerprint: int
    priority: int = 0
    method: str = "GET"
    headers: Mapping[str, str] = NOTHING
    cookies: Mapping[str, str] = NOTHING
    body: bytes = b""
    inherited: Mapping[str, Any] = NOTHING
    turn: int = 0
    depth: int = 0
    dont_filter: bool = False


class Record(NamedTuple):
    """What a page is about: the values of its layer's fields, in the file's order; nested records are lists of dicts."""

    layer: str
    fields: dict[str, Any]


_new_record: Callable[[tuple[str, dict[str, Any]]], Record] = partial(tuple.__new__, Record)


def records_of(layer: str, filled: Iterable[dict[str, Any]]) -> list[Record]:
    """Records of a layer. A page may have many: a named tuple's own constructor takes three times as long."""
    return list(map(_new_record, zip(repeat(layer), filled, strict=False)))


class PageVerdict(enum.Enum):
    """OK: read. INVALID: not the page that was asked for (`valid`); try again. LACK: a required field is missing."""

    OK = "ok"
    INVALID = "invalid"
    LACK = "lack"


class Reading(NamedTuple):
    """What a page said. `reason` explains a verdict other than OK; `missing` names fields that found nothing; `notes` are
    values that could not be turned into their type, as "field: why"."""

    verdict: PageVerdict
    reason: str
    records: list[Record]
    links: list[PageLink]
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
