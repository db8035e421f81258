"""`gossamer crawl FILE.yaml`: site files, crawled by a fleet of workers on this machine."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import typer

from gossamer.cli import exit_codes, output, params, round_file
from gossamer.cli.run.embedded_planner import planning
from gossamer.cli.run.fields import FieldCounts
from gossamer.cli.run.fresh import drop_crawl
from gossamer.cli.run.logs import MOST_WORKERS, cores
from gossamer.cli.run.report import CrawlReport, run_fleet, title_of
from gossamer.cli.run.seeds import SeedCounts
from gossamer.engine.sites.files import digest
from gossamer.frontier import audit
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model.reply import LOGIN_FAILED, PAGES_FULL, Counts
from gossamer.registry import Registry
from gossamer.registry.folder import SUFFIXES, texts_of
from gossamer.registry.site_text import SiteText
from gossamer.settings import BY_NAME, Settings, shown_value
from gossamer.sites.check.grant import check_grant
from gossamer.sites.file.grant import grant_of
from gossamer.sites.file.load import LoadedSite, sound, survey
from gossamer.sites.file.params import Parameters, parameters
from gossamer.sites.file.problems import SiteErrors
from gossamer.sites.format import SiteSpec
from gossamer.sites.plan import LayerGraph
from gossamer.sites.python.module import is_python, names_site
from gossamer.status.overview import WORKERS_READ, hasty, is_alive
from gossamer.status.progress import progress_of, read_progress_of

LOCAL_EACH = 1000
SHOWN = 20
"""The most sites to show one by one; of more, only those with dead letters or requests left."""


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
    overwrite: Sequence[str] = ()


def are_sites(names: Sequence[str]) -> bool:
    """Whether these name site files (or folders of them) and not a spider."""
    found = [_is_site(name) for name in names]
    if any(found) and not all(found):
        odd = names[found.index(False)]
        raise typer.BadParameter(
            f"{odd} is no site file; files end in .yaml, or are Python with a Site, and a spider is crawled alone"
        )
    if not any(found) and len(names) > 1:
        raise typer.BadParameter(f"{names[1]} is one too many: a spider is crawled alone")
    return all(found)


def defines_sites(name: str) -> bool:
    """Whether this is a Python file that uses gossamer's Site. It is not run for that."""
    path = Path(name)
    return is_python(path) and path.is_file() and names_site(path.read_text("utf-8", "replace"))


def _is_site(name: str) -> bool:
    path = Path(name)
    if path.suffix in SUFFIXES or defines_sites(name):
        return True
    # A spider may be called like its project's package, which may have all kinds of files in it, and needs no __init__.py.
    if not path.is_dir() or any((path / code).exists() for code in ("__init__.py", "scrapy.cfg")):
        return False
    return not any(path.glob("*.py")) or any(file.suffix in SUFFIXES for file in path.rglob("*"))


def crawl_sites(asked: CrawlOptions, settings: Settings, given: dict[str, str]) -> None:
    """Crawl the sites of these files, and tell what came of it."""
    values = params.values(asked.param)
    found = sound(survey(asked.paths, values))
    report = crawl_loaded(asked, settings, given, found, texts_of(found, values))
    if report is not None:
        write_report(report, json=asked.json)
        raise typer.Exit(report.code(crawl_again(asked, given), repeat=asked.repeat))


