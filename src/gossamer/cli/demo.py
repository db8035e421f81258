"""`gossamer demo`: a real crawl on this machine, watched live and checked at its end."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import exits, options, output, progress
from gossamer.demo import crawl as demo_crawl
from gossamer.demo.check import Outcome, findings
from gossamer.demo.stage import Stage, open_stage
from gossamer.frontier import codec
from gossamer.frontier.reading import Counts, HostInfo
from gossamer.frontier.valkey_async import AsyncValkeyFrontier
from gossamer.model import host_of

app = options.noun()


@app.command()
def demo(
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="How many workers crawl together.")] = 3,
    hosts: Annotated[int, typer.Option("--hosts", min=1, max=32, help="How many hosts the forum has.")] = 4,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="Keep the server's data here, to look at the crawl afterwards."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Crawl a small forum on this machine, start to end.

    Nothing to set up, nothing left behind. Starts a server of its own and a small forum with several hosts that
    throttles, redirects, breaks and loses some of its pages; crawls it with several workers through one frontier; and
    checks the forum's access log: every page expected was crawled, each exactly once, and no host saw more requests
    at once than allowed. Exit code 1 if not.
    """
    # As Ctrl-C: what was started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    with open_stage(demo_crawl.LAYOUT, hosts, data_dir) as stage:
        output.write_notice(
            f"a forum on {hosts} hosts with {len(stage.forum.expected_pages()):,} pages; {workers} workers, "
            f"at most {demo_crawl.POLITENESS.concurrency} requests at a time to each host"
        )
        outcome, seconds = asyncio.run(_crawl(stage, workers))
    found = findings(outcome)
    failed = [finding for finding in found if finding.ok is False]
    if json:
        output.write_json(
            {
                "ok": not failed,
                "seconds": round(seconds, 2),
                "pages_per_second": round(len(outcome.pages) / seconds, 1),
                "checks": [finding._asdict() for finding in found],
            }
        )
    else:
        rows = [(output.mark(f.ok), f.what, f.expected, f.found) for f in found]
        output.write_table(("", "checked", "expected", "found"), rows)
        output.write_line(
            f"{len(outcome.pages):,} pages in {seconds:.1f} s, {len(outcome.pages) / seconds:,.0f} pages/s "
            f"({time.monotonic() - began:.1f} s with start and end)"
        )
    if stage.kept and not json:
        name = stage.settings["GOSSAMER_CRAWL"]
        output.write_notice(f"look at it: gossamer status --url embedded:{stage.kept} --crawl {name}")
    if failed:
        output.write_notice(f"{len(failed)} of {len(found)} checks failed: " + "; ".join(f.what for f in failed))
        raise typer.Exit(exits.FAILED)


async def _crawl(stage: Stage, workers: int) -> tuple[Outcome, float]:
    forum, group = stage.forum, demo_crawl.GROUP
    pages = forum.expected_pages()
    async with await AsyncValkeyFrontier.open(stage.settings, host=demo_crawl.POLITENESS) as frontier:
        began = time.monotonic()
        crawling = asyncio.create_task(demo_crawl.crawl(frontier, [forum.url], workers))
        try:
            with progress.live("crawling the forum", len(pages), sys.stderr) as show:
                names = [host_of(url) for url in forum.urls]
                while not crawling.done():
                    show(*_figures(await frontier.counts(group), await frontier.hosts(names)))
                    await asyncio.wait([crawling], timeout=show.interval)
            await crawling
        finally:
            crawling.cancel()
            await asyncio.gather(crawling, return_exceptions=True)
        seconds = time.monotonic() - began
        counts = await frontier.counts(group)
        items = [str(codec.decode(data)["url"]) async for data in _items(frontier, group)]
        arrivals = await asyncio.to_thread(forum.arrivals)
    outcome = Outcome(
        pages,
        forum.expected_redirects(),
        forum.expected_missing(),
        arrivals,
        counts.lanes,
        counts.groups[0],
        items,
        demo_crawl.POLITENESS.concurrency,
    )
    return outcome, seconds


def _figures(counts: Counts, hosts: list[HostInfo]) -> tuple[int, dict[str, Any]]:
    def total(name: str) -> int:
        return sum(getattr(lane, name) for lane in counts.lanes)

    return total("done"), {
        "queued": total("queued"),
        "waiting": total("delayed"),
        "leased": total("leased"),
        "hosts": len(hosts),
        "of them blocked": sum(host.blocked_until > host.now for host in hosts),
        "items": sum(group.items for group in counts.groups),
        "tried again": total("retried"),
        "dead": sum(group.dead for group in counts.groups),
    }


async def _items(frontier: AsyncValkeyFrontier, group: str) -> AsyncIterator[bytes]:
    after = "0-0"
    while rows := await frontier.read_items(group, 0, after, 1000):
        after = rows[-1][0]
        for _, data in rows:
            yield data
