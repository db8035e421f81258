"""`gossamer spider`: when the rounds of Scrapy spiders begin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import options, output
from gossamer.cli.options import argument, option
from gossamer.cli.timestamp import moment
from gossamer.errors import SiteError, UnknownDocument
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.planner.overview import overview
from gossamer.planner.round_tasks import query_refusal
from gossamer.planner.schedules import SPIDER, Schedules
from gossamer.registry.versions import FileVersions
from gossamer.settings import Settings
from gossamer.sites.file.grant import grant_of
from gossamer.sites.file.yaml import decoded
from gossamer.sites.format.spider import SpiderPlan
from gossamer.sites.spider import load_spiders

app = options.Noun("Schedules of Scrapy spiders, for planners.")
Name = Annotated[str, argument("NAME", "The file's name without .yaml.")]
Note = Annotated[str, option("--note", "TEXT", "Why; kept with the version.")]
Who = Annotated[str | None, option("--who", "NAME", "Who changes it, instead of user@host.")]


@app.command()
def push(
    files: Annotated[
        list[Path],
        argument("FILE", "YAML files: spider, schedule, arguments and tasks, a document for each spider."),
    ],
    note: Note = "",
    who: Who = None,
    expect: Annotated[
        int | None,
        option(
            "--expect", "N", "Push only if the crawl's file has version N (0: none): the one that you changed.", min=0
        ),
    ] = None,
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
    loaded = {name: load_spiders(text, f"{name}.yaml") for name, text in texts.items()}
    with ValkeyFrontier.open(settings) as frontier:
        _check_owners(frontier, {name: [plan.spider for plan in found.plans] for name, found in loaded.items()})
        files_of, author, versions = FileVersions(frontier, SPIDER), where.who(who), {}
        known = {info.name: info for info in frontier.documents(SPIDER)}
        for name, text in texts.items():
            former = known.get(name)
            versions[name] = files_of.put(name, text, former, who=author, note=note, expected=expect)
            where.log(frontier, "push", f"spider {name}", _version(versions[name], note), author)
    rows = [(name, versions[name], " ".join(plan.spider for plan in loaded[name].plans)) for name in texts]
    for found in loaded.values():
        for problem in found.warnings:
            output.write_notice(str(problem))
    _warn_of_queries(settings, [plan for found in loaded.values() for plan in found.plans])
    if json:
        output.write_json([{"file": name, "version": version, "spiders": said.split()} for name, version, said in rows])
        return
    for name, version, said in rows:
        output.write_line(f"{name} version {version}: {said}")


@app.command("list")
def list_(json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the spiders that are planned: state, last round, when the next one begins, arguments and tasks."""
    with where.find() as frontier:
        _, rows = overview(frontier)
    rows = [row for row in rows if row.kind == SPIDER]
    if json:
        output.write_json([row._asdict() for row in rows])
        return
    output.write_table(
        ("spider", "file", "state", "round", "began", "ended", "late", "next", "waiting", "in progress", "arguments", "tasks"),
        [
            (
                x.group, x.file, f"paused: {x.paused}" if x.state == "paused" else x.state, x.round, moment(x.began), moment(x.ended),
                "late" if x.late else "", x.why if x.next is None else moment(x.next), f"{x.waiting:,}", f"{x.in_progress:,}",
                " ".join(f"{name}={value}" for name, value in x.arguments.items()), x.tasks,
            )
            for x in rows
        ],
    )  # fmt: skip


@app.command()
def show(
    name: Name,
    version: Annotated[int | None, option("--version", "N", "Another version than the present.", min=1)] = None,
    where: options.Where = options.HERE,
) -> None:
    """Write a file of schedules to standard output, as it was pushed."""
    with where.find() as frontier:
        text = FileVersions(frontier, SPIDER).show(name, version).text
    for line in text.splitlines():
        output.write_line(line)


@app.command()
def history(name: Name, json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the versions of a file that are kept, newest first."""
    with where.find() as frontier:
        versions = FileVersions(frontier, SPIDER).history(name)
    if json:
        output.write_json([x._asdict() for x in versions])
        return
    output.write_table(
        ("version", "changed", "who", "bytes", "note"),
        [(x.version, moment(x.at), x.who, "removed" if x.deleted else f"{x.bytes:,}", x.note) for x in versions],
    )


@app.command()
def diff(
    name: Name,
    old: Annotated[int | None, argument("A", "The older version; without it, the one before.", min=1)] = None,
    new: Annotated[int | None, argument("B", "The newer version; without it, the present.", min=1)] = None,
    where: options.Where = options.HERE,
) -> None:
    """Show what changed between two versions, as a unified diff."""
    with where.find() as frontier:
        said = FileVersions(frontier, SPIDER).diff(name, old, new)
    for line in said.splitlines():
        output.write_line(line)


@app.command()
def rollback(
    name: Name,
    version: Annotated[int, argument("VERSION", "The version that is to count again.", min=1)],
    note: Note = "",
    who: Who = None,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Make an older version the newest; also of a removed file."""
    with where.find() as frontier:
        files_of, author = FileVersions(frontier, SPIDER), where.who(who)
        old = files_of.show(name, version)
        if old.deleted:
            raise SiteError(f"version {version} of {name} says that it was removed; use `gossamer spider remove`.")
        plans = load_spiders(old.text, f"{name}.yaml").plans
        _check_owners(frontier, {name: [plan.spider for plan in plans]})
        number = files_of.put(name, old.text, files_of.newest(name), who=author, note=note or f"as version {version}")
        where.log(frontier, "rollback", f"spider {name}", f"to version {version}: {_version(number, note)}", author)
    said = " ".join(plan.spider for plan in plans)
    output.write_answer(
        json, {"file": name, "version": number, "spiders": said.split()}, f"{name} version {number}: {said}"
    )


def _version(number: int, note: str) -> str:
    return f"version {number}" + (f": {note}" if note else "")


@app.command()
def remove(
    name: Name,
    note: Note = "",
    who: Who = None,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Take schedules of spiders out of the crawl. A round that runs goes on."""
    with where.find() as frontier:
        if name not in [info.name for info in frontier.documents(SPIDER) if not info.deleted]:
            raise UnknownDocument(f"the crawl has no schedules {name!r}; `gossamer spider list` names the files.")
        frontier.drop_document(SPIDER, name, who=where.who(who), note=note)
        where.log(frontier, "remove", f"spider {name}", note, who)
    output.write_answer(json, {"file": name}, f"{name} is removed")


def _warn_of_queries(settings: Settings, plans: Sequence[SpiderPlan]) -> None:
    """Say which queries planners with the settings of this machine would not run."""
    grant = grant_of(settings, local=False)
    for plan in plans:
        if plan.tasks is not None and plan.tasks.sql is not None and (said := query_refusal(plan.tasks, grant)):
            output.write_notice(
                f"{plan.spider}: planners with the settings of this machine do not begin its rounds: {said}"
            )


def _check_owners(frontier: ValkeyFrontier, given: dict[str, list[str]]) -> None:
    """SiteError if two files plan the same group, of those given and those that the crawl has."""
    schedules = Schedules(frontier)
    schedules.update(frontier.documents_version())
    owner = {
        group.group: f"the crawl's {group.kind} file {group.file}"
        for group in schedules.groups.values()
        if not (group.kind == SPIDER and group.file in given)
    }
    for name, spiders in given.items():
        for spider in spiders:
            if (taken := owner.setdefault(spider, f"{name}.yaml")) != f"{name}.yaml":
                raise SiteError(f"{name}.yaml: {spider} is planned by {taken} already. Remove it from one of them.")
