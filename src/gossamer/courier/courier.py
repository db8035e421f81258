"""The courier: what an engine has to say is gathered and said in few calls; what it may fetch lies ready in an inbox.

One exchange is under way at a time. The next one goes out when the engine could send more than it has, when pages wait to be
settled, or when the frontier said that something may be ready; never sooner than a moment after the last, so that a busy
worker says many things at once. Nothing here waits: answers come through the link, on the engine's own thread.

Only this module decides when to call. What a page is and how it is fetched is the engine's business.
"""

from __future__ import annotations

import logging
import os
import random
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, Self

from gossamer import __version__
from gossamer.courier.counters import Counters
from gossamer.courier.leases import HeldLease, HeldLeases, identity
from gossamer.courier.outage import LAST, Outage
from gossamer.courier.rounds import follow
from gossamer.courier.seen_cache import OmittedRequests, SeenCache
from gossamer.courier.starts import FULL_PAUSE
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
    Selection,
    Sent,
    Settlement,
    SettleOutcome,
    Token,
)
from gossamer.model.counter_names import EXCHANGE_SECONDS, EXCHANGES, OUTAGES, WENT_BACK
from gossamer.model.plural import counted
from gossamer.model.reasons import OVERDUE
from gossamer.settings import Settings

logger = logging.getLogger(__name__)

SPACING, EASY_SPACING = 0.01, 0.03
"""Seconds from one exchange to the next at least: where the engine waits for requests, and where it has some."""
LINGER = 0.1
"""Seconds that a settlement may wait for company while the engine has enough to do."""
COUNTERS_LINGER = 2.0
MANY = 64
"""So many settlements do not wait for more."""
IDLE_FIRST, IDLE_LAST = 0.05, 1.0
"""How long to wait when there was nothing, at first and at last: other workers may find something at any time."""
PULSE = 5.0
"""Seconds without anything to say after which the frontier hears from a worker all the same."""
DRAINING = "draining"
"""Why a worker gets nothing any more that an operator has asked to end."""
REPEAT_SECONDS = 3000.0
"""How long a call is repeated; its answer is kept for an hour."""


class EngineCallbacks(Protocol):
    """What a courier asks of its engine."""

    def room(self) -> int:
        """How many requests more than it has the engine could send now."""

    def arrived(self) -> None:
        """Something lies in the inbox, the group is drained, or this worker is to end: look."""

    def settled(self, page: Any, outcome: SettleOutcome, children: Sequence[AddOutcome]) -> None:
        """The frontier has answered for a page that was given to `settle`."""

    def added(self, ticket: Any, outcome: AddOutcome, reason: str) -> None:
        """The frontier has answered for a request that was given to `add`."""

    def lost(self, lease: Lease, reason: str) -> None:
        """The lease is gone while its page is being worked on: what comes of it will not count. `reason` OVERDUE: it was
        worked on for too long, and should be given up."""

    def failed(self, error: BaseException) -> None:
        """The frontier refuses to work with this worker: stop."""

    def rolled_back(self) -> None:
        """The frontier's state is not the one that earlier answers were from, and may be an older one: what they said counts no
        more. Said before anything of the new state is handed out."""


@dataclass(frozen=True, slots=True)
class CourierConfig:
    """What a worker serves and how it behaves. `group` is whose counters and drained count; `most` the leases held at
    once; `ahead` how many of them may lie ready beyond what the engine can send."""

    group: str
    selection: Selection
    most: int = 16
    ahead: int = 4
    lease_seconds: float = 60.0
    renew_max: float = 1800.0
    gone_seconds: float = 10.0
    session: str = ""
    close_seconds: float = 30.0
    info: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, group: str, selection: Selection, **more: Any) -> Self:
        """With the times that the settings name."""
        return cls(
            group,
            selection,
            lease_seconds=settings["GOSSAMER_LEASE_SECONDS"],
            renew_max=settings["GOSSAMER_RENEW_MAX_SECONDS"],
            gone_seconds=settings["GOSSAMER_GONE_SECONDS"],
            close_seconds=settings["GOSSAMER_CLOSE_SECONDS"],
            **more,
        )


def worker_info(**more: str) -> dict[str, str]:
    """What every worker tells people of itself, and `more`."""
    return {"host": socket.gethostname(), "pid": str(os.getpid()), "version": __version__, **more}


