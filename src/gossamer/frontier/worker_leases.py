"""What the workers of this process hold, over all partitions of a crawl. No I/O.

A request that killed its workers is tried alone. Each partition sees to that for itself; a worker that holds leases of
other partitions, or is being emptied for one of them, must say so.
"""

from __future__ import annotations

from collections.abc import Iterable

from gossamer.model import Lease


class WorkerLeases:
    """Leases by worker, from when they are granted until they are settled or released."""

    def __init__(self) -> None:
        self._held: dict[str, set[tuple[int, int]]] = {}
        self._alone: dict[str, tuple[int, int]] = {}
        self._tasting: dict[str, int] = {}

    def take(self, incarnation: str, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._held.setdefault(incarnation, set()).add((lease.partition, lease.id))
            if lease.alone:
                self._alone[incarnation] = (lease.partition, lease.id)

    def forget(self, incarnation: str, leases: Iterable[Lease]) -> None:
        held = self._held.get(incarnation)
        if held is not None:
            held.difference_update((lease.partition, lease.id) for lease in leases)
            if self._alone.get(incarnation) not in held:
                self._alone.pop(incarnation, None)
            if not held:
                del self._held[incarnation]

    def busy(self, incarnation: str, partition: int) -> bool:
        """Whether it holds leases of other partitions than this one."""
        return any(other != partition for other, _ in self._held.get(incarnation, ()))

    def quarantined(self, incarnation: str) -> int | None:
        """The partition that has it try a request alone, or keeps it empty for that; None if none does."""
        alone = self._alone.get(incarnation)
        return self._tasting.get(incarnation) if alone is None else alone[0]

    def quarantine(self, incarnation: str, partition: int, quarantined: bool) -> None:
        """Note what a partition's last reply said about it."""
        if quarantined:
            self._tasting.setdefault(incarnation, partition)
        elif self._tasting.get(incarnation) == partition:
            del self._tasting[incarnation]
