"""Of which subjects the condition of a rule holds. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from gossamer.model import FieldCoverage
from gossamer.model.plural import counted
from gossamer.planner.alerts.crawl_counts import CrawlReading
from gossamer.planner.alerts.history import NOTHING, CountHistory, Span
from gossamer.planner.alerts.rules import (
    AlertRule,
    BlockedPages,
    DeadLetters,
    FailedRound,
    HeldRound,
    HostBlocked,
    ItemRate,
    LateRound,
    LowCoverage,
    NoItems,
    NoWorkers,
    Paused,
    QueueGrowth,
    ServerMemory,
    TaskBacklog,
    TaskDrain,
    WorkerLost,
)

ROUNDING = 1e-9
NAMED_FIELDS = 3
NEAR = 0.95
"""A queue so near its highest does not shrink."""


class AlertCondition(NamedTuple):
    """What a rule finds of one subject: whether its condition holds (None: that is not known yet), and in which words."""

    subject: str
    holds: bool | None
    text: str = ""


Conditions = Iterator[AlertCondition]


def conditions(rule: AlertRule, reading: CrawlReading, history: CountHistory) -> dict[str, AlertCondition]:
    """What the rule finds, by subject. A subject that is not in it does not fulfil the condition."""
    return {one.subject: one for one in _KINDS[type(rule)](rule, reading, history) if rule.concerns(one.subject)}


def duration(seconds: float) -> str:
    """`42 s`, `3 min`, `2 h 10 min`, `3 d 4 h`."""
    whole = round(seconds)
    for size, unit, part, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{whole // 60} min" if whole >= 60 else f"{whole} s"


def _no_items(rule: NoItems, reading: CrawlReading, history: CountHistory) -> Conditions:
    for group, now in reading.totals.items():
        span = _span(history, rule.window, group, reading)
        if span is None:
            yield AlertCondition(group, None)
            continue
        pages = now.pages - span.then.pages
        yield AlertCondition(
            group,
            now.items == span.then.items and pages >= rule.pages,
            f"no item for {duration(span.seconds)}, while {counted(pages, 'page')} were fetched",
        )


def _item_rate(rule: ItemRate, reading: CrawlReading, history: CountHistory) -> Conditions:
    for group, now in reading.totals.items():
        span = _span(history, rule.window, group, reading)
        if span is None:
            yield AlertCondition(group, None)
            continue
        rate, least = (now.items - span.then.items) / span.seconds, rule.below.per_second
        if least is None:
            usual = _span(history, rule.baseline, group, reading)
            if usual is None or rule.below.share is None:
                yield AlertCondition(group, None)
                continue
            least = rule.below.share * (now.items - usual.then.items) / usual.seconds
        pages = now.pages - span.then.pages
        text = f"{rate * 3600:,.1f} items per hour over {duration(span.seconds)}, less than {least * 3600:,.1f}"
        yield AlertCondition(group, rate < least and pages >= rule.pages, text)


def _late_round(rule: LateRound, reading: CrawlReading, history: CountHistory) -> Conditions:
    for group, one in reading.rounds.items():
        deadline = rule.after if one.deadline is None else one.deadline
        if deadline is not None and one.seconds > deadline:
            yield AlertCondition(
                group,
                True,
                f"round {one.number} runs for {duration(one.seconds)}; its deadline is {duration(deadline)}",
            )


def _held_round(rule: HeldRound, reading: CrawlReading, history: CountHistory) -> Conditions:
    for group, why in reading.held_rounds.items():
        yield AlertCondition(group, True, f"what is due for its rounds cannot be done: {why}")


def _failed_round(rule: FailedRound, reading: CrawlReading, history: CountHistory) -> Conditions:
    for group, last in reading.last_rounds.items():
        if last is None:
            yield AlertCondition(group, None)  # it runs
        elif 0 < last.pages == last.failed:
            failed = f"its only page failed in round {last.number}"
            if last.pages > 1:
                failed = f"all {last.pages:,} pages of round {last.number} failed"
            yield AlertCondition(group, True, failed)


def _field_coverage(rule: LowCoverage, reading: CrawlReading, history: CountHistory) -> Conditions:
    for group, rows in reading.coverage.items():
        newest = max(row.round for row in rows)
        # Layers without pages of their own have records of others' pages.
        few = {row.layer for row in rows if row.round == newest and not row.field and row.asked < rule.pages}
        before: dict[tuple[str, str], FieldCoverage] = {}
        for row in rows:
            if row.round < newest and row.asked >= rule.pages:
                before[row.layer, row.field] = row
        texts: dict[str, list[str]] = {}
        # Fields first: where these have fallen, their layer says nothing more.
        for row in sorted(rows, key=lambda row: not row.field):
            if row.round != newest or row.layer in few or row.asked < rule.pages:
                continue
            last = before.get((row.layer, row.field))
            has_fallen = last is not None and last.share - row.share >= rule.fallen - ROUNDING
            then = f", {last.share:.1%} in round {last.round}" if last is not None else ""
            if row.field and (has_fallen or (rule.below is not None and row.share < rule.below)):
                found = f"{row.layer}.{row.field} has a value in {row.share:.1%} of the records of round {newest}{then}"
                texts.setdefault(row.layer, []).append(found)
            elif not row.field and has_fallen and row.layer not in texts:
                found = f"{row.share:.1%} of the pages of {row.layer} have records or links in round {newest}{then}"
                texts[row.layer] = [found]
        if texts:
            every = [text for layer in sorted(texts) for text in texts[layer]]
            more = f"; and {counted(len(every) - NAMED_FIELDS, 'field')} more" if len(every) > NAMED_FIELDS else ""
            yield AlertCondition(group, True, "; ".join(every[:NAMED_FIELDS]) + more)
        elif _runs(reading, group, newest):
            read = {(row.layer, row.field) for row in rows if row.round == newest and row.asked >= rule.pages}
            if any(key not in read or key[0] in few for key in before):
                # It may have too few again.
                yield AlertCondition(group, None)


def _blocked(rule: BlockedPages, reading: CrawlReading, history: CountHistory) -> Conditions:
    for group, rows in reading.coverage.items():
        newest = max(row.round for row in rows)
        layers = [row for row in rows if row.round == newest and not row.field]
        walls = sum(row.blocked for row in layers)
        came = walls + sum(row.asked for row in layers)
        if came >= rule.pages and walls > rule.above * came:
            yield AlertCondition(
                group, True, f"{walls:,} of {came:,} responses of round {newest} were walls, not pages"
            )
        elif came < rule.pages and _runs(reading, group, newest):
            yield AlertCondition(group, None)


def _runs(reading: CrawlReading, group: str, number: int) -> bool:
    """Whether this round of a group is still running: as long as it has read too few pages to tell, what the round before showed stands."""
    running = reading.rounds.get(group)
    return running is not None and running.number == number


def _queue_growth(rule: QueueGrowth, reading: CrawlReading, history: CountHistory) -> Conditions:
    yield from _growth(rule, reading, history, "waiting", "request")


def _task_backlog(rule: TaskBacklog, reading: CrawlReading, history: CountHistory) -> Conditions:
    yield from _growth(rule, reading, history, "tasks", "task")


def _growth(
    rule: QueueGrowth | TaskBacklog, reading: CrawlReading, history: CountHistory, what: str, unit: str
) -> Conditions:
    for group, totals in reading.totals.items():
        now: int = getattr(totals, what)
        if now < rule.above:
            continue
        span = history.span(rule.window, group, reading.now)
        if span is None:
            yield AlertCondition(group, None)
            continue
        then: int = getattr(span.then, what)
        text = f"{counted(now, unit)} wait; {duration(span.seconds)} ago there were {then:,}"
        # What was long and shrinks, as in a round that began with many seeds, does not grow.
        grows = now >= NEAR * history.highest(rule.window, group, what, reading.now)
        yield AlertCondition(group, grows and now >= rule.growth * then, text)


def _task_drain(rule: TaskDrain, reading: CrawlReading, history: CountHistory) -> Conditions:
    for group, tasks in reading.tasks.items():
        left = counted(tasks.waiting + tasks.leased, "task")
        if tasks.drain_seconds is None:
            yield AlertCondition(group, True, f"{left} wait, and no worker takes any")
        elif tasks.drain_seconds > rule.above:
            yield AlertCondition(group, True, f"{left} take {duration(tasks.drain_seconds)} at the present pace")


def _dead_letters(rule: DeadLetters, reading: CrawlReading, history: CountHistory) -> Conditions:
    for group, now in reading.totals.items():
        if rule.total is not None and now.dead > rule.total:
            yield AlertCondition(group, True, f"{counted(now.dead, 'dead letter')}")
            continue
        least = history.lowest_dead(rule.window, group, reading.now)
        if least is not None and now.dead - least > rule.above:
            more = counted(now.dead - least, "dead letter")
            yield AlertCondition(group, True, f"{more} more within {duration(rule.window)}; {now.dead:,} in all")


def _worker_lost(rule: WorkerLost, reading: CrawlReading, history: CountHistory) -> Conditions:
    for worker in reading.lost:
        silent = reading.now - worker.seen
        if silent >= rule.silent:
            held = f", with {counted(worker.held, 'page')} in progress" if worker.held else ""
            yield AlertCondition(worker.name, True, f"silent for {duration(silent)}{held}")


def _no_workers(rule: NoWorkers, reading: CrawlReading, history: CountHistory) -> Conditions:
    for group, why in reading.unserved.items():
        yield AlertCondition(group, True, why)


def _host_blocked(rule: HostBlocked, reading: CrawlReading, history: CountHistory) -> Conditions:
    for host in reading.blocked:
        left = duration(max(0.0, host.blocked_until - reading.now))
        yield AlertCondition(host.host, True, f"blocked for {left} more ({host.reason or 'no reason given'})")


def _paused(rule: Paused, reading: CrawlReading, history: CountHistory) -> Conditions:
    for group, reason in reading.paused.items():
        yield AlertCondition(group, True, f"paused: {reason}")


def _server_memory(rule: ServerMemory, reading: CrawlReading, history: CountHistory) -> Conditions:
    for server in reading.servers:
        if server.memory_max and server.memory_used > rule.above * server.memory_max:
            used = server.memory_used / server.memory_max
            yield AlertCondition(server.node, True, f"{used:.0%} of its memory limit is used; {server.more_memory}")


_KINDS: Mapping[type[AlertRule], Callable[[Any, CrawlReading, CountHistory], Conditions]] = {
    NoItems: _no_items,
    ItemRate: _item_rate,
    LateRound: _late_round,
    HeldRound: _held_round,
    FailedRound: _failed_round,
    LowCoverage: _field_coverage,
    BlockedPages: _blocked,
    QueueGrowth: _queue_growth,
    TaskBacklog: _task_backlog,
    TaskDrain: _task_drain,
    DeadLetters: _dead_letters,
    WorkerLost: _worker_lost,
    NoWorkers: _no_workers,
    HostBlocked: _host_blocked,
    Paused: _paused,
    ServerMemory: _server_memory,
}


def _span(history: CountHistory, window: float, group: str, reading: CrawlReading) -> Span | None:
    """The group a whole window ago; None if that is not known, or if its counts began again from 0 since: it was dropped, or the server
    went back to an older state."""
    span, now = history.span(window, group, reading.now), reading.totals[group]
    if span is None or span.then is NOTHING:
        return span
    return None if now.items < span.then.items or now.pages < span.then.pages else span