def crawl_loaded(
    asked: CrawlOptions, settings: Settings, given: dict[str, str], found: list[LoadedSite], texts: list[SiteText]
) -> CrawlReport | None:
    """Push the texts that have changed, begin rounds of the sites where none is open, and crawl until all of them are drained. None
    if there is nothing to do."""
    found = [one for one in found if one.site.is_served]
    grant = grant_of(settings, local=True, files=asked.paths)
    if wrong := [problem for one in found for problem in check_grant(one.site, one.spot, grant)]:
        raise SiteErrors(wrong)
    sites = [one.site for one in found]
    if not sites:
        raise typer.BadParameter("none of these sites is active, or their weight is 0")
    _check_layer(sites, asked.layer)
    out = round_file.checked(asked.overwrite, sites, settings, asked.repeat) if asked.overwrite else None
    feed = round_file.SiteFeed(settings, sites[0].site, out) if out is not None else None
    number = asked.workers or min(MOST_WORKERS, cores())
    with ValkeyFrontier.open(hasty(settings)) as frontier, feed.alone() if feed is not None else nullcontext():
        _check_layer_begins(frontier, found, asked)
        if asked.fresh:
            drop_crawl(frontier, [site.site for site in sites], asked.yes)
        if wrong := Registry(frontier).unknown_targets(found):
            raise SiteErrors(wrong)
        for problem in Registry(frontier).clashes(found):
            output.write_notice(str(problem))
        who = audit.author(settings)
        Registry(frontier).push_all(texts, who=who)
        groups = _begin(frontier, sites, asked, who)
        if not groups:
            if feed is not None and feed.is_unfinished and _finish(feed):
                raise typer.Exit(exit_codes.LACKING)
            return None
        seeds = SeedCounts(frontier, groups, asked.resume)
        fields = FieldCounts(frontier, [site for site in sites if site.site in groups], asked.layer)
        then = {name: read_progress_of(frontier, [name]) for name in groups}
        local = [digest(one.text) for one in texts]
        words = {**given, **round_file.STREAM} if feed is not None else given
        commands = [site_command(groups, asked, words, local, grant.code) for _ in range(number)]
        # With one layer alone, only its workers know when a round is over.
        with planning(settings) if asked.repeat and not asked.layer else nullcontext(), feed or nullcontext():
            report = run_fleet(frontier, settings, commands, asked.log, then)
        if feed is not None:
            report.lacks_records = _finish(feed)
        seeds.read(frontier)
        fields.read(frontier)
        report.seeds, report.fields = seeds, fields
        if not asked.repeat:
            _say_who_visits(frontier, [site for site in sites if site.site in groups])
        return report


def _finish(feed: round_file.SiteFeed) -> bool:
    """Write the file of `-O`; whether it lacks records, or may lack some behind those that it has twice."""
    result = feed.finish()
    feed.report(result)
    return result.lacking > 0 or result.doubled > 0


def _begin(frontier: ValkeyFrontier, sites: list[SiteSpec], asked: CrawlOptions, who: str) -> list[str]:
    """The sites that there is something to do for; where the last round is over a new one begins. Says why there is nothing."""
    counts = frontier.counts()
    rows = {row.group: row for row in counts.groups}
    todo, full = [], 0
    for site in sites:
        name = site.site
        if name in rows and rows[name].paused.startswith(LOGIN_FAILED):
            # Asked for again: perhaps with another password.
            frontier.resume(group=name)
        drained = name in rows and frontier.drained(name).drained
        if name in rows and (drained or _has_its_pages(counts, name, site)):
            if asked.resume:
                if not drained:
                    full += 1
                    left = output.counted(progress_of(counts, [name]).open, "request")
                    output.write_notice(
                        f"{name}: has as many pages as limits.pages allows; raise it to go on with the {left} that are left of "
                        f"round {rows[name].round}, or begin the next round, which takes them, without --resume"
                    )
                elif _end_is_owed(frontier, name):
                    output.write_notice(f"nothing is left of {name} but the end of round {rows[name].round}")
                    todo.append(name)
                continue
            number = frontier.new_round(name, rows[name].round + 1, trigger="crawl", who=who)
            if len(sites) <= SHOWN:
                output.write_notice(f"round {number} of {name} begins{_remembered(site)}")
        todo.append(name)
    if not todo and full < len(sites):
        others = "the others" if full else "these sites"
        output.write_notice(f"nothing is left of {others}; without --resume a new round begins")
    return todo


def _end_is_owed(frontier: ValkeyFrontier, site: str) -> bool:
    """Whether all workers were stopped between the last page of the round and the end of what comes after it."""
    last = next(iter(frontier.rounds(site, 1)), None)
    return last is not None and last.began is not None and last.closed is None


def _say_who_visits(frontier: ValkeyFrontier, sites: list[SiteSpec]) -> None:
    """Where pages are to be fetched again by themselves and no worker is left to do it, say so."""
    visited = {
        site.site: layers
        for site in sites
        if (layers := [name for name, layer in site.layers.items() if layer.revisit is not None])
    }
    if not visited:
        return
    now = frontier.counts().now
    served = [worker.groups for worker in frontier.workers(WORKERS_READ) if is_alive(worker, now)]
    for name, layers in list(visited.items())[:SHOWN]:
        if not any(not groups or name in groups for groups in served):
            output.write_notice(
                f"{name}: pages of {', '.join(layers)} are fetched again when they are due (`revisit`), but only while a worker runs, "
                "and none does now; start `gossamer work`, or crawl with --repeat"
            )


