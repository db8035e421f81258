"""Which version of a page this worker saw last, so that it need not have the same one again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from gossamer.engine.page.conditional import Validators, conditions, validators

MOST = 100_000
"""So many pages are remembered, those seen last; some 200 bytes each."""


class PageVersions:
    """By lane and fingerprint. Kept in this process only: what it does not know is fetched whole."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, int], Validators] = OrderedDict()

    def conditions(self, lane: str, fingerprint: int) -> dict[str, str]:
        """The headers that ask for a page only if it has changed; none if it is not known."""
        known = self._known.get((lane, fingerprint))
        return conditions(known) if known is not None else {}

    def note(self, lane: str, fingerprint: int, headers: Mapping[str, str]) -> None:
        found = validators(headers)
        if found.etag or found.modified:
            self._known[lane, fingerprint] = found
            self._known.move_to_end((lane, fingerprint))
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        else:
            self._known.pop((lane, fingerprint), None)

    def forget(self, site: str) -> None:
        """All pages of a site: other rules may see something else in what has not changed."""
        for key in [key for key in self._known if key[0].rpartition(".")[0] == site]:
            del self._known[key]

    def clear(self) -> None:
        self._known.clear()

    def __len__(self) -> int:
        return len(self._known)
