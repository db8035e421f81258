"""Rows by their identity: the conditions and portions of statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Table as SqlTable
from sqlalchemy import and_, or_
from sqlalchemy.sql import ColumnElement

T = TypeVar("T")

Identity = tuple[Any, ...]

CHUNK = 200
"""Rows per statement: far below every database's limit of parameters."""


def among(table: SqlTable, names: Sequence[str], wanted: Sequence[Identity]) -> ColumnElement[bool]:
    """A condition: the columns `names` have one of the `wanted` sets of values."""
    if len(names) == 1:
        return table.c[names[0]].in_([values[0] for values in wanted])
    return or_(
        *(and_(*(table.c[name] == value for name, value in zip(names, values, strict=True))) for values in wanted)
    )


def plain(values: Iterable[Any]) -> Identity:
    """Values of an identity as they were bound: some drivers read bytes into another type, or whole numbers for truth."""
    return tuple(bytes(value) if isinstance(value, memoryview | bytearray) else value for value in values)


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]
