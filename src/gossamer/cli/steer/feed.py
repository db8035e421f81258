"""`gossamer task feed`: tasks from a SQL table, and their state back to it."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Annotated

import typer

from gossamer.cli import exit_codes, options, output, progress
from gossamer.cli.options import argument, flag, option
from gossamer.errors import FrontierUnavailable, GossamerError, MemoryLimitReached, StoreUnavailable, UnknownCrawl
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.shutdown import handle_signals

UNAVAILABLE = (StoreUnavailable, FrontierUnavailable, MemoryLimitReached, UnknownCrawl)
"""What passes: the feeder waits, and goes on where it was."""
AGAIN_SECONDS, OUTAGE_SECONDS = 2.0, 3.0
IDLE_SECONDS = 0.5


def feed(
    key: Annotated[str, argument("KEY", "The key that the spider or site reads, such as news:start_urls.")],
    table: Annotated[
        str,
        option(
            "--table",
            "URL#TABLE",
            "The table: sqlite:///pages.db#pages, postgresql://…#pages, mysql://…#pages; TABLE alone: in GOSSAMER_STORE_URL.",
        ),
    ],
    task: Annotated[
        list[str] | None,
        option(
            "--task",
            "NAME=COLUMN",
            "What a column is in the task: url=link, meta.id=id. May be repeated. [default: url=url]",
        ),
    ] = None,
    page: Annotated[
        str, option("--page", "URL", "The URL of every row, with columns in braces, where no column has it.")
    ] = "",
    condition: Annotated[str, option("--where", "SQL", "Only rows that meet this condition.")] = "",
    prepare: Annotated[bool, flag("--prepare", "Add the columns for the state, and an index, where missing.")] = False,
    retry_failed: Annotated[bool, flag("--retry-failed", "Feed failed rows again.")] = False,
    max_waiting: Annotated[
        int, option("--max-waiting", "N", "Let no more than N tasks wait in the key.", min=1)
    ] = 1000,
    max_open: Annotated[
        int, option("--max-open", "N", "Let no more than N rows wait or run at a time.", min=1)
    ] = 10_000,
    tries: Annotated[int, option("--tries", "N", "How often a lost row is fed before it counts as failed.", min=1)] = 5,
    moved: Annotated[
        bool, flag("--moved", "The table is the one that fed the key before; only the address of its database changed.")
    ] = False,
    forever: Annotated[bool, flag("--forever", "Keep running when all rows are done, and wait for new ones.")] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Feed the rows of a SQL table as tasks, and write their state back.

    The primary key prevents repeats: a row is waiting, running, then done or failed; a lost task is fed again. Ends
    when all rows are done or failed; the exit code is 1 if some failed or have a state of their own. Start it again after Ctrl-C or a crash: it continues where it stopped.
    """
    url, _, name = table.rpartition("#")
    url = url or where.settings()["GOSSAMER_STORE_URL"]
    if not url or not name:
        raise typer.BadParameter(
            "write --table as URL#TABLE, such as sqlite:///pages.db#pages, or as TABLE and set GOSSAMER_STORE_URL"
        )
    members = dict(_member(each) for each in task or ())
    stop = threading.Event()
    with ExitStack() as stack:
        # Imported here: SQLAlchemy takes long to load, and few commands need it.
        from gossamer.feeder import ReportList, RowTask, TableFeeder
        from gossamer.store import Store
        from gossamer.store.task_table import TaskTable

        row_task = RowTask(members, page)
        # It waits here, and not in calls: so it stops at once when it is asked to.
        given = where.settings()
        given = replace(given, values={**given.values, "GOSSAMER_OUTAGE_SECONDS": OUTAGE_SECONDS})
        frontier = stack.enter_context(ValkeyFrontier.find(given))
        store = stack.enter_context(Store.open(url))
        rows = TaskTable(store, name, row_task.columns, condition, key)
        rows.check(prepare=prepare)
        reports = ReportList(frontier, key, name, store.database_place)
        if moved:
            reports.take()
        reports.keep()
        if retry_failed:
            output.write_notice(f"{output.counted(rows.renew_failed(), 'row')} that failed are given out again")
        for other, number in rows.given_elsewhere().items():
            output.write_notice(
                f"{output.counted(number, 'row')} of the table wait for a feeder of the key {other}: run it too, or set their task_state to NULL"
            )
        feeder = TableFeeder(
            frontier, rows, key, row_task, reports.reports, max_waiting=max_waiting, max_open=max_open, tries=tries
        )
        stack.enter_context(handle_signals(lambda _: stop.set(), lambda: None))
        # Counted once: a large table takes its time.
        before = rows.counts()
        total = None if forever else sum(before.values())
        say = progress.throttled(stack.enter_context(progress.live("feeding", total, sys.stderr, "rows")))
        outage, left = "", None
        while not stop.is_set():
            try:
                reports.keep()
                changed = feeder.step()
                ended = not changed and not forever and not rows.left()
                # Counted here too: the exit code depends on it, so a database that is unavailable is waited for.
                left = rows.counts() if ended else None
                if ended:
                    reports.give_up()
            except UNAVAILABLE as error:
                if str(error) != outage:
                    output.write_notice(f"waiting: {error}")
                outage = str(error)
                stop.wait(AGAIN_SECONDS)
                continue
            if outage:
                outage = ""
                output.write_notice("going on")
            done = feeder.counts
            figures = {"pushed": done.pushed, "failed": before["failed"] + done.failed, "lost": done.lost}
            # A row that has failed may be done later, and others may add some.
            known = before["done"] + before["failed"] + done.done + done.failed
            say(known if total is None else min(known, total), figures)
            if ended:
                break
            if not changed:
                stop.wait(IDLE_SECONDS)
        if left is None:
            with suppress(GossamerError):
                left = rows.counts()
                if not rows.open_count():
                    reports.give_up()
    done = feeder.counts
    if json:
        output.write_json({"table": name, "key": key, "rows": left, **done._asdict(), "interrupted": stop.is_set()})
    else:
        output.write_line(f"{name}: {_sentence(left)}")
        again = f", {done.pushed_again:,} of them again" if done.pushed_again else ""
        lost = f"; {output.counted_were(done.lost, 'row')} lost and given out again" if done.lost else ""
        output.write_line(f"{output.counted_were(done.pushed, 'task')} pushed to {key}{again}{lost}")
    if stop.is_set():
        raise typer.Exit(exit_codes.INTERRUPTED)
    if left is not None and left["failed"]:
        output.write_notice("task_detail of the rows says why they failed; --retry-failed gives them out again")
    if left is not None and left["other"]:
        output.write_notice("rows with another task_state than those of the manual were not given out; set it to NULL")
    if left is not None and left["failed"] + left["other"]:
        raise typer.Exit(exit_codes.FAILED)


def _sentence(counts: dict[str, int] | None) -> str:
    if counts is None:
        return "its rows cannot be counted now"
    return ", ".join(f"{count:,} {state}" for state, count in counts.items() if count) or "no rows"


def _member(text: str) -> tuple[str, str]:
    name, sign, column = text.partition("=")
    if not sign or not name or not column:
        raise typer.BadParameter(f"--task {text}: write NAME=COLUMN, such as url=link")
    return name, column