def _remembered(site: SiteSpec) -> str:
    """What a later round leaves out, if it is anything. Layers with `revisit` or `rediscover` have rules of their own."""
    layers = [
        name
        for name, layer in site.layers.items()
        if (layer.seen or site.seen).scope == "forever" and layer.revisit is None and layer.rediscover is None
    ]
    if not layers:
        return ""
    return (
        f"; pages of {', '.join(layers)} that an earlier round has fetched are not fetched again, unless they are seeds "
        "or a link says with `changed` that they changed (`seen: forever`). For all of them in every round, write `seen: round` into the file"
    )


def _has_its_pages(counts: Counts, name: str, site: SiteSpec) -> bool:
    """Whether the round of a site has as many pages as it may, now as before."""
    if progress_of(counts, [name]).paused != PAGES_FULL:
        return False
    before: int = counts.group_policies[name]["max_pages"]
    return 0 < site.limits.pages <= before


def _check_layer(sites: list[SiteSpec], layer: str) -> None:
    for site in sites:
        if layer and layer not in site.layers:
            raise typer.BadParameter(f"the site {site.site} has no layer {layer}; it has {', '.join(site.layers)}")


def _check_layer_begins(frontier: ValkeyFrontier, found: list[LoadedSite], asked: CrawlOptions) -> None:
    """A new round of one layer begins with its seeds: where it has none, the round would be spent, and tables archived, for nothing. What
    is left of a round needs none."""
    if not asked.layer or asked.resume:
        return
    counts = frontier.counts()
    known = {row.group for row in counts.groups}
    for one in found:
        name, params = one.site.site, one.site.params
        graph = LayerGraph(one.site, parameters(params) if params else Parameters())
        is_open = name in known and not (frontier.drained(name).drained or _has_its_pages(counts, name, one.site))
        if (asked.fresh or not is_open) and not graph.begins_in(asked.layer):
            raise typer.BadParameter(
                f"no seed of the site {name} is a page of the layer {asked.layer}, so a round of it alone would fetch nothing; its seeds "
                f"lead to {', '.join(graph.entries)}. --layer {asked.layer} goes on with what a round has left of the layer"
            )


def site_command(
    names: list[str], asked: CrawlOptions, given: dict[str, str], local: list[str], code: Sequence[Path]
) -> list[str]:
    """One worker."""
    words = [sys.executable, "-P", "-m", "gossamer", "work", "--sites", ",".join(names), "--all-stages"]
    words += ["--repeat"] if asked.repeat else ["--drained"]
    if asked.layer:
        words += ["--layer", asked.layer]
    # By their texts: what another puts into the crawl under the same name is not the user's own. One word must not be too long.
    for at in range(0, len(local), LOCAL_EACH):
        words += ["--local", ",".join(local[at : at + LOCAL_EACH])]
    for folder in code:
        words += ["--code", str(folder)]
    for name, value in given.items():
        # What is secret and no worker needs would be seen in the list of processes.
        if name not in BY_NAME or not BY_NAME[name].secret:
            words += ["-s", f"{name}={value}"]
    return words


def write_report(report: CrawlReport, *, json: bool) -> None:
    """What the fleet did, for people or as JSON."""
    if json:
        sites = [{"site": name, **report.figures(name)} for name in report.names]
        output.write_json({**report.speed(), "pages": report.pages, "sites": sites})
        return
    few = len(report.names) <= SHOWN
    shown = [(name, did) for name, did in report.did.items() if few or did.dead_now or did.open]
    if shown:
        output.write_table(
            ("site", "round", "pages", "failed", "redirects", "items", "dead letters", "left"),
            [
                (
                    name,
                    f"{did.round}",
                    *(f"{n:,}" for n in (did.pages, did.failed, did.replaced, did.items, did.dead_now, did.open)),
                )
                for name, did in shown[:SHOWN]
            ],
        )
    if len(shown) > SHOWN:
        output.write_line(f"and {len(shown) - SHOWN} more")
    output.write_line(f"{title_of(report.names)}: {report.speed_text()}")


def crawl_again(asked: CrawlOptions, given: dict[str, str]) -> str:
    """The command that goes on with what is left."""
    words = ["gossamer", "crawl", *map(str, asked.paths), "--resume"]
    words += [word for value in asked.param for word in (params.OPTION, value)]
    words += ["--layer", asked.layer] if asked.layer else []
    words += [word for value in asked.overwrite for word in ("-O", value)]
    words += [word for name, value in given.items() for word in ("-s", f"{name}={shown_value(name, value)}")]
    return shlex.join(words)
