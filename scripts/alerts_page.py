"""The reference of alert rules, made from their models: every kind with its keys, and what a webhook is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_core import PydanticUndefined

from gossamer.planner.alerts.conditions import duration
from gossamer.planner.alerts.message import LISTED, NAMED
from gossamer.planner.alerts.outbox import KEPT
from gossamer.planner.alerts.rules import KINDS, RULES_MAX, AlertFile, AlertRule
from gossamer.sites.file.schema import descriptions

INTRO = f"""\
A file of alert rules changes the default ones, or adds others; [the guide](../how-to/alerts-without-prometheus.md) shows how to use it.
`gossamer alert check` reports all its mistakes at once, with line, key and remedy. Durations are written as in
[site files](site-files.md). {RULES_MAX} rules can be in force at a time."""
COMMON = """\
Each kind looks at subjects of one sort, one by one: sites (spiders too), hosts, workers or servers. Besides its own keys, a rule may have these; where a kind has another default, its section says so:"""
MESSAGE = f"""\
Each message is a POST with a JSON body. It is about one rule, and has all its subjects that began to fire, or recovered, since the last. In the
form `alertmanager` (see `GOSSAMER_ALERT_FORMAT`) it is that of the webhooks of Prometheus' Alertmanager, version 4:

| field | what it is |
| --- | --- |
| `status` | `firing`, or `resolved` if nothing in the message fires |
| `alerts` | the alerts, {LISTED} of each status at most: `status`, `labels`, `annotations.summary`, `startsAt`, `endsAt`, `fingerprint` (the same in every message about this alert) |
| `truncatedAlerts` | how many more there are |
| `groupLabels`, `commonLabels` | `alertname` (the name of the rule), `crawl`, `kind`, `severity`; the label of an alert that names its subject is `site`, `host`, `worker` or `server` |
| `groupKey`, `version`, `receiver`, `externalURL`, `commonAnnotations` | as Alertmanager has them |
| `text` | the whole in words, {NAMED} subjects of each status at most |
| `id` | the message: if it comes twice, it has the same one, also in the header `Idempotency-Key` |

The other forms have the text alone, where the chat expects it.

A message counts as delivered with any status from 200 to 299 (`dingtalk` and `feishu`: and with their code 0). Redirects are not followed: the
address is a secret. A status of 400 to 499 refuses the message, and it is not sent again; after 401, 403, 404, 407, 408, 425, 429, any
other status, no answer or no connection it is sent again after 1, 2, 4 ... 300 seconds, or as `Retry-After` says, for a day. Messages go one
after the other, the oldest first. The last {KEPT} are kept, for `gossamer alert list`."""


def paragraphs() -> Iterator[str]:
    yield INTRO
    yield "## The file"
    yield _table(AlertFile, ())
    yield "## Kinds of rules"
    yield COMMON
    yield _table(AlertRule, ())
    for name, kind in KINDS.items():
        yield f"### {name}"
        said = (kind.__doc__ or "").strip()
        also = "" if kind.by_default else " There is no such rule unless a file has one."
        changed = [
            f" `{field.alias or key}` is {_default(key, field)}." for key, field in kind.model_fields.items()
            if key in AlertRule.model_fields and field.default != AlertRule.model_fields[key].default
        ]  # fmt: skip
        yield f"{said} Its subjects are {kind.subject}s.{''.join(changed)}{also}"
        if rows := _table(kind, AlertRule.model_fields):
            yield rows
    yield "## Messages"
    yield MESSAGE


def _table(model: Any, without: Any) -> str:
    rows, said = [], descriptions(model)
    for name, field in model.model_fields.items():
        if name in without:
            continue
        meaning = said.get(name, "")
        rows.append(f"| `{field.alias or name}` | {_default(name, field)} | {' '.join(meaning.split())} |")
    return "\n".join(["| key | default | meaning |", "| --- | --- | --- |", *rows]) if rows else ""


def _default(name: str, field: Any) -> str:
    value = field.default
    if field.default_factory is not None or value is None:
        return ""
    if value is PydanticUndefined:
        return "must be given"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return (
            f"`{value:g}`"
            if name in ("growth",)
            else f"`{value:.0%}`"
            if value < 1 and value
            else f"`{duration(value).replace(' min', 'm').replace(' ', '')}`"
        )
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{one}"' for one in value) + "]`"
    return f"`{value}`" if value != "" else ""
