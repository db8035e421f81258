"""`gossamer report`: what a crawl brought over days, what failed, and what is stuck."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from csv import writer
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import exit_codes, options, output
from gossamer.cli.options import flag, option
from gossamer.cli.timestamp import moment
from gossamer.errors import UnknownGroup
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.planner.overview import never_served, obstacles
from gossamer.status import report as reports
from gossamer.status.chart import line_chart, png, svg

app = options.Noun("What a crawl brought over days, what failed, and what is stuck.")

Sites = Annotated[list[str] | None, option("--site --group", "NAME", "Only this site or spider; may be given again.")]
Days = Annotated[int, option("--days", "N", "The last N days, today included.", min=1, max=400)]
OPTIONAL = ("finished", "read", "retried", "partition", "scheduled", "limit", "detail")
"""Columns of all reports that a narrow terminal goes without, the first of them first."""
Csv = Annotated[bool, flag("--csv", "Write CSV to standard output instead of a table.")]


@app.callback()
def _report() -> None:
    """What a crawl brought over days, what failed, and what is stuck."""


@app.command()
def daily(
    site: Sites = None,
    days: Days = 30,
    csv: Csv = False,
    chart: Annotated[
        Path | None,
        option("--chart", "FILE", "Also draw a chart of --what, a line for each layer: FILE.svg or FILE.png."),
    ] = None,
    what: Annotated[str, option("--what", "COUNT", f"What to draw: {', '.join(reports.COUNTS)}.")] = "finished",
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Show what each layer (or lane) brought on each day.

    Days are those of UTC, and 400 are kept. `fetched` counts attempts that ended: pages that were finished, replaced by where they
    redirect to, put back to be retried, or failed. `lost` are leases that ran out with their worker. `read`, `lacking` (a required field was
    not found) and `rows` (stored in a database) are counted for sites, by layer; `items` for the whole site or spider.
    """
    if what not in reports.COUNTS:
        raise typer.BadParameter(f"--what {what}: there are {', '.join(reports.COUNTS)}")
    if chart is not None and chart.suffix.lower() not in (".svg", ".png"):
        raise typer.BadParameter(
            f"--chart {chart}: charts are SVG or PNG; call the file {chart.with_suffix('.svg')} or {chart.with_suffix('.png')}"
        )
    with where.find() as frontier:
        rows = reports.daily(frontier, _groups(frontier, site), days)
        now = frontier.counts().now
    table = [
        (row.day.isoformat(), row.group, row.lane, *(reports.count_of(row, name) for name in reports.COUNTS))
        for row in rows
    ]
    _write(("day", "site", "layer", *reports.COUNTS), table, csv, json, "nothing was fetched in these days")
    if chart is not None:
        series = reports.daily_series(rows, what, days, now)
        if not series:
            raise typer.BadParameter(f"--chart {chart}: nothing of {what} was counted in these days")
        drawn = line_chart(f"{what} a day", "day (UTC)", what, series, lambda day: reports.day_name(day, now))
        chart.write_bytes(svg(drawn).encode() if chart.suffix.lower() == ".svg" else png(drawn))
        output.write_notice(f"{chart} written")


