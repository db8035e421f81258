"""How wide the columns of a table are on a terminal, and which of them are left out. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

FOLDED = 20
"""A longer text is folded rather than that another column is left out."""
GAP = 2
"""Blanks between two columns."""
_NUMBER = re.compile(r"([≤≥] )?-?[\d,]+(\.\d+)?|")


class ColumnLayout:
    """The columns of a table and its cells, for a terminal so wide."""

    def __init__(self, columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> None:
        self._columns, self._cells, self._width = columns, cells, width
        everywhere = range(len(columns))
        self._widest = [max(map(len, self._texts(index))) for index in everywhere]
        self._word = [
            max((len(word) for text in self._texts(index) for word in text.split()), default=1) for index in everywhere
        ]
        self.numbers = frozenset(index for index in everywhere if self._is_number(index))

    def _texts(self, index: int) -> Sequence[str]:
        return (self._columns[index], *(line[index] for line in self._cells))

    def _is_number(self, index: int) -> bool:
        texts = [line[index] for line in self._cells]
        return any(texts) and all(map(_NUMBER.fullmatch, texts))

    def idle(self) -> set[int]:
        """Columns, from the right, without which the others fit: those that are empty, then those that are 0."""
        idle: set[int] = set()
        for nothing in ({""}, {"", "0"}):
            for index in reversed(range(1, len(self._columns))):
                if self._fits([self._widest[one] for one in range(len(self._columns)) if one not in idle]):
                    return idle
                if self._cells and index not in idle and {line[index] for line in self._cells} <= nothing:
                    idle.add(index)
        return idle

    def narrow(self, idle: set[int], optional: Sequence[str]) -> set[int]:
        """Columns of `optional` without which the others fit, where long texts may be folded, but no word is."""
        wanted = {
            index: max(min(self._widest[index], FOLDED if index else self._width), self._least(index))
            for index in range(len(self._columns))
            if index not in idle
        }
        narrow: set[int] = set()
        for name in optional:
            index = self._columns.index(name)
            if self._fits(list(wanted.values())):
                break
            if wanted.pop(index, None) is not None:
                narrow.add(index)
        return narrow

    def widths(self, shown: Sequence[int]) -> list[int]:
        """How wide each of these is. The widest are made narrower first; words are divided only if nothing else is left, and numbers and the
        first column, which tells rows apart, last."""
        widths = [min(self._widest[index], self._width) for index in shown]
        least = [self._least(index) for index in shown]
        whole = [width if index in self.numbers else 1 for index, width in zip(shown, widths, strict=True)]
        for floor in (least, whole, [1] * len(shown)):
            while not self._fits(widths):
                wide = [place for place, width in enumerate(widths) if width > floor[place]]
                if not wide:
                    break
                widths[max(wide, key=widths.__getitem__)] -= 1
        return widths

    def _least(self, index: int) -> int:
        """The width below which a column is hard to read."""
        if index in self.numbers or (index == 0 and self._widest[0] <= self._width // 2):
            return self._widest[index]
        return min(self._word[index], max(FOLDED, self._width * 3 // 5))

    def _fits(self, widths: Sequence[int]) -> bool:
        return sum(widths) + GAP * (len(widths) - 1) <= self._width
