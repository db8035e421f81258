"""What waits in a group's item stream, into a file: each item once, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.items import lines as item_lines
from gossamer.items import parquet
from gossamer.items.consumer import ItemConsumer
from gossamer.items.position import held

Format = Literal["jsonl", "csv", "parquet"]
SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl", ".jl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet"
}  # fmt: skip
LOOK = 10_000


class ExportPlan(NamedTuple):
    """What is to be exported, and how. `consumer`: who reads it ("": nobody that has a name). `fields` are the columns; None: those of the first `look` items (0: of all)."""

    group: str
    consumer: str
    path: Path
    form: Format
    fields: Sequence[str] | None = None
    look: int = LOOK


class ExportResult(NamedTuple):
    """How many items were written, and by whom; whether they came after what another program has added to the file."""

    written: int
    source: ItemConsumer
    behind_others: bool = False


def export(
    frontier: ValkeyFrontier,
    plan: ExportPlan,
    heard: Callable[[int], None],
    noticed: Callable[[], None] = lambda: None,
) -> ExportResult:
    """Write the items that FILE, or the consumer, does not have. `heard` is called with how many are written, `noticed` when some are found
    to lack (`ItemConsumer.lacks`)."""
    try:
        return _export(frontier, plan, heard, noticed)
    except OSError as error:
        if error.filename is None:
            error.filename = str(plan.path)  # a full disk names none
        raise


def _export(
    frontier: ValkeyFrontier, plan: ExportPlan, heard: Callable[[int], None], noticed: Callable[[], None]
) -> ExportResult:
    if plan.form == "parquet":
        parquet.package()
    owner = {"crawl": frontier.crawl, "group": plan.group, "consumer": plan.consumer, "format": plan.form}
    with held(plan.path, owner) as marks:
        if plan.form == "parquet":
            before = parquet.ExistingFile(plan.path)
            source = ItemConsumer(frontier, plan.group, plan.consumer, before.positions, noticed)
            return ExportResult(parquet.write(source, plan.path, before, plan.fields, heard), source)
        source = ItemConsumer(frontier, plan.group, plan.consumer, marks.mark.positions, noticed)
        lines: item_lines.LineFormat = item_lines.JsonLines()
        if plan.form == "csv":
            columns = plan.fields or marks.mark.fields or source.columns(plan.look)
            if not columns:
                return ExportResult(0, source)
            item_lines.same_columns(plan.path, marks.mark.fields, plan.fields)
            lines = item_lines.CsvLines(columns, plan.fields is not None)
        added = item_lines.added_by_others(plan.path, marks)
        written = item_lines.write(source, plan.path, marks, lines, heard)
        if not marks.closed:
            marks.set(marks.mark, closed=True)
        return ExportResult(written, source, bool(added and written))
