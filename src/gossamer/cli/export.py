"""`gossamer export`: a crawl as a file of JSON lines."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TextIO

import typer

from gossamer.cli import options, output, progress
from gossamer.cli.progress import throttled
from gossamer.frontier.export import Export
from gossamer.frontier.valkey import ValkeyFrontier

app = options.noun()


@app.command()
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write; - is standard output.")],
    items: Annotated[bool, typer.Option("--items", help="Also the items that no consumer has kept yet.")] = False,
    url: options.Url = None,
    crawl: options.Crawl = None,
) -> None:
    """Write all that a crawl holds to a file of JSON lines.

    Its workers go on meanwhile. Whatever is queued, delayed, leased or failed is in the file at least once; what
    moved while it was read may be there twice. The file appears under its name when it is complete.
    """
    settings = options.load_settings(url, crawl)
    with ValkeyFrontier.find(settings) as frontier, _opened(file) as stream:
        counts, memories = frontier.counts(), frontier.seen_counts()
        total = sum(lane.queued + lane.delayed + lane.leased for lane in counts.lanes) + sum(m.known for m in memories)
        with progress.live("exporting", total + sum(g.dead for g in counts.groups), sys.stderr, "records") as show:
            say = throttled(show)
            snapshot = Export(frontier, stream, items=items, heard=lambda x: say(x.records, {"requests": x.requests}))
            snapshot.run()
    output.write_notice(f"{snapshot.requests:,} requests, {snapshot.records:,} records, {snapshot.lines:,} lines")


@contextlib.contextmanager
def _opened(file: str) -> Iterator[TextIO]:
    if file == "-":
        yield sys.stdout
        return
    part = Path(f"{file}.part")
    try:
        with part.open("w", encoding="utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
