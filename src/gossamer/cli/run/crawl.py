"""`gossamer crawl`: a fleet on this machine, from its start until its group is drained."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gossamer.cli import options, output, params
from gossamer.cli.options import argument, flag, option
from gossamer.cli.run import spider
from gossamer.cli.run.crawl_sites import CrawlOptions, are_sites, crawl_sites
from gossamer.cli.run.fresh import drop_crawl
from gossamer.cli.run.logs import MOST_WORKERS, cores
from gossamer.cli.run.report import CrawlReport, run_fleet
from gossamer.errors import UnknownGroup
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import EndState, Token
from gossamer.settings import BY_NAME, shown_value
from gossamer.status.overview import hasty
from gossamer.status.progress import Progress, read_progress

if TYPE_CHECKING:
    from gossamer.scrapy.process.run import FoundSpider

app = options.Noun()


@app.command()
def crawl(
    names: Annotated[
        list[str],
        argument(
            "SPIDER|FILE",
            "A spider's name in the Scrapy project here, a file with one (spider.py), or site files (shop.yaml, shop.py) and folders of them.",
        ),
    ],
    workers: Annotated[int, option("-w --workers", "N", "How many; 0: one per core, 8 at most.", min=0, max=256)] = 0,
    argument: spider.Arguments = None,
    given: spider.Given = None,
    overwrite: spider.Overwrite = None,
    added: spider.Output = None,
    resume: Annotated[bool, flag("--resume", "Only finish what is left; begin no new round.")] = False,
    fresh: Annotated[
        bool, flag("--fresh", "Drop everything of its groups and begin again; asks first, unless --yes.")
    ] = False,
    yes: options.Yes = False,
    repeat: Annotated[bool, flag("--repeat", "Sites: begin rounds when they are due, until Ctrl-C.")] = False,
    layer: Annotated[str, option("--layer", "NAME", "Sites: crawl this layer alone.")] = "",
    param: params.Given = None,
    project: spider.Project = None,
    log: Annotated[
        str, option("--log", "FILE", "Where all workers log; -: standard error. Otherwise a file for each.")
    ] = "",
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Crawl with several workers, until nothing is left.

    The workers are processes of this machine. What an earlier crawl left is finished; if it left nothing, a new round
    begins (GOSSAMER_ROUND). Shows pages per second, the queue and problems while it crawls. A worker that dies is
    replaced. Ctrl-C stops all of them cleanly and keeps what is left for --resume. Exit code 0 means that nothing is
    left; what failed for good is among the dead letters. With -O, a site's records of the round are written to FILE (.json, .jsonl,
    .csv, .parquet) when the command ends. Exit code 1: something is left, no seed of the sites could be
    read, or their hook after_round failed. Exit code 4: nothing is left, but a feed, or the file of -O, lacks items.
    """
    arguments, chosen = spider.pairs(argument, "-a"), spider.settings(given, where)
    files = {} if are_sites(names) else spider.feeds(overwrite, added)
    if spider.STDOUT in files.get("FEEDS", ()):
        raise typer.BadParameter(
            "what a worker of `gossamer crawl` writes to standard output is in its log: write a file, or follow the items with "
            "`gossamer items tail`; `gossamer work` has standard output for itself"
        )
    spider.enter(project)
    if fresh and resume:
        raise typer.BadParameter("--fresh starts over and --resume continues; give one of them")
    if are_sites(names):
        if added:
            raise typer.BadParameter(
                "-o is for spiders; for sites, -O writes the records of the round, and `gossamer items export` adds what is new"
            )
        if arguments:
            raise typer.BadParameter(
                "-a is for spiders; what differs from site to site are its `params`, given by --param"
            )
        paths = [Path(name) for name in names]
        asked = CrawlOptions(paths, workers, resume, repeat, layer, log, json, param or (), fresh, yes, overwrite or ())
        crawl_sites(asked, options.load_given(chosen), chosen)
        return
    if repeat or layer or param:
        raise typer.BadParameter("--repeat, --layer and --param are for site files")
    [name] = names
    # Here, not above: Scrapy takes a moment to load, and the page of commands needs only this function's name.
    from gossamer.scrapy.process.run import look_up
    from gossamer.scrapy.spider_file import planned

    found = look_up(name, arguments, {**chosen, **files})
    found.check_feeds()
    number = workers or min(MOST_WORKERS, cores())
    with ValkeyFrontier.open(hasty(found.ours)) as frontier:
        if fresh:
            drop_crawl(frontier, [found.group], yes)
        arguments = {**planned(frontier, found.group), **arguments}
        then = begin(frontier, found, arguments, resume)
        if then is None:
            return
        _warn_of_feeds(found, number)
        commands = [
            command(name, arguments, {**chosen, **_imposed(found, place, bool(log))}, _outputs(overwrite, added))
            for place in range(number)
        ]
        report = run_fleet(frontier, found.ours, commands, log, {found.group: then})
    _write(report, found.group, json)
    more = _words(argument, given, overwrite, added, project, log, where)
    raise typer.Exit(report.code(shlex.join(["gossamer", "crawl", name, "--resume", *more])))


