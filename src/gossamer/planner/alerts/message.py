"""Messages about alerts: what they say, and the JSON that a webhook is sent. Pure.

The default form is that of Prometheus' Alertmanager (webhook version 4), so that what receives its messages receives these; `text`, for chats,
and `id` stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from gossamer.model.plural import counted
from gossamer.planner.alerts.policy import Told
from gossamer.planner.alerts.rules import NAMES, AlertRule

LISTED = 100
"""The most alerts that a message lists, of those that fire and of those that are resolved."""
NAMED = 20
"""The most that its text names."""
TEXT = 300
"""The most characters of what is said of one alert."""
FIRING, RESOLVED = "firing", "resolved"
NEVER = "0001-01-01T00:00:00Z"


class ListedAlert(NamedTuple):
    """One alert of a message."""

    subject: str
    since: float
    until: float | None
    text: str


class AlertMessage(NamedTuple):
    """A message and what became of it. `state`: waiting (to be delivered), delivered, refused (the receiver does not want it), dropped
    (it waited too long) or kept (the planner that led had no webhook). `firing` and `resolved` list the first of `firing_count` and
    `resolved_count` alerts. `tries` failed so far, the last with `error`. Times are server time in seconds."""

    id: str
    at: float
    rule: str
    kind: str
    subject: str
    severity: str
    note: str
    firing: tuple[ListedAlert, ...]
    resolved: tuple[ListedAlert, ...]
    firing_count: int
    resolved_count: int
    state: str = "waiting"
    tries: int = 0
    error: str = ""
    done: float | None = None

    @property
    def status(self) -> str:
        return FIRING if self.firing_count else RESOLVED


def message_of(name: str, rule: AlertRule, told: Told, now: float, identity: str) -> AlertMessage:
    """The message about what a rule has to tell."""
    firing = [ListedAlert(s, x.fired or x.since, None, x.text[:TEXT]) for s, x in sorted(told.firing.items())]
    resolved = [
        ListedAlert(s, x.fired or x.since, x.resolved or now, x.text[:TEXT]) for s, x in sorted(told.resolved.items())
    ]
    return AlertMessage(
        identity,
        now,
        name,
        NAMES[type(rule)],
        rule.subject,
        rule.severity,
        rule.note,
        tuple(firing[:LISTED]),
        tuple(resolved[:LISTED]),
        len(firing),
        len(resolved),
    )


def withdrawn_message(name: str, kind: str, subject: str, told: Told, now: float, identity: str) -> AlertMessage:
    """The message about a rule that is there no more."""
    rows = [
        ListedAlert(s, x.fired or x.since, now, "the rule was removed or changed")
        for s, x in sorted(told.resolved.items())
    ]
    return AlertMessage(identity, now, name, kind, subject, "warning", "", (), tuple(rows[:LISTED]), 0, len(rows))


def text_of(message: AlertMessage, crawl: str) -> str:
    """The message for people, in a few lines."""
    parts = []
    if message.firing_count:
        parts.append(
            _part(f"[FIRING] {message.severity}: {message.rule}", message, message.firing, message.firing_count, crawl)
        )
    if message.resolved_count:
        parts.append(_part(f"[RESOLVED] {message.rule}", message, message.resolved, message.resolved_count, crawl))
    if message.note:
        parts.append(message.note)
    return "\n".join(parts)


def _part(head: str, message: AlertMessage, rows: tuple[ListedAlert, ...], count: int, crawl: str) -> str:
    lines = [f"{head} ({counted(count, message.subject)} of crawl {crawl})"]
    for row in rows[:NAMED]:
        lines.append(
            f"- {row.subject}: {row.text}" if row.until is None else f"- {row.subject}: no longer ({row.text})"
        )
    if count > NAMED:
        lines.append(f"- and {count - NAMED:,} more")
    return "\n".join(lines)


def line_of(message: AlertMessage) -> str:
    """The message in one line, for logs."""
    rows, count = (
        (message.firing, message.firing_count) if message.firing_count else (message.resolved, message.resolved_count)
    )
    more = f", and {count - 1:,} more" if count > 1 else ""
    also = f"; {message.resolved_count:,} resolved" if message.firing_count and message.resolved_count else ""
    return f"{rows[0].subject}: {rows[0].text}{more}{also}"


def alertmanager(message: AlertMessage, crawl: str) -> dict[str, Any]:
    """The message as Alertmanager writes it, with `text` and `id`."""
    labels = {"alertname": message.rule, "crawl": crawl, "kind": message.kind, "severity": message.severity}
    notes = {"note": message.note} if message.note else {}
    listed = len(message.firing) + len(message.resolved)
    return {
        "version": "4",
        "groupKey": f"{crawl}/{message.rule}",
        "truncatedAlerts": message.firing_count + message.resolved_count - listed,
        "status": message.status,
        "receiver": "gossamer",
        "groupLabels": {"alertname": message.rule, "crawl": crawl},
        "commonLabels": labels,
        "commonAnnotations": notes,
        "externalURL": "",
        "alerts": [
            {
                "status": FIRING if row.until is None else RESOLVED,
                "labels": {**labels, message.subject: row.subject},
                "annotations": {"summary": f"{row.subject}: {row.text}", **notes},
                "startsAt": _moment(row.since),
                "endsAt": NEVER if row.until is None else _moment(row.until),
                "generatorURL": "",
                "fingerprint": fingerprint(crawl, message.rule, row.subject),
            }
            for row in (*message.firing, *message.resolved)
        ],
        "text": text_of(message, crawl),
        "id": message.id,
    }


FORMS: Mapping[str, Callable[[AlertMessage, str], dict[str, Any]]] = {
    "alertmanager": alertmanager,
    "slack": lambda message, crawl: {"text": text_of(message, crawl)},
    "discord": lambda message, crawl: {"content": text_of(message, crawl)[:2000]},
    "dingtalk": lambda message, crawl: {"msgtype": "text", "text": {"content": text_of(message, crawl)}},
    "feishu": lambda message, crawl: {"msg_type": "text", "content": {"text": text_of(message, crawl)}},
}
"""The forms in which a message is sent, by the name of the receiver that wants them."""


def fingerprint(crawl: str, rule: str, subject: str) -> str:
    """The same for all messages about one alert."""
    return sha256(f"{crawl}\0{rule}\0{subject}".encode("utf-8", "replace")).hexdigest()[:16]


def as_data(message: AlertMessage) -> list[Any]:
    """A message in the types that msgpack knows."""
    return [list(map(list, value)) if isinstance(value, tuple) else value for value in message]


def from_data(data: list[Any]) -> AlertMessage:
    found = AlertMessage(*data)
    return found._replace(
        firing=tuple(ListedAlert(*row) for row in found.firing),
        resolved=tuple(ListedAlert(*row) for row in found.resolved),
    )


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
