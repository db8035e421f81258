"""The exchanges of a courier, one at a time: when they go out, and what happens when the frontier does not answer.

The next one goes out when the engine could send more than it has, when pages wait to be settled, or when the frontier's hint says
that something may be ready; never sooner than a moment after the last, so that a busy worker reports many things at once. One
that is not answered is repeated, under the same token, so that it counts once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from gossamer.courier.outage import LAST, Outage
from gossamer.courier.pace import Pace
from gossamer.courier.reports import PendingExchange, PendingReports
from gossamer.courier.rounds import follow
from gossamer.courier.transport import Timer
from gossamer.errors import FrontierUnavailable
from gossamer.frontier.contract import Frontier
from gossamer.model import AddOutcome, ExchangeReply, PartitionState, SettleOutcome
from gossamer.model.counter_names import EXCHANGE_SECONDS, EXCHANGES, OUTAGES, WENT_BACK
from gossamer.model.request import AddKey

if TYPE_CHECKING:
    from gossamer.courier.courier import Courier

logger = logging.getLogger(__name__)

REPEAT_SECONDS = 3000.0
"""How long a call is repeated; its answer is kept for an hour."""


class ExchangeLoop:
    """Sends what a courier has gathered, and gives it the answers. `states`: those that all earlier answers came from."""

    def __init__(self, courier: Courier, reports: PendingReports) -> None:
        self._courier, self._link, self._reports = courier, courier.link, reports
        self.pace = Pace(courier.active_at)
        self.states: dict[int, PartitionState] = {}
        self.answers = 0
        self._call: PendingExchange | None = None
        self._outage = Outage()
        self._timer: Timer | None = None
        self._timer_at = 0.0

    @property
    def waiting(self) -> int:
        """How many pages and requests are under way without an answer."""
        return len(self._call.settle) + len(self._call.add) if self._call else 0

    @property
    def in_outage(self) -> bool:
        """Whether the last call was not answered."""
        return bool(self._outage)

    def follows(self, states: Mapping[int, PartitionState]) -> bool:
        """Whether all that was learned so far is still true in these states."""
        return follow(self.states, states)

    # When to call.

    def plan(self) -> None:
        """Set the timer for the next exchange, or say that none is due."""
        if self._call is not None or self._courier.closed:
            return
        now = self._link.now()
        due = self.pace.due(self._courier.need(), now)
        if due is None:
            self._courier.nothing_due()
            return
        if self._timer is not None:
            if self._timer_at <= due + 0.001:
                return
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._link.later(max(0.0, due - now), self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._timer = None
        if self._call is not None or self._courier.closed:
            return
        now = self._link.now()
        due = self.pace.due(self._courier.need(), now)
        if due is not None and due <= now + 0.002:
            self._exchange(now)
        else:
            self.plan()

    # The call and its answer.

    def _exchange(self, now: float) -> None:
        courier = self._courier
        self._call = self._reports.take(
            courier.token,
            courier.wanted(),
            now,
            adding=self.pace.may_add(now),
            counters=courier.pending_counters,
            selection=courier.plan.selection,
            session=courier.plan.session,
            edition=courier.known.edition,
            states=self.states,
        )
        self._send(self._call)

    def _send(self, call: PendingExchange) -> None:
        call.sent_at = self._link.now()
        self.pace.called(call.sent_at)
        self._link.call(
            Frontier.exchange,
            self._answered,
            call.token,
            settle=[settlement for settlement, _ in call.settle],
            add=[request for request, _ in call.add],
            want=call.want,
            **call.told,
        )

    def _answered(self, answer: ExchangeReply | None, error: BaseException | None) -> None:
        call, courier = self._call, self._courier
        if call is None or courier.closed:
            return
        if error is not None:
            self._failed(error)
            return
        assert answer is not None
        now = self._link.now()
        self._outage.answered(now)
        self._call, courier.token = None, courier.token.next()
        self.answers += 1
        if not courier.closing:
            courier.pending_counters.add(EXCHANGES)
            courier.pending_counters.add(EXCHANGE_SECONDS, now - call.sent_at)
        if not self.follows(answer.states):
            logger.warning(
                "The server was restarted or replaced and may have lost its last writes: this worker forgets what it "
                "knew of it. Pages may be fetched again; none is lost."
            )
            courier.pending_counters.add(WENT_BACK)
            courier.known.clear()
            courier.callbacks.rolled_back()
        self.states.update(answer.states)
        courier.answered(call, answer, now)
        self.plan()

    # When the frontier does not answer.

    def _failed(self, error: BaseException) -> None:
        courier = self._courier
        if not isinstance(error, FrontierUnavailable):
            courier.failed(error)
            return
        # Whatever answers next may be another server.
        courier.known.clear()
        if not self._outage:
            logger.warning("The frontier cannot be reached: %s Pages in progress go on; nothing is lost.", error)
            courier.pending_counters.add(OUTAGES)
        self._link.later(self._outage.failed(self._link.now()), self._again)

    def _again(self) -> None:
        call = self._call
        if call is None or self._courier.closed:
            return
        if self._link.now() - call.first_at > REPEAT_SECONDS:
            self._abandon(call)
        else:
            self._send(call)

    def _abandon(self, call: PendingExchange) -> None:
        """The answer, if there was one, is not kept for much longer: repeated after that, the call would count twice. Its pages
        are others' by now; its requests are added by their keys; whether its counters were is not known, so they are left out."""
        logger.error(
            "The frontier did not answer a call for %.0f s: this worker gives it up, and its pages are done again.",
            REPEAT_SECONDS,
        )
        courier = self._courier
        self._call, courier.token = None, courier.token.next()
        self._reports.tell_again(call)
        for settlement, page in call.settle:
            courier.held.let_go(settlement.lease)
            courier.callbacks.settled(page, SettleOutcome.LOST, [AddOutcome.LOST] * len(settlement.add))
        if call.add:
            self._add_by_keys(call)
        self.plan()

    def _add_by_keys(self, call: PendingExchange) -> None:
        def told(answer: Any, error: BaseException | None) -> None:
            if isinstance(error, FrontierUnavailable):
                self._link.later(LAST, partial(self._add_by_keys, call))
            elif error is not None:
                self._failed(error)
            else:
                outcomes, invalid, _ = answer
                self._courier.added(call, outcomes, invalid, self._link.now())
                self.plan()

        key = AddKey(f"add {call.token.incarnation}:{call.token.sequence}")
        self._link.call(Frontier.add, told, [request for request, _ in call.add], key=key)
