"""`gossamer items`: what a crawl brought home."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import exit_codes, options, output, progress
from gossamer.cli.options import argument, flag, option
from gossamer.errors import PolicyError
from gossamer.frontier import item_stream
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.items import rows as item_rows
from gossamer.items.consumer import ItemConsumer
from gossamer.items.export import LOOK, SUFFIXES, ExportPlan, Format
from gossamer.items.export import export as export_items
from gossamer.model.policy import NAME
from gossamer.registry import Registry
from gossamer.status.overview import counts_of

app = options.Noun("Items: follow them, write them to files, drop them.")
FEED = "feed-"
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

    Removes nothing, and says nothing about what has been written.
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
        str, option("--as", "NAME", "Who reads: the server notes how far NAME has come, whatever the file.")
    ] = "",
    fields: Annotated[str, option("--fields", "A,B", "CSV and Parquet: only these columns, in this order.")] = "",
    look: Annotated[int, option("--look", "N", "CSV: the first items, which set the columns; 0: all.", min=0)] = LOOK,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Write a group's items to a file.

    Into a new file (or one that is gone), it begins with the first item that is there; into the same file again, it goes on. With --as, it
    goes on where NAME has stopped, in whatever file. JSON lines and CSV are added to FILE, Parquet is rewritten with the items it had. Killed
    at any moment and called again with the same file, every item is in it once. Items stay on the server (`gossamer items drop`). Exit code 4: items
    that FILE or NAME did not have went at the limit of the stream, or for their age.
    """
    found = form or SUFFIXES.get(file.suffix.lower())
    if found is None:
        raise typer.BadParameter(f"{file.name!r} does not show the format; give --format")
    columns = tuple(dict.fromkeys(name.strip() for name in fields.split(",") if name.strip())) or None
    if columns and found == "jsonl":
        raise typer.BadParameter("--fields is for CSV and Parquet; lines of JSON have all fields")
    if consumer and (not NAME.match(consumer) or consumer.startswith(FEED)):
        raise PolicyError(
            f"consumer {consumer!r} must be a plain name of letters, digits and _ . : -, and not begin with {FEED}"
        )
    plan = ExportPlan(group, consumer, file, found, columns, look)
    with where.find() as frontier:

        def say_what_lacks() -> None:
            # At once: who is killed meanwhile has said it, and the next export finds it no more.
            output.write_notice(
                f"{file} lacks items: {_gone_text(_gone(frontier, group))}, some of them after those that {consumer or 'it'} had and before "
                "this export. Export more often, or raise GOSSAMER_ITEMS_MAX, GOSSAMER_ITEMS_MAX_BYTES or GOSSAMER_ITEMS_MAX_AGE"
            )

        [counts] = counts_of(frontier, group).groups
        new = bool(consumer) and consumer not in item_stream.consumers(frontier, group)
        with progress.live("exporting", counts.items_waiting, sys.stderr, "items") as show:
            written, source, behind_others = export_items(frontier, plan, progress.throttled(show), say_what_lacks)
        is_site = not written and any(group in file.sites for file in Registry(frontier).files())
        gone = _gone(frontier, group)
    if not written:
        output.write_notice(_why_empty(group, counts.items, gone, source, is_site))
    elif gone and not source.has_begun:
        output.write_notice(f"{_gone_text(gone)} before the first one that is in {file}")
    if behind_others:
        output.write_notice(f"another program has added to {file}: that stays, and the items come after it")
    if new:
        output.write_notice(
            f"from now on items of {group} are kept for {consumer}; `gossamer items forget {group} {consumer}` ends that"
        )
    output.write_answer(
        json,
        {
            "group": group,
            "consumer": consumer,
            "file": str(file),
            "format": found,
            "items": written,
            "lacks": source.lacks,
        },
        f"{output.counted(written, 'item')} written to {file}",
    )
    if source.lacks:
        raise typer.Exit(exit_codes.LACKING)


