"""Items as lines of a growing file: JSON or CSV.

A page of items is written and brought to disk, then marked as finished beside the file, then acknowledged to the server. Killed
anywhere in between and called again, the file has every item once.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from gossamer.errors import ExportStopped
from gossamer.items import rows as item_rows
from gossamer.items.consumer import Item, ItemConsumer
from gossamer.items.position import ExportPosition, PositionFile, sync

Heard = Callable[[int], None]


class LineFormat(Protocol):
    """How items are written."""

    fields: tuple[str, ...] | None

    def head(self) -> bytes: ...

    def line(self, item: Item) -> bytes: ...


class JsonLines:
    """One JSON object per line."""

    fields: tuple[str, ...] | None = None

    def head(self) -> bytes:
        return b""

    def line(self, item: Item) -> bytes:
        return item_rows.line(item)


class CsvLines:
    """CSV with these columns. An item with another field is refused, unless those were `chosen` to be all that is wanted."""

    def __init__(self, columns: Sequence[str], chosen: bool) -> None:
        self.fields: tuple[str, ...] | None = tuple(columns)
        self._columns, self._known, self._chosen = tuple(columns), frozenset(columns), chosen

    def head(self) -> bytes:
        return _row(self._columns)

    def line(self, item: Item) -> bytes:
        if not self._chosen:
            refuse_new(item, self._known)
        return _row([item_rows.cell(item.get(name)) for name in self._columns])


def refuse_new(item: Mapping[str, Any], known: frozenset[str]) -> None:
    new = [name for name in item if name not in known]
    if new:
        raise ExportStopped(
            f"an item has the field {new[0]!r}, which is none of the columns. It and what follows are on the server: export to "
            "another file, which begins with the first item that is there, or give --fields with all that you want."
        )


def same_columns(path: Path, fixed: Sequence[str] | None, chosen: Sequence[str] | None) -> None:
    """The columns of a file that has begun cannot change."""
    if fixed is not None and chosen is not None and tuple(fixed) != tuple(chosen):
        raise ExportStopped(f"{path} has the columns {','.join(fixed)}. Give the same --fields, or name another file.")


def write(
    source: ItemConsumer,
    path: Path,
    marks: PositionFile,
    lines: LineFormat,
    heard: Heard,
    until: Mapping[int, str] | None = None,
) -> int:
    """Append what waits to the file, up to the positions `until` if there are such. Return the number of items."""
    written = 0
    with _opened(path, marks) as stream:
        for partition, rows in source.pages(until):
            if marks.closed:
                # From now on, what the file has behind this is ours.
                marks.set(marks.mark._replace(size=_behind_others(stream)))
            if marks.mark.size == 0 and not written:
                stream.write(lines.head())
            problem: ExportStopped | None = None
            last = ""
            for position, item in rows:
                try:
                    stream.write(lines.line(item))
                except ExportStopped as error:
                    problem = error
                    break
                last, written = position, written + 1
            if last:
                sync(stream)
                marks.set(ExportPosition(stream.tell(), {**source.positions, partition: last}, lines.fields))
                source.keep({partition: last})
            if problem is not None:
                raise problem
            heard(written)
    return written


def added_by_others(path: Path, marks: PositionFile) -> int:
    """How many bytes another program has added to the file since an export came to its end. ExportStopped where it has no items before them."""
    if not marks.closed or not path.exists():
        return 0
    added = max(0, path.stat().st_size - marks.mark.size)
    if added and not marks.mark.size:
        raise ExportStopped(f"{path} has no items yet, and what is in it is another program's. Name another file.")
    return added


def _opened(path: Path, marks: PositionFile) -> IO[bytes]:
    """The file, cut to what is finished in it, unless that is another program's."""
    size = marks.mark.size
    try:
        stream = path.open("r+b" if size else "w+b")
    except FileNotFoundError:
        raise ExportStopped(f"{path} is missing. To start again without it, remove {path}.position too.") from None
    end = stream.seek(0, io.SEEK_END)
    if end < size:
        stream.close()
        raise ExportStopped(f"{path} is shorter than it was. Name another file, or remove it and {path}.position.")
    if not marks.closed:
        stream.truncate(size)
        stream.seek(size)
    return stream


def _behind_others(stream: IO[bytes]) -> int:
    """The end of the file, where a line begins."""
    if end := stream.seek(0, io.SEEK_END):
        stream.seek(end - 1)
        if stream.read(1) != b"\n":
            stream.write(b"\n")
            sync(stream)
    return stream.tell()


def _row(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()
