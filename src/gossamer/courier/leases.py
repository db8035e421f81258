"""The leases that a worker holds: which run out soon, which were held too long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gossamer.model import Lease

Identity = tuple[int, int, str]


def identity(lease: Lease) -> Identity:
    return lease.partition, lease.id, lease.nonce


@dataclass(slots=True)
class HeldLease:
    """One lease: held since, and until when it surely is ours (this machine's clock). `ended`: its page is done, and only has
    to be reported."""

    lease: Lease
    since: float
    until: float
    ended: bool = False


class HeldLeases:
    """From when a lease arrives until the frontier has answered for its settlement or release."""

    def __init__(self) -> None:
        self._holds: dict[Identity, HeldLease] = {}

    def __len__(self) -> int:
        return len(self._holds)

    def __contains__(self, lease: Lease) -> bool:
        return identity(lease) in self._holds

    def take(self, lease: Lease, now: float, until: float) -> None:
        self._holds[identity(lease)] = HeldLease(lease, now, until)

    def renewed(self, lease: Lease, until: float) -> None:
        hold = self._holds.get(identity(lease))
        if hold is not None:
            hold.until = until

    def ended(self, lease: Lease) -> None:
        """Its page is done."""
        hold = self._holds.get(identity(lease))
        if hold is not None:
            hold.ended = True

    def let_go(self, lease: Lease) -> HeldLease | None:
        return self._holds.pop(identity(lease), None)

    def ending(self, before: float) -> Iterator[HeldLease]:
        """Those that run out before this time while their pages are worked on."""
        return (hold for hold in list(self._holds.values()) if hold.until < before and not hold.ended)

    def every(self) -> list[HeldLease]:
        """All of them. Safe from any thread."""
        return list(self._holds.values())
