"""Fingerprints that the frontier surely has: what is found again need not be sent again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gossamer.model import Request

SIZE, SECONDS = 100_000, 300.0
"""The most fingerprints of a generation, and for how long it is the younger one."""


class SeenCache:
    """Two generations per lane: the older is dropped when the younger is full or old. A fingerprint is put in only after
    the frontier has answered for it, so that nothing is withheld which is not stored.

    An operator who forgets a fingerprint is believed at the latest after two generations. `edition` changes whenever all is
    forgotten: do not rely on what was answered under another one.
    """

    def __init__(self) -> None:
        self._young: set[tuple[str, int]] = set()
        self._old: set[tuple[str, int]] = set()
        self._since: float | None = None
        self.edition = 0

    def has(self, lane: str, fingerprint: int) -> bool:
        entry = (lane, fingerprint)
        return entry in self._young or entry in self._old

    def put(self, lane: str, fingerprint: int, now: float) -> None:
        if self._since is None:
            self._since = now
        if len(self._young) >= SIZE or now - self._since > SECONDS:
            self._old, self._young, self._since = self._young, set(), now
        self._young.add((lane, fingerprint))

    def clear(self) -> None:
        self._young, self._old, self._since = set(), set(), None
        self.edition += 1


class OmittedRequests:
    """The requests that a page has left out because they were known under an `edition` of the knowledge: called, it makes
    them after all."""

    __slots__ = ("_make", "edition")

    def __init__(self, edition: int, make: Callable[[], Sequence[Request]]) -> None:
        self.edition, self._make = edition, make

    def __call__(self) -> Sequence[Request]:
        return self._make()
