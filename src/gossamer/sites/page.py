"""What the rules of a layer read from a page."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

from gossamer.model.page import NOTHING, PageRequest, Record

_new_record: Callable[[tuple[str, dict[str, Any]]], Record] = partial(tuple.__new__, Record)


def records_of(layer: str, filled: Iterable[dict[str, Any]]) -> list[Record]:
    """Records of a layer. A page may have many: a named tuple's own constructor takes three times as long."""
    return list(map(_new_record, zip(repeat(layer), filled, strict=False)))


LINKS = 100_000
"""Maximum number of links of a page, a sitemap or a feed."""
RECORDS = 100_000
"""Maximum number of records of a page, nested ones included."""


class LimitExceeded(Exception):
    """A page has more than can be read of one page; the message says what, and what to do. Such a page fails as a whole."""


class PageVerdict(enum.Enum):
    """OK: read. BLOCKED: a wall came instead of the page; retry. INVALID: the page fails `valid`; retry. LACK: a required field is missing.
    LIMIT: the page exceeds a limit, and nothing of it is used."""

    OK = "ok"
    BLOCKED = "blocked"
    INVALID = "invalid"
    LACK = "lack"
    LIMIT = "limit"


class Reading(NamedTuple):
    """What a page says. `reason` explains a verdict other than OK; `missing` names fields that found nothing; `notes` are
    values that could not be converted to their type, as "field: why"; `cut_off`: there are further pages that no link leads to,
    because of `pages`; `unlinked`: the rules of `follow` (follow[0]) that made no link somewhere because a {name} of it is empty;
    `contested`: those with links that an earlier rule leads to another layer, where they are read instead;
    `broken`: the page is not well-formed, and may have been read in part; `skipped`: the rules that count more
    records for a page turn ({turn*20}) than pages have; `limited`: those that left out links because of a limit of theirs or of the site;
    `linkless`: those that looked for links and found none; `textless`: those whose `changed` was empty for a link;
    `doubt`: "guessed" if its character set was, "replaced" if characters were; `coverage`: by LAYER.FIELD, in how many records a field was
    looked for, and how many have a value; `blank`: a page that should have a value of some field has none; `asked_parent`: its function has
    asked which page led to it; `overlong`: the rules with links that are longer than URLs may be, and one of these links each."""

    verdict: PageVerdict
    reason: str
    records: list[Record]
    links: list[PageRequest]
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cut_off: bool = False
    unlinked: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    broken: bool = False
    skipped: tuple[str, ...] = ()
    limited: tuple[str, ...] = ()
    linkless: tuple[str, ...] = ()
    doubt: str = ""
    textless: tuple[str, ...] = ()
    coverage: Mapping[str, tuple[int, int]] = NOTHING
    blank: bool = False
    asked_parent: bool = False
    overlong: Mapping[str, str] = NOTHING
