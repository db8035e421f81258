"""Counters of many groups, on their way to the frontier with the same exchanges."""

from __future__ import annotations

from gossamer.courier import Tally
from gossamer.model import Counter


class Tallies(Tally):
    """A tally for each site that a worker serves; what the courier counts goes to the one named `group`, or nowhere if it is
    empty: it belongs to no site in particular."""

    def __init__(self, group: str = "") -> None:
        super().__init__(group)
        self._others: dict[str, Tally] = {}

    def of(self, group: str) -> Tally:
        tally = self._others.get(group)
        if tally is None:
            tally = self._others[group] = Tally(group)
        return tally

    def take(self) -> list[Counter]:
        taken = super().take() if self.group else []
        if not self.group:
            super().take()
        for tally in self._others.values():
            if tally:
                taken += tally.take()
        return taken

    def __bool__(self) -> bool:
        return (bool(self.group) and super().__bool__()) or any(self._others.values())
