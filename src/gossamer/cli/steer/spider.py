"""`gossamer spider`: when the rounds of Scrapy spiders begin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gossamer.cli import options, output
from gossamer.cli.options import argument, option
from gossamer.cli.site.site import user
from gossamer.cli.timestamp import moment
from gossamer.errors import SiteError, UnknownDocument
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.planner.overview import overview
from gossamer.planner.schedules import SPIDER, Schedules
from gossamer.sites.file.yaml import decoded
from gossamer.sites.spider import load_spiders

app = options.Noun("Schedules of Scrapy spiders, for planners.")
Note = Annotated[str, option("--note", "TEXT", "Why; kept with the version.")]


@app.command()
def push(
    files: Annotated[list[Path], argument("FILE", "YAML files: spider and schedule, a document for each spider.")],
    note: Note = "",
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Check schedules of spiders and keep them in the crawl.

    A planner (`gossamer plan`) then begins the rounds of these spiders, and notes when each is over. Workers that stay
    (`gossamer work SPIDER --forever`) run start() again in every round; without one, the next worker that starts does.
    """
    texts = {file.stem: decoded(file.read_bytes(), str(file)) for file in files}
    loaded = {name: load_spiders(text, f"{name}.yaml") for name, text in texts.items()}
    with ValkeyFrontier.open(where.settings()) as frontier:
        _check_owners(frontier, {name: [plan.spider for plan in found.plans] for name, found in loaded.items()})
        known = {info.name: info for info in frontier.documents(SPIDER)}
        versions = {}
        for name, text in texts.items():
            before = known[name].version if name in known else 0
            versions[name] = frontier.put_document(SPIDER, name, text, expected=before, who=user(None), note=note)
    rows = [(name, versions[name], " ".join(plan.spider for plan in loaded[name].plans)) for name in texts]
    for found in loaded.values():
        for problem in found.warnings:
            output.write_notice(str(problem))
    if json:
        output.write_json([{"file": name, "version": version, "spiders": said.split()} for name, version, said in rows])
        return
    for name, version, said in rows:
        output.write_line(f"{name} version {version}: {said}")


@app.command("list")
def list_(json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the spiders that are planned: state, last round and when the next one begins."""
    with where.find() as frontier:
        _, rows = overview(frontier)
    rows = [row for row in rows if row.kind == SPIDER]
    if json:
        output.write_json([row._asdict() for row in rows])
        return
    output.write_table(
        ("spider", "file", "state", "round", "began", "ended", "late", "next", "waiting", "in progress"),
        [
            (
                x.group, x.file, f"paused: {x.paused}" if x.state == "paused" else x.state, x.round, moment(x.began), moment(x.ended),
                "late" if x.late else "", x.why if x.next is None else moment(x.next), f"{x.waiting:,}", f"{x.in_progress:,}",
            )
            for x in rows
        ],
    )  # fmt: skip


@app.command()
def remove(
    name: Annotated[str, argument("NAME", "The file's name without .yaml.")],
    note: Note = "",
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Take schedules of spiders out of the crawl. A round that runs goes on."""
    with where.find() as frontier:
        if name not in [info.name for info in frontier.documents(SPIDER) if not info.deleted]:
            raise UnknownDocument(f"the crawl has no schedules {name!r}; `gossamer spider list` names the files.")
        frontier.drop_document(SPIDER, name, who=user(None), note=note)
    output.write_answer(json, {"file": name}, f"{name} is removed")


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
