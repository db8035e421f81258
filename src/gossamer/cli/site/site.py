"""`gossamer site`: the site files of a crawl."""

from __future__ import annotations

import getpass
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import options, output, params, progress
from gossamer.cli.options import argument, flag, option
from gossamer.cli.site.check import check, schema
from gossamer.cli.site.reconcile import reconcile
from gossamer.cli.site.rounds import list_rounds
from gossamer.cli.site.test import replay
from gossamer.cli.site.try_ import try_
from gossamer.cli.timestamp import moment
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import DocumentInfo
from gossamer.registry import PushResult, Registry, StoredSiteFile
from gossamer.registry.folder import dump as dump_folder
from gossamer.registry.folder import texts_of
from gossamer.sites.check.grant import check_grant
from gossamer.sites.file.grant import grant_of
from gossamer.sites.file.load import sound, survey

app = options.Noun("The site files of a crawl, with their versions.")
Name = Annotated[str, argument("NAME", "The file's name without .yaml, or that of a site in it.")]
Note = Annotated[str, option("--note", "TEXT", "Why; shown in the history.")]
Who = Annotated[str | None, option("--who", "NAME", "Who changes it, instead of user@host.")]

app.command()(check)
app.command("try")(try_)
app.command("test")(replay)


@app.command()
def push(
    files: Annotated[list[Path], argument("FILE", "Site files, or folders of them.")],
    param: params.Given = None,
    note: Note = "",
    who: Who = None,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Check site files and keep them in the crawl.

    They are for all its workers; those that run serve them within seconds. All files are checked first: if anything is
    wrong with any of them, nothing is changed. A file that is kept already, word for word, gets no new version. With
    --param, or where it needs other files, it is kept written out, without its comments.
    """
    values = params.values(param)
    found = sound(survey(files, values))
    settings = where.settings()
    with ValkeyFrontier.open(settings) as frontier:
        registry = Registry(frontier)
        pushed = registry.push_all(texts_of(found, values), who=user(who), note=note)
        unknown = registry.unknown_targets(found)
    _tell(pushed, json)
    for problem in unknown:
        output.write_notice(f"{problem}; workers serve the site when it is pushed")
    grant = grant_of(settings, local=False)
    refused = [problem for one in found for problem in check_grant(one.site, one.spot, grant)]
    for problem in refused:
        output.write_notice(str(problem))
    if refused:
        output.write_notice("workers with the settings of this machine do not serve these sites")


@app.command("list")
def list_(
    removed: Annotated[bool, flag("--removed", "Also those that were removed.")] = False,
    rounds: Annotated[
        bool, flag("--rounds", "List the sites instead: state, last and next round, what waits, by depth.")
    ] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """List the site files with their versions and sites.

    With --rounds, one row for each site: its state (new, running, ending, waiting for its next round, full, paused), its last
    round and whether that is late, when the next one begins or what it waits for, how many requests wait and are in
    progress, and how many wait at each depth.
    """
    if rounds:
        list_rounds(where, json)
        return
    with where.find() as frontier:
        files = Registry(frontier).files(removed=removed)
    if json:
        output.write_json([_filed(x) for x in files])
        return
    output.write_table(
        ("file", "version", "sites", "changed", "who", "note", "state"),
        [
            (x.info.name, x.info.version, _few(x.sites), moment(x.info.at), x.info.who, x.info.note, _state(x))
            for x in files
        ],
    )


@app.command()
def show(
    name: Name,
    version: Annotated[int | None, option("--version", "N", "Another version than the present.", min=1)] = None,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Write a site file to standard output, as it was pushed."""
    with where.find() as frontier:
        found = Registry(frontier).show(name, version)
    if json:
        output.write_json(found._asdict())
        return
    if sys.stdout.isatty():
        for line in found.text.splitlines():
            output.write_line(line)
        return
    sys.stdout.flush()
    # Its own bytes: what is written to a file is what was pushed.
    sys.stdout.buffer.write(found.text.encode())
    sys.stdout.buffer.flush()


@app.command()
def history(name: Name, json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the versions of a site file that are kept, newest first."""
    with where.find() as frontier:
        versions = Registry(frontier).history(name)
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
        said = Registry(frontier).diff(name, old, new)
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
        pushed = Registry(frontier).rollback(name, version, who=user(who), note=note)
    _tell([pushed], json)


@app.command()
def dump(
    folder: Annotated[Path, argument("DIR", "Where to; made if it is missing.")],
    force: Annotated[bool, flag("--force", "Write over files that differ.")] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Write all site files to a folder, as they were pushed."""
    with where.find() as frontier:
        written = dump_folder(Registry(frontier), folder, force=force)
    output.write_answer(
        json, [str(path) for path in written], f"{output.counted(len(written), 'site file')} in {folder}"
    )


@app.command()
def restore(
    folder: Annotated[Path, argument("DIR", "What `gossamer site dump` wrote.")],
    note: Note = "restored",
    who: Who = None,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Push all site files of a folder. Files of the crawl that are not in it stay."""
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is not a folder; `gossamer site push` takes a single file")
    push([folder], None, note, who, json, where=where)


@app.command()
def pause(name: Name, reason: options.Reason = "paused", where: options.Where = options.HERE) -> None:
    """Lease nothing from a site, or from all sites of a file.

    Work in progress and adding go on. The pause lasts until `gossamer site resume`, over restarts too.
    """
    with where.find() as frontier:
        for site in Registry(frontier).pause(name, reason or "paused"):
            output.write_line(f"site {site} is paused: {reason or 'paused'}")


@app.command()
def resume(name: Name, where: options.Where = options.HERE) -> None:
    """Undo a pause of a site, or of all sites of a file."""
    with where.find() as frontier:
        for site, waiting in Registry(frontier).resume(name).items():
            output.write_line(f"site {site} {'still waits: ' + waiting if waiting else 'goes on'}")


@app.command()
def remove(
    name: Name,
    drop: Annotated[bool, flag("--drop", "Also drop what is queued, failed and remembered.")] = False,
    note: Note = "",
    who: Who = None,
    yes: options.Yes = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Take a site file out of the crawl.

    Its sites are not served any more. What is queued stays and waits for the file to be pushed again; with --drop it
    goes, with dead letters, items, counters, memories and rounds, in small steps: broken off, it is finished by calling
    it again. `gossamer site rollback` brings the file back in either case.
    """
    with where.find() as frontier:
        registry = Registry(frontier)
        info = registry.find(name, removed=True)
        options.confirm(f"Remove the site file {info.name}{_held(frontier, registry, info) if drop else ''}?", yes)
        sites = registry.remove(info.name, who=user(who), note=note)
        dropped = progress.drop(None, *(registry.drop(site) for site in sites)) if drop else 0
    if json:
        output.write_json({"file": info.name, "sites": list(sites), "dropped": dropped if drop else None})
        return
    output.write_line(f"{info.name} is removed: {_few(sites)}")
    if drop:
        output.write_line(f"with it went {dropped:,} requests and dead letters")


app.command()(reconcile)
app.command()(schema)


def _held(frontier: ValkeyFrontier, registry: Registry, info: DocumentInfo) -> str:
    rows = {row.group: row for row in frontier.counts().groups}
    held = [rows[site] for site in registry.last_sites(info) if site in rows]
    open_, dead = sum(row.open for row in held), sum(row.dead for row in held)
    return f" and drop {output.counted(open_, 'open request')} and {output.counted(dead, 'dead letter')}"


def _tell(pushed: list[PushResult], json: bool) -> None:
    if json:
        output.write_json([x._asdict() for x in pushed])
        return
    for x in pushed:
        output.write_line(f"{x.name}: version {x.version}{'' if x.changed else ', unchanged'}: {_few(x.sites)}")


def _filed(filed: StoredSiteFile) -> dict[str, Any]:
    return {**filed.info._asdict(), "sites": list(filed.sites), "problem": filed.problem, "paused": filed.paused}


def _few(names: tuple[str, ...]) -> str:
    if not names:
        return "no sites"
    return " ".join(names) if len(names) <= 3 else f"{len(names):,} sites, {names[0]} to {names[-1]}"


def _state(filed: StoredSiteFile) -> str:
    if filed.info.deleted:
        return "removed"
    if filed.problem:
        return f"cannot be read: {filed.problem}"
    reasons = sorted(set(filed.paused.values()))
    if not reasons:
        return ""
    of = "" if len(filed.paused) == len(filed.sites) else f"{len(filed.paused)} of {len(filed.sites)} sites: "
    return of + ", ".join(reasons)


def user(given: str | None) -> str:
    """Who changes something: as given, or else who runs the command."""
    if given is not None:
        return given
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "unknown"
    return f"{name}@{socket.gethostname()}"
