"""Rows of one page that replace those of another: records of two pages with the same key and other values. That may be meant, as with an
item that two lists show; or the key tells too little apart, and rows are lost. So they are counted."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping
from typing import Any

SLOTS = 2**17
"""How many keys a worker keeps: 3 MB. A later key takes the place of an earlier one with the same slot."""


class KeyMemory:
    """Which page brought a key last, and with which values, as numbers. What is forgotten, or what another worker has stored, is not
    noticed: the count is a lower bound."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._keys, self._pages, self._values = (array("q", bytes(8 * slots)) for _ in range(3))

    def replaces(self, key: Hashable, page: Hashable, fields: Mapping[str, Any]) -> bool:
        """Note a row. Returns whether another page has brought the same key with other values."""
        number, its_page, values = hash(key), hash(page), _number(fields)
        slot = number % self._slots
        replaced = (
            self._keys[slot] == number and self._pages[slot] not in (0, its_page) and self._values[slot] != values
        )
        self._keys[slot], self._pages[slot], self._values[slot] = number, its_page or 1, values
        return replaced


def _number(fields: Mapping[str, Any]) -> int:
    try:
        return hash(tuple(fields.items()))
    except TypeError:  # It has lists.
        return hash(repr(fields))
