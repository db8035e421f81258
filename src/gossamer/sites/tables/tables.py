"""From a site's fields to tables, and from records to their rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gossamer.model.page import Record
from gossamer.model.table import GAPS, PAGES, SOURCES, Column, PagePart, Row, Table
from gossamer.sites.extract.clean import gives_list
from gossamer.sites.format import ChildTable, FieldRule, Kind, SiteSpec, StoreRule, stored_fields
from gossamer.sites.python.table import FunctionTable
from gossamer.sites.tables.parts import URL, TableParts, digest, joined

EXTRA = {
    "url": "text",
    "fetched_url": "text",
    "fetched_at": "datetime",
    "round": "int",
    "site": "text",
    "layer": "text",
    "status": "int",
    "parent": "text",
    "file": "text",
}
"""Columns that come from the page and not from its fields."""
PASSING = frozenset({"fetched_at", "fetched_url", "round", "status"})
"""Columns whose change alone adds no row to a history."""
_TYPES = {Kind.URL: "text"}


def table_name(site: SiteSpec, layer: str) -> str:
    rule = site.store[layer]
    return rule.table or f"{_plain(site.site)}_{_plain(layer)}"


def child_name(parent: str, field: str, rule: ChildTable | None) -> str:
    return (rule.table if rule else None) or f"{parent}_{_plain(field)}"


def column_of(rule: StoreRule, field: str) -> str:
    return rule.columns.get(field) or _plain(field)


def _plain(name: str) -> str:
    """A name with _ for characters that names of tables may not have."""
    return "".join(sign if sign.isalnum() or sign == "_" else "_" for sign in name)


def type_of(rule: FieldRule) -> str:
    if rule.fields or gives_list(rule.all, rule.clean):
        return "json"
    return _TYPES.get(rule.type, rule.type.value)


def extras(site: SiteSpec, layer: str) -> tuple[str, ...]:
    """The columns that come from the page: those of `add`, and those of the key that are not fields."""
    rule, fields = site.store[layer], site.layers[layer].fields or site.store[layer].types
    return tuple(name for name in dict.fromkeys((*rule.key, *rule.add)) if name in EXTRA and name not in fields)


def described(site: SiteSpec, layer: str) -> list[Table]:
    """The table of a layer and those of its nested records, parents first."""
    if site.layers[layer].handler is not None:
        return [_function_table(site, layer).table()]
    return list(_TableShape.of(site, layer).tables())


def _function_table(site: SiteSpec, layer: str) -> FunctionTable:
    rule = site.store[layer]
    own = {name: Column(column_of(rule, name), EXTRA[name], name not in PASSING) for name in extras(site, layer)}
    return FunctionTable(table_name(site, layer), rule, lambda field: column_of(rule, field), own, layer)


def tables(site: SiteSpec) -> list[Table]:
    """All tables of a site, parents first."""
    found = {layer: described(site, layer) for layer in site.store}
    pages = [PAGES] if TableParts(site, found, EXTRA).templates else []
    sources = [SOURCES, GAPS] if any(rule.gone for rule in site.store.values()) else []
    return [*joined(table for each in found.values() for table in each), *pages, *sources]


class PageRows(NamedTuple):
    """Where the rows of a page are: the table, its column with the page's identity, and the column of each field."""

    table: str
    url: str
    columns: Mapping[str, Column]

    def fitted(self, fields: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
        """The values of a record, as its row gets them, each with the type of its column."""
        return {name: (column.type, _fitting(fields.get(name), column.type)) for name, column in self.columns.items()}


def page_rows(site: SiteSpec, layer: str) -> PageRows | None:
    """None if the rows of a page cannot be read back, or not without reading them all: what they were made of is in several tables or
    rows, or may be of an earlier version of the page."""
    rule = site.store.get(layer)
    if rule is None or site.layers[layer].handler is not None or rule.history or rule.archive or rule.existing:
        return None
    shape = _TableShape.of(site, layer)
    if shape.children or rule.key != (URL,) or URL not in shape.extras:
        return None
    fields = stored_fields(site.layers[layer].fields)
    return PageRows(shape.name, column_of(rule, URL), {one: column for one, column in shape.columns if one in fields})


class _TableShape:
    """One table: what becomes a column and what becomes rows of another table."""

    def __init__(
        self,
        name: str,
        fields: Mapping[str, FieldRule],
        column: Callable[[str], str],
        children: Mapping[str, ChildTable],
    ) -> None:
        self.name = name
        self.columns: list[tuple[str, Column]] = []
        self.children: list[tuple[str, _TableShape]] = []
        self.extras: tuple[str, ...] = ()
        self.key: tuple[str, ...] = ()
        self.parent = ""
        self.flags = (False, False, False)
        """history, archive, existing"""
        self.gone = False
        for field, rule in stored_fields(fields).items():
            child = children.get(field)
            if rule.each is not None and not (child and child.json_):
                shape = _TableShape(child_name(name, field, child), rule.fields, _plain, {})
                shape.parent = name
                shape.key = tuple(map(_plain, child.key)) if child else ()
                self.children.append((field, shape))
            else:
                self.columns.append((field, Column(column(field), type_of(rule))))

    @classmethod
    def of(cls, site: SiteSpec, layer: str) -> _TableShape:
        rule = site.store[layer]
        shape = cls(
            table_name(site, layer), site.layers[layer].fields, lambda field: column_of(rule, field), rule.children
        )
        shape.extras = extras(site, layer)
        shape.key = tuple(column_of(rule, field) for field in rule.key)
        shape.columns += [
            (name, Column(column_of(rule, name), EXTRA[name], name not in PASSING)) for name in shape.extras
        ]
        shape.flags = (rule.history, rule.archive, rule.existing)
        shape.gone = rule.gone
        return shape

    def tables(self) -> Iterator[Table]:
        columns = tuple(column for _, column in self.columns)
        yield Table(self.name, columns, self.key, self.parent, *self.flags, gone=self.gone)
        _, archive, existing = self.flags
        for _, child in self.children:
            child.flags, child.gone = (False, archive, existing), self.gone
            yield from child.tables()

    def row(self, fields: Mapping[str, Any]) -> Row:
        values = {column.name: _fitting(fields.get(field), column.type) for field, column in self.columns}
        children = {
            shape.name: [shape.row(inner) for inner in fields.get(field) or () if isinstance(inner, Mapping)]
            for field, shape in self.children
        }
        return Row(self.name, values, children)


class Rows:
    """Converts records of a site to rows. A record of a layer without a table has none."""

    def __init__(self, site: SiteSpec) -> None:
        stored = [layer for layer in site.store if layer in site.layers]
        self._site = site
        self._functions = {layer: _function_table(site, layer) for layer in stored if site.layers[layer].handler}
        self._shapes = {layer: _TableShape.of(site, layer) for layer in stored if layer not in self._functions}
        parts = TableParts(site, {layer: described(site, layer) for layer in stored}, EXTRA)
        self.parts: Mapping[str, PagePart] = parts.templates
        """The layers whose rows come in parts."""
        self._optional = {layer: names for layer, names in parts.optional.items() if names}
        self._keys = {layer: site.store[layer].key for layer in stored}
        self._nested = {
            layer: [(field, child.key) for field, child in site.store[layer].children.items() if child.key]
            for layer in stored
        }
        self._history = {layer for layer in stored if site.store[layer].history}

    def page_key(self, record: Record) -> tuple[str, ...]:
        """The key of a record that says nothing of it itself, so that all records of a page have the same; empty for others."""
        key = self._keys.get(record.layer, ())
        return key if all(name in EXTRA and name not in record.fields for name in key) else ()

    def table_of(self, layer: str, round: int | None) -> tuple[object, ...]:
        """The table of a layer's rows, and what its key says of them besides their fields. Layers and sites may have the same."""
        site, key = self._site, self._site.store[layer].key
        said = {"site": site.site, "layer": layer, "round": round}
        return (site.database, table_name(site, layer), *(said[name] for name in key if name in said))

    def key_of(self, record: Record, url: str) -> tuple[str, ...] | None:
        """What tells the row of a record from others, as texts; `url` is the page's. None where a row replaces no other, or does so by
        design: a history, a thread over several pages."""
        key = self._keys.get(record.layer)
        if key is None or record.layer in self._history or record.layer in self.parts:
            return None
        fields, found = record.fields, []
        for name in key:
            if name in fields:
                found.append(str(fields[name]))
            elif name == "url":
                found.append(url)
            elif name not in ("site", "layer", "round"):
                return None
        return tuple(found)

    def thread_of(self, record: Record, url: str, round: int | None) -> Mapping[str, Any]:
        """The key of a row that the further pages of its thread have, too, by name. Empty where rows are whole, or a further page
        cannot know it."""
        part = self.parts.get(record.layer)
        if part is None or part.whole:
            return {}
        facts = {"url": url, "site": self._site.site, "layer": record.layer, "round": round}
        key = {name: record.fields.get(name, facts.get(name)) for name in self._keys[record.layer]}
        return {} if None in key.values() else key

    def overwritten(self, layer: str, records: Sequence[Record]) -> dict[str, int]:
        """How many records of a page are lost to others of it, with the same key and other values: by their layer, or LAYER.FIELD for
        nested ones."""
        found: dict[str, int] = {}
        # A function may yield records of other layers, too.
        for name in {layer, *(record.layer for record in records)} if layer in self._functions else (layer,):
            if name not in self._keys or name in self._history:
                continue
            own = [record.fields for record in records if record.layer == name]
            found[name] = _lost(own, self._keys[name]) if len(own) > 1 else 0
            for field, key in self._nested[name]:
                found[f"{name}.{field}"] = sum(_lost(fields.get(field) or (), key) for fields in own)
        return {name: lost for name, lost in found.items() if lost}

    def list_digests(self, layer: str, records: Sequence[Record]) -> tuple[str, ...]:
        """Digests of the key and of the lists of a function's only record on a page of its layer; empty if it has none of these. A further
        page with the same key and other lists would replace them."""
        own = [record.fields for record in records if record.layer == layer]
        if layer not in self._functions or len(own) != 1:
            return ()
        [fields] = own
        lists = {name: value for name, value in fields.items() if isinstance(value, list | tuple) and value}
        if not lists or not fields.keys() >= set(self._keys[layer]):
            return ()
        return digest([fields[name] for name in self._keys[layer]]), digest(lists)

    def row(self, record: Record, facts: Mapping[str, Any], part: PagePart | None = None) -> Row | None:
        """`facts` has what is known about the page itself, by the names of `EXTRA`. StoreRefused for a record of a function that is
        not as declared."""
        row = self._row(record, facts)
        if row is not None and (optional := self._optional.get(record.layer)):
            kept = {name: value for name, value in row.values.items() if value is not None or name not in optional}
            row = row._replace(values=kept)
        return row if row is None or part is None else row._replace(part=part)

    def _row(self, record: Record, facts: Mapping[str, Any]) -> Row | None:
        if record.layer in self._functions:
            return self._functions[record.layer].row(record, facts)
        shape = self._shapes.get(record.layer)
        if shape is None:
            return None
        fields = (
            {**{name: facts.get(name) for name in shape.extras}, **record.fields} if shape.extras else record.fields
        )
        return shape.row(fields)


def _lost(records: Sequence[Mapping[str, Any]], key: Sequence[str]) -> int:
    if len(records) < 2:
        return 0
    keys = {repr([fields.get(name) for name in key]) for fields in records}
    return 0 if len(keys) == len(records) else len({repr(fields) for fields in records}) - len(keys)


def _fitting(value: Any, type: str) -> Any:
    """A value for a column: a constant or default of another type becomes text in a text column."""
    if type != "text" or value is None or isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value).lower() if isinstance(value, bool) else str(value)
