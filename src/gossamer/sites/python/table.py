"""The table of a layer whose records a Python function makes: its columns are declared, or come with the records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gossamer.errors import StoreRefused
from gossamer.model.page import Record
from gossamer.model.table import Column, Row, Table
from gossamer.sites.format import StoreRule

OPTIONAL = "?"
"""Behind a column's type: the value may be missing."""
_TYPES = {"url": "text"}


class FunctionTable:
    """`column` gives the column of a field, `extras` are the columns that come from the page itself, by their names there.

    With `types`, a record may have these fields and no others, and must have those that are not optional. Without, every field is a
    column: of an existing table, or of one that grows.
    """

    def __init__(
        self, name: str, rule: StoreRule, column: Callable[[str], str], extras: Mapping[str, Column], layer: str
    ) -> None:
        self._name, self._rule, self._column, self._extras, self._layer = name, rule, column, extras, layer
        self._types = {field: _base(type) for field, type in rule.types.items()}
        self._needed = [field for field, type in rule.types.items() if not type.endswith(OPTIONAL)]

    def table(self) -> Table:
        rule = self._rule
        columns = [Column(self._column(field), type) for field, type in self._types.items()]
        key = tuple(self._column(field) for field in rule.key)
        return Table(
            self._name,
            (*columns, *self._extras.values()),
            key,
            "",
            rule.history,
            rule.archive,
            rule.existing,
            growing=not rule.types,
            gone=rule.gone,
        )

    def row(self, record: Record, facts: Mapping[str, Any]) -> Row:
        """StoreRefused for a record that is not as declared."""
        fields, values = record.fields, {column.name: facts.get(name) for name, column in self._extras.items()}
        if self._types:
            unknown = [str(field) for field in fields if field not in self._types and field not in self._extras]
            if unknown:
                raise StoreRefused(
                    f"A record of {self._layer} has {', '.join(unknown)}, which is not among its columns: "
                    f"{', '.join(self._types)}. Declare it (`record` in Python, `types` in a site file), or leave it out."
                )
            missing = [field for field in self._needed if fields.get(field) is None]
            if missing:
                raise StoreRefused(
                    f"A record of {self._layer} has no {', '.join(missing)}, which it must have. If it may be missing, "
                    f"declare it so: `| None` in Python, {self._rule.types[missing[0]]}? in a site file."
                )
        named = {self._column(field): value for field, value in fields.items()}
        if len(named) < len(fields):
            raise StoreRefused(
                f"A record of {self._layer} has two fields of one column: {', '.join(map(str, fields))}."
            )
        return Row(self._name, {**values, **named}, {})


def _base(type: str) -> str:
    name = type.removesuffix(OPTIONAL)
    return _TYPES.get(name, name)
