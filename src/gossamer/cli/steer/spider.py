"""`gossamer spider`: when the rounds of Scrapy spiders begin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import options, output
from gossamer.cli.options import argument
from gossamer.cli.timestamp import when
from gossamer.cli.versions import Expect, Name, Note, Who, add_version_commands, described, tell
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.planner.overview import overview
from gossamer.planner.round_tasks import query_refusal
from gossamer.planner.schedules import SPIDER
from gossamer.registry.spider_files import SpiderFiles
from gossamer.settings import Settings
from gossamer.sites.file.grant import grant_of
from gossamer.sites.file.yaml import decoded
from gossamer.sites.format.spider import SpiderPlan

app = options.Noun("Schedules of Scrapy spiders, for planners.")
OPTIONAL = ("in progress", "waiting", "ended", "late", "file", "arguments", "tasks")
"""Columns of the list that a narrow terminal goes without, the first of them first."""


@app.command()
def push(
    files: Annotated[
        list[Path],
        argument("FILE", "YAML files: spider, schedule, arguments and tasks, a document for each spider."),
    ],
    note: Note = "",
    who: Who = None,
    expect: Expect = None,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Check schedules of spiders and keep them in the crawl.

    A planner (`gossamer plan`) then begins the rounds of these spiders, and notes when each is over. Workers that stay
    (`gossamer work SPIDER --forever`) run start() again in every round; without one, the next worker that starts does. Workers
    that gossamer starts get the arguments that stand there; with others than before, they begin again before their next round.
    """
    if expect is not None and len(files) != 1:
        raise typer.BadParameter(f"--expect is for one file; these are {len(files)}")
    settings = where.settings()
    texts = {file.stem: decoded(file.read_bytes(), str(file)) for file in files}
    with ValkeyFrontier.open(settings) as frontier:
        author = where.who(who)
        pushed, loaded = SpiderFiles(frontier).push_all(texts, who=author, note=note, expected=expect)
        for one in pushed:
            if one.changed:
                where.log(frontier, "push", f"spider {one.name}", described(one, note), author)
    tell(pushed, json, SPIDER)
    for found in loaded.values():
        for problem in found.warnings:
            output.write_notice(str(problem))
    _warn_of_queries(settings, [plan for found in loaded.values() for plan in found.plans])


@app.command("list")
def list_(json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the spiders that are planned: state, last round, when the next one begins, arguments and tasks."""
    with where.find() as frontier:
        state, rows = overview(frontier)
    now = state.now
    rows = [row for row in rows if row.kind == SPIDER]
    if json:
        output.write_json([row._asdict() for row in rows])
        return
    output.write_table(
        ("spider", "file", "state", "round", "began", "ended", "late", "next", "waiting", "in progress", "arguments", "tasks"),
        [
            (
                x.group, x.file, f"paused: {x.paused}" if x.state == "paused" else x.state, x.round, when(x.began, now), when(x.ended, now),
                "late" if x.late else "", x.why if x.next is None else when(max(x.next, now), now), f"{x.waiting:,}", f"{x.in_progress:,}",
                " ".join(f"{name}={value}" for name, value in x.arguments.items()), x.tasks,
            )
            for x in rows
        ],
        OPTIONAL,
    )  # fmt: skip


add_version_commands(app, SPIDER, SpiderFiles)


@app.command()
def remove(
    name: Name,
    note: Note = "",
    who: Who = None,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Remove schedules of spiders from the crawl. A running round continues."""
    with where.find() as frontier:
        file = SpiderFiles(frontier).remove(name, who=where.who(who), note=note)
        where.log(frontier, "remove", f"spider {file}", note, who)
    output.write_answer(json, {"file": file}, f"{file} is removed")


def _warn_of_queries(settings: Settings, plans: Sequence[SpiderPlan]) -> None:
    """Say which queries planners with the settings of this machine would not run."""
    grant = grant_of(settings, local=False)
    for plan in plans:
        if plan.tasks is not None and plan.tasks.sql is not None and (said := query_refusal(plan.tasks, grant)):
            output.write_notice(
                f"{plan.spider}: planners with the settings of this machine do not begin its rounds: {said}"
            )
