"""`gossamer demo`: a real fleet on this machine, watched live, struck by an accident, and checked at its end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from gossamer.cli import exit_codes, options, output
from gossamer.cli.options import option
from gossamer.cli.run.crawl import command
from gossamer.cli.run.watch import WatchedFleet, watch
from gossamer.demo import forum as site
from gossamer.demo.check import DemoCheck, DemoOutcome, findings
from gossamer.demo.environment import DemoEnvironment, open_environment
from gossamer.demo.kill import Kill
from gossamer.fleet import Fleet
from gossamer.frontier import codec
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.status.overview import hasty
from gossamer.status.progress import Progress, read_progress

app = options.Noun()

READ = 1000


@app.command()
def demo(
    workers: Annotated[int, option("--workers", "", "How many workers crawl together.", min=1, max=64)] = 2,
    hosts: Annotated[int, option("--hosts", "", "How many hosts the forum has.", min=1, max=32)] = 4,
    boards: Annotated[int, option("--boards", "", "How many boards each host has; 200 pages each.", min=1, max=64)] = 4,
    data_dir: Annotated[
        Path | None, option("--data-dir", "DIR", "Keep the server's data here, to look at the crawl afterwards.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Crawl a small forum with a real fleet, start to end.

    Nothing to set up, nothing left behind. Starts a server of its own, a small forum with several hosts that throttles,
    redirects, breaks and loses some of its pages, and Scrapy workers that crawl it together. Halfway one of them is
    killed with kill -9 and another takes its place. At the end the forum's access log and the items are compared with
    what the forum has: every page fetched, every item exactly once. Exit code 1 if not.
    """
    # As Ctrl-C: what was started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    with open_environment(site.layout(boards), hosts, data_dir) as stage:
        pages = stage.forum.expected_pages()
        output.write_notice(f"a forum on {hosts} hosts with {len(pages):,} pages")
        output.write_notice(f"{workers} Scrapy workers, at most {site.LIMIT} requests at a time to each host")
        crawled = _crawl(stage, workers)
    if crawled is None:
        raise typer.Exit(exit_codes.INTERRUPTED)
    found, failed = crawled.found, [finding for finding in crawled.found if finding.ok is False]
    if json:
        output.write_json(
            {
                "ok": not failed and not crawled.failed,
                "seconds": round(crawled.seconds, 2),
                "pages_per_second": round(len(pages) / crawled.seconds, 1),
                "workers_failed": crawled.failed,
                "workers_replaced": crawled.replaced,
                "checks": [finding._asdict() for finding in found],
            }
        )
    else:
        rows = [(output.mark(f.ok), f.what, f.expected, f.found) for f in found]
        output.write_table(("", "checked", "expected", "found"), rows)
        output.write_line(
            f"{len(pages):,} pages in {crawled.seconds:.1f} s, {len(pages) / crawled.seconds:,.0f} pages/s "
            f"({time.monotonic() - began:.1f} s with start and end)"
        )
    if stage.kept and not json:
        name = stage.settings["GOSSAMER_CRAWL"]
        output.write_notice(f"look at it: gossamer status --url embedded:{data_dir} --crawl {name}")
    if failed:
        output.write_notice(f"{len(failed)} of {len(found)} checks failed: " + "; ".join(f.what for f in failed))
    if failed or crawled.failed:
        raise typer.Exit(exit_codes.FAILED)


class _CrawlResult(NamedTuple):
    found: list[DemoCheck]
    seconds: float
    failed: int
    replaced: int


def _crawl(stage: DemoEnvironment, workers: int) -> _CrawlResult | None:
    """Crawl the forum and judge it; None if it was interrupted."""
    forum = stage.forum
    pages, missing = forum.expected_pages(), forum.expected_missing()
    commands = [
        command(site.GROUP, {"forum": forum.url}, {**stage.given, **site.SETTINGS, "GOSSAMER_ROUND": "join"})
    ] * workers
    logs = [stage.directory / f"worker-{place + 1}.log" for place in range(workers)]
    # Settings of ours that happen to be in force here are not meant for the demo: its workers get what they need.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    with (
        ValkeyFrontier.open(hasty(stage.settings)) as frontier,
        Fleet(
            commands,
            logs,
            output.write_notice,
            frontier=frontier,
            environ={**environ, **site.PROJECT},
            directory=stage.directory,
        ) as fleet,
    ):
        kill = Kill(fleet, frontier, len(pages) // 2, output.write_notice)
        seconds = watch(
            fleet, WatchedFleet(frontier, site.GROUP, Progress()), total=len(pages) + len(missing), tick=kill
        )
        if fleet.stopping:
            return None
        outcome = DemoOutcome(
            pages,
            forum.expected_redirects(),
            missing,
            forum.arrivals(),
            read_progress(frontier, site.GROUP),
            list(_items(frontier)),
            site.LIMIT,
            kill.held,
        )
        return _CrawlResult(findings(outcome), seconds, len(fleet.failed), fleet.restarts)


def _items(frontier: ValkeyFrontier) -> Iterator[str]:
    """The URL of every item in the stream."""
    after = "0-0"
    while rows := frontier.read_items(site.GROUP, 0, after, READ):
        after = rows[-1][0]
        for _, data in rows:
            yield str(codec.decode(data)["url"])
