"""The courier: it gathers what an engine reports into few calls, and keeps requests that may be fetched ready in an inbox.

Nothing here waits: answers come through the link, on the engine's own thread. `exchange` makes the calls, `pace` says when. What a
page is and how it is fetched is the engine's business.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gossamer.courier.config import CourierConfig, EngineCallbacks
from gossamer.courier.counters import Counters
from gossamer.courier.exchange import ExchangeLoop
from gossamer.courier.leases import HeldLease, HeldLeases, LeaseRenewal
from gossamer.courier.outage import pause
from gossamer.courier.pace import Need
from gossamer.courier.reports import CONNECTION, PendingExchange, PendingReports
from gossamer.courier.seen_cache import SeenCache
from gossamer.courier.task.report import reported
from gossamer.courier.transport import Timer, Transport
from gossamer.errors import FrontierUnavailable, GossamerError
from gossamer.frontier.contract import Frontier
from gossamer.model import (
    AddOutcome,
    Ending,
    ExchangeReply,
    Fetched,
    Hints,
    Lease,
    PartitionState,
    Request,
    Sent,
    Settlement,
    Token,
)
from gossamer.model.plural import counted
from gossamer.model.reply import OVERDUE

logger = logging.getLogger(__name__)

DRAINING = "draining"
"""The reason why a worker that an operator drains gets nothing more."""


class Courier:
    """Everything is called on the engine's thread, and returns at once."""

    def __init__(
        self,
        link: Transport,
        callbacks: EngineCallbacks,
        plan: CourierConfig,
        pending_counters: Counters,
        known: SeenCache | None = None,
    ) -> None:
        self.link, self.callbacks, self.plan, self.pending_counters = link, callbacks, plan, pending_counters
        self.known = known or SeenCache()
        self.inbox: deque[tuple[Lease, float]] = deque()
        self.held = HeldLeases()
        self.hints: Hints | None = None
        self.active_at = link.now()
        self.open_at = self.active_at
        self.token = Token.fresh()
        self._reports = PendingReports(plan.info, self.active_at)
        self._loop = ExchangeLoop(self, self._reports)
        self.hungry_since: float | None = None
        """Since when it gets nothing although others hold something; None: it has something to do."""
        self.awaits: dict[str, str] = {}
        """What this worker waits for others to do, by group: the start of a round, or what comes after it."""
        self._renewal = LeaseRenewal(self)
        self._latest: Timer | None = None
        self._closing: Callable[[], None] | None = None
        self._releasing = 0
        self._reported = ""
        self.closed = self._gave_up = False
        self._ends: list[Callable[[], None]] = []

    # What the engine reports.

    def begin(self) -> None:
        self._renewal.begin()
        self._loop.plan()

    def take(self) -> Lease | None:
        """The next lease to be sent now, or None."""
        now = self.link.now()
        while self.inbox:
            lease, send_by = self.inbox.popleft()
            if now <= send_by:
                if self._reports.sent(lease, now):
                    self._loop.plan()
                self.active_at = now
                if len(self.inbox) <= self.plan.ahead // 2:
                    self._loop.plan()
                return lease
            self._release([lease])
        self._loop.plan()
        return None

    def give_back(self, lease: Lease) -> None:
        """Return a lease that was taken and not fetched: it goes ahead of other work, here or elsewhere."""
        if lease in self.held:
            self._reports.not_sent(lease)
            # Its host may have been asked for something else in its place (robots.txt), and have a delay since: it counts from now.
            self._release([lease], asked=True)

    def fetched(self, arrival: Fetched) -> None:
        """The response has arrived: its host may be asked again."""
        if arrival.lease in self.held:
            self._reports.note(self.link.now())
            self._reports.fetched.append(arrival)
            self._loop.plan()

    def settle(self, settlement: Settlement, page: Any) -> None:
        """A page is done, with everything it produced; `OmittedRequests` are sent after all where they are not known any more.
        A lease that is not held any more is dropped."""
        self.active_at = self.link.now()
        if settlement.lease not in self.held:
            return
        # From here on it only has to be reported: it is neither renewed nor overdue.
        self.held.ended(settlement.lease)
        self._reports.note(self.link.now())
        self._reports.settle.append((reported(settlement), page))
        self._loop.plan()

    def add(self, request: Request, ticket: Any) -> None:
        """A request without a page."""
        self.active_at = self.link.now()
        self._reports.note(self.link.now())
        self._reports.add.append((request, ticket))
        self._loop.plan()

    def counted(self) -> None:
        """Counters have changed: they go with the next call, or soon."""
        if not self._reports:
            self._loop.plan()

    def tell(self, info: Mapping[str, str]) -> None:
        """Report this about the worker from now on."""
        self._reports.tell(info)

    def connected(self, connection: str) -> None:
        """The connection that is open as long as this worker lives: when it closes, others know that the worker is gone."""
        self._reports.connected(connection)

    def is_reported(self, connection: str) -> bool:
        """Whether the frontier knows of this connection. Safe from any thread."""
        return self._reported == connection

    def crawl_delay(self, host: str, seconds: float, told: Callable[[], None] = lambda: None) -> None:
        """The robots.txt of a host asks for this delay, 0 for none: it counts for the whole fleet. Repeated until the frontier has
        answered; then `told` is called."""

        def answered(_answer: Any, error: BaseException | None) -> None:
            if isinstance(error, FrontierUnavailable) and not self.closed:
                self.link.later(pause(), say)
                return
            if error is not None:
                logger.error("The delay that robots.txt of %s asks for could not be reported: %s", host, error)
            told()

        def say() -> None:
            self.link.call(Frontier.set_crawl_delay, answered, host, seconds)

        if seconds:
            logger.info("robots.txt of %s asks for %g s between requests.", host, seconds)
        say()

    def look(self) -> None:
        """The engine has room again, or another reason to call at once."""
        self._loop.plan()

    @property
    def waiting(self) -> int:
        """How many reports of the engine the frontier has not answered yet."""
        return len(self._reports.settle) + len(self._reports.add) + self._loop.waiting

    @property
    def exchanges(self) -> int:
        """How many exchanges the frontier has answered."""
        return self._loop.answers

    @property
    def states(self) -> dict[int, PartitionState]:
        """The states that all earlier answers came from."""
        return dict(self._loop.states)

    def follows(self, states: Mapping[int, PartitionState]) -> bool:
        """Whether all that was learned so far is still true in these states."""
        return self._loop.follows(states)

    def finish(self, done: Callable[[], None]) -> None:
        """Give back what was not sent, report the rest, then call `done`; at the latest after `close_seconds`:
        what could not be reported by then is done again by others."""
        if self.closed:
            done()
            return
        self._closing = done
        self._latest = self.link.later(self.plan.close_seconds, self.stop_waiting)
        if self.inbox:
            leases = [lease for lease, _ in self.inbox]
            self.inbox.clear()
            self._release(leases)
        self._loop.plan()

    def stop_waiting(self) -> None:
        """End the wait of `finish`: what is not reported by now is done again by others."""
        if self._closing is not None:
            self._gave_up = True
            self._end()

    def at_end(self, do: Callable[[], None]) -> None:
        """Call this when the last report is answered, or given up."""
        self._ends.append(do)

    # What the exchange needs to know, and what it brings.

    @property
    def closing(self) -> bool:
        """Whether `finish` was called: nothing new is wanted."""
        return self._closing is not None

    def wanted(self) -> int:
        """How many leases the next exchange asks for."""
        if self._closing is not None:
            return 0
        room = self.callbacks.room()
        if room <= 0:
            return 0
        ahead = len(self.inbox)
        return max(0, min(room + self.plan.ahead - ahead, self.plan.most + self.plan.ahead - len(self.held)))

    def need(self) -> Need:
        """What the next exchange is needed for."""
        return Need(
            self._reports,
            counters=bool(self.pending_counters),
            leases=bool(self.inbox),
            hungry=len(self.inbox) <= self.plan.ahead // 2 and self.wanted() > 0,
            closing=self._closing is not None,
        )

    def answered(self, call: PendingExchange, answer: ExchangeReply, now: float) -> None:
        """Hand on what an exchange brought: leases into the inbox, everything else to the engine."""
        if self.hints is not None and self.hints.config_version != answer.hints.config_version:
            # A new round, or another policy: what was known may be wanted again.
            self.known.clear()
        self.hints = answer.hints
        if (info := call.told.get("info")) is not None:
            self._reported = info.get(CONNECTION, "")
        if answer.hints.open:
            self.open_at = now
        self._take_in(call, answer, now)
        for (settlement, page), outcome, children in zip(call.settle, answer.settled, answer.children, strict=True):
            self.held.let_go(settlement.lease)
            self._learn(settlement.add, children, now)
            self.callbacks.settled(page, outcome, children)
        self.added(call, answer.added, answer.invalid, now)
        if self._closing is None and (answer.leases or answer.hints.open == 0 or answer.hints.paused == DRAINING):
            self.callbacks.arrived()

    def _take_in(self, call: PendingExchange, answer: ExchangeReply, now: float) -> None:
        hints = answer.hints
        # They were granted at some time after this call was first made, by a clock that is not ours; so our idea of them ends too soon
        # rather than too late, also when the answer was lost and this is the answer to a repetition.
        lasts, since = self.plan.lease_seconds, call.first_at
        for lease in answer.leases:
            self.held.take(lease, now, since + lasts)
        if self._closing is not None:
            self._release(answer.leases)
            return
        entries = [(lease, since + lasts - (lease.deadline - lease.send_by)) for lease in answer.leases]
        # What a host with a delay waits for goes first.
        self.inbox.extendleft(entry for entry in reversed(entries) if entry[0].paced)
        self.inbox.extend(entry for entry in entries if not entry[0].paced)
        self._loop.pace.leased(call.want, len(answer.leases), hints.ready_in, now)
        if answer.leases or (call.want and hints.open <= len(self.held)):
            self.hungry_since = None
        elif call.want and self.hungry_since is None:
            self.hungry_since = now

    def _learn(self, requests: Sequence[Request], outcomes: Sequence[AddOutcome], now: float) -> None:
        for request, outcome in zip(requests, outcomes, strict=True):
            if not request.dont_filter and (outcome is AddOutcome.ADDED or outcome is AddOutcome.DUPLICATE):
                self.known.put(request.lane, request.fingerprint, now)

    def added(
        self, call: PendingExchange, outcomes: Sequence[AddOutcome], invalid: Mapping[Any, str], now: float
    ) -> None:
        """The frontier has answered the requests without a page; those it had no room for go out again."""
        full = []
        for index, ((request, ticket), outcome) in enumerate(zip(call.add, outcomes, strict=True)):
            if outcome is AddOutcome.FULL:
                full.append((request, ticket))
            else:
                self.callbacks.added(ticket, outcome, invalid.get(index, ""))
        self._learn([request for request, _ in call.add], outcomes, now)
        if full:
            # They come first again: order is kept.
            self._reports.add.extendleft(reversed(full))
            self._loop.pace.refused(now)

    def failed(self, error: BaseException) -> None:
        """The frontier refuses this worker: it stops."""
        self.closed = self._closing is None
        self.callbacks.failed(error)
        self._end()

    @property
    def in_outage(self) -> bool:
        """Whether the frontier could not be reached lately, or did not take the last reports in time."""
        return self._loop.in_outage or self._gave_up

    # Leases in hand.

    def _release(self, leases: Sequence[Lease], *, asked: bool = False) -> None:
        if not leases:
            return
        for lease in leases:
            self.held.let_go(lease)
        self._releasing += 1
        given = [Sent(lease) for lease in leases] if asked else list(leases)
        self.link.call(Frontier.release, self._released, self.token, given)

    def _released(self, _answer: Any, error: BaseException | None) -> None:
        self._releasing -= 1
        if error is not None and not isinstance(error, GossamerError):
            logger.error("Leases could not be given back; they run out instead: %s", error)
        self._loop.plan()

    def give_up(self, hold: HeldLease) -> None:
        """Its page was worked on for too long: it becomes a dead letter."""
        lease, now = hold.lease, self.link.now()
        detail = (
            f"It was worked on for {now - hold.since:.0f} s; GOSSAMER_RENEW_MAX_SECONDS allows {self.plan.renew_max:g}."
        )
        self._reports.note(now)
        failed = Settlement(lease, Ending.FAILED, reason=OVERDUE, detail=detail)
        self._reports.settle.append((reported(failed), None))
        self.held.let_go(lease)
        self.callbacks.lost(lease, OVERDUE)
        self._loop.plan()

    # The end.

    def nothing_due(self) -> None:
        """Everything is reported: a courier that closes ends here."""
        if self._closing is not None and not self._releasing:
            self._end()

    def _end(self) -> None:
        done, self._closing = self._closing, None
        self.closed = True
        self._renewal.stop()
        self._loop.stop()
        if self._latest is not None:
            self._latest.cancel()
        while self._ends:
            self._ends.pop()()
        if done is not None:
            if self.waiting:
                logger.warning(
                    "%s could not be reported to the frontier: when the leases run out, other workers do them again.",
                    counted(self.waiting, "page"),
                )
            done()
