"""A courier without a server: a link on a clock that only the test moves, and a desk that notes what it is told."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from gossamer.courier import Counters, Courier, CourierConfig
from gossamer.errors import FrontierUnavailable
from gossamer.model import AddOutcome, ExchangeReply, Hints, Lease, Request, Selection, SettleOutcome

LEASE = 10.0
SEND = 2.0
CLOSE = 5.0


@dataclass
class Asked:
    """A call on its way."""

    verb: str
    done: Callable[[Any, BaseException | None], None]
    args: tuple[Any, ...]
    named: dict[str, Any]


@dataclass
class Due:
    do: Callable[[], None] | None

    def cancel(self) -> None:
        self.do = None


class SimLink:
    """Every call waits in `calls` until the test answers it; `asked` keeps all of them."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self.calls: list[Asked] = []
        self.asked: list[Asked] = []
        self._heap: list[tuple[float, int, Due]] = []
        self._numbers = count()

    def open(self, done: Any) -> None: ...

    def call(self, verb: Any, done: Any, /, *args: Any, **named: Any) -> None:
        call = Asked(verb.__name__, done, args, named)
        self.calls.append(call)
        self.asked.append(call)

    def later(self, seconds: float, do: Callable[[], None]) -> Due:
        due = Due(do)
        heapq.heappush(self._heap, (self.time + seconds, next(self._numbers), due))
        return due

    def now(self) -> float:
        return self.time

    def close(self) -> None: ...

    def pass_time(self, seconds: float) -> None:
        """Let time go by, and what is due happen."""
        until = self.time + seconds
        while self._heap and self._heap[0][0] <= until:
            at, _, due = heapq.heappop(self._heap)
            self.time = max(self.time, at)
            if due.do is not None:
                due.do()
        self.time = until


@dataclass
class SimDesk:
    rooms: int = 8
    settled_pages: list[tuple[Any, SettleOutcome]] = field(default_factory=list)
    added_tickets: list[tuple[Any, AddOutcome]] = field(default_factory=list)
    losses: list[tuple[Lease, str]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    arrivals: int = 0

    def room(self) -> int:
        return self.rooms

    def arrived(self) -> None:
        self.arrivals += 1

    def settled(self, page: Any, outcome: SettleOutcome, children: Sequence[AddOutcome]) -> None:
        self.settled_pages.append((page, outcome))

    def added(self, ticket: Any, outcome: AddOutcome, reason: str) -> None:
        self.added_tickets.append((ticket, outcome))

    def lost(self, lease: Lease, reason: str) -> None:
        self.losses.append((lease, reason))

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)

    def rolled_back(self) -> None: ...


class Sim:
    """A courier, its desk and its link. The test plays the frontier, whose clock is the link's."""

    def __init__(self, **plan: Any) -> None:
        self.link, self.callbacks = SimLink(), SimDesk()
        chosen = {"lease_seconds": LEASE, "renew_max": 60.0, "close_seconds": CLOSE, "most": 100, "ahead": 4, **plan}
        self.courier = Courier(
            self.link, self.callbacks, CourierConfig("g", Selection(("g",)), **chosen), Counters("g")
        )
        self._ids = count(1)
        self.finished = 0

    def lease(self) -> Lease:
        number, now = next(self._ids), self.link.time
        return Lease(0, number, "me", f"n{number}", "g.main", "host", 0, number, b"", 1, False, now + LEASE, now + SEND)

    def begin(self, leases: int = 0) -> None:
        self.courier.begin()
        self.link.pass_time(1.0)
        self.answer([self.lease() for _ in range(leases)])

    def pending(self, verb: str = "exchange") -> Asked | None:
        return next((call for call in self.link.calls if call.verb == verb), None)

    def exchange(self) -> Asked:
        """The exchange that is under way."""
        call = self.pending()
        assert call is not None, "no exchange is under way"
        return call

    def answer(self, leases: Sequence[Lease] = (), added: Sequence[AddOutcome] = (), **hints: Any) -> Asked:
        """Answer the exchange under way: everything settled and, unless told otherwise, added."""
        call = self.exchange()
        self.link.calls.remove(call)
        settle, add = call.named["settle"], call.named["add"]
        values = {"ready_in": None, "open": 1, "paused": "", "config_version": "1", "room": None, **hints}
        answer = ExchangeReply(
            list(leases),
            [SettleOutcome.SETTLED] * len(settle),
            list(added) or [AddOutcome.ADDED] * len(add),
            [[AddOutcome.ADDED] * len(settlement.add) for settlement in settle],
            {},
            Hints(now=self.link.time, **values),
        )
        call.done(answer, None)
        return call

    def reply(self, verb: str, answer: Any, error: BaseException | None = None) -> Asked:
        call = self.pending(verb)
        assert call is not None, f"no {verb} is under way"
        self.link.calls.remove(call)
        call.done(answer, error)
        return call

    def outage(self) -> Asked:
        """The exchange under way gets no answer."""
        return self.reply("exchange", None, FrontierUnavailable("away"))

    def finish(self) -> None:
        def done() -> None:
            self.finished += 1

        self.courier.finish(done)


def request(number: int, **more: Any) -> Request:
    return Request(number, "host", "g.main", b"", **more)
