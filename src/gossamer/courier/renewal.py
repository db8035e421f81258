"""Leases that are held for long: renewed in time, and given up at last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.courier.transport import Timer
from gossamer.frontier.contract import Frontier
from gossamer.model import Lease

if TYPE_CHECKING:
    from gossamer.courier.courier import Courier


class LeaseRenewal:
    """Of one courier: four looks in the time of a lease."""

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
