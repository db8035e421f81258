"""`gossamer site list`: all sites and planned spiders of a crawl in one table."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import typer

from gossamer.cli import options, output
from gossamer.cli.progress import duration
from gossamer.cli.timestamp import about, when
from gossamer.model import PlanState
from gossamer.planner.overview import PlannedRound, overview

STATES = ("running", "waiting", "ending", "draining", "new", "full", "paused", "late")
COLUMNS = ("site", "state", "round", "began", "took", "next", "waiting", "busy", "by depth")
OPTIONAL = ("by depth", "took", "busy", "round")
"""Columns that a narrow terminal goes without, the first of them first."""


def list_tasks(where: options.Where, states: Sequence[str], json: bool) -> None:
    if unknown := [state for state in states if state not in STATES]:
        raise typer.BadParameter(f"--state {unknown[0]}: there are {', '.join(STATES)}")
    with where.find() as frontier:
        state, every = overview(frontier, depths=True)
    rows = [x for x in every if not states or x.state in states or (x.late and "late" in states)]
    if json:
        output.write_json([{**x._asdict(), "depths": [row._asdict() for row in x.depths]} for x in rows])
        return
    output.write_notice(_summary(every, state))
    output.write_table(COLUMNS, [_row(x, state.now) for x in rows], OPTIONAL)


def _summary(rows: Sequence[PlannedRound], state: PlanState) -> str:
    found = Counter(x.state for x in rows)
    counts = [f"{found[word]:,} {word}" for word in STATES if found[word]]
    late = sum(x.late for x in rows)
    leader = state.leader
    who = f"the planner {leader.name} begins rounds" if leader.present else "no planner leads: workers begin rounds"
    return f"{', '.join(counts) or 'no sites'}{f'; {late:,} late' if late else ''}; {who}"


def _row(x: PlannedRound, now: float) -> tuple[object, ...]:
    if x.state == "paused":
        coming = x.paused
    elif x.next is None:
        coming = x.why
    else:
        coming = when(max(x.next, now), now)
    return (
        x.group,
        f"{x.state}, late" if x.late else x.state,
        "" if x.state == "new" else x.round,
        when(x.began, now),
        _took(x, now),
        coming,
        f"{x.waiting:,}",
        f"{x.in_progress:,}",
        ", ".join(f"{row.depth}: {row.waiting:,}" for row in x.depths if row.waiting),
    )


def _took(x: PlannedRound, now: float) -> str:
    if x.began is None:
        return ""
    seconds = max(0.0, (now if x.ended is None else x.ended) - x.began)
    return about(seconds) if sys.stdout.isatty() else duration(seconds)
