"""`gossamer crawl FILE.yaml`: site files, crawled by a fleet of workers on this machine."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from gossamer import status
from gossamer.cli import exit_codes, output, params
from gossamer.cli.run.fresh import drop_crawl
from gossamer.cli.run.logs import MOST_WORKERS, ONE_FILE, cores, logs
from gossamer.cli.run.watch import WatchedFleet, watch
from gossamer.cli.site.site import user as user
from gossamer.engine.site_files import digest
from gossamer.fleet import Fleet, Progress, progress_of, read_progress_of, with_earlier
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Counts
from gossamer.model.counts import PAGES_FULL
from gossamer.registry import Registry
from gossamer.registry.folder import SUFFIXES
from gossamer.registry.folder import read as read_files
from gossamer.settings import Settings
from gossamer.sites.check.grant import check_grant
from gossamer.sites.file.grant import grant_of
from gossamer.sites.file.load import sound, survey
from gossamer.sites.file.problems import SiteErrors
from gossamer.sites.format import Site

LOCAL_EACH = 1000
SHOWN = 20
"""So many sites are shown one by one; of more only those with something to say."""


class CrawlOptions(NamedTuple):
    """What was asked for on the command line."""

    paths: list[Path]
    workers: int
    resume: bool
    repeat: bool
    layer: str
    log: str
    json: bool
    param: Sequence[str] = ()
    fresh: bool = False
    yes: bool = False


def are_sites(names: Sequence[str]) -> bool:
    """Whether these name site files (or folders of them) and not a spider."""
    found = [_is_site(name) for name in names]
    if any(found) and not all(found):
        odd = names[found.index(False)]
        raise typer.BadParameter(f"{odd} is no site file; files end in .yaml, and a spider is crawled alone")
    if not any(found) and len(names) > 1:
        raise typer.BadParameter(f"{names[1]} is one too many: a spider is crawled alone")
    return all(found)


def _is_site(name: str) -> bool:
    path = Path(name)
    if path.suffix in SUFFIXES:
        return True
    # A spider may be called like its project's package, which may have all kinds of files in it, and needs no __init__.py.
    if not path.is_dir() or any((path / code).exists() for code in ("__init__.py", "scrapy.cfg")):
        return False
    return not any(path.glob("*.py")) or any(file.suffix in SUFFIXES for file in path.rglob("*"))


def crawl_sites(asked: CrawlOptions, settings: Settings, given: dict[str, str]) -> None:
    """Push what has changed, begin rounds where none is open, and crawl until all of them are drained."""
    values = params.values(asked.param)
    found = [one for one in sound(survey(asked.paths, values)) if one.site.active]
    grant = grant_of(settings, local=True)
    if wrong := [problem for one in found for problem in check_grant(one.site, one.spot, grant)]:
        raise SiteErrors(wrong)
    sites = [one.site for one in found]
    if not sites:
        raise typer.BadParameter("none of these sites is active")
    _check_layer(sites, asked.layer)
    number = asked.workers or min(MOST_WORKERS, cores())
    with ValkeyFrontier.open(status.hasty(settings)) as frontier:
        if asked.fresh:
            drop_crawl(frontier, [site.site for site in sites], asked.yes)
        texts = read_files(asked.paths, values)
        Registry(frontier).push_all(texts, who=user(None))
        groups = _begin(frontier, sites, asked.resume)
        if not groups:
            output.write_notice("nothing is left of these sites; without --resume a new round begins")
            return
        then = {name: read_progress_of(frontier, [name]) for name in groups}
        files = logs(asked.log, settings, _title(groups), number)
        local = [digest(one.text) for one in texts]
        commands = [_command(groups, asked, given, local) for _ in range(number)]
        where = f"; logs in {files[0].parent}" if files[0] is not None and not asked.log else ""
        output.write_notice(f"starting {number} {'worker' if number == 1 else 'workers'} for {_title(groups)}{where}")
        with Fleet(commands, files, output.write_notice) as fleet:
            before = read_progress_of(frontier, groups)
            seconds = watch(fleet, WatchedFleet(frontier, _title(groups), before, groups), draw=asked.log != ONE_FILE)
        report = _SitesReport(fleet, frontier, groups, then, seconds)
    report.write(asked.json)
    raise typer.Exit(report.code(asked, given))


def _begin(frontier: ValkeyFrontier, sites: list[Site], resume: bool) -> list[str]:
    """The sites that there is something to do for; where the last round is over a new one begins."""
    counts = frontier.counts()
    rows = {row.group: row for row in counts.groups}
    todo = []
    for site in sites:
        name = site.site
        if name in rows and (frontier.drained(name).drained or _has_its_pages(counts, name, site)):
            if resume:
                continue
            number = frontier.new_round(name, rows[name].round + 1, trigger="crawl", who=user(None))
            if len(sites) <= SHOWN:
                output.write_notice(f"round {number} of {name} begins")
        todo.append(name)
    return todo


def _has_its_pages(counts: Counts, name: str, site: Site) -> bool:
    """Whether the round of a site has as many pages as it may, now as before."""
    if progress_of(counts, [name]).paused != PAGES_FULL:
        return False
    before: int = counts.group_policies[name]["max_pages"]
    return 0 < site.limits.pages <= before


def _check_layer(sites: list[Site], layer: str) -> None:
    for site in sites:
        if layer and layer not in site.layers:
            raise typer.BadParameter(f"the site {site.site} has no layer {layer}; it has {', '.join(site.layers)}")


def _command(names: list[str], asked: CrawlOptions, given: dict[str, str], local: list[str]) -> list[str]:
    words = [sys.executable, "-P", "-m", "gossamer", "work", "--sites", ",".join(names), "--all-stages"]
    words += ["--repeat"] if asked.repeat else ["--drained"]
    if asked.layer:
        words += ["--layer", asked.layer]
    # By their texts: what another puts into the crawl under the same name is not the user's own. One word must not be too long.
    for at in range(0, len(local), LOCAL_EACH):
        words += ["--local", ",".join(local[at : at + LOCAL_EACH])]
    for name, value in given.items():
        words += ["-s", f"{name}={value}"]
    return words


def _title(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} sites"


class _SitesReport:
    """What came of it, site by site."""

    def __init__(
        self, fleet: Fleet, frontier: ValkeyFrontier, names: list[str], then: dict[str, Progress], seconds: float
    ) -> None:
        self.fleet, self.names, self.seconds = fleet, names, seconds
        self.now = {name: with_earlier(frontier, name, read_progress_of(frontier, [name])) for name in names}
        self.did = {name: self.now[name].since(then[name]) for name in names}
        self.drained = {name: self.now[name].exists and frontier.drained(name).drained for name in names}

    def write(self, json: bool) -> None:
        pages = sum(one.pages for one in self.did.values())
        rate = pages / max(self.seconds, 0.001)
        if json:
            output.write_json(
                {
                    "seconds": round(self.seconds, 2),
                    "pages_per_second": round(rate, 1),
                    "pages": pages,
                    "sites": [
                        {
                            "site": name,
                            "round": did.round,
                            "drained": self.drained[name],
                            "pages": did.pages,
                            "failed": did.failed,
                            "replaced": did.replaced,
                            "items": did.items,
                            "dead": did.dead_now,
                            "dead_before": did.dead_before,
                            "left": did.open,
                        }
                        for name, did in self.did.items()
                    ],
                }
            )
            return
        shown = [
            name for name in self.names if len(self.names) <= SHOWN or self.did[name].dead_now or self.did[name].open
        ]
        if shown:
            output.write_table(
                ("site", "round", "pages", "failed", "redirects", "items", "dead letters", "left"),
                [
                    (
                        name,
                        f"{did.round}",
                        *(f"{n:,}" for n in (did.pages, did.failed, did.replaced, did.items, did.dead_now, did.open)),
                    )
                    for name in shown[:SHOWN]
                    for did in [self.did[name]]
                ],
            )
        if len(shown) > SHOWN:
            output.write_line(f"and {len(shown) - SHOWN} more")
        output.write_line(
            f"{_title(self.names)}: {output.counted(pages, 'page')} in {self.seconds:.1f} s, {rate:,.0f} pages/s"
        )

    def code(self, asked: CrawlOptions, given: dict[str, str]) -> int:
        words = ["gossamer", "crawl", *map(str, asked.paths), "--resume"]
        words += [word for value in asked.param for word in (params.OPTION, value)]
        words += ["--layer", asked.layer] if asked.layer else []
        for name, value in given.items():
            words += ["-s", f"{name}={value}"]
        again = shlex.join(words)
        if self.fleet.stopping:
            output.write_notice(f"stopped; go on with: {again}")
            return exit_codes.OK if asked.repeat else exit_codes.INTERRUPTED
        if self.fleet.failed:
            where = ", ".join(dict.fromkeys(str(worker.log) for worker in self.fleet.failed if worker.log is not None))
            output.write_notice(
                f"{len(self.fleet.failed)} of {len(self.fleet.workers)} workers failed"
                + (f"; see {where}" if where else "")
            )
        failed = [name for name, did in self.did.items() if did.dead_now]
        if failed:
            output.write_notice(f"there are dead letters; see why: gossamer dead list --group {failed[0]}")
        before = [name for name, did in self.did.items() if did.dead_before]
        if before:
            dead = output.counted(sum(self.did[name].dead_before for name in before), "dead letter")
            output.write_notice(f"of earlier rounds: {dead}; see them: gossamer dead list --group {before[0]}")
        left = [name for name, drained in self.drained.items() if not drained]
        full = [name for name in left if self.now[name].paused == PAGES_FULL and not self.now[name].leased]
        if full:
            output.write_notice(f"{_title(full)}: as many pages as limits.pages says; the rest is for the next round")
            left = [name for name in left if name not in full]
        if left:
            output.write_notice(f"{_title(left)} not drained; go on with: {again}")
        return exit_codes.FAILED if left else exit_codes.OK