@app.command()
def consumers(group: Name, json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List who reads a group's items, and how far each has read.

    Feeds and the names given with `items export --as`. At the group's limit, the oldest items that all feeds have written go first; without a feed, those
    that all of these names or an export without a name have written. If there are none, the group pauses as items_full.
    """
    with where.find() as frontier:
        [counts] = counts_of(frontier, group).groups
        found, gone = item_stream.consumers(frontier, group), _gone(frontier, group)
    if json:
        output.write_json(
            {"waiting": counts.items_waiting, "gone": gone, "consumers": {name: dict(at) for name, at in found.items()}}
        )
        return
    rows = [(name, p, position) for name, at in sorted(found.items()) for p, position in sorted(at.items())]
    output.write_table(("consumer", "partition", "written up to"), rows)
    output.write_notice(
        f"{output.counted_are(counts.items_waiting, 'item')} on the server" + (f"; {_gone_text(gone)}" if gone else "")
    )


@app.command()
def drop(
    group: Name, yes: options.Yes = False, json: options.Json = False, where: options.Where = options.HERE
) -> None:
    """Remove the items that are on the server now, whoever has written them.

    Asks first, unless --yes. A group that is paused as items_full goes on.
    """
    with where.find() as frontier:
        [counts] = counts_of(frontier, group).groups
        ends = item_stream.ends(frontier, group)
        behind = [
            name
            for name, at in sorted(item_stream.consumers(frontier, group).items())
            if any(item_stream.place(at.get(p, item_stream.START)) < item_stream.place(end) for p, end in ends.items())
        ]
        lacking = (
            f" {', '.join(behind)} {'has' if len(behind) == 1 else 'have'} not written all of them." if behind else ""
        )
        options.confirm(f"Drop {output.counted(counts.items_waiting, 'item')} of group {group}?{lacking}", yes)
        dropped = frontier.drop_items(group, ends)
        if dropped:
            where.log(frontier, "drop items", group, output.counted(dropped, "item"))
    output.write_answer(json, {"group": group, "dropped": dropped}, f"{output.counted_are(dropped, 'item')} dropped")


@app.command()
def forget(
    group: Name,
    consumer: Annotated[str, argument("CONSUMER", "As `gossamer items consumers` lists it.")],
    drop: Annotated[bool, flag("--drop", "Also remove the items that only this consumer lacks.")] = False,
    yes: options.Yes = False,
    where: options.Where = options.HERE,
) -> None:
    """Stop keeping items for a consumer.

    Items stay until they are dropped, or until there are too many that another has written: --drop removes those that all others have written.
    """
    with where.find() as frontier:
        counts_of(frontier, group)
        everyone = item_stream.consumers(frontier, group)
        if consumer not in everyone:
            raise PolicyError(f"group {group!r} has no consumer {consumer!r}; `gossamer items consumers` lists them.")
        doubt = "Items that only it lacks are removed." if drop else "Items are not kept for it any more."
        options.confirm(f"Forget consumer {consumer} of group {group}? {doubt}", yes)
        left = frontier.keep_items(group, consumer, dict.fromkeys(range(frontier.partitions), "gone"))
        if drop:
            others = [at for name, at in everyone.items() if name != consumer]
            ends = {
                p: min((at.get(p, item_stream.START) for at in others), key=item_stream.place, default=end)
                for p, end in item_stream.ends(frontier, group).items()
            }
            left -= frontier.drop_items(group, ends)
    output.write_line(f"consumer {consumer} is forgotten; {output.counted_are(left, 'item')} on the server")


def _gone(frontier: ValkeyFrontier, group: str) -> int:
    return sum(item_stream.gone(frontier, group, p)[0] for p in range(frontier.partitions))


def _gone_text(gone: int) -> str:
    items = f"{output.counted(gone, 'item')} that had been written, or came before the round of a feed,"
    return f"{items} went at the limit of the stream or for their age"


def _why_empty(group: str, scraped: int, gone: int, source: ItemConsumer, is_site: bool) -> str:
    if not scraped:
        return f"{group} has scraped no items yet"
    if source.has_begun:
        return f"no items of {group} that are not written: nothing came into its stream since, or they were dropped"
    removed = f", {_gone_text(gone)} or they were dropped" if gone else ", or they were dropped"
    if is_site:
        return (
            f"none of the {scraped:,} items that {group} has scraped is in its stream: records of layers under `store:` are rows in its database "
            f"(GOSSAMER_STORE_URL, unless the site file names another){removed}. Only layers without a table are exported"
        )
    return (
        f"none of the {scraped:,} items that {group} has scraped is in its stream: they went to ITEM_PIPELINES{removed}. "
        "To export items as well, crawl with GOSSAMER_ITEMS=stream"
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
