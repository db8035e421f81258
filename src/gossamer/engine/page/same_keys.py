"""Rows of one page that replace those of another: records of two pages with the same key and other values. That may be meant, as with an
item that two lists show; or the key tells too little apart, and rows are lost. So they are counted."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping
from typing import Any

SLOTS = 2**17
"""How many keys a worker keeps: 5 MB. A later key takes the place of an earlier one with the same slot."""


class KeyMemory:
    """Which page brought a key last, and with which values, as numbers. What is forgotten, or what another worker has stored, is not
    noticed: the count is a lower bound."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._keys, self._pages, self._values = (array("q", bytes(8 * slots)) for _ in range(3))
        self._sites, self._rounds = (array("q", bytes(8 * slots)) for _ in range(2))

    def replaces(
        self, key: Hashable, page: Hashable, fields: Mapping[str, Any], site: str = "", round: int | None = None
    ) -> bool:
        """Note a row. Returns whether another page has brought the same key with other values: one of the same round, or of another
        site, whose rounds are its own."""
        number, its_page, values, its_site = hash(key), hash(page), _number(fields), hash(site)
        slot = number % self._slots
        replaced = (
            self._keys[slot] == number
            and self._pages[slot] not in (0, its_page)
            and self._values[slot] != values
            and (self._sites[slot] != its_site or self._rounds[slot] == (round or 0))
        )
        self._keys[slot], self._pages[slot], self._values[slot] = number, its_page or 1, values
        self._sites[slot], self._rounds[slot] = its_site, round or 0
        return replaced


def _number(fields: Mapping[str, Any]) -> int:
    """Whatever their order: two sites may name the same fields in another one."""
    try:
        return hash(frozenset(fields.items()))
    except TypeError:  # It has lists.
        return hash(repr(sorted(fields.items(), key=_name)))


def _name(field: tuple[str, Any]) -> str:
    return field[0]
