"""Requests without a page but with a key: those of a start. Added in batches, each once per key."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from gossamer.courier.outage import pause
from gossamer.courier.transport import Transport
from gossamer.errors import FrontierUnavailable
from gossamer.frontier.contract import Frontier
from gossamer.model import AddOutcome, Request

BATCH = 500
LINGER = 0.02
"""Seconds that a request waits for others to go with it."""
FULL_PAUSE = 1.0
"""Seconds after which requests are offered again that found no room."""


class RequestAdder:
    """One call at a time. What finds no room is offered again, before what came later: starts that must not wait for each other
    have an adder each. An outage is waited out."""

    def __init__(
        self,
        link: Transport,
        answered: Callable[[Any, AddOutcome, str], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._link, self._answered, self._failed = link, answered, failed
        self._waiting: deque[tuple[Request, str, Any]] = deque()
        self._some: list[tuple[Request, str, Any]] = []
        self._busy = self._stopped = False
        self._watchers: list[tuple[int, Callable[[], None]]] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._some)

    def put(self, request: Request, key: str, ticket: Any) -> None:
        """The answer is reported with `ticket`."""
        self._waiting.append((request, key, ticket))
        if not self._busy:
            self._busy = True
            self._link.later(LINGER, self._call)

    def below(self, count: int, do: Callable[[], None]) -> None:
        """Call `do` as soon as no more than `count` are waiting."""
        if len(self) <= count:
            do()
        else:
            self._watchers.append((count, do))

    def stop(self) -> None:
        """Offer nothing any more; a call under way is not repeated."""
        self._stopped = True
        self._waiting.clear()

    def _call(self) -> None:
        if self._stopped:
            return
        while self._waiting and len(self._some) < BATCH:
            self._some.append(self._waiting.popleft())
        if not self._some:
            self._busy = False
            return
        requests, keys = [request for request, _, _ in self._some], [key for _, key, _ in self._some]
        self._link.call(Frontier.add, self._told, requests, key=keys)

    def _told(self, answer: Any, error: BaseException | None) -> None:
        if isinstance(error, FrontierUnavailable):
            self._link.later(pause(), self._call)
            return
        if error is not None:
            self._failed(error)
            return
        outcomes, invalid, _ = answer
        some, self._some = self._some, []
        if self._stopped:
            return
        full = []
        for index, (entry, outcome) in enumerate(zip(some, outcomes, strict=True)):
            if outcome is AddOutcome.FULL:
                full.append(entry)
            else:
                self._answered(entry[2], outcome, invalid.get(index, ""))
        self._waiting.extendleft(reversed(full))
        self._link.later(FULL_PAUSE if full else 0.0, self._call)
        ready = [do for count, do in self._watchers if len(self) <= count]
        self._watchers = [(count, do) for count, do in self._watchers if len(self) > count]
        for do in ready:
            do()
