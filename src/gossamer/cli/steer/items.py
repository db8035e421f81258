"""`gossamer items`: what a crawl brought home."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import options, output, progress
from gossamer.cli.options import argument, flag, option
from gossamer.errors import PolicyError
from gossamer.frontier import item_stream
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.items import rows as item_rows
from gossamer.items.export import LOOK, SUFFIXES, ExportPlan, Format
from gossamer.items.export import export as export_items
from gossamer.model.policy import NAME
from gossamer.registry import Registry
from gossamer.status.overview import counts_of

app = options.Noun("Items: follow them, or write them to files.")
LOOK_SECONDS = 0.5
Name = Annotated[str, argument("GROUP", "Whose items.")]
Row = tuple[str, int, bytes]


@app.command()
def tail(
    group: Name,
    count: Annotated[int, option("-n --lines", "N", "How many of the last ones.", min=0)] = 10,
    follow: Annotated[bool, flag("-f --follow", "Follow new items until Ctrl-C.")] = False,
    json: Annotated[bool, flag("--json", "With partition and position around each item.")] = False,
    where: options.Where = options.HERE,
) -> None:
    """Write the last items as lines of JSON.

    Acknowledges nothing. Only items that some consumer has not kept yet are still there; with -f one that is kept and
    trimmed at once may be missed.
    """
    with where.find() as frontier:
        counts_of(frontier, group)
        for position, partition, data in _last(frontier, group, count, follow):
            item = item_rows.fields(data)
            told = {"partition": partition, "position": position, "item": item} if json else item
            sys.stdout.write(item_rows.line(told).decode())
            sys.stdout.flush()


@app.command()
def export(
    group: Name,
    file: Annotated[Path, argument("FILE", "Where to write; it may have items of earlier exports.")],
    form: Annotated[Format | None, option("--format", "", "How to write. [default: as the name of FILE ends]")] = None,
    consumer: Annotated[
        str, option("--consumer", "NAME", "Who reads the items; each consumer gets all of them.")
    ] = "export",
    fields: Annotated[str, option("--fields", "A,B", "CSV and Parquet: only these columns, in this order.")] = "",
    look: Annotated[int, option("--look", "N", "CSV: the first items, which set the columns; 0: all.", min=0)] = LOOK,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Write the items that wait to a file, and acknowledge them.

    Begins where this consumer stopped and ends where the items do. JSON lines and CSV are added to FILE, Parquet is
    rewritten with the items it had. Killed at any moment and called again with the same file, every item is in it once.
    Items that all consumers have kept are trimmed, which resumes a group that was paused as items_full.
    """
    found = form or SUFFIXES.get(file.suffix.lower())
    if found is None:
        raise typer.BadParameter(f"{file.name!r} does not show the format; give --format")
    columns = tuple(dict.fromkeys(name.strip() for name in fields.split(",") if name.strip())) or None
    if columns and found == "jsonl":
        raise typer.BadParameter("--fields is for CSV and Parquet; lines of JSON have all fields")
    if not NAME.match(consumer):
        raise PolicyError(f"consumer {consumer!r} must be a plain name of letters, digits and _ . : -")
    plan = ExportPlan(group, consumer, file, found, columns, look)
    with where.find() as frontier:
        [counts] = counts_of(frontier, group).groups
        new = consumer not in item_stream.consumers(frontier, group)
        with progress.live("exporting", counts.items_waiting, sys.stderr, "items") as show:
            written = export_items(frontier, plan, progress.throttled(show))
        is_site = not written and any(group in file.sites for file in Registry(frontier).files())
    if not written:
        output.write_notice(_why_empty(group, counts.items, new, is_site))
    if new and not written:
        output.write_notice(
            f"from now on items of {group} wait for consumer {consumer}; `gossamer items forget {group} {consumer} --drop` ends that"
        )
    output.write_answer(
        json,
        {"group": group, "consumer": consumer, "file": str(file), "format": found, "items": written},
        f"{output.counted(written, 'item')} written to {file}",
    )


