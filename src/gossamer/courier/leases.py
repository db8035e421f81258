"""The leases that a worker holds: which run out soon, which were held too long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.courier.transport import Timer
from gossamer.frontier.contract import Frontier
from gossamer.model import Lease

if TYPE_CHECKING:
    from gossamer.courier.courier import Courier

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


class LeaseRenewal:
    """Renews the leases that a courier holds for long, and gives up those that it has held too long. Looks four times in the time
    of a lease."""

    def __init__(self, courier: Courier) -> None:
        self._courier = courier
        self._timer: Timer | None = None

    def begin(self) -> None:
        self._timer = self._courier.link.later(self._courier.plan.lease_seconds / 4, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        courier = self._courier
        self.begin()
        now, plan = courier.link.now(), courier.plan
        renew = []
        for hold in courier.held.ending(now + plan.lease_seconds / 2):
            if now - hold.since > plan.renew_max:
                courier.give_up(hold)
            else:
                renew.append(hold.lease)
        if renew:
            courier.link.call(
                Frontier.renew, lambda answer, error: self._renewed(renew, now, answer, error), courier.token, renew
            )

    def _renewed(
        self, asked: list[Lease], asked_at: float, answer: list[Lease | None] | None, error: BaseException | None
    ) -> None:
        courier = self._courier
        if error is not None or answer is None:
            return  # the next look asks again; the exchange sees to outages
        for old, new in zip(asked, answer, strict=True):
            if new is not None:
                courier.held.renewed(old, asked_at + courier.plan.lease_seconds)
            elif old in courier.held:
                courier.callbacks.lost(old, "given away")
                # Its settlement still goes out: what it found and is new counts, and the rest is refused there.
                courier.held.renewed(old, float("inf"))
