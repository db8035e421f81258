"""`gossamer export`: a crawl as a file of JSON lines."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TextIO

from gossamer.cli import options, output, progress
from gossamer.cli.options import argument, flag
from gossamer.cli.progress import throttled
from gossamer.frontier.snapshot.export import Export
from gossamer.frontier.valkey import ValkeyFrontier

app = options.Noun()


@app.command()
def export(
    file: Annotated[str, argument("FILE", "Where to write; - is standard output.")],
    items: Annotated[bool, flag("--items", "Also the items that no consumer has kept yet.")] = False,
    secrets: Annotated[bool, flag("--secrets", "Also cookies, passwords and headers that look like secrets.")] = False,
    where: options.Where = options.HERE,
) -> None:
    """Write all that a crawl holds to a file of JSON lines.

    Workers may run meanwhile. Whatever is queued, delayed, leased or failed is in the file at least once; what
    moved while it was read may be there twice. The file appears under its name when it is complete, readable by you
    alone. Without --secrets, a request that has some is written without them and marked; `gossamer import` stops there
    unless --without-secrets is given; cookies that workers share are left out, and both commands say how many. Site files and items are written as they are.
    """
    settings = where.settings()
    with ValkeyFrontier.find(settings) as frontier, _opened(file) as stream:
        counts, memories = frontier.counts(), frontier.seen_counts()
        total = sum(lane.waiting + lane.leased for lane in counts.lanes) + sum(m.known for m in memories)
        with progress.live("exporting", total + sum(g.dead for g in counts.groups), sys.stderr, "records") as show:
            say = throttled(show)
            snapshot = Export(
                frontier,
                stream,
                items=items,
                secrets=secrets,
                heard=lambda x: say(x.records, {"requests": x.requests}),
            )
            snapshot.run()
    output.write_notice(
        ", ".join(
            output.counted(number, what)
            for number, what in ((snapshot.requests, "request"), (snapshot.records, "record"), (snapshot.lines, "line"))
        )
    )
    waiting = sum(group.items_waiting for group in counts.groups)
    if waiting and not items:
        output.write_notice(
            f"{output.counted(waiting, 'item')} on the server are not in the file; --items writes them too"
        )
    if snapshot.redacted:
        output.write_notice(
            f"{snapshot.redacted:,} are without their secrets (cookies, passwords, headers); --secrets writes them too"
        )
    if snapshot.cookies_left_out:
        output.write_notice(
            f"left out: {output.counted(snapshot.cookies_left_out, 'cookie')} that the workers share; where the file is "
            "imported the crawl is logged out. --secrets writes them too"
        )


@contextlib.contextmanager
def _opened(file: str) -> Iterator[TextIO]:
    if file == "-":
        yield sys.stdout
        return
    part = Path(f"{file}.part")
    try:
        part.unlink(missing_ok=True)
        # Only its owner may read what a crawl holds, from the first byte on.
        made = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(made, "w", encoding="utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
