"""`gossamer alert`: what fires, by which rules, and where it is sent."""

from __future__ import annotations

import secrets
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import exit_codes, options, output
from gossamer.cli.options import argument, flag, option
from gossamer.cli.progress import duration
from gossamer.cli.timestamp import when
from gossamer.errors import SettingError, UnknownDocument
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.planner.alerts.documents import (
    ALERT,
    RULES,
    SILENCES,
    AlertDocuments,
    Silence,
    silences_of,
    silences_text,
)
from gossamer.planner.alerts.file import load_bytes
from gossamer.planner.alerts.message import AlertMessage, ListedAlert, line_of
from gossamer.planner.alerts.overview import AlertOverview, alert_overview
from gossamer.planner.alerts.rules import NAMES, AlertRule, Rate, RuleSet
from gossamer.planner.alerts.webhook import Webhook

app = options.Noun("Alerts: what fires, by which rules, and where it is sent.")
Note = Annotated[str, option("--note", "TEXT", "Why; kept with the version.")]
RuleFile = Annotated[Path, argument("FILE", "A YAML file of alert rules.")]
WEBHOOK = "GOSSAMER_ALERT_WEBHOOK"


@app.command("list")
def list_(
    limit: Annotated[int, option("--limit", "N", "Show the last N messages.", min=0, max=100)] = 20,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """List the alerts that are firing, pending or just resolved, and the last messages.

    The planner that leads evaluates them, if it has a webhook (GOSSAMER_ALERT_WEBHOOK) or the crawl has rules (`alert push`). A message is
    waiting, delivered, refused by its receiver, dropped after a day without an answer, or kept: the planner had no webhook.
    """
    with where.find() as frontier:
        view = alert_overview(frontier)
    messages = view.messages[:limit]
    if json:
        look = None if view.look is None else view.look._asdict()
        alerts = [{**one._asdict(), "sent": one.sent} for one in view.alerts]
        output.write_json(
            {
                "now": view.now,
                "watched": view.watched,
                "look": look,
                "alerts": alerts,
                "messages": [_plain(x) for x in messages],
            }
        )
        return
    output.write_notice(_watch_text(view))
    output.write_table(
        ("alert", "severity", "state", "subject", "since", "sent", "silenced until", "text"),
        [
            (
                x.rule,
                x.severity,
                x.state,
                x.subject,
                when(x.since, view.now),
                "sent" if x.sent else x.message,
                when(x.silenced, view.now),
                x.text,
            )
            for x in view.alerts
        ],
        ("sent", "severity"),
    )
    if messages:
        output.write_line("")
        output.write_table(
            ("message", "alert", "status", "alerts", "delivery", "failed tries", "last error", "text"),
            [
                (when(x.at, view.now), x.rule, x.status, x.firing_count + x.resolved_count, x.state, x.tries, x.error, line_of(x))
                for x in messages
            ],
            ("alerts",),
        )  # fmt: skip


@app.command()
def rules(json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the alert rules in force, with all that they say."""
    with where.find() as frontier:
        documents = AlertDocuments(frontier)
        documents.update()
    if json:
        found = documents.rules
        shown = {name: _rule_json(rule) for name, rule in found.rules.items()}
        output.write_json({"every": found.every, "gather": found.gather, "pushed": documents.pushed, "rules": shown})
        return
    output.write_notice("these were pushed" if documents.pushed else "these are the defaults: no rules were pushed")
    _write_rules(documents.rules)


@app.command()
def check(file: RuleFile, json: options.Json = False) -> None:
    """Check a file of alert rules, and list the rules that would be in force. Changes nothing."""
    _, found = load_bytes(file.read_bytes(), str(file))
    if json:
        output.write_json({name: _rule_json(rule) for name, rule in found.rules.items()})
        return
    _write_rules(found)


@app.command()
def push(file: RuleFile, note: Note = "", json: options.Json = False, where: options.Where = options.HERE) -> None:
    """Check a file of alert rules and keep it in the crawl, for all planners.

    It replaces the last one. Rules that it does not name keep their defaults (`alert rules`). The leading planner
    uses it in its next cycle.
    """
    text, found = load_bytes(file.read_bytes(), str(file))
    with ValkeyFrontier.open(where.settings()) as frontier:
        version = frontier.put_document(ALERT, RULES, text, who=where.who(), note=note)
        where.log(frontier, "push", "alert rules", f"version {version}" + (f": {note}" if note else ""))
    names = list(found.rules)
    output.write_answer(
        json, {"version": version, "rules": names}, f"version {version}: {output.counted(len(names), 'rule')} in force"
    )


@app.command()
def remove(note: Note = "", json: options.Json = False, where: options.Where = options.HERE) -> None:
    """Remove the pushed rules from the crawl: the default ones apply again, if the planner has a webhook."""
    with where.find() as frontier:
        if RULES not in [info.name for info in frontier.documents(ALERT) if not info.deleted]:
            raise UnknownDocument(
                "the crawl has no alert rules of its own; `gossamer alert rules` lists those in force."
            )
        version = frontier.drop_document(ALERT, RULES, who=where.who(), note=note)
        where.log(frontier, "remove", "alert rules", note)
    output.write_answer(json, {"version": version}, "the pushed rules are removed")


@app.command("test")
def send_test(json: options.Json = False, where: options.Where = options.HERE) -> None:
    """Send a test message to the webhook, from here.

    Exit code 1: it could not be delivered. Set the same GOSSAMER_ALERT_WEBHOOK where planners run.
    """
    settings = where.settings()
    webhook = Webhook.of(settings)
    if webhook is None:
        raise SettingError(f"{WEBHOOK} is not set. Set it to the address that messages are sent to.")
    now = time.time()
    row = ListedAlert("test", now, None, "this is a test of the webhook; nothing is wrong")
    message = AlertMessage(secrets.token_hex(8), now, "test", "test", "site", "warning", "", (row,), (), 1, 0)
    result = webhook.deliver(message, settings["GOSSAMER_CRAWL"])
    if json:
        output.write_json({"webhook": webhook.shown, "id": message.id, "delivered": result.ok, "error": result.error})
    elif result.ok:
        output.write_line(f"{webhook.shown} took the message")
    else:
        output.write_error(f"the message was not delivered: {result.error}")
    if not result.ok:
        raise typer.Exit(exit_codes.FAILED)


@app.command()
def silence(
    rule: Annotated[str, argument("RULE", "Which alerts: the name of a rule, in which * stands for anything.")],
    subject: Annotated[str, argument("SUBJECT", "Of which site, host, worker or server; * stands for anything.")] = "*",
    lasting: Annotated[float, option("--for", "TIME", "How long: 90s, 10m, 2h, 1d.", parser=options.seconds)] = "2h",  # type: ignore[assignment]
    end: Annotated[bool, flag("--end", "End the silence instead.")] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Send no message that these alerts fire, for some time.

    They are still evaluated and listed. If one still fires when the silence is over, the message is sent then. The end
    of an alert that was sent before is reported at once.
    """
    with where.find() as frontier:
        documents = AlertDocuments(frontier)
        documents.update()
        if not end and not any(fnmatchcase(name, rule) for name in documents.rules.rules):
            raise typer.BadParameter(f"{rule}: there is no such rule; `gossamer alert rules` lists them")
        now = frontier.alert_entries([])[0]
        known = {info.name: info.version for info in frontier.documents(ALERT)}
        before = silences_of(frontier)
        others = [x for x in before if x.until > now and (x.rule, x.subject) != (rule, subject)]
        if end and not any((x.rule, x.subject) == (rule, subject) and x.until > now for x in before):
            raise UnknownDocument(f"there is no silence of {rule} {subject}; `gossamer alert list` shows them.")
        mine = [] if end else [Silence(rule, subject, now + lasting, where.who())]
        text = silences_text([*others, *mine])
        frontier.put_document(ALERT, SILENCES, text, expected=known.get(SILENCES, 0), who=where.who())
        where.log(
            frontier, "end silence" if end else "silence", f"alert {rule} {subject}", "" if end else duration(lasting)
        )
    said = f"{rule} {subject} is no longer silenced" if end else f"{rule} {subject} is silenced for {duration(lasting)}"
    output.write_answer(json, [one._asdict() for one in (*others, *mine)], said)


def _watch_text(view: AlertOverview) -> str:
    look = view.look
    if look is None:
        return f"alerts were never evaluated: run `gossamer plan` with {WEBHOOK} set, or with rules that were pushed"
    ago = duration(max(0.0, view.now - look.at))
    if not view.watched:
        return f"no planner evaluates alerts: {look.leader or 'a planner'} did last, {ago} ago. Is `gossamer plan` running, with {WEBHOOK} set?"
    waiting = [one for one in view.messages if one.state == "waiting"]
    failing = next((one.error for one in waiting if one.error), "")
    to = f"messages go to {look.webhook}" if look.webhook else f"no message is sent: the planner has no {WEBHOOK}"
    more = (
        f"; {output.counted_are(len(waiting), 'message')} waiting{f': {failing}' if failing else ''}" if waiting else ""
    )
    return f"evaluated {ago} ago by {look.leader or 'a planner'}; {to}{more}"


def _plain(message: AlertMessage) -> dict[str, Any]:
    rows = {name: [row._asdict() for row in getattr(message, name)] for name in ("firing", "resolved")}
    return {**message._asdict(), **rows, "status": message.status}


def _values(rule: AlertRule) -> dict[str, Any]:
    return {field.alias or name: getattr(rule, name) for name, field in type(rule).model_fields.items()}


def _rule_json(rule: AlertRule) -> dict[str, Any]:
    said = _values(rule)
    return {"kind": NAMES[type(rule)], **{key: str(x) if isinstance(x, Rate) else x for key, x in said.items()}}


def _write_rules(found: RuleSet) -> None:
    shared = ("severity", "for", "clear", "cooldown", "repeat")
    rows = []
    for name, rule in found.rules.items():
        said = _values(rule)
        own = {key: value for key, value in said.items() if key not in (*shared, "active", "note")}
        times = [duration(said[key]) for key in shared[1:]]
        words = [f"{key} {_said(key, value)}" for key, value in own.items() if value not in (None, (), ("*",))]
        rows.append((name, NAMES[type(rule)], said["severity"], *times, ", ".join(words)))
    output.write_table(("alert", "kind", *shared, "condition"), rows)


def _said(key: str, value: Any) -> str:
    """A value of a rule, as people write it. Numbers with a fraction are times, but for these."""
    if isinstance(value, float):
        return f"{value:g}" if key == "growth" else f"{value:.0%}" if value <= 1 else duration(value)
    return " ".join(value) if isinstance(value, tuple) and not isinstance(value, Rate) else str(value)
