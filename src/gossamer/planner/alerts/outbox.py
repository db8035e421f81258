"""Messages on their way to the webhook: one at a time, again after a while where that fails. One that fails keeps none about other rules
waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gossamer.planner.alerts.book import AlertBook
from gossamer.planner.alerts.message import NAMED, AlertMessage
from gossamer.planner.alerts.webhook import DeliveryResult, Webhook, WebhookPost

logger = logging.getLogger(__name__)

KEPT = 100
"""The most messages that are kept, with those that wait to be delivered."""
OLDEST = 86400.0
"""Seconds after which a message that could not be delivered is dropped."""
LONGEST = 300.0
"""Seconds between two tries at most."""
CLOSE = 3.0
"""Seconds for which a planner that ends waits for a delivery."""


def kept(messages: Sequence[AlertMessage], now: float) -> list[AlertMessage]:
    """The messages that stay: the last ones, and of those that wait none that is too old."""
    found = []
    for message in messages:
        if message.state == "waiting" and now - message.at > OLDEST:
            logger.error("The alert message about %s waited for a day and is dropped: %s", message.rule, message.error)
            message = finished(message, "dropped", now)
        found.append(message)
    for message in found[:-KEPT]:
        if message.state == "waiting":
            logger.error("Too many alert messages wait; the one about %s is dropped: %s", message.rule, message.error)
    return found[-KEPT:]


def next_message(messages: Sequence[AlertMessage]) -> AlertMessage | None:
    """The message to send next: of each rule the oldest that waits, since the next may say that it is over; and of these the one that
    has failed least, since it may be the message itself that the receiver cannot take."""
    first: dict[str, AlertMessage] = {}
    for message in messages:
        if message.state == "waiting":
            first.setdefault(message.rule, message)
    return min(first.values(), key=lambda message: message.tries, default=None)


class MessageOutbox:
    """Delivers what waits in the book. `clock` is this machine's own: it only says when to try again."""

    def __init__(self, book: AlertBook, webhook: Webhook | None, crawl: str, clock: Callable[[], float]) -> None:
        self._book, self._webhook, self._crawl, self._clock = book, webhook, crawl, clock
        self._post: WebhookPost | None = None
        self._again, self._failed, self._error = 0.0, 0, ""

    def send(self, leads: Callable[[], bool]) -> None:
        """Begin the next delivery, if none is under way and there is something to deliver."""
        if self._webhook is None or self._post is not None or self._clock() < self._again:
            return
        message = next_message(self._book.messages)
        if message is not None:
            self._post = WebhookPost(self._webhook, message, self._crawl, leads)
            self._post.start()

    def settle(self, term: int, now: float) -> None:
        """Note what came of the delivery that was under way. Raises `NotLeader` if another planner leads."""
        if self._post is None or (result := self._post.result) is None:
            return
        message = self._post.message
        # If it waits no more, another leader has delivered it, or the server went back to a state before it.
        if result.sent and any(one.id == message.id and one.state == "waiting" for one in self._book.messages):
            changed = [_noted(one, result, now) if one.id == message.id else one for one in self._book.messages]
            self._book.write(term, messages=changed)
        self._post = None
        self._learn(message, result)

    def close(self, term: int) -> None:
        """Wait for the delivery that is under way, for a moment, and note what came of it."""
        if self._post is not None:
            self._post.join(CLOSE)
            self.settle(term, self._post.message.at)

    def _learn(self, message: AlertMessage, result: DeliveryResult) -> None:
        """When to try again, and what to log: a failure once, as long as it stays the same."""
        if result.ok:
            if self._failed:
                logger.info("The webhook answers again; the alert message about %s is delivered.", message.rule)
            self._failed, self._error, self._again = 0, "", 0.0
        elif result.refused:
            logger.error("The alert message about %s is refused, and not sent again: %s", message.rule, result.error)
        elif result.sent:
            self._failed += 1
            wait = max(min(2.0 ** (self._failed - 1), LONGEST), result.after)
            self._again = self._clock() + wait
            if result.error != self._error:
                logger.warning(
                    "The alert message about %s could not be delivered: %s. It is sent again until it is, next in %g s.",
                    message.rule, result.error, wait,
                )  # fmt: skip
            self._error = result.error


def _noted(message: AlertMessage, result: DeliveryResult, now: float) -> AlertMessage:
    if result.ok:
        return finished(message._replace(error=""), "delivered", now)
    message = message._replace(tries=message.tries + 1, error=result.error)
    return finished(message, "refused", now) if result.refused else message


def finished(message: AlertMessage, state: str, now: float) -> AlertMessage:
    """A message that is sent no more. Of its alerts only the first are kept, for people."""
    return message._replace(state=state, done=now, firing=message.firing[:NAMED], resolved=message.resolved[:NAMED])
