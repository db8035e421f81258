"""The picture of `gossamer top`: a crawl on one screen, and in one line. Pure: a view and its rates in, something to print out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.cli.output import visible
from gossamer.cli.progress import duration
from gossamer.cli.view.status import drain, serves, state
from gossamer.frontier.server.info import size
from gossamer.model import GroupCounts
from gossamer.status.overview import Overview
from gossamer.status.rates import Rates

ROWS_LEAST = 3
GAP = 2
NAME_LEAST = 20


class Section(NamedTuple):
    """One table: its columns (`>` before a name: numbers; `?` after it: may be left out on a narrow screen, the last first), its rows in
    the order in which they are shown, and how much each matters: if there is no room for all, the lesser ones are left out. The
    order stays, so that nothing jumps."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    weights: Sequence[tuple[float, ...]]


def line(view: Overview, rates: Rates) -> str:
    """The crawl in one line, for a log."""
    figures = totals(view, rates)
    moment = time.strftime("%H:%M:%S", time.localtime(view.now))
    paused = f", PAUSED: {view.paused}" if view.paused else ""
    paused += f", MEMORY: {view.memory}" if view.memory else ""
    paused += f"; {view.stranded}" if view.stranded else ""
    return f"{moment} {view.crawl}: " + ", ".join(f"{value} {name}" for name, value in figures) + paused


def totals(view: Overview, rates: Rates) -> list[tuple[str, str]]:
    """Name and value of what the whole crawl is about."""
    lanes, groups = [x.lane for x in view.lanes], [x.group for x in view.groups]
    tasks, alive = sum(x.waiting + x.leased for x in view.tasks), sum(map(view.alive, view.workers))
    return [
        ("pages/s", _rate(rates.of("pages", lanes))),
        ("items/s", _rate(rates.of("items", groups))),
        ("received", f"{size(rates.of('bytes', groups))}/s"),
        ("queued", _n(sum(x.queued for x in view.lanes))),
        ("delayed", _n(sum(x.delayed for x in view.lanes))),
        ("leased", _n(sum(x.leased for x in view.lanes))),
        ("task" if tasks == 1 else "tasks", _n(tasks)),
        ("worker" if alive == 1 else "workers", _n(alive)),
        ("dead", _n(sum(x.dead for x in view.groups))),
        ("blocked", _n(view.blocked_count)),
    ]