@app.command()
def consumers(group: Name, json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List who reads a group's items, and how far each has read.

    Items that a consumer has not read are kept, and a group with too many of them pauses as items_full.
    """
    with where.find() as frontier:
        [counts] = counts_of(frontier, group).groups
        found = item_stream.consumers(frontier, group)
    if json:
        output.write_json(
            {"waiting": counts.items_waiting, "consumers": {name: dict(at) for name, at in found.items()}}
        )
        return
    rows = [(name, p, position) for name, at in sorted(found.items()) for p, position in sorted(at.items())]
    output.write_table(("consumer", "partition", "kept up to"), rows)
    output.write_notice(
        f"{output.counted(counts.items_waiting, 'item')} {'waits' if counts.items_waiting == 1 else 'wait'}"
    )


@app.command()
def forget(
    group: Name,
    consumer: Annotated[str, argument("CONSUMER", "As `gossamer items consumers` lists it.")],
    drop: Annotated[bool, flag("--drop", "Also remove the items that only this consumer lacks.")] = False,
    yes: options.Yes = False,
    where: options.Where = options.HERE,
) -> None:
    """Stop keeping items for a consumer.

    Items that all other consumers have kept are then removed. If there is no other consumer, the items stay, and so do
    those of every later round, until an export takes them: --drop removes them instead.
    """
    with where.find() as frontier:
        counts_of(frontier, group)
        everyone = item_stream.consumers(frontier, group)
        # Items without a consumer can be dropped by any name: the one who forgot their last consumer may come back for them.
        if consumer not in everyone and not (drop and not everyone):
            raise PolicyError(f"group {group!r} has no consumer {consumer!r}; `gossamer items consumers` lists them.")
        doubt = "Items that only it lacks are removed." if drop else "It will not get the items that it lacks."
        options.confirm(f"Forget consumer {consumer} of group {group}? {doubt}", yes)
        if drop:
            last = {p: item_stream.last_items(frontier, group, p, 1) for p in range(frontier.partitions)}
            frontier.keep_items(group, consumer, {p: found[-1][0] for p, found in last.items() if found})
        left = frontier.keep_items(group, consumer, dict.fromkeys(range(frontier.partitions), "gone"))
    output.write_line(
        f"consumer {consumer} is forgotten; {output.counted(left, 'item')} {'waits' if left == 1 else 'wait'}"
    )
    if left and set(everyone) <= {consumer}:
        output.write_notice(
            f"{group} has no consumer left, and what waits stays: `gossamer items export {group} FILE` takes it, "
            f"`gossamer items forget {group} {consumer} --drop` removes it"
        )


def _why_empty(group: str, scraped: int, new: bool, is_site: bool) -> str:
    if not scraped:
        return f"{group} has scraped no items yet"
    if is_site and new:
        return (
            f"none of the {scraped:,} items that {group} has scraped is in its stream: records of layers under `store:` are rows in its database "
            f"(GOSSAMER_STORE_URL, unless the site file names another), or all consumers had kept them. Only layers without a table are exported"
        )
    if not new:
        return f"no items of {group} wait: nothing came into its stream since the last export"
    return (
        f"none of the {scraped:,} items that {group} has scraped is in its stream: they went to ITEM_PIPELINES or into a feed, or all consumers "
        "had kept them. To export items as well, crawl with GOSSAMER_ITEMS=stream"
    )


def _last(frontier: ValkeyFrontier, group: str, count: int, follow: bool) -> Iterator[Row]:
    """In the order of time, as far as the partitions' clocks agree."""
    after: dict[int, str] = {}
    rows: list[Row] = []
    for partition in range(frontier.partitions):
        found = item_stream.last_items(frontier, group, partition, max(count, 1))
        after[partition] = found[-1][0] if found else item_stream.START
        rows += [(position, partition, data) for position, data in found]
    rows.sort(key=lambda row: item_stream.place(row[0]))
    yield from rows[len(rows) - count :] if count < len(rows) else rows
    while follow:
        pages = [frontier.read_items(group, p, position, item_stream.PAGE) for p, position in after.items()]
        for p, page in enumerate(pages):
            after[p] = page[-1][0] if page else after[p]
        tagged = [[(position, p, data) for position, data in page] for p, page in enumerate(pages)]
        yield from merge(*tagged, key=lambda row: item_stream.place(row[0]))
        if not any(len(page) == item_stream.PAGE for page in pages):
            time.sleep(LOOK_SECONDS)
