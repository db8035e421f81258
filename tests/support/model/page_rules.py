"""When a page is fetched again: because a link to it was found again, or because its time has come.

The server's rules (page_record.lua) are held to these. A page has a record: its state and the times of what happened to it last. `rediscovered` says what to do when a link leads to it
again; its rules are data, and those of NEOCrawler are the usual ones. `visited` says when a page is due again after a visit: after a
fixed time, or sooner the more often it changes.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from gossamer.model.plan.page_record import PageState, RevisitRules


class PageRecord(NamedTuple):
    """What is known about a page. Times are Unix seconds of the server."""

    state: PageState
    changed: float
    """When it came into this state."""
    version: int = 0
    """The version of the seeds that led to it last."""
    interval: float = 0.0
    """The time between its last visit and the next one."""
    signature: int = 0
    """Of its content at the last visit; 0: none yet."""
    changes: int = 0
    """How often its content was another one than at the visit before."""
    misses: int = 0
    """How often in a row it did not exist."""


class RediscoveryRules(NamedTuple):
    """After how many seconds in a state a page is scheduled again when a link leads to it; None: never. 0: now. `newer` is whether
    one that is reached by newer seeds is scheduled at once when it is finished, as list pages are."""

    found: float | None = 0.0
    scheduled: float | None = 300.0
    fetching: float | None = 300.0
    finished: float | None = None
    failed: float | None = 0.0
    gone: float | None = None
    newer: bool = False

    def after(self, state: PageState) -> float | None:
        seconds: float | None = getattr(self, state.value)
        return seconds


class Rediscovery(NamedTuple):
    """What to do about a page that was found again: schedule it `at` this time, None for not at all; and why."""

    at: float | None
    why: str


def neocrawler_rules(interval: float, *, lists: bool) -> RediscoveryRules:
    """What NEOCrawler does: a page that failed or was only found is scheduled now; a finished one after the layer's interval, a list
    page also when a newer round reaches it; one that is stuck after five minutes."""
    return RediscoveryRules(finished=interval, gone=interval, newer=lists)


def rediscovered(record: PageRecord | None, rules: RediscoveryRules, version: int, now: float) -> Rediscovery:
    """A link led to a page, in seeds of this version. `record` is None for a page that nobody knows."""
    if record is None:
        return Rediscovery(now, "new")
    state = record.state
    if rules.newer and state in (PageState.FINISHED, PageState.GONE) and version > record.version:
        return Rediscovery(now, f"reached by version {version} of the seeds, after version {record.version}")
    after = rules.after(state)
    if after is None:
        return Rediscovery(None, f"{state.value}, and such pages are not scheduled again")
    at = record.changed + after
    if at <= now:
        stuck = state in (PageState.SCHEDULED, PageState.FETCHING)
        return Rediscovery(now, f"{'stuck: ' if stuck else ''}{state.value} for {now - record.changed:.0f} s")
    return Rediscovery(at, f"{state.value} for {now - record.changed:.0f} s, scheduled again after {after:g} s")


SHRINK, GROW = 0.5, 1.5


class Visit(enum.Enum):
    """READ: the page came, with a signature of its content. UNCHANGED: the server said that it has not changed. MISSING: 404 or 410."""

    READ = "read"
    UNCHANGED = "unchanged"
    MISSING = "missing"


def visited(
    record: PageRecord, rules: RevisitRules | None, visit: Visit, signature: int, now: float
) -> tuple[PageRecord, float | None]:
    """The record of a page after a visit, and when it is due again; None: only when a link leads to it."""
    first = record.signature == 0
    if visit is Visit.MISSING:
        misses = record.misses + 1
        gone = rules is None or misses >= rules.gone
        state = PageState.GONE if gone else PageState.FINISHED
        record = record._replace(state=state, changed=now, misses=misses)
        if gone or rules is None:
            return record._replace(interval=0.0), None
        interval = rules.bounded(record.interval or rules.every)
        return record._replace(interval=interval), now + interval
    changed = visit is Visit.READ and not first and signature != record.signature
    record = record._replace(
        state=PageState.FINISHED,
        changed=now,
        misses=0,
        signature=record.signature if visit is Visit.UNCHANGED else signature,
        changes=record.changes + changed,
    )
    if rules is None:
        return record._replace(interval=0.0), None
    if not rules.adaptive:
        interval = rules.every
    elif (first and visit is Visit.READ) or not record.interval:
        interval = rules.bounded(rules.every)
    else:
        interval = rules.bounded(record.interval * (SHRINK if changed else GROW))
    return record._replace(interval=interval), now + interval
