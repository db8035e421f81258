"""The part of a planner that leads which watches over the crawl: rules evaluated, messages decided, written down, and delivered."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import PlanState
from gossamer.planner.alerts.book import AlertBook, LastLook
from gossamer.planner.alerts.conditions import conditions
from gossamer.planner.alerts.crawl_counts import CrawlReading, read_crawl
from gossamer.planner.alerts.documents import AlertDocuments
from gossamer.planner.alerts.message import FIRING, AlertMessage, line_of, message_of, withdrawn_message
from gossamer.planner.alerts.outbox import MessageOutbox, finished, kept
from gossamer.planner.alerts.policy import RuleState, evaluate, unobserved, untold, withdraw
from gossamer.planner.alerts.rules import KINDS, NAMES, RuleSet
from gossamer.planner.alerts.webhook import Webhook
from gossamer.planner.schedules import PlannedGroup

logger = logging.getLogger(__name__)

GAP = 60.0
"""Seconds beyond the usual time between two evaluations: no planner ran, the server was away, or its clock jumped."""
SETTLE = 45.0
"""Seconds after that in which nothing is decided: living workers call, and the counts are those of now."""


class AlertWatch:
    """Watches over a crawl while its planner leads. Without a webhook and without rules that somebody pushed it does nothing."""

    def __init__(
        self,
        frontier: ValkeyFrontier,
        webhook: Webhook | None = None,
        name: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._frontier, self._webhook, self._name = frontier, webhook, name
        self._book = AlertBook(frontier)
        self._documents = AlertDocuments(frontier)
        self._outbox = MessageOutbox(self._book, webhook, frontier.crawl, clock)
        self._version, self._term, self._unread = ("", -1), 0, ""

    def cycle(
        self, state: PlanState, planned: Mapping[str, PlannedGroup], term: int, leads: Callable[[], bool]
    ) -> None:
        """Do what is due. Raises `NotLeader` if another planner leads."""
        if (state.epoch, state.documents) != self._version:
            self._documents.update(state.epoch)
            self._version = state.epoch, state.documents
        if self._webhook is None and not self._documents.pushed:
            return
        if term != self._term:
            self._book.take_over()
            self._term = term
        self._outbox.settle(term, state.now)
        look = self._book.look
        if look is None or not look.at <= state.now < look.at + self._documents.rules.every:
            self._look(state, planned, term)
        self._outbox.send(leads)

    def close(self, term: int) -> None:
        """Wait for what is being sent, for a moment, and note what came of it: the next leader need not send it again."""
        if self._term == term:
            self._outbox.close(term)

    def _look(self, state: PlanState, planned: Mapping[str, PlannedGroup], term: int) -> None:
        now, book, rules = state.now, self._book, self._documents.rules
        states = dict(book.states)
        settle = book.look.settle if book.look is not None else 0.0
        if book.look is not None and not 0 <= (missed := now - book.look.at - rules.every) <= GAP:
            states = {name: unobserved(one, max(0.0, missed), now) for name, one in states.items()}
            settle = now + SETTLE
        shown = "" if self._webhook is None else self._webhook.shown
        look = LastLook(now, settle, self._name, shown)
        if now < settle:
            book.write(term, states=states, look=look)
            return
        if self._webhook is not None:
            # A leader without a webhook has told nobody.
            states = {name: untold(one, self._moments("kept", name)) for name, one in states.items()}
        reading = read_crawl(self._frontier, state, planned, rules.rules.values())
        states, told = self._decided(rules, states, reading)
        windows = [window for rule in rules.rules.values() for window in rule.windows]
        samples = book.history.take(windows, now, reading.totals)
        if self._webhook is None:
            told = [message if self._is_awaited(message) else finished(message, "kept", now) for message in told]
        messages = kept([*book.messages, *told], now)
        # What they said reached nobody.
        dropped = _waiting([*book.messages, *told]) - _waiting(messages)
        states = {name: untold(one, {at for rule, at in dropped if rule == name}) for name, one in states.items()}
        book.write(term, states=states, messages=messages, look=look, samples=samples)
        for message in told:
            _log(message)
        unread = "; ".join(sorted(set(reading.unread.values())))
        if unread and unread != self._unread:
            logger.error("Some alerts cannot be evaluated, and stay as they are: %s", unread)
        self._unread = unread

    def _decided(
        self, rules: RuleSet, before: Mapping[str, RuleState], reading: CrawlReading
    ) -> tuple[dict[str, RuleState], list[AlertMessage]]:
        """The states from now on, and the messages to send."""
        now, states, told = reading.now, {}, list[AlertMessage]()
        for name, known in before.items():
            if (name not in rules.rules or NAMES[type(rules.rules[name])] != known.kind) and (
                owed := withdraw(known, now)
            ):
                subject = KINDS[known.kind].subject if known.kind in KINDS else "site"
                told.append(withdrawn_message(name, known.kind, subject, owed, now, secrets.token_hex(8)))
        for name, rule in sorted(rules.rules.items()):
            one = before.get(name)
            if one is not None and one.kind != NAMES[type(rule)]:
                one = None
            if type(rule) in reading.unread:
                if one is not None:
                    states[name] = one
                continue
            found = conditions(rule, reading, self._book.history)
            silenced = partial(self._silenced, name, now)
            one, tells = evaluate(rule, one, found, now, gather=rules.gather, silenced=silenced)
            if tells is not None:
                told.append(message_of(name, rule, tells, now, secrets.token_hex(8)))
            if one.alerts or (one.sent is not None and now - one.sent < rules.gather):
                states[name] = one
        return states, told

    def _moments(self, state: str, rule: str) -> set[float]:
        """When messages about a rule were decided that are in a state."""
        return {message.at for message in self._book.messages if (message.state, message.rule) == (state, rule)}

    def _is_awaited(self, message: AlertMessage) -> bool:
        """Whether it says the end of alerts that the receiver has heard of, or will. The next leader with a webhook sends it."""
        return message.resolved_count > 0 and any(
            one.rule == message.rule and one.firing_count and one.state in ("delivered", "waiting")
            for one in self._book.messages
        )

    def _silenced(self, rule: str, now: float, subject: str) -> bool:
        return any(silence.covers(rule, subject, now) for silence in self._documents.silences)


def _waiting(messages: Iterable[AlertMessage]) -> set[tuple[str, float]]:
    """The rules and moments of the messages that wait to be delivered."""
    return {(message.rule, message.at) for message in messages if message.state == "waiting"}


def _log(message: AlertMessage) -> None:
    level = logging.WARNING if message.status == FIRING else logging.INFO
    logger.log(level, "Alert %s is %s: %s", message.rule, message.status, line_of(message))