@app.command()
def failures(
    site: Sites = None,
    days: Days = 30,
    csv: Csv = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Show what failed for good, by layer and reason, the most first.

    Counts the dead letters of these days that are still kept: those that were replayed or dropped are gone. `gossamer dead list` has
    them one by one.
    """
    with where.find() as frontier:
        rows = reports.failures(frontier, _groups(frontier, site), days)
    table = [(x.group, x.lane, x.reason, x.number, moment(x.last), x.url, x.detail) for x in rows]
    columns = ("site", "layer", "reason", "number", "last", "url of the last", "detail")
    _write(columns, table, csv, json, "there are no dead letters of these days")


@app.command("left-out")
def left_out(
    site: Sites = None,
    csv: Csv = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Show what sites left out or lost, by layer, rule or field.

    Rows that replaced others with the same key, links that were not followed, pages that were read in part, seeds that brought
    nothing: what `gossamer crawl` reports at its end, over all rounds. Some of it may be meant.
    """
    with where.find() as frontier:
        rows = reports.left_out(frontier, _groups(frontier, site))
    _write(("site", "where", "what", "number"), rows, csv, json, "nothing was left out")


@app.command()
def gone(
    site: Sites = None,
    csv: Csv = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Show how many stored rows have no source any more, round by round, the newest first.

    Counts the rows of tables with `gone` whose page did not exist, or that a whole round did not bring; without those that have come
    back in the same round. `unknown` says of which layers a round cannot tell, and why.
    """
    with where.find() as frontier:
        found = reports.gone(frontier, _groups(frontier, site))
    rows = [(x.group, x.round, moment(x.closed), x.gone, x.why) for x in found]
    _write(("site", "round", "ended", "gone", "unknown"), rows, csv, json, "no site stores rows with gone")


@app.command()
def coverage(
    site: Sites = None,
    csv: Csv = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Show on which share of its pages each field had a value, round by round.

    A layer is a row with its pages that were read: `asked` of them, `found` with records (in a layer that keeps none: with links), and
    `blocked` walls that came instead of a page, each try. A field is a row with the records in which it was looked for, and those with a value; what the URL, a constant or a default
    says is no value. Pages that have not changed (304) are not read. 10 rounds are kept.
    """
    with where.find() as frontier:
        rows = reports.coverage(frontier, _groups(frontier, site))
    table = [
        (x.group, x.layer, x.field, x.round, x.asked, x.found, f"{x.share:.1%}" if x.asked else "", x.blocked)
        for x in rows
    ]
    columns = ("site", "layer", "field", "round", "asked", "found", "share", "blocked")
    _write(columns, table, csv, json, "no page of a site was read yet")


@app.command()
def cycles(
    limit: Annotated[int, option("--limit", "N", "Show the last N cycles.", min=1, max=500)] = 10,
    csv: Csv = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Show how planners divided the room among sites and layers, newest first.

    One row for each layer with due pages in a cycle, on each partition: `limit` requests may be queued there, `scheduled` were, and
    the `room` between the two was divided. `taken` pages were queued of the layer's `share`; `left` are due and wait. 500 cycles of
    each partition are kept.
    """
    with where.find() as frontier:
        found = frontier.plan_cycles(limit)
    rows = [
        (moment(x.at), x.partition, x.limit, x.scheduled, x.room, lane.lane, lane.share, lane.taken, lane.left)
        for x in found
        for lane in x.lanes
    ]
    columns = ("at", "partition", "limit", "scheduled", "room", "layer", "share", "taken", "left")
    _write(columns, rows, csv, json, "no planner has found due pages yet")


@app.command()
def stuck(
    site: Sites = None,
    csv: Csv = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Show what waits and will not continue by itself, and why.

    Sites and spiders with pages or tasks left that are paused, full or served by no worker, layers that are paused or whose stage no
    worker serves, rounds that a planner cannot begin, and sites and spiders with a file that no worker has served; pages that failed and
    wait for another try, a minute or longer; leases of workers that fell silent; hosts that are blocked or paused. Exits with 1 if there
    is anything.
    """
    with where.find() as frontier:
        groups = _groups(frontier, site)
        rows = list(reports.stuck(frontier, groups))
        rows += [reports.Stuck(x, "its rounds", why) for x, why in sorted(obstacles(frontier).items()) if x in groups]
        if not site:
            rows += [reports.Stuck(row.group, "its rounds", row.why) for row in never_served(frontier)]
    _write(("site", "what", "why"), rows, csv, json, "nothing is stuck")
    if rows:
        raise typer.Exit(exit_codes.FAILED)


def _groups(frontier: ValkeyFrontier, asked: Sequence[str] | None) -> list[str]:
    known = [row.group for row in frontier.counts().groups]
    for name in asked or ():
        if name not in known:
            raise UnknownGroup(
                f"no site or spider {name!r} has run in this crawl; `gossamer group list` names those that have."
            )
    return list(asked) if asked else known


def _write(columns: Sequence[str], rows: Iterable[Sequence[Any]], as_csv: bool, as_json: bool, nothing: str) -> None:
    rows = list(rows)
    if as_json:
        names = [column.replace(" ", "_") for column in columns]
        output.write_json([dict(zip(names, row, strict=True)) for row in rows])
    elif as_csv:
        writer(sys.stdout, lineterminator="\n").writerows([columns, *rows])
    elif not rows:
        output.write_line(nothing)
    else:
        cells = [[f"{cell:,}" if isinstance(cell, int) else cell or "" for cell in row] for row in rows]
        output.write_table(columns, cells, [name for name in OPTIONAL if name in columns])
