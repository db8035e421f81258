"""What the frontier keeps of alerts, and what a planner that leads holds of it in memory.

Everything is written in one call that carries the leader's term, and held only when that has succeeded: the planner
that takes over goes on from what was decided last, and a former leader changes nothing. Nothing is sent that was not
written before.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import ormsgpack

from gossamer.frontier.contract import Frontier
from gossamer.planner.alerts import message as messages_data
from gossamer.planner.alerts import policy as policy_data
from gossamer.planner.alerts.history import CountHistory
from gossamer.planner.alerts.message import AlertMessage
from gossamer.planner.alerts.policy import RuleState

logger = logging.getLogger(__name__)

NUMBER, STATES, MESSAGES, LOOK = "number", "states", "messages", "look"
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError)
"""What reading raises if a planner of another version has written it."""
SHOWN = (NUMBER, STATES, MESSAGES, LOOK)
"""The entries that people are shown; the others are samples."""


class LastLook(NamedTuple):
    """When the rules were evaluated last, until when nothing is decided after a time without evaluations, by whom, and
    where its messages go ("": it has no webhook)."""

    at: float
    settle: float
    leader: str
    webhook: str


class AlertBook:
    """The alerts by rule, the last messages (oldest first), the last look, and the samples. `number` grows with every write."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self.number = 0
        self.states: Mapping[str, RuleState] = {}
        self.messages: Sequence[AlertMessage] = ()
        self.look: LastLook | None = None
        self.history = CountHistory()
        self._behind = False
        """The frontier has an older state than this planner: the next write has all of it."""

    def take_over(self) -> None:
        """Read what the frontier keeps, unless this planner knows better: the server went back to an older state."""
        _, entries = self._frontier.alert_entries()
        self._behind = _number(entries) < self.number
        if not self._behind:
            try:
                self._adopt(entries)
                self.history = CountHistory(entries)
            except UNREADABLE as error:
                logger.error("What the crawl keeps of alerts cannot be read (%s); starting again without it.", error)
                self._adopt({NUMBER: entries[NUMBER]} if NUMBER in entries else {})
                self.history = CountHistory()

    def read(self) -> float:
        """Read what people are shown. Return the server time."""
        now, entries = self._frontier.alert_entries(SHOWN)
        self._adopt(entries)
        return now

    def write(
        self,
        term: int,
        *,
        states: Mapping[str, RuleState] | None = None,
        messages: Sequence[AlertMessage] | None = None,
        look: LastLook | None = None,
        samples: Mapping[str, bytes | None] | None = None,
    ) -> None:
        """Keep what is given. Raises `NotLeader`, and changes nothing, if another planner leads."""
        self._behind = self._behind or _number(self._frontier.alert_entries([NUMBER])[1]) < self.number
        entries: dict[str, bytes | None] = dict(samples or {})
        entries[NUMBER] = ormsgpack.packb(self.number + 1)
        states, messages = self.states if states is None else states, self.messages if messages is None else messages
        if self._behind or states != self.states:
            entries[STATES] = ormsgpack.packb({name: policy_data.as_data(state) for name, state in states.items()})
        if self._behind or messages != self.messages:
            entries[MESSAGES] = ormsgpack.packb([messages_data.as_data(message) for message in messages])
        if look is not None:
            entries[LOOK] = ormsgpack.packb(list(look))
        self._frontier.put_alert_entries(entries, term=term)
        self.number += 1
        self.states, self.messages, self.look = states, messages, look or self.look
        self._behind = False

    def _adopt(self, entries: Mapping[str, bytes]) -> None:
        def entry(name: str, nothing: Any) -> Any:
            return ormsgpack.unpackb(entries[name]) if name in entries else nothing

        self.number = _number(entries)
        self.states = {name: policy_data.from_data(data) for name, data in entry(STATES, {}).items()}
        self.messages = [messages_data.from_data(data) for data in entry(MESSAGES, [])]
        look = entry(LOOK, None)
        self.look = None if look is None else LastLook(*look)


def _number(entries: Mapping[str, bytes]) -> int:
    return int(ormsgpack.unpackb(entries[NUMBER])) if NUMBER in entries else 0
