"""The verbs for leases in hand: renew, release, permit. Generators without I/O."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from gossamer.frontier.call import Verb, function_call, own, read, text
from gossamer.frontier.server import keys
from gossamer.frontier.verbs import arguments
from gossamer.frontier.verbs.work.batch import RequestChecker
from gossamer.model import Lease, Sent, Token


class LeaseVerbs:
    """Builds and reads the calls about leases for one crawl."""

    def __init__(self, bases: Sequence[str], checked: RequestChecker, lease_ms: int, strikes: int) -> None:
        self.bases, self.partitions, self.checked = bases, len(bases), checked
        self.lease_ms, self.strikes = lease_ms, strikes
        self.worker_leases = WorkerLeases()

    def renew(self, token: Token, leases: Sequence[Lease]) -> Verb[list[Lease | None]]:
        renewed: list[Lease | None] = [None] * len(leases)
        # Without leases it says that the worker lives: in one place, which is enough.
        by_partition = _by_partition(leases) or {0: []}
        asks = [
            function_call(
                "renew",
                self.bases[p],
                {"i": token.incarnation, "lease": self.lease_ms, "leases": _ids(leases, indexes)},
            )
            for p, indexes in by_partition.items()
        ]
        replies = yield asks
        for indexes, reply in zip(by_partition.values(), replies, strict=True):
            letters, deadline = read(reply)
            for index, letter in zip(indexes, letters, strict=True):
                if letter == "r":
                    renewed[index] = leases[index]._replace(deadline=deadline / 1000)
        return renewed

    def release(self, token: Token, leases: Sequence[Lease | Sent]) -> Verb[list[bool]]:
        held = [one.lease if isinstance(one, Sent) else one for one in leases]
        released = [False] * len(held)
        self.worker_leases.forget(token.incarnation, held)
        by_partition = _by_partition(held)

        def rows(indexes: Sequence[int]) -> list[list[Any]]:
            found: list[list[Any]] = [*_ids(held, indexes)]
            for row, index in zip(found, indexes, strict=True):
                one = leases[index]
                if isinstance(one, Sent):
                    row.append(max(0, arguments.milliseconds(one.age)))
            return found

        asks = [
            function_call("release", self.bases[p], {"i": token.incarnation, "leases": rows(indexes)})
            for p, indexes in by_partition.items()
        ]
        if asks:
            replies = yield asks
            for indexes, reply in zip(by_partition.values(), replies, strict=True):
                for index, letter in zip(indexes, text(reply), strict=True):
                    released[index] = letter == "r"
        return released

    def permit(self, token: Token, host: str) -> Verb[tuple[Lease | None, float | None]]:
        own(token.incarnation)
        self.checked.host(host)
        partition = keys.partition_of(host, self.partitions)
        nonce = secrets.token_hex(8)
        header = {
            "i": token.incarnation,
            "s": token.sequence,
            "n": nonce,
            "lease": self.lease_ms,
            "host": host,
            "strikes": self.strikes,
        }
        [reply] = yield [function_call("permit", self.bases[partition], header)]
        number, wait, deadline, nonce = read(reply)
        if number == 0:
            return None, None if wait < 0 else wait / 1000
        end = deadline / 1000
        lease = Lease(partition, number, token.incarnation, nonce, "", host, 0, 0, b"", 1, False, end, end)
        return lease, None


def _by_partition(leases: Sequence[Lease]) -> dict[int, list[int]]:
    by_partition: dict[int, list[int]] = {}
    for index, lease in enumerate(leases):
        by_partition.setdefault(lease.partition, []).append(index)
    return by_partition


def _ids(leases: Sequence[Lease], indexes: Sequence[int]) -> list[list[str]]:
    return [[str(leases[i].id), leases[i].nonce] for i in indexes]


class WorkerLeases:
    """What the workers of this process hold, over all partitions of a crawl: leases from when they are granted until they are settled or
    released. A request that killed its workers is tried alone. Each partition sees to that for itself; a worker that holds leases of
    other partitions, or is being emptied for one of them, must say so."""

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
