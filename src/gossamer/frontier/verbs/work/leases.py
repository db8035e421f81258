"""The verbs for leases in hand: renew, release, permit. Generators without I/O."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from gossamer.frontier.call import Verb, function_call, own, read, text
from gossamer.frontier.server import keys
from gossamer.frontier.verbs import arguments
from gossamer.frontier.verbs.work.batch import RequestChecker
from gossamer.frontier.worker_leases import WorkerLeases
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