def begin(frontier: ValkeyFrontier, found: FoundSpider, arguments: dict[str, str], resume: bool) -> Progress | None:
    """The account of a group before it is crawled: where its last round is over, after a new one has begun. None if
    there is nothing to do: it is over, and shall only be finished. A worker that is run by hand does the same."""
    from gossamer.scrapy.feeds import position
    from gossamer.scrapy.feeds.settings import uris
    from gossamer.scrapy.process import rounds

    group, choice = found.group, found.ours["GOSSAMER_ROUND"]
    then, mine = read_progress(frontier, group), rounds.noted(arguments)
    if not then.exists:
        if resume:
            raise UnknownGroup(
                f"there is nothing of {group} to resume in crawl {frontier.crawl!r}; leave --resume out."
            )
        return then
    recent = frontier.rounds(group, rounds.RECENT)
    info, same = next(iter(recent), None), found.ours["GOSSAMER_ARGUMENTS"] == "same"
    left = position.waiting(frontier, group)
    since = frontier.counts(group).now - rounds.process_age()
    refused = rounds.why_not(choice, recent, since, mine=mine, same=same) if recent else ""
    if not rounds.is_over(frontier.drained(group), info, "" if resume or refused else choice):
        [start] = [row.start for row in frontier.counts(group).groups if row.group == group]
        claimed = info is not None and info.began is not None and (start == "done" or info.note)
        if info is not None and claimed and same:
            rounds.compare(group, info, mine)
        there = output.counted(then.open, "request")
        if start == "owed":
            more = f"; {there} {'is' if then.open == 1 else 'are'} there already" if then.open else ""
            output.write_notice(f"round {then.round} of {group} begins{more}")
        else:
            output.write_notice(f"going on with round {then.round} of {group}: {there} left")
        if left and not uris(found.scrapy):
            output.write_notice(
                f"a feed of {group} is not complete, and this run has none: its items wait on the server for consumer {', '.join(left)}. "
                "Give the same -O or -o, now or by --resume when this has ended; `gossamer items forget` lets it go"
            )
        return then
    if resume and uris(found.scrapy) and (left or (info is not None and position.has_items(frontier, info))):
        cut_short = "the items of a feed that was cut short" if left else "items on the server for a feed"
        output.write_notice(f"nothing is left of {group} but {cut_short}")
        return then
    if resume:
        output.write_notice(f"nothing is left of {group}; without --resume a new round begins")
        return None
    if refused:
        output.write_notice(f"round {then.round} of {group} is over: {refused}")
        return None
    token = Token.fresh()
    if frontier.end_round(group, token)[0] is EndState.GRANTED:
        # No worker noted its end.
        frontier.ended(group, token)
    number = frontier.new_round(group, then.round + 1, trigger="run again")
    if mine:
        frontier.round_note(group, number, {"note": mine})
    output.write_notice(
        f"round {then.round} of {group} is over; round {number} of {group} begins (--resume: only finish what is left)"
    )
    return then._replace(round=number)


