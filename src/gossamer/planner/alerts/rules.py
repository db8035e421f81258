"""Alert rules: the kinds there are, what each may be given, and the rules in force where no file says otherwise."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from gossamer.sites.format.values import Duration, Flag, Name, Share, SiteModel, Texts, Whole, number

HOUR, DAY = 3600.0, 86400.0
RULES_MAX = 100
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*([smhd])")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Rate(NamedTuple):
    """A number of items per second, or a share of how many there were before."""

    per_second: float | None
    share: float | None

    def __str__(self) -> str:
        return f"{100 * (self.share or 0):.6g}%" if self.per_second is None else f"{self.per_second * HOUR:.6g}/h"


def rate(value: Any) -> Any:
    """A rate from "100/h" or "20%"."""
    written = value.strip().lower() if isinstance(value, str) else ""
    if found := _RATE.fullmatch(written):
        return Rate(float(found[1]) / _UNITS[found[2]], None)
    if (found := _PERCENT.fullmatch(written)) and 0 < float(found[1]) <= 100:
        return Rate(None, float(found[1]) / 100)
    if isinstance(value, Rate):
        return value
    raise ValueError(f"{value!r} is not a rate; write 100/h (per s, m, h or d), or 20% of the usual rate")


Window = Annotated[Duration, Field(ge=60)]


class AlertRule(SiteModel):
    """What all rules have. A subject is what a rule looks at one by one: a site or spider, a host, a worker, or a server."""

    subject: ClassVar[str] = "site"
    """What its subjects are, as the label of an alert names them."""
    by_default: ClassVar[bool] = True
    """Whether there is a rule of this kind where no file names it."""

    active: Flag = True
    """False: the rule does not count."""
    only: Texts = ("*",)
    """Which subjects it is about: names in which `*` stands for anything."""
    but: Texts = Field(default=(), alias="except")
    """Which of these it is not about."""
    severity: Literal["warning", "critical"] = "warning"
    """How urgent it is: part of the message."""
    wait: Duration = Field(default=0.0, alias="for")
    """How long its condition must hold before the alert fires."""
    clear: Duration = 60.0
    """How long its condition must be over before the alert is resolved."""
    cooldown: Duration = HOUR
    """In this time at most one message says that a subject fires, and one that it is resolved."""
    repeat: Duration = DAY
    """After this time, and not before the cool-down is over, a message says again what still fires. 0: never."""
    note: Annotated[str, Field(max_length=500)] = ""
    """Part of the message: what to do, whom to ask."""

    def concerns(self, subject: str) -> bool:
        return any(fnmatchcase(subject, pattern) for pattern in self.only) and not any(
            fnmatchcase(subject, pattern) for pattern in self.but
        )

    @property
    def windows(self) -> tuple[float, ...]:
        """How far back it compares."""
        window: float | None = getattr(self, "window", None)
        return () if window is None else (window,)


class NoItems(AlertRule):
    """A site brings no item while its pages are fetched."""

    window: Window = 6 * HOUR
    """For how long there was none."""
    pages: Annotated[Whole, Field(ge=1)] = 100
    """The number of pages that it must have fetched in that time."""


class ItemRate(AlertRule):
    """A site brings fewer items than it should while its pages are fetched."""

    by_default: ClassVar[bool] = False

    below: Annotated[Rate, BeforeValidator(rate)]
    """`100/h` (per s, m, h or d), or a share of its usual rate: `20%`."""
    window: Window = HOUR
    """Over which time the rate is taken."""
    baseline: Window = DAY
    """Over which time the usual rate is taken."""
    pages: Annotated[Whole, Field(ge=1)] = 20
    """The number of pages that it must have fetched in `window`."""

    @property
    def windows(self) -> tuple[float, ...]:
        return (self.window,) if self.below.share is None else (self.window, self.baseline)


class LateRound(AlertRule):
    """A round runs longer than the `deadline` of its schedule."""

    after: Duration | None = None
    """The deadline of rounds whose schedule has none, of spiders too. None: these are never late."""


class HeldRound(AlertRule):
    """A round is due, but the planner cannot begin it, or cannot read or push its tasks."""

    wait: Duration = Field(default=300.0, alias="for")


class FailedRound(AlertRule):
    """Every page of the last round failed: the site is down, or refuses all requests."""


class LowCoverage(AlertRule):
    """A field has a value on too few of a site's pages, or on fewer than in the round before, or fewer of a layer's pages have any records or
    links: pages changed, or a wall came instead."""

    below: Share | None = None
    """The share of records below which it fires. None: it only compares."""
    fallen: Share = 0.3
    """It fires when a share is so many points less than in the round before: 30% is from 95% to 65%."""
    pages: Annotated[Whole, Field(ge=1)] = 20
    """The number of pages of the layer, and of records, that a round must have read. Until it has, the alert stays as it was."""


class BlockedPages(AlertRule):
    """Challenges and captchas come instead of a site's pages."""

    above: Share = 0.1
    """The share of responses in a round above which it fires."""
    pages: Annotated[Whole, Field(ge=1)] = 20
    """The number of responses that the round must have had, walls included. Until it has, the alert stays as it was."""


