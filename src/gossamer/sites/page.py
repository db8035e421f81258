"""What the rules of a layer read from a page."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

from gossamer.model.page import PageRequest, Record

_new_record: Callable[[tuple[str, dict[str, Any]]], Record] = partial(tuple.__new__, Record)


def records_of(layer: str, filled: Iterable[dict[str, Any]]) -> list[Record]:
    """Records of a layer. A page may have many: a named tuple's own constructor takes three times as long."""
    return list(map(_new_record, zip(repeat(layer), filled, strict=False)))


class PageVerdict(enum.Enum):
    """OK: read. INVALID: the page fails `valid`; retry. LACK: a required field is missing."""

    OK = "ok"
    INVALID = "invalid"
    LACK = "lack"


class Reading(NamedTuple):
    """What a page says. `reason` explains a verdict other than OK; `missing` names fields that found nothing; `notes` are
    values that could not be converted to their type, as "field: why"; `cut_off`: there are further pages that no link leads to,
    because of `pages`."""

    verdict: PageVerdict
    reason: str
    records: list[Record]
    links: list[PageRequest]
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cut_off: bool = False
