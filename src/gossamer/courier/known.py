"""Fingerprints that the frontier is known to know: what is found again need not be said again."""

from __future__ import annotations


class Known:
    """Two generations per lane: the older is dropped when the younger is full or old. A fingerprint is put in only after
    the frontier has answered for it, so that nothing is withheld which is not stored.

    An operator who forgets a fingerprint is believed at the latest after two generations.
    """

    def __init__(self, size: int = 100_000, seconds: float = 300.0) -> None:
        self._size, self._seconds = size, seconds
        self._young: set[tuple[str, int]] = set()
        self._old: set[tuple[str, int]] = set()
        self._since: float | None = None

    def has(self, lane: str, fingerprint: int) -> bool:
        entry = (lane, fingerprint)
        return entry in self._young or entry in self._old

    def put(self, lane: str, fingerprint: int, now: float) -> None:
        if self._since is None:
            self._since = now
        if len(self._young) >= self._size or now - self._since > self._seconds:
            self._old, self._young, self._since = self._young, set(), now
        self._young.add((lane, fingerprint))

    def clear(self) -> None:
        self._young, self._old, self._since = set(), set(), None
