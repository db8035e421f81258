"""When an alert fires, is sent, and is resolved. Pure: (states, conditions, clock) -> states and what to send.

An alert is one subject of one rule. Its condition must hold for a time before it fires (`for`), and be over for a time
before it is resolved (`clear`). In the time of a cool-down one message at most says that it fires, and one that it is
resolved; an alert that fires again earlier is sent when the cool-down is over, if it still fires. A rule reports all
its subjects in one message, and sends at most one message in the time `gather`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

from gossamer.planner.alerts.conditions import AlertCondition
from gossamer.planner.alerts.rules import NAMES, AlertRule


class Phase(enum.Enum):
    """PENDING: its condition holds, but not for long enough. FIRING. RESOLVED: it is kept until its recovery is sent
    and its cool-down is over."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Alert(NamedTuple):
    """What is known of one subject. `since`: when its condition began to hold; `fired`, `resolved`: when it did;
    `over`: since when the condition of a pending or firing one does not hold; `sent`: when a message last said that it
    fires; `told`: that was the last message, so one about its recovery is owed. None: not yet."""

    phase: Phase
    since: float
    text: str
    fired: float | None = None
    over: float | None = None
    resolved: float | None = None
    sent: float | None = None
    told: bool = False


class RuleState(NamedTuple):
    """The alerts of a rule by subject, its kind, and when it last sent a message (None: never)."""

    kind: str
    alerts: Mapping[str, Alert]
    sent: float | None = None


class Told(NamedTuple):
    """What one message tells of a rule: the alerts that fire and those that are resolved, by subject."""

    firing: Mapping[str, Alert]
    resolved: Mapping[str, Alert]


def evaluate(
    rule: AlertRule,
    state: RuleState | None,
    found: Mapping[str, AlertCondition],
    now: float,
    *,
    gather: float,
    silenced: Callable[[str], bool] = lambda subject: False,
) -> tuple[RuleState, Told | None]:
    """One step of a rule: its state from now on, and what to send, if anything. Firing alerts that are `silenced` are
    not sent."""
    if state is None:
        state = RuleState(NAMES[type(rule)], {})
    alerts: dict[str, Alert] = {}
    for subject in {**state.alerts, **found}:
        alert = _step(rule, state.alerts.get(subject), found.get(subject) or AlertCondition(subject, False), now)
        if alert is not None:
            alerts[subject] = alert
    if state.sent is not None and now - state.sent < gather:
        return state._replace(alerts=alerts), None
    firing = {name: alert for name, alert in alerts.items() if _tells_firing(rule, alert, now) and not silenced(name)}
    resolved = {name: alert for name, alert in alerts.items() if alert.phase is Phase.RESOLVED and alert.told}
    if not firing and not resolved:
        return state._replace(alerts=alerts), None
    alerts.update({name: alert._replace(sent=now, told=True) for name, alert in firing.items()})
    alerts.update({name: alert._replace(told=False) for name, alert in resolved.items()})
    return RuleState(state.kind, alerts, now), Told(firing, resolved)


def withdraw(state: RuleState, now: float) -> Told | None:
    """What to send when a rule is removed: the alerts that it sent are resolved."""
    owed = {
        name: alert._replace(phase=Phase.RESOLVED, resolved=alert.resolved or now)
        for name, alert in state.alerts.items()
        if alert.told
    }
    return Told({}, owed) if owed else None


def untold(state: RuleState, moments: Container[float]) -> RuleState:
    """The state if what messages of these moments said reached nobody: what still fires has to be told."""
    alerts = {
        name: alert._replace(sent=None, told=False) if alert.told and alert.sent in moments else alert
        for name, alert in state.alerts.items()
    }
    return state._replace(alerts=alerts)


def unobserved(state: RuleState, seconds: float, now: float) -> RuleState:
    """The state after a time without evaluations: that time counts neither for `for` nor for `clear`."""

    def later(moment: float | None) -> float | None:
        return None if moment is None else min(moment + seconds, now)

    return state._replace(
        alerts={
            name: alert._replace(
                since=min(alert.since + seconds, now) if alert.phase is Phase.PENDING else alert.since,
                over=later(alert.over),
            )
            for name, alert in state.alerts.items()
        }
    )


def _step(rule: AlertRule, alert: Alert | None, found: AlertCondition, now: float) -> Alert | None:
    if found.holds is None:
        return alert
    if found.holds:
        return _holds(rule, alert, found.text, now)
    if alert is None:
        return None
    if alert.phase is not Phase.RESOLVED:
        over = now if alert.over is None else alert.over
        if now - over < rule.clear:
            return alert._replace(over=over)
        alert = alert._replace(phase=Phase.RESOLVED, over=over, resolved=now)
    cooling = alert.sent is not None and now - alert.sent < rule.cooldown
    return alert if alert.told or cooling else None


def _holds(rule: AlertRule, alert: Alert | None, text: str, now: float) -> Alert:
    if alert is None:
        alert = Alert(Phase.PENDING, now, text)
    elif alert.phase is Phase.RESOLVED:
        alert = Alert(Phase.PENDING, now, text, sent=alert.sent, told=alert.told)
    if alert.phase is Phase.PENDING and now - alert.since >= rule.wait:
        alert = alert._replace(phase=Phase.FIRING, fired=now)
    return alert._replace(over=None, text=text)


def _tells_firing(rule: AlertRule, alert: Alert, now: float) -> bool:
    # One whose condition is over at the moment is not sent: it may be resolved soon.
    if alert.phase is not Phase.FIRING or alert.over is not None:
        return False
    if alert.sent is None:
        return True
    if alert.told:
        return rule.repeat > 0 and now - alert.sent >= max(rule.repeat, rule.cooldown)
    return now - alert.sent >= rule.cooldown


def as_data(state: RuleState) -> list[Any]:
    """A state in the types that msgpack knows."""
    alerts = {name: [alert.phase.value, *alert[1:]] for name, alert in state.alerts.items()}
    return [state.kind, alerts, state.sent]


def from_data(data: list[Any]) -> RuleState:
    kind, alerts, sent = data
    return RuleState(kind, {name: Alert(Phase(phase), *rest) for name, (phase, *rest) in alerts.items()}, sent)