def picture(view: Overview, rates: Rates, place: str, console: Console, trouble: str = "") -> RenderableType:
    """The crawl on the console's whole screen. `trouble`: why this is not the newest state."""
    sections = [s for s in (_lanes(view, rates), _groups(view, rates), _workers(view), _hosts(view)) if s.rows]
    heads = [_head(view, place), *_totals(view, rates, console.width)]
    heads += [_trouble(f"memory: {view.memory}")] if view.memory else []
    heads += [_trouble(view.stranded)] if view.stranded else []
    heads += [_trouble(f"not the newest: {trouble}")] if trouble else []
    room = console.height - len(heads) - 2 - 2 * len(sections)
    parts: list[RenderableType] = [*heads]
    for section, shown in zip(sections, shares([len(s.rows) for s in sections], room), strict=True):
        rows, more = _cut(section, shown)
        parts += [Text(), _table(section, rows, console.width)]
        if more:
            parts.append(Text(f"… {more:,} more", style="dim"))
    if not view.groups:
        parts += [Text(), Text("nothing is defined in this crawl yet", style="dim")]
    return Group(*parts, Text(), Text("q ends", style="dim"))


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """How many of the lines each table gets: small tables are shown whole, the others share the rest, and each has a few."""
    granted = [0] * len(wanted)
    open_ = [index for index, rows in enumerate(wanted) if rows]
    while open_ and room > 0:
        share = max(1, room // len(open_))
        for index in list(open_):
            more = min(share, wanted[index] - granted[index], room)
            granted[index] += more
            room -= more
            if granted[index] >= wanted[index]:
                open_.remove(index)
    return [max(got, min(rows, ROWS_LEAST)) for got, rows in zip(granted, wanted, strict=True)]


def _head(view: Overview, place: str) -> Text:
    moment = time.strftime("%H:%M:%S", time.localtime(view.now))
    parts = f" in {view.partitions} partitions" if view.partitions > 1 else ""
    head = Text(no_wrap=True, overflow="ellipsis")
    head.append(visible(view.crawl), style="bold")
    head.append(f"{parts} on {visible(place)}, {moment}")
    used, limit = sum(x.memory_used for x in view.servers), sum(x.memory_max for x in view.servers)
    head.append(f", memory {size(used)}" + (f" of {size(limit)}" if limit else ""))
    if any(not server.aof for server in view.servers):
        head.append(", NO log on disk", style="yellow")
    if view.paused:
        head.append(f"  PAUSED: {visible(view.paused)}", style="bold yellow")
    return head


def _totals(view: Overview, rates: Rates, width: int) -> list[Text]:
    lines = [Text(no_wrap=True)]
    for name, value in totals(view, rates):
        bad = name in ("dead", "blocked")
        if value == "0" and (bad or name == "tasks"):
            continue
        if len(lines[-1]) + len(value) + len(name) + 3 > width:
            lines.append(Text(no_wrap=True))
        if lines[-1]:
            lines[-1].append("  ")
        lines[-1].append(value, style="bold yellow" if bad else "bold")
        lines[-1].append(f" {name}", style="dim")
    return lines


def _trouble(said: str) -> Text:
    return Text(visible(said), style="bold red", no_wrap=True, overflow="ellipsis")


def _lanes(view: Overview, rates: Rates) -> Section:
    rows, weights = [], []
    for x in view.lanes:
        speed = rates.of("pages", [x.lane])
        numbers = map(_n, (x.queued, x.delayed, x.leased, x.done, x.retried, x.failed, x.expired))
        rows.append((x.lane, _rate(speed), *numbers, x.paused))
        weights.append((speed, x.queued + x.leased))
    heads = (">pages/s", ">queued", ">delayed?", ">leased", ">done", ">retried?", ">failed", ">expired?")
    return Section(("lane", *heads, ""), rows, weights)


def _groups(view: Overview, rates: Rates) -> Section:
    tasks = {x.group: x for x in view.tasks}
    rows, weights = [], []
    for x in view.groups:
        fed = tasks.get(x.group)
        waiting = fed.waiting + fed.leased if fed else 0
        items, errors, taken = (rates.of(what, [x.group]) for what in ("items", "errors", "bytes"))
        numbers = map(_n, (x.items, x.items_waiting, x.dead, x.lost, x.round))
        work = _n(x.open), _n(waiting), drain(fed.drain_seconds) if fed else ""
        rows.append((x.group, _rate(items), _rate(errors), size(taken), *work, *numbers, _state(x, waiting)))
        weights.append((items, taken, x.open))
    heads = (
        ">items/s",
        ">errors/s",
        ">bytes/s?",
        ">open",
        ">tasks",
        ">done in?",
        ">items",
        ">waiting?",
        ">dead",
        ">lost?",
        ">round?",
    )
    return Section(("group", *heads, ""), rows, weights)


def _state(group: GroupCounts, tasks: int) -> str:
    if group.paused:
        return f"paused: {group.paused}"
    return "drained" if group.open == 0 and tasks == 0 and group.start != "owed" else ""


def _workers(view: Overview) -> Section:
    rows, weights = [], []
    for x in sorted(view.present, key=lambda each: each.name):
        silent = view.now - x.seen
        ago = "now" if silent < 2 else f"{duration(silent)} ago"
        rows.append((x.name, serves(x), _n(x.held), ago, state(x, view.alive(x))))
        weights.append((x.held, x.seen))
    return Section(("worker", "serves", ">holds", ">last seen", "state"), rows, weights)


def _hosts(view: Overview) -> Section:
    rows = [(x.host, duration(x.blocked_until - view.now), x.reason) for x in view.blocked]
    return Section(("blocked host", ">for", "reason"), rows, [(x.blocked_until,) for x in view.blocked])


def _table(section: Section, rows: Sequence[Sequence[str]], width: int) -> Table:
    cells = [[visible(cell) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold underline", padding=(0, GAP, 0, 0))
    kept = _fitting(section.columns, cells, width)
    for index in kept:
        column = section.columns[index]
        number = column.startswith(">")
        # Names give way to numbers: half a number is a wrong one.
        longest = max(len(name_of(column)), *(len(row[index]) for row in cells))
        least = longest if number else min(longest, NAME_LEAST) if index == 0 else None
        table.add_column(
            name_of(column), justify="right" if number else "left", no_wrap=True, overflow="ellipsis", min_width=least
        )
    for row in cells:
        # Text, not str: square brackets in a name are no markup.
        table.add_row(*(Text(row[index], style=_style(row[index])) for index in kept))
    return table


def name_of(column: str) -> str:
    return column.strip(">?")


def _fitting(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Which columns there is room for: all, or without as many of the optional ones as it takes."""
    kept = list(range(len(columns)))
    wide = [max(len(name_of(column)), *(len(row[i]) for row in cells)) + GAP for i, column in enumerate(columns)]
    for index in reversed(range(len(columns))):
        if sum(wide[i] for i in kept) - GAP > width and columns[index].endswith("?"):
            kept.remove(index)
    return kept


def _cut(section: Section, shown: int) -> tuple[Sequence[Sequence[str]], int]:
    """The rows that are shown, and how many are not. The line that says so takes the place of a row."""
    rows = section.rows
    if len(rows) <= shown:
        return rows, 0
    best = sorted(range(len(rows)), key=lambda index: section.weights[index], reverse=True)[: shown - 1]
    return [rows[index] for index in sorted(best)], len(rows) - len(best)


def _style(cell: str) -> str:
    if cell in ("silent", "draining") or cell.startswith("paused"):
        return "yellow"
    return "dim" if cell in ("0", "0 B") else ""


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value else "0"


def _n(number: int) -> str:
    return f"{number:,}"
