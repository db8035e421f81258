"""The courier: it gathers what an engine reports into few calls, and keeps requests that may be fetched ready in an inbox.

One exchange is under way at a time. The next one goes out when the engine could send more than it has, when pages wait to be
settled, or when the frontier's hint says that something may be ready; never sooner than a moment after the last, so that a busy
worker reports many things at once. Nothing here waits: answers come through the link, on the engine's own thread.

Only this module calls; `pace` says when. What a page is and how it is fetched is the engine's business.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gossamer.courier.config import CourierConfig, EngineCallbacks
from gossamer.courier.counters import Counters
from gossamer.courier.leases import HeldLease, HeldLeases, LeaseRenewal
from gossamer.courier.outage import LAST, Outage, pause
from gossamer.courier.pace import Need, Pace
from gossamer.courier.reports import PendingExchange, PendingReports
from gossamer.courier.rounds import follow
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
    SettleOutcome,
    Token,
)
from gossamer.model.counter_names import EXCHANGE_SECONDS, EXCHANGES, OUTAGES, WENT_BACK
from gossamer.model.plural import counted
from gossamer.model.reply import OVERDUE

logger = logging.getLogger(__name__)

DRAINING = "draining"
"""Why a worker gets nothing any more that an operator has asked to end."""
REPEAT_SECONDS = 3000.0
"""How long a call is repeated; its answer is kept for an hour."""


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
        self.exchanges = 0
        self._reports = PendingReports(plan.info, self.active_at)
        self._states: dict[int, PartitionState] = {}
        self.hungry_since: float | None = None
        """Since when it gets nothing although others hold something; None: it has something to do."""
        self.awaits: dict[str, str] = {}
        """What this worker waits for others to do, by group: the start of a round, or what comes after it."""
        self._call: PendingExchange | None = None
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._renewal = LeaseRenewal(self)
        self._latest: Timer | None = None
        self._pace = Pace(self.active_at)
        self._outage = Outage()
        self._closing: Callable[[], None] | None = None
        self._releasing = 0
        self._closed = self._gave_up = False
        self._ends: list[Callable[[], None]] = []

    # What the engine reports.

    def begin(self) -> None:
        self._renewal.begin()
        self._plan_call()

    def take(self) -> Lease | None:
        """The next lease to be sent now, or None."""
        now = self.link.now()
        while self.inbox:
            lease, send_by = self.inbox.popleft()
            if now <= send_by:
                if self._reports.sent(lease, now):
                    self._plan_call()
                self.active_at = now
                if len(self.inbox) <= self.plan.ahead // 2:
                    self._plan_call()
                return lease
            self._release([lease])
        self._plan_call()
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
            self._plan_call()

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
        self._plan_call()

    def add(self, request: Request, ticket: Any) -> None:
        """A request without a page."""
        self.active_at = self.link.now()
        self._reports.note(self.link.now())
        self._reports.add.append((request, ticket))
        self._plan_call()

    def counted(self) -> None:
        """Counters have changed: they go with the next call, or soon."""
        if not self._reports:
            self._plan_call()

    def tell(self, info: Mapping[str, str]) -> None:
        """Show this of the worker from now on."""
        self._reports.tell(info)

    def connected(self, connection: str) -> None:
        """The connection that is open as long as this worker lives: when it closes, others know that the worker is gone."""
        self._reports.connected(connection)

    def crawl_delay(self, host: str, seconds: float, told: Callable[[], None] = lambda: None) -> None:
        """The robots.txt of a host asks for this delay, 0 for none: it counts for the whole fleet. Repeated until the frontier has
        answered; then `told` is called."""

        def answered(_answer: Any, error: BaseException | None) -> None:
            if isinstance(error, FrontierUnavailable) and not self._closed:
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
        self._plan_call()

    @property
    def waiting(self) -> int:
        """How many reports of the engine the frontier has not answered yet."""
        under_way = len(self._call.settle) + len(self._call.add) if self._call else 0
        return len(self._reports.settle) + len(self._reports.add) + under_way

    @property
    def states(self) -> dict[int, PartitionState]:
        """The states that all earlier answers came from."""
        return dict(self._states)

    def follows(self, states: Mapping[int, PartitionState]) -> bool:
        """Whether all that was learned so far is still true in these states."""
        return follow(self._states, states)

    def finish(self, done: Callable[[], None]) -> None:
        """Give back what was not sent, report the rest, then call `done`; at the latest after `close_seconds`:
        what could not be reported by then is done again by others."""
        if self._closed:
            done()
            return
        self._closing = done
        self._latest = self.link.later(self.plan.close_seconds, self.stop_waiting)
        if self.inbox:
            leases = [lease for lease, _ in self.inbox]
            self.inbox.clear()
            self._release(leases)
        self._plan_call()

    def stop_waiting(self) -> None:
        """Of `finish`: what is not reported by now is done again by others."""
        if self._closing is not None:
            self._gave_up = True
            self._end()

    def at_end(self, do: Callable[[], None]) -> None:
        """Call this when the last report is answered, or given up."""
        self._ends.append(do)

    # When to call.

    def _wanted(self) -> int:
        if self._closing is not None:
            return 0
        room = self.callbacks.room()
        if room <= 0:
            return 0
        ahead = len(self.inbox)
        return max(0, min(room + self.plan.ahead - ahead, self.plan.most + self.plan.ahead - len(self.held)))

    def _due(self) -> float | None:
        """When the next exchange should go out; None: when something happens."""
        need = Need(
            self._reports,
            counters=bool(self.pending_counters),
            leases=bool(self.inbox),
            hungry=len(self.inbox) <= self.plan.ahead // 2 and self._wanted() > 0,
            closing=self._closing is not None,
        )
        return self._pace.due(need, self.link.now())

    def _plan_call(self) -> None:
        if self._call is not None or self._closed:
            return
        due = self._due()
        if due is None:
            self._maybe_end()
            return
        if self._timer is not None:
            if self._timer_at <= due + 0.001:
                return
            self._timer.cancel()
        self._timer_at = due
        self._timer = self.link.later(max(0.0, due - self.link.now()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._call is not None or self._closed:
            return
        due = self._due()
        if due is not None and due <= self.link.now() + 0.002:
            self._exchange()
        else:
            self._plan_call()

    # The exchange.

    def _exchange(self) -> None:
        now = self.link.now()
        self._call = self._reports.take(
            self.token,
            self._wanted(),
            now,
            adding=self._pace.may_add(now),
            counters=self.pending_counters,
            selection=self.plan.selection,
            session=self.plan.session,
            edition=self.known.edition,
            states=self._states,
        )
        self._say()

    def _say(self) -> None:
        call = self._call
        assert call is not None
        call.sent_at = self.link.now()
        self._pace.called(call.sent_at)
        self.link.call(
            Frontier.exchange,
            self._answered,
            call.token,
            settle=[settlement for settlement, _ in call.settle],
            add=[request for request, _ in call.add],
            want=call.want,
            **call.told,
        )

    def _answered(self, answer: ExchangeReply | None, error: BaseException | None) -> None:
        call = self._call
        if call is None or self._closed:
            return
        if error is not None:
            self._trouble(error)
            return
        assert answer is not None
        now = self.link.now()
        self._outage.answered(now)
        self._call, self.token = None, self.token.next()
        self.exchanges += 1
        if self._closing is None:
            self.pending_counters.add(EXCHANGES)
            self.pending_counters.add(EXCHANGE_SECONDS, now - call.sent_at)
        if not self.follows(answer.states):
            logger.warning(
                "The server was restarted or replaced and may have lost its last writes: this worker forgets what it "
                "knew of it. Pages may be fetched again; none is lost."
            )
            self.pending_counters.add(WENT_BACK)
            self.known.clear()
            self.callbacks.rolled_back()
        self._states.update(answer.states)
        if self.hints is not None and self.hints.config_version != answer.hints.config_version:
            # A new round, or another policy: what was known may be wanted again.
            self.known.clear()
        self.hints = answer.hints
        if answer.hints.open:
            self.open_at = now
        self._take_in(call, answer, now)
        for (settlement, page), outcome, children in zip(call.settle, answer.settled, answer.children, strict=True):
            self.held.let_go(settlement.lease)
            self._learn(settlement.add, children, now)
            self.callbacks.settled(page, outcome, children)
        self._added(call, answer.added, answer.invalid, now)
        if self._closing is None and (answer.leases or answer.hints.open == 0 or answer.hints.paused == DRAINING):
            self.callbacks.arrived()
        self._plan_call()

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
        self._pace.leased(call.want, len(answer.leases), hints.ready_in, now)
        if answer.leases or (call.want and hints.open <= len(self.held)):
            self.hungry_since = None
        elif call.want and self.hungry_since is None:
            self.hungry_since = now

    def _learn(self, requests: Sequence[Request], outcomes: Sequence[AddOutcome], now: float) -> None:
        for request, outcome in zip(requests, outcomes, strict=True):
            if not request.dont_filter and (outcome is AddOutcome.ADDED or outcome is AddOutcome.DUPLICATE):
                self.known.put(request.lane, request.fingerprint, now)

    def _added(
        self, call: PendingExchange, outcomes: Sequence[AddOutcome], invalid: Mapping[Any, str], now: float
    ) -> None:
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
            self._pace.refused(now)

    # Trouble.

    def _trouble(self, error: BaseException) -> None:
        if not isinstance(error, FrontierUnavailable):
            self._closed = self._closing is None
            self.callbacks.failed(error)
            self._end()
            return
        now = self.link.now()
        # Whatever answers next may be another server.
        self.known.clear()
        if not self._outage:
            logger.warning("The frontier cannot be reached: %s Pages in progress go on; nothing is lost.", error)
            self.pending_counters.add(OUTAGES)
        self.link.later(self._outage.failed(now), self._again)

    def _again(self) -> None:
        call = self._call
        if call is None or self._closed:
            return
        if self.link.now() - call.first_at > REPEAT_SECONDS:
            self._abandon(call)
        else:
            self._say()

    def _abandon(self, call: PendingExchange) -> None:
        """The answer, if there was one, is not kept for much longer: repeated after that, the call would count twice. Its pages
        are others' by now; its requests are added by their keys; whether its counters were is not known, so they are left out."""
        logger.error(
            "The frontier did not answer a call for %.0f s: this worker gives it up, and its pages are done again.",
            REPEAT_SECONDS,
        )
        self._call, self.token = None, self.token.next()
        self._reports.tell_again(call)
        for settlement, page in call.settle:
            self.held.let_go(settlement.lease)
            self.callbacks.settled(page, SettleOutcome.LOST, [AddOutcome.LOST] * len(settlement.add))
        if call.add:
            self._add_by_keys(call)
        self._plan_call()

    def _add_by_keys(self, call: PendingExchange) -> None:
        def told(answer: Any, error: BaseException | None) -> None:
            if isinstance(error, FrontierUnavailable):
                self.link.later(LAST, partial(self._add_by_keys, call))
            elif error is not None:
                self._trouble(error)
            else:
                outcomes, invalid, _ = answer
                self._added(call, outcomes, invalid, self.link.now())
                self._plan_call()

        requests, name = [request for request, _ in call.add], f"{call.token.incarnation}:{call.token.sequence}"
        self.link.call(Frontier.add, told, requests, key=name)

    @property
    def away(self) -> bool:
        """Whether the frontier could not be reached lately, or did not take the last reports in time."""
        return bool(self._outage) or self._gave_up

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
        self._plan_call()

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
        self._plan_call()

    # The end.

    def _maybe_end(self) -> None:
        if self._closing is not None and self._call is None and not self._releasing:
            self._end()

    def _end(self) -> None:
        done, self._closing = self._closing, None
        self._closed = True
        self._renewal.stop()
        for timer in (self._timer, self._latest):
            if timer is not None:
                timer.cancel()
        while self._ends:
            self._ends.pop()()
        if done is not None:
            if self.waiting:
                logger.warning(
                    "%s could not be reported to the frontier: when the leases run out, other workers do them again.",
                    counted(self.waiting, "page"),
                )
            done()
