"""Rows of a database or of CSV as tasks: plain values of JSON, nested by the dots in their names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from gossamer.model.plural import counted

_TRUE = {"true": True, "false": False, "1": True, "0": False}
_OBJECTS = ("json", "form", "meta", "headers", "cookies", "cb_kwargs", "pass", "flags")


def task_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The task of a row: `meta.id` is the member `id` of `meta`. What is NULL is left out. ValueError if two names exclude each other."""
    task: dict[str, Any] = {}
    for member, raw in row.items():
        value = plain(raw)
        if value is None:
            continue
        *path, last = member.split(".")
        place = task
        for step in path:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise ValueError(f"{step} is a value, and {member} is to be a member of it")
        if isinstance(place.get(last), dict):
            raise ValueError(f"{member} is a value, and other names are to be members of it")
        place[last] = value
    return task


def plain(value: Any) -> Any:
    """A value of a database as JSON has it."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return str(value)
    return value


def task_of_cells(names: Sequence[str], cells: Sequence[str]) -> dict[str, Any]:
    """The task of a line of CSV, with the types that members of tasks have. Empty cells are left out. ValueError says what is wrong."""
    if len(cells) != len(names):
        raise ValueError(f"it has {counted(len(cells), 'cell')} for {counted(len(names), 'column')}")
    row = zip(names, cells, strict=True)
    return task_of({name: cell if "." in name else _typed(name, cell) for name, cell in row if cell})


def _typed(name: str, cell: str) -> Any:
    try:
        if name == "priority":
            return int(cell)
        if name in ("filter", "dont_filter"):
            return _TRUE[cell.strip().lower()]
        if name in _OBJECTS:
            return json.loads(cell)
    except (ValueError, KeyError):
        raise ValueError(f"its {name} is {cell[:100]!r}, which cannot be used there") from None
    return cell