def command(name: str, arguments: dict[str, str], settings: dict[str, Any], more: Sequence[str] = ()) -> list[str]:
    """One worker. `-P`: what lies in the working directory must not stand in for modules of the same name."""
    words = [sys.executable, "-P", "-m", "gossamer", "work", name]
    words += [word for pair in arguments.items() for word in ("-a", "=".join(pair))]
    kept = {name: value for name, value in settings.items() if name not in BY_NAME or not BY_NAME[name].secret}
    words += [word for name, value in kept.items() for word in ("-s", f"{name}={value}")]
    return [*words, *more]


def _outputs(overwrite: list[str] | None, added: list[str] | None) -> list[str]:
    words = [word for value in overwrite or () for word in ("-O", value)]
    return words + [word for value in added or () for word in ("-o", value)]


def _imposed(found: FoundSpider, place: int, shared: bool) -> dict[str, Any]:
    """What the workers of a fleet must agree on, and defaults that suit many workers better than one."""
    # The round is begun here, once: a worker that is replaced at the very end must not begin another.
    imposed: dict[str, Any] = {"GOSSAMER_ROUND": "join", "GOSSAMER_GROUP": found.group}
    if not found.chosen("LOG_LEVEL"):
        # Scrapy's default writes two lines and every item for each page.
        imposed["LOG_LEVEL"] = "INFO"
    if shared and not found.chosen("LOG_FORMAT"):
        imposed["LOG_FORMAT"] = f"%(asctime)s worker {place + 1} [%(name)s] %(levelname)s: %(message)s"
    return imposed


def _warn_of_feeds(found: FoundSpider, number: int) -> None:
    feeds = [str(uri) for uri in found.scrapy.getdict("FEEDS")]
    if any(uri.startswith(spider.STDOUT) for uri in feeds):
        output.write_notice(
            "FEEDS: what a worker writes to standard output is in its log. `gossamer items tail` follows the items."
        )
    if feeds and number > 1 and found.ours["GOSSAMER_FEEDS"] == "worker":
        output.write_notice(
            f"FEEDS: each of the {number} workers writes to {', '.join(feeds)} by itself. "
            "To have the items in one file, leave GOSSAMER_FEEDS out."
        )


def _words(
    argument: list[str] | None,
    given: list[str] | None,
    overwrite: list[str] | None,
    added: list[str] | None,
    project: Path | None,
    log: str,
    where: options.Where,
) -> list[str]:
    """The options of this command that its continuation needs as well."""
    words = [word for value in argument or () for word in ("-a", value)]
    pairs = [value.partition("=") for value in given or ()]
    words += [word for name, _, value in pairs for word in ("-s", f"{name}={shown_value(name, value)}")]
    words += _outputs(overwrite, added)
    named = {"--project": project, "--log": log, "--url": where.url, "--crawl": where.crawl}
    return words + [word for option, value in named.items() if value for word in (option, str(value))]


def _write(report: CrawlReport, group: str, json: bool) -> None:
    did = report.did[group]
    if json:
        workers = [
            {"worker": w.number, "code": w.code, "restarts": w.restarts, "log": w.log and str(w.log)}
            for w in report.fleet.workers
        ]
        figures = {**report.speed(), **report.figures(group), "expired": did.expired}
        output.write_json({"group": group, **figures, "workers": workers})
        return
    rows = {
        "pages": did.pages,
        "of them failed": did.failed,
        "redirects and retries": did.replaced,
        "items": did.items,
        "dead letters": did.dead_now,
        **({"dead letters of earlier rounds": did.dead_before} if did.dead_before else {}),
        "left": did.open,
    }
    output.write_table(("figure", "number"), [(name, f"{number:,}") for name, number in rows.items()])
    output.write_line(f"round {did.round} of {group}: {report.speed_text()}")