@dataclass(slots=True)
class _Exchange:
    """One exchange on its way, kept until it is answered."""

    token: Token
    settle: list[tuple[Settlement, Any]]
    add: list[tuple[Request, Any]]
    told: dict[str, Any]
    want: int
    first_at: float = 0.0
    sent_at: float = 0.0


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
        self._settle: list[tuple[Settlement, Any]] = []
        self._add: deque[tuple[Request, Any]] = deque()
        self._fetched: list[Fetched] = []
        self._sent: list[tuple[Lease, float]] = []
        self._paced_since: float | None = None
        self._states: dict[int, PartitionState] = {}
        self._info: Mapping[str, str] | None = dict(plan.info)
        self._told = self._info
        self._connection = ""
        self.hungry_since: float | None = None
        """Since when it gets nothing though something is open that it does not hold; None: it has something to do."""
        self.awaits: dict[str, str] = {}
        """What other workers do, by group, and this one would do if they were gone: the start of a round, or what comes after it."""
        self._call: _Exchange | None = None
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._watch: Timer | None = None
        self._latest: Timer | None = None
        self._last = self._since = self._ready = self._add_after = link.now()
        self._idle = IDLE_FIRST
        self._asked_all = False
        self._outage = Outage()
        self._closing: Callable[[], None] | None = None
        self._releasing = 0
        self._closed = False
        self._ends: list[Callable[[], None]] = []

    # What the engine says.

    def begin(self) -> None:
        self._watch = self.link.later(self.plan.lease_seconds / 4, self._watched)
        self._plan_call()

    def take(self) -> Lease | None:
        """The next lease to be sent now, or None."""
        now = self.link.now()
        while self.inbox:
            lease, send_by = self.inbox.popleft()
            if now <= send_by:
                self._sent.append((lease, now))
                if lease.paced and self._paced_since is None:
                    self._paced_since = now
                    self._plan_call()
                self.active_at = now
                if len(self.inbox) <= self.plan.ahead // 2:
                    self._plan_call()
                return lease
            self._release([lease])
        self._plan_call()
        return None

    def give_back(self, lease: Lease) -> None:
        """A lease that was taken and of which nothing came after all: it goes ahead of other work, here or elsewhere."""
        if lease in self.held:
            self._sent = [one for one in self._sent if identity(one[0]) != identity(lease)]
            # Its host may have been asked for something else in its place (robots.txt): then the delay counts from now.
            self._release([lease], asked=lease.paced)

    def fetched(self, arrival: Fetched) -> None:
        """The response is there: its host may be asked again."""
        if arrival.lease in self.held:
            self._note_first()
            self._fetched.append(arrival)
            self._plan_call()

    def settle(self, settlement: Settlement, page: Any) -> None:
        """A page is through, with everything it produced; what is `OmittedRequests` because it is known, is sent where it is not.
        Not held any more (for too long): dropped."""
        self.active_at = self.link.now()
        if settlement.lease not in self.held:
            return
        # From here on it is only a matter of being told: neither to be renewed nor overdue.
        self.held.ended(settlement.lease)
        self._note_first()
        self._settle.append((settlement, page))
        self._plan_call()

    def add(self, request: Request, ticket: Any) -> None:
        """A request that belongs to no page."""
        self.active_at = self.link.now()
        self._note_first()
        self._add.append((request, ticket))
        self._plan_call()

    def counted(self) -> None:
        """Counters have changed: they are said with the next call, or soon."""
        if not self._anything():
            self._plan_call()

    def tell(self, info: Mapping[str, str]) -> None:
        """What people see of this worker from now on."""
        self._info = self._told = dict(info)

    def connected(self, connection: str) -> None:
        """Which connection is open as long as this worker lives: others see by it that it is gone."""
        if connection != self._connection:
            self._connection, self._info = connection, self._told

    def crawl_delay(self, host: str, seconds: float) -> None:
        """The robots.txt of a host asks for this delay, 0 for none: it counts for the whole fleet."""
        if seconds:
            logger.info("robots.txt of %s asks for %g s between requests.", host, seconds)
        self.link.call(Frontier.set_crawl_delay, lambda _answer, _error: None, host, seconds)

    def look(self) -> None:
        """The engine has room again, or another reason to be looked after at once."""
        self._plan_call()

    @property
    def waiting(self) -> int:
        """What the engine has said and the frontier has not answered for yet."""
        return len(self._settle) + len(self._add) + (len(self._call.settle) + len(self._call.add) if self._call else 0)

    @property
    def backlog(self) -> int:
        """Requests without a page that are still to be added."""
        return len(self._add) + (len(self._call.add) if self._call else 0)

    @property
    def states(self) -> dict[int, PartitionState]:
        """What was learned so far was learned in these."""
        return dict(self._states)

    def follows(self, states: Mapping[int, PartitionState]) -> bool:
        """Whether all that was learned so far is still true in these states."""
        return follow(self._states, states)

    def finish(self, done: Callable[[], None]) -> None:
        """Give back what was not sent, say what is to be said, then call `done`; at the latest after `close_seconds`:
        what could not be said by then is done again by others."""
        if self._closed:
            done()
            return
        self._closing = done
        self._latest = self.link.later(self.plan.close_seconds, self._end)
        if self.inbox:
            leases = [lease for lease, _ in self.inbox]
            self.inbox.clear()
            self._release(leases)
        self._plan_call()

    def at_end(self, do: Callable[[], None]) -> None:
        """Call this when the last word is said, or given up."""
        self._ends.append(do)

    # When to call.

    def _note_first(self) -> None:
        if not self._anything():
            self._since = self.link.now()

    def _anything(self) -> bool:
        return bool(self._settle or self._fetched or self._add)

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
        now = self.link.now()
        soonest = self._last + (EASY_SPACING if self.inbox else SPACING)
        if self._closing is not None:
            # The last word: also when there is nothing but counters.
            if self._settle or self._fetched or self.pending_counters:
                return soonest
            return max(soonest, self._add_after) if self._add else None
        dues = [self._last + PULSE]
        if self._settle or self._fetched:
            dues.append(soonest if len(self._settle) >= MANY else self._since + LINGER)
        if self._add:
            dues.append(max(self._since, self._add_after))
        if self._paced_since is not None:
            # Its host gets nothing else before this one is reported as sent.
            dues.append(self._paced_since + LINGER)
        if self.pending_counters:
            dues.append(self._last + COUNTERS_LINGER)
        hungry = len(self.inbox) <= self.plan.ahead // 2 and self._wanted() > 0
        if hungry:
            # What was fetched or settled may have freed a host; and the last answer may not have been all there was.
            dues.append(soonest if self._asked_all or self._settle or self._fetched else max(self._ready, soonest))
        return max(min(dues), soonest, now)

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
        want = self._wanted()
        add: list[tuple[Request, Any]] = []
        if self.link.now() >= self._add_after:
            while self._add and len(add) < 1000:
                add.append(self._add.popleft())
        now = self.link.now()
        sent = [Sent(lease, now - at) for lease, at in self._sent]
        told: dict[str, Any] = {
            "fetched": self._fetched,
            "sent": sent,
            "counters": self.pending_counters.take(),
            "selection": self.plan.selection,
        }
        if self.plan.session:
            told["session"] = self.plan.session
        if self._info is not None:
            open_one = {"connection": self._connection} if self._connection else {}
            told["info"], self._info = {**self._info, **open_one}, None
        settle = self._settle
        if any(settlement.withheld is not None for settlement, _ in settle):
            settle = [(self._whole(settlement), page) for settlement, page in settle]
            told["relies"] = dict(self._states)
        if settle:
            told["fetched"], told["sent"] = _joined(settle, self._fetched, sent)
        self._call = _Exchange(self.token, settle, add, told, want, first_at=now)
        self._settle, self._fetched, self._sent, self._paced_since = [], [], [], None
        self._say()

    def _whole(self, settlement: Settlement) -> Settlement:
        """With what was withheld by a knowledge that was forgotten since."""
        withheld = settlement.withheld
        if isinstance(withheld, OmittedRequests) and withheld.edition != self.known.edition:
            return settlement._replace(add=[*settlement.add, *withheld()], withheld=None)
        return settlement

    def _say(self) -> None:
        call = self._call
        assert call is not None
        call.sent_at = self._last = self.link.now()
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

    def _take_in(self, call: _Exchange, answer: ExchangeReply, now: float) -> None:
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
        self._asked_all = 0 < call.want <= len(answer.leases)
        if answer.leases:
            self._idle = IDLE_FIRST
            self._ready = now if self._asked_all else now + min(self._idle, _seconds(hints.ready_in))
            self.hungry_since = None
        elif call.want:
            if hints.open <= len(self.held):
                self.hungry_since = None
            elif self.hungry_since is None:
                self.hungry_since = now
            self._ready = now + min(self._idle, _seconds(hints.ready_in)) * random.uniform(0.8, 1.2)
            self._idle = min(self._idle * 2, IDLE_LAST)

    def _learn(self, requests: Sequence[Request], outcomes: Sequence[AddOutcome], now: float) -> None:
        for request, outcome in zip(requests, outcomes, strict=True):
            if not request.dont_filter and (outcome is AddOutcome.ADDED or outcome is AddOutcome.DUPLICATE):
                self.known.put(request.lane, request.fingerprint, now)

    def _added(self, call: _Exchange, outcomes: Sequence[AddOutcome], invalid: Mapping[Any, str], now: float) -> None:
        full = []
        for index, ((request, ticket), outcome) in enumerate(zip(call.add, outcomes, strict=True)):
            if outcome is AddOutcome.FULL:
                full.append((request, ticket))
            else:
                self.callbacks.added(ticket, outcome, invalid.get(index, ""))
        self._learn([request for request, _ in call.add], outcomes, now)
        if full:
            # They come first again: order is kept.
            self._add.extendleft(reversed(full))
            self._add_after = now + FULL_PAUSE

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

    def _abandon(self, call: _Exchange) -> None:
        """The answer, if there was one, is not kept for much longer: repeated after that, the call would count twice. Its pages
        are others' by now; its requests are added by their keys; whether its counters were is not known, so they are left out."""
        logger.error("A call was not answered for %.0f s and is given up: its pages are done again.", REPEAT_SECONDS)
        self._call, self.token = None, self.token.next()
        if self._info is None:
            self._info = call.told.get("info")
        for settlement, page in call.settle:
            self.held.let_go(settlement.lease)
            self.callbacks.settled(page, SettleOutcome.LOST, [AddOutcome.LOST] * len(settlement.add))
        if call.add:
            self._add_by_keys(call)
        self._plan_call()

    def _add_by_keys(self, call: _Exchange) -> None:
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
        """Whether the frontier could not be reached lately."""
        return bool(self._outage)

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

    def _watched(self) -> None:
        """Look after what is held for long: keep it, or at last give it up."""
        if self._closed:
            return
        now = self.link.now()
        self._watch = self.link.later(self.plan.lease_seconds / 4, self._watched)
        renew = []
        for hold in self.held.ending(now + self.plan.lease_seconds / 2):
            if now - hold.since > self.plan.renew_max:
                self._give_up(hold, now)
            else:
                renew.append(hold.lease)
        if renew:
            self.link.call(
                Frontier.renew, lambda answer, error: self._renewed(renew, now, answer, error), self.token, renew
            )

    def _renewed(
        self, asked: list[Lease], asked_at: float, answer: list[Lease | None] | None, error: BaseException | None
    ) -> None:
        if error is not None or answer is None:
            return  # the next look asks again; the exchange sees to outages
        for old, new in zip(asked, answer, strict=True):
            if new is not None:
                self.held.renewed(old, asked_at + self.plan.lease_seconds)
            elif old in self.held:
                self.callbacks.lost(old, "given away")
                # Its settlement still goes out: what it found and is new counts, and the rest is refused there.
                self.held.renewed(old, float("inf"))

    def _give_up(self, hold: HeldLease, now: float) -> None:
        lease = hold.lease
        detail = (
            f"It was worked on for {now - hold.since:.0f} s; GOSSAMER_RENEW_MAX_SECONDS allows {self.plan.renew_max:g}."
        )
        self._note_first()
        self._settle.append((Settlement(lease, Ending.FAILED, reason=OVERDUE, detail=detail), None))
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
        for timer in (self._timer, self._watch, self._latest):
            if timer is not None:
                timer.cancel()
        while self._ends:
            self._ends.pop()()
        if done is not None:
            if self.waiting:
                logger.warning(
                    "%s could not be told to the frontier: when the leases run out, others do them again.",
                    counted(self.waiting, "page"),
                )
            done()


def _joined(
    settle: list[tuple[Settlement, Any]], fetched: list[Fetched], sent: list[Sent]
) -> tuple[list[Fetched], list[Sent]]:
    """What is still to be said of leases beside their settlements, which say the rest with them: to settle a page is to say
    that it was sent and answered. When it was sent is said where the host has a delay."""
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


def _seconds(ready_in: float | None) -> float:
    return IDLE_LAST if ready_in is None else ready_in
