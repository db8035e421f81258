"""`gossamer site`: the site files of a crawl."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import options, output, params, progress
from gossamer.cli.options import argument, flag, option
from gossamer.cli.site.check import check, schema
from gossamer.cli.site.log import log
from gossamer.cli.site.overview import STATES, list_tasks
from gossamer.cli.site.reconcile import reconcile
from gossamer.cli.site.removal import remove
from gossamer.cli.site.test import replay
from gossamer.cli.site.try_ import try_
from gossamer.cli.timestamp import moment
from gossamer.cli.versions import Expect, Name, Note, Who, add_version_commands, described, few, tell
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.registry import KIND, PushResult, Registry, StoredSiteFile
from gossamer.registry.folder import dump as dump_folder
from gossamer.registry.folder import texts_of
from gossamer.sites.check.grant import check_grant
from gossamer.sites.file.grant import grant_of
from gossamer.sites.file.load import sound, survey

app = options.Noun("The site files of a crawl, with their versions.")
LATELY = 86400.0
"""Seconds for which a push over another person's version gets a notice."""

app.command()(check)
app.command("try")(try_)
app.command("test")(replay)


@app.command()
def push(
    files: Annotated[list[Path], argument("FILE", "Site files, or folders of them.")],
    param: params.Given = None,
    note: Note = "",
    who: Who = None,
    expect: Expect = None,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Check site files and keep them in the crawl.

    They are for all its workers; those that run serve them within seconds. All files are checked first: if anything is
    wrong with any of them, nothing is changed; what is doubtful but can be used is a warning. A file that has not
    changed gets no new version. With --param, or where it needs other files, it is kept written out, without its
    comments. If two people push one file, or one site, at the same moment, one succeeds and the other gets an error, unless both push the
    same: that is one version. With --expect, a push of a file made from an older version gets an error, too.
    """
    values = params.values(param)
    surveyed = survey(files, values)
    found = sound(surveyed)
    settings = where.settings()
    with ValkeyFrontier.open(settings) as frontier:
        registry = Registry(frontier)
        texts, author = texts_of(found, values), where.who(who)
        if expect is not None and len(texts) != 1:
            raise typer.BadParameter(f"--expect is for one file; these are {len(texts)}")

        def noted(one: PushResult) -> None:
            if one.changed:
                where.log(frontier, "push", f"site {one.name}", described(one, note), author)

        pushed = registry.push_all(texts, who=author, note=note, expected=expect, noted=noted)
        unknown, clashes = registry.unknown_targets(found), registry.clashes(found)
    tell(pushed, json, KIND)
    for one in pushed:
        if one.changed and one.former and one.former.who != author and time.time() - one.former.at < LATELY:
            ago = progress.duration(max(0.0, time.time() - one.former.at))
            output.write_notice(
                f"{one.name}: version {one.former.version}, which this replaces, was pushed by {one.former.who} {ago} ago; "
                f"`gossamer site diff {one.name}` shows what is different"
            )
    for doubtful in dict.fromkeys([*surveyed.problems, *clashes]):
        output.write_notice(str(doubtful))
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
    state: Annotated[
        list[str] | None,
        option("--state", "WORD", f"Only those that are {', '.join(STATES[:-1])} or {STATES[-1]}. May be repeated."),
    ] = None,
    files: Annotated[bool, flag("--files", "List the site files instead, with their versions and sites.")] = False,
    removed: Annotated[bool, flag("--removed", "With --files: also those that were removed.")] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """List all sites and planned spiders: one row for each.

    Its state (new: no worker has served it yet; running, ending, waiting for its next round, draining, full, paused) and whether
    its round is late, when that began and how long it took, when the next one begins or what it waits for, how many requests wait and are in
    progress, and how many wait at each depth.
    """
    if not (files or removed):
        list_tasks(where, state or (), json)
        return
    if state:
        raise typer.BadParameter("--state is for the list of sites; leave --files out")
    with where.find() as frontier:
        filed = Registry(frontier).files(removed=removed)
    if json:
        output.write_json([_filed(x) for x in filed])
        return
    output.write_table(
        ("file", "version", "sites", "changed", "who", "note", "state"),
        [
            (x.info.name, x.info.version, few(x.sites), moment(x.info.at), x.info.who, x.info.note, _state(x))
            for x in filed
        ],
    )


add_version_commands(app, KIND, Registry)


@app.command()
def dump(
    folder: Annotated[Path, argument("DIR", "Where to; made if it is missing.")],
    force: Annotated[bool, flag("--force", "Overwrite files that differ.")] = False,
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
    push([folder], None, note, who, None, json, where=where)


@app.command()
def pause(name: Name, reason: options.Reason = "paused", where: options.Where = options.HERE) -> None:
    """Lease nothing from a site, or from all sites of a file.

    Work in progress and adding continue. The pause lasts until `gossamer site resume`, over restarts too.
    """
    with where.find() as frontier:
        for site in Registry(frontier).pause(name, reason or "paused"):
            where.log(frontier, "pause", f"site {site}", reason)
            output.write_line(f"site {site} is paused: {reason or 'paused'}")


@app.command()
def resume(name: Name, where: options.Where = options.HERE) -> None:
    """Undo a pause of a site, or of all sites of a file."""
    with where.find() as frontier:
        for site, waiting in Registry(frontier).resume(name).items():
            where.log(frontier, "resume", f"site {site}")
            output.write_line(f"site {site} {'is still paused: ' + waiting if waiting else 'is resumed'}")


app.command()(remove)
app.command()(log)
app.command()(reconcile)
app.command()(schema)


def _filed(filed: StoredSiteFile) -> dict[str, Any]:
    return {**filed.info._asdict(), "sites": list(filed.sites), "problem": filed.problem, "paused": filed.paused}


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
