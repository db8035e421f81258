"""`gossamer site remove`: a site file leaves the crawl; what its sites hold stays, is finished first, or goes with it."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from gossamer.cli import options, output, progress
from gossamer.cli.options import flag
from gossamer.cli.versions import Name, Note, Who, few
from gossamer.errors import VersionConflict
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import DocumentInfo
from gossamer.registry import KIND, Registry
from gossamer.registry.registry import draining
from gossamer.status.report import stuck

LOOK = 0.5
"""Seconds between two looks at what is left."""
WHY = 10.0
"""Seconds between two looks at what that waits for. Somebody may have to do something about it."""


def remove(
    name: Name,
    drain: Annotated[
        bool, flag("--drain", "Begin no further round, wait until what is there is done, and remove it then.")
    ] = False,
    drop: Annotated[bool, flag("--drop", "Also drop what is queued, failed and remembered.")] = False,
    note: Note = "",
    who: Who = None,
    yes: options.Yes = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Remove a site file from the crawl.

    Its sites are no longer served. What is queued stays and waits for the file to be pushed again. With --drain it
    is finished first: no further round begins, and the file is removed when nothing is left; workers have to run
    meanwhile, and what is paused has to be resumed: the command says so. If this is interrupted, its sites stay as they are and begin no rounds until you give the command again
    or push the file; if somebody pushes it meanwhile, it stays. With --drop, what is queued is deleted in small steps, with dead letters, items, counters,
    memories and rounds; if this is interrupted, call it again to finish. `gossamer site rollback` brings the file back
    in either case.
    """
    if drain and drop:
        raise typer.BadParameter("--drain finishes what is queued and --drop drops it; give one of them")
    with where.find() as frontier:
        registry = Registry(frontier)
        info = registry.find(name, removed=True)
        options.confirm(f"Remove the site file {info.name}{_held(frontier, registry, info) if drop else ''}?", yes)
        author = where.who(who)
        if drain and not info.deleted:
            registry.drain(info.name, who=author, note=note)
            where.log(frontier, "drain", f"site {info.name}", note, author)
            _wait(frontier, registry, info)
        # The version that was looked at: a push while it was drained, or confirmed, goes before.
        sites = registry.remove(info.name, who=author, note=note, expected=info.version)
        dropped = progress.drop(None, *(registry.drop(site) for site in sites)) if drop else 0
        detail = f"with {dropped:,} requests and dead letters" if drop else "drained" if drain else ""
        where.log(frontier, "remove", f"site {info.name}", " ".join(filter(None, (detail, note))), author)
    if json:
        output.write_json({"file": info.name, "sites": list(sites), "dropped": dropped if drop else None})
        return
    output.write_line(f"{info.name} is removed: {few(sites)}")
    if drop:
        output.write_line(f"with it went {dropped:,} requests and dead letters")


def _wait(frontier: ValkeyFrontier, registry: Registry, info: DocumentInfo) -> None:
    """Return when nothing is left of the sites of a file."""
    known = {row.group for row in frontier.counts().groups}
    sites = [site for site in registry.last_sites(info) if site in known]
    with progress.live("draining", None, sys.stderr, "pages") as show:
        say = progress.throttled(show)
        done = {row.group: row.pages for row in frontier.counts().groups}
        told: set[str] = set()
        look_at = 0.0
        while True:
            states = [frontier.drained(site) for site in sites if info.name in draining(frontier)]
            # Looked at afterwards, too: whoever pushes the file wants it served.
            if info.name not in draining(frontier):
                _check_removed(frontier, info.name)
                return
            if all(state.drained for state in states):
                return
            pages = sum(row.pages - done[row.group] for row in frontier.counts().groups if row.group in sites)
            say(pages, {"left": sum(state.open + state.tasks for state in states)})
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + WHY
                waits = {f"{row.group}: {row.why}" for row in stuck(frontier, sites) if row.group in sites}
                for why in sorted(waits - told):
                    output.write_notice(f"what is left waits: {why}")
                told |= waits
            time.sleep(LOOK)


def _check_removed(frontier: ValkeyFrontier, name: str) -> None:
    """VersionConflict if somebody has pushed a file while it was drained."""
    newest = next((one for one in frontier.documents(KIND) if one.name == name and not one.deleted), None)
    if newest is not None:
        raise VersionConflict(
            f"{name} is not removed: somebody pushed it while it was drained, and its sites are served again, by version {newest.version} of "
            f"{newest.who or 'somebody'}. If it is to go all the same, give the command again."
        )


def _held(frontier: ValkeyFrontier, registry: Registry, info: DocumentInfo) -> str:
    rows = {row.group: row for row in frontier.counts().groups}
    held = [rows[site] for site in registry.last_sites(info) if site in rows]
    open_, dead = sum(row.open for row in held), sum(row.dead for row in held)
    return f" and drop {output.counted(open_, 'open request')} and {output.counted(dead, 'dead letter')}"
