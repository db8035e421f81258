"""What an engine has reported and the frontier has not answered yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gossamer.courier.counters import Counters
from gossamer.courier.leases import identity
from gossamer.courier.seen_cache import OmittedRequests
from gossamer.model import Fetched, Lease, PartitionState, Request, Selection, Sent, Settlement, Token

CONNECTION = "connection"
"""In a worker's info: the connection that is open as long as it lives."""
MOST_ADDED = 1000
"""Requests without a page that one exchange carries at most."""


@dataclass(slots=True)
class PendingExchange:
    """One exchange on its way, kept until it is answered."""

    token: Token
    settle: list[tuple[Settlement, Any]]
    add: list[tuple[Request, Any]]
    told: dict[str, Any]
    want: int
    first_at: float = 0.0
    sent_at: float = 0.0


class PendingReports:
    """Gathered until the next exchange. `since` is when the first of it was put in, `paced_since` since when a request that its host
    waits for is on its way without the frontier knowing."""

    def __init__(self, info: Mapping[str, str], now: float) -> None:
        self.settle: list[tuple[Settlement, Any]] = []
        self.add: deque[tuple[Request, Any]] = deque()
        self.fetched: list[Fetched] = []
        self.since = now
        self.paced_since: float | None = None
        self._sent: list[tuple[Lease, float]] = []
        self._info: Mapping[str, str] | None = dict(info)
        self._told = self._info
        self._connection = ""

    def __bool__(self) -> bool:
        return bool(self.settle or self.fetched or self.add)

    def note(self, now: float) -> None:
        """Something is about to be put in."""
        if not self:
            self.since = now

    def sent(self, lease: Lease, now: float) -> bool:
        """A request went out; True if its host gets nothing else before the frontier knows."""
        self._sent.append((lease, now))
        if lease.paced and self.paced_since is None:
            self.paced_since = now
            return True
        return False

    def not_sent(self, lease: Lease) -> None:
        self._sent = [one for one in self._sent if identity(one[0]) != identity(lease)]

    def tell(self, info: Mapping[str, str]) -> None:
        """Report this about the worker from now on."""
        self._info = self._told = dict(info)

    def connected(self, connection: str) -> None:
        if connection != self._connection:
            self._connection, self._info = connection, self._told

    def tell_again(self, exchange: PendingExchange) -> None:
        """Whether that exchange carried the worker's info to the frontier is unknown: send it again."""
        if self._info is None:
            self._info = exchange.told.get("info")

    def take(
        self,
        token: Token,
        want: int,
        now: float,
        *,
        adding: bool,
        counters: Counters,
        selection: Selection,
        session: str,
        edition: int,
        states: Mapping[int, PartitionState],
    ) -> PendingExchange:
        """All of it as one exchange; requests without a page only if `adding`. What was left out by an `edition` of the knowledge that
        is forgotten since is put in after all; what was left out by the present one relies on `states`."""
        add = [self.add.popleft() for _ in range(min(len(self.add), MOST_ADDED))] if adding else []
        sent = [Sent(lease, now - at) for lease, at in self._sent]
        told: dict[str, Any] = {
            "fetched": self.fetched,
            "sent": sent,
            "counters": counters.take(),
            "selection": selection,
        }
        if session:
            told["session"] = session
        if self._info is not None:
            connection = {CONNECTION: self._connection} if self._connection else {}
            told["info"], self._info = {**self._info, **connection}, None
        settle = self.settle
        if any(settlement.withheld is not None for settlement, _ in settle):
            settle = [(_whole(settlement, edition), page) for settlement, page in settle]
            told["relies"] = dict(states)
        if settle:
            told["fetched"], told["sent"] = _joined(settle, self.fetched, sent)
        self.settle, self.fetched, self._sent, self.paced_since = [], [], [], None
        return PendingExchange(token, settle, add, told, want, first_at=now)


def _whole(settlement: Settlement, edition: int) -> Settlement:
    withheld = settlement.withheld
    if isinstance(withheld, OmittedRequests) and withheld.edition != edition:
        return settlement._replace(add=[*settlement.add, *withheld()], withheld=None)
    return settlement


def _joined(
    settle: list[tuple[Settlement, Any]], fetched: list[Fetched], sent: list[Sent]
) -> tuple[list[Fetched], list[Sent]]:
    """What is still to be reported of leases beside their settlements: to settle a page implies that it was sent and answered.
    When it was sent is reported where the host has a delay."""
    places = {identity(settlement.lease): place for place, (settlement, _) in enumerate(settle)}
    arrivals = []
    for arrival in fetched:
        place = places.get(identity(arrival.lease))
        if place is None:
            arrivals.append(arrival)
        elif arrival.feedback is not None:
            settlement, page = settle[place]
            settle[place] = (settlement._replace(feedback=arrival.feedback), page)
    known = places.keys() | {identity(arrival.lease) for arrival in arrivals}
    return arrivals, [one for one in sent if one.lease.paced or identity(one.lease) not in known]
