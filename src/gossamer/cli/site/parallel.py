"""Many site files checked at once: in shares, each in a process of its own where there are files and processors enough."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.cli.run.logs import cores
from gossamer.sites.check.grant import check_grant
from gossamer.sites.check.hooks import check_hooks
from gossamer.sites.file.grant import Grant
from gossamer.sites.file.load import LoadNotes, conclude, find, read_files
from gossamer.sites.file.params import Parameters, parameters
from gossamer.sites.file.problems import Problem, in_order
from gossamer.sites.format import SiteSpec
from gossamer.sites.request import names_beside
from gossamer.sites.seeds import count

FILES_EACH = 100
"""With fewer files, a second process is not worth its start."""
PROCESSES_MAX = 8


class CheckResult(NamedTuple):
    """How many sites and seeds are in which files, and what is wrong or doubtful with them."""

    files: set[str]
    sites: int
    seeds: int
    problems: list[Problem]


class CheckShare(NamedTuple):
    files: set[str]
    sites: int
    seeds: int
    notes: LoadNotes


def check_files(
    paths: list[Path], params: Mapping[str, Any], grant: Grant, *, hooks: bool = False, processes: int | None = None
) -> CheckResult:
    """`grant` is what the files may do. `hooks` imports what they name, in this process. `processes`: the most to use; None: as
    many as are of use."""
    found = find(paths)
    files = found.files
    most = 1 if hooks else min(len(files) // FILES_EACH, cores() if processes is None else processes, PROCESSES_MAX)
    if most < 2:
        shares = [_share(files, params, grant, hooks)]
    else:
        each = -(-len(files) // most)
        shares = _in_processes([files[at : at + each] for at in range(0, len(files), each)], params, grant)
    return CheckResult(
        {file for share in shares for file in share.files},
        sum(share.sites for share in shares),
        sum(share.seeds for share in shares),
        conclude(found, [share.notes for share in shares], params, whole=all(path.is_dir() for path in paths)),
    )


def _in_processes(parts: list[list[Path]], params: Mapping[str, Any], grant: Grant) -> list[CheckShare]:
    started: list[tuple[BaseProcess, Connection]] = []
    how = _context()
    try:
        for part in parts:
            ours, theirs = how.Pipe(duplex=False)
            process = how.Process(target=_send, args=(theirs, part, params, grant), daemon=True)
            # Ctrl-C is for the process that waits for the others: these inherit that it is blocked.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process.start()
                started.append((process, ours))
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            theirs.close()
        return [_received(ours, part, params, grant) for (_, ours), part in zip(started, parts, strict=True)]
    finally:
        for other, ours in started:
            other.kill()
            other.join()
            ours.close()


def _send(theirs: Connection, files: list[Path], params: Mapping[str, Any], grant: Grant) -> None:
    theirs.send(_share(files, params, grant))


def _received(ours: Connection, files: list[Path], params: Mapping[str, Any], grant: Grant) -> CheckShare:
    try:
        share: CheckShare = ours.recv()
    except EOFError:  # It was killed: what it had to do is done here.
        return _share(files, params, grant)
    return share


def _share(files: Iterable[Path], params: Mapping[str, Any], grant: Grant, hooks: bool = False) -> CheckShare:
    sites, notes = read_files(files, params)
    notes.problems += in_order(one for each in sites for one in check_grant(each.site, each.spot, grant))
    if hooks:
        notes.problems += in_order(one for each in sites for one in check_hooks(each.site, each.spot, grant))
    return CheckShare({each.file for each in sites}, len(sites), sum(_seeds(each.site) for each in sites), notes)


def _seeds(site: SiteSpec) -> int:
    known = parameters(site.params) if site.params else Parameters()
    texts = ((seed.url or seed.sitemap or seed.feed, names_beside(seed)) for seed in site.seeds)
    try:
        return sum(count(text, known, beside) for text, beside in texts if text is not None)
    except ValueError:
        return 0  # A mistake in a range, which is among the problems.


def _context() -> ForkContext | SpawnContext:
    """What is imported already need not be imported again; elsewhere than on Linux, system libraries may not bear it."""
    return get_context("fork") if sys.platform == "linux" else get_context("spawn")
