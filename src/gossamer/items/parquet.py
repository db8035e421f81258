"""Items as one Parquet file, written from the beginning by each export.

Such a file cannot grow: what was in it is copied, what waits is added, and the new file takes the place of the old one at once. How far
it reaches is written inside it, so file and position change together. Items are read twice: first for the columns and their types, then for
their values. Only when the file is in its place are they acknowledged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, Any

from gossamer.errors import ExportStopped, PackageMissing
from gossamer.items import lines
from gossamer.items import rows as item_rows
from gossamer.items.consumer import Item, ItemConsumer

ROWS = 20_000
META = b"gossamer"
Heard = Callable[[int], None]
Kinds = dict[str, str]


def package() -> tuple[Any, Any]:
    """pyarrow and its Parquet part."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise PackageMissing("Parquet needs the package pyarrow: pip install 'gossamer[parquet]'.") from None


def kind_of(value: Any) -> str:
    """The kind of column that holds this value as it is; `text` holds any other, written as in the other formats."""
    kind = next((name for types, name in _KINDS if isinstance(value, types)), "text")
    if kind == "int" and not -(2**63) <= value < 2**63:
        return "text"
    if kind == "moment" and value.tzinfo is None:
        return "naive"
    if kind == "list":
        inner = "null"
        for part in value:
            found = kind_of(part)
            if found not in _INSIDE:
                return "text"
            inner = joined(inner, found)
        return f"list {inner}"
    return kind


def joined(one: str, other: str) -> str:
    """The kind that holds what both hold."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    if {one, other} == {"int", "float"}:
        return "float"
    if one.startswith("list ") and other.startswith("list "):
        return f"list {joined(one[5:], other[5:])}"
    return "text"


def value_for(kind: str, value: Any) -> Any:
    """A value as a column of this kind takes it."""
    if value is None or kind == "null":
        return None
    if kind == "text":
        return item_rows.cell(value)
    if kind == "float":
        return float(value)
    if kind == "bytes":
        return bytes(value)
    if kind == "moment":
        return value.astimezone(UTC)
    if kind.startswith("list "):
        parts = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return [value_for(kind[5:], part) for part in parts]
    return value


def kinds_in(items: Iterator[Item], known: Mapping[str, str], chosen: Sequence[str] | None) -> Kinds:
    """The columns that these items need beside those `known`; only the `chosen` ones, if there are such."""
    kinds: Kinds = {name: known.get(name, "null") for name in chosen} if chosen is not None else dict(known)
    for item in items:
        for name, value in item.items():
            if chosen is None or name in kinds:
                kinds[name] = joined(kinds.get(name, "null"), kind_of(value))
    return kinds


class ExistingFile:
    """The file as it is: how far it reaches and what its columns are. Empty if there is none."""

    def __init__(self, path: Path) -> None:
        _, parquet = package()
        self.positions: dict[int, str] = {}
        self.kinds: Kinds = {}
        self.path: Path | None = None
        if path.exists() and path.stat().st_size > 0:
            try:
                about = json.loads(parquet.read_schema(path).metadata[META])
            except Exception:
                raise ExportStopped(f"{path} exists and was not written by an export. Name another file.") from None
            self.positions = {int(partition): at for partition, at in about["positions"].items()}
            self.kinds, self.path = about["kinds"], path

    def tables(self) -> Iterator[Any]:
        _, parquet = package()
        if self.path is not None:
            with parquet.ParquetFile(self.path) as file:
                yield from file.iter_batches(batch_size=ROWS)


def write(source: ItemConsumer, path: Path, before: ExistingFile, chosen: Sequence[str] | None, heard: Heard) -> int:
    """Put a file in the place of the old one that has what waits, too. Return the number of items."""
    arrow, parquet = package()
    until = dict(source.positions)

    def first_look() -> Iterator[Item]:
        for partition, rows in source.pages():
            until[partition] = rows[-1][0]
            yield from (item for _, item in rows)

    if before.kinds and chosen is not None:
        lines.same_columns(path, tuple(before.kinds), chosen)
    kinds = kinds_in(first_look(), before.kinds, chosen)
    if until == source.positions:
        return 0
    about = {"positions": {str(p): at for p, at in until.items()}, "kinds": kinds}
    schema = arrow.schema([(name, _type(arrow, kind)) for name, kind in kinds.items()])
    part, written = Path(f"{path}.part"), 0
    try:
        with part.open("wb") as stream:
            with parquet.ParquetWriter(stream, schema.with_metadata({META: json.dumps(about).encode()})) as writer:
                for batch in before.tables():
                    writer.write_table(_table(arrow, schema, kinds, batch.to_pylist()))
                for rows in _grouped(item for _, page in source.pages(until) for _, item in page):
                    writer.write_table(_table(arrow, schema, kinds, rows))
                    written += len(rows)
                    heard(written)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    fd = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    source.keep({p: at for p, at in until.items() if at != source.positions[p]})
    return written


def write_whole(stream: IO[bytes], items: Callable[[], Iterator[Item]]) -> int:
    """Write a file of these items, which are read twice; how many there are."""
    arrow, parquet = package()
    kinds, written = kinds_in(items(), {}, None), 0
    schema = arrow.schema([(name, _type(arrow, kind)) for name, kind in kinds.items()])
    with parquet.ParquetWriter(stream, schema) as writer:
        for rows in _grouped(items()):
            writer.write_table(_table(arrow, schema, kinds, rows))
            written += len(rows)
    return written


def _table(arrow: Any, schema: Any, kinds: Kinds, rows: Sequence[Item]) -> Any:
    columns = [
        arrow.array([value_for(kind, row.get(name)) for row in rows], type=schema.field(name).type)
        for name, kind in kinds.items()
    ]
    return arrow.Table.from_arrays(columns, schema=schema)


def _grouped(items: Iterator[Item]) -> Iterator[list[Item]]:
    while rows := list(islice(items, ROWS)):
        yield rows


def _type(arrow: Any, kind: str) -> Any:
    if kind.startswith("list "):
        return arrow.list_(_type(arrow, kind[5:]))
    return {
        "null": arrow.string,
        "bool": arrow.bool_,
        "int": arrow.int64,
        "float": arrow.float64,
        "text": arrow.string,
        "bytes": arrow.binary,
        "moment": lambda: arrow.timestamp("us", tz="UTC"),
        "naive": lambda: arrow.timestamp("us"),
        "date": arrow.date32,
    }[kind]()


_KINDS: tuple[tuple[Any, str], ...] = (
    (type(None), "null"),
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (str, "text"),
    (bytes | bytearray | memoryview, "bytes"),
    (datetime, "moment"),
    (date, "date"),
    (list | tuple | set | frozenset, "list"),
)
_INSIDE = frozenset({"null", "bool", "int", "float", "text", "bytes", "moment", "naive", "date"})