class QueueGrowth(AlertRule):
    """The queue of a site is long and grows."""

    wait: Duration = Field(default=HOUR / 2, alias="for")
    above: Whole = 10_000
    """The least number of requests that wait."""
    growth: Annotated[float, BeforeValidator(number), Field(ge=1)] = 1.5
    """How many times as many as a `window` ago; and it must be close to the highest number since then."""
    window: Window = 6 * HOUR
    """How far back it compares."""


class TaskBacklog(AlertRule):
    """Tasks of a site's producers come faster than they are done."""

    wait: Duration = Field(default=HOUR / 2, alias="for")
    above: Whole = 10_000
    """The least number of tasks that wait."""
    growth: Annotated[float, BeforeValidator(number), Field(ge=1)] = 1.5
    """How many times as many as a `window` ago; and it must be close to the highest number since then."""
    window: Window = HOUR
    """How far back it compares."""


class TaskDrain(AlertRule):
    """The tasks of a site take long at the present pace, or no worker takes any."""

    wait: Duration = Field(default=HOUR / 2, alias="for")
    above: Duration = DAY
    """The time in which they must be done at the pace of the last minutes."""


class DeadLetters(AlertRule):
    """Many pages of a site fail for good."""

    above: Whole = 50
    """The number of new dead letters in the `window` above which it fires."""
    window: Window = HOUR
    """How far back it looks."""
    total: Whole | None = None
    """It also fires when there are more than this in all, however old."""


class WorkerLost(AlertRule):
    """A worker fell silent without having ended: it died, hangs, or cannot reach the server."""

    subject: ClassVar[str] = "worker"

    silent: Annotated[Duration, Field(ge=20, le=HOUR)] = 60.0
    """For how long it was silent. Living workers call every 15 seconds at least."""


class NoWorkers(AlertRule):
    """A site has work, or one of its layers has, and no worker serves it; or its workers wait for their database."""

    wait: Duration = Field(default=300.0, alias="for")
    severity: Literal["warning", "critical"] = "critical"


class HostBlocked(AlertRule):
    """A host is blocked for the whole fleet, again and again: it answers 429 or 503, or an operator blocked it."""

    subject: ClassVar[str] = "host"

    wait: Duration = Field(default=HOUR / 2, alias="for")
    clear: Duration = 300.0


class Paused(AlertRule):
    """Nothing is leased from a site: by hand, with it or with the whole crawl, or for a reason such as `dead_full` or a login that failed."""

    wait: Duration = Field(default=HOUR, alias="for")


class ServerMemory(AlertRule):
    """The frontier's server is nearly full."""

    subject: ClassVar[str] = "server"

    wait: Duration = Field(default=300.0, alias="for")
    severity: Literal["warning", "critical"] = "critical"
    above: Share = 0.85
    """The share of its limit that is used."""


KINDS: Mapping[str, type[AlertRule]] = {
    "no_items": NoItems,
    "item_rate": ItemRate,
    "late_round": LateRound,
    "held_round": HeldRound,
    "failed_round": FailedRound,
    "field_coverage": LowCoverage,
    "blocked": BlockedPages,
    "queue_growth": QueueGrowth,
    "task_backlog": TaskBacklog,
    "task_drain": TaskDrain,
    "dead_letters": DeadLetters,
    "worker_lost": WorkerLost,
    "no_workers": NoWorkers,
    "host_blocked": HostBlocked,
    "paused": Paused,
    "server_memory": ServerMemory,
}
NAMES: Mapping[type[AlertRule], str] = {model: name for name, model in KINDS.items()}


class AlertFile(SiteModel):
    """A file of alert rules. What it does not name is as by default."""

    every: Annotated[Duration, Field(ge=1, le=HOUR)] = 15.0
    """How often the rules are evaluated: at most half of the shortest `window` of a rule."""
    gather: Duration = 300.0
    """A rule sends at most one message in this time, about all its subjects together."""
    clear: Duration | None = None
    """For all rules that do not say it themselves."""
    cooldown: Duration | None = None
    """For all rules that do not say it themselves."""
    repeat: Duration | None = None
    """For all rules that do not say it themselves."""
    rules: dict[Name, Any] = Field(default_factory=dict)
    """The rules by name. A rule with the name of a kind is of that kind; any other says its `kind`."""


class RuleSet(NamedTuple):
    """The rules in force, by name, and how they are evaluated."""

    every: float
    gather: float
    rules: Mapping[str, AlertRule]


def default_rules(**more: Any) -> dict[str, AlertRule]:
    """The rules where no file names one; `more` is given to each."""
    return {name: kind(**more) for name, kind in KINDS.items() if kind.by_default}


DEFAULT = RuleSet(15.0, 300.0, default_rules())
