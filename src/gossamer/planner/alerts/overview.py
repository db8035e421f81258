"""Alerts as people look at them: what fires now, which messages were sent lately, and whether a planner evaluates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gossamer.errors import DecodingError
from gossamer.frontier.contract import Frontier
from gossamer.planner.alerts.book import UNREADABLE, AlertBook, LastLook
from gossamer.planner.alerts.documents import AlertDocuments
from gossamer.planner.alerts.message import AlertMessage

LATE_SECONDS = 60.0
"""Seconds that an evaluation may be late. After that, no planner evaluates."""
DELIVERED = "delivered"


class ShownAlert(NamedTuple):
    """One alert. `state`: pending, firing or resolved (its cool-down is not over). `since`: when its condition began to
    hold. `message`: what became of the message that says that it fires: waiting, delivered, refused, dropped or kept; empty if there is none.
    `silenced`: until when no message says so, None if it may."""

    rule: str
    severity: str
    state: str
    subject: str
    since: float
    message: str
    silenced: float | None
    text: str

    @property
    def sent(self) -> bool:
        """Whether its receiver has that message."""
        return self.message == DELIVERED


class AlertOverview(NamedTuple):
    """The alerts of a crawl now, and the last messages, newest first. `watched`: a planner evaluates them."""

    now: float
    look: LastLook | None
    watched: bool
    alerts: Sequence[ShownAlert]
    messages: Sequence[AlertMessage]


def alert_overview(frontier: Frontier) -> AlertOverview:
    """Read what the leader has written, and what people have said."""
    book, documents = AlertBook(frontier), AlertDocuments(frontier)
    try:
        now = book.read()
    except UNREADABLE as error:
        raise DecodingError(
            f"What the crawl keeps of alerts cannot be read ({error}): a planner of another version leads. Use its version of gossamer."
        ) from None
    documents.update()
    rules = documents.rules
    # A message that is older than those that are kept was delivered, or given up long ago.
    deliveries: dict[tuple[str, float | None], str] = {
        (one.rule, one.at): one.state for one in book.messages if one.firing_count
    }
    alerts = []
    for name, state in sorted(book.states.items()):
        severity = rules.rules[name].severity if name in rules.rules else ""
        for subject, alert in sorted(state.alerts.items()):
            until = [one.until for one in documents.silences if one.covers(name, subject, now)]
            alerts.append(
                ShownAlert(
                    name,
                    severity,
                    alert.phase.value,
                    subject,
                    alert.since,
                    deliveries.get((name, alert.sent), DELIVERED) if alert.told else "",
                    max(until, default=None),
                    alert.text,
                )
            )
    watched = book.look is not None and now - book.look.at < rules.every + LATE_SECONDS
    return AlertOverview(now, book.look, watched, alerts, list(reversed(book.messages)))
