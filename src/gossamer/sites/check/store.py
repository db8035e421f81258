"""Checks of where records are stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gossamer.errors import StoreError
from gossamer.model.table import GAPS, GONE, PAGES, SOURCES, Table
from gossamer.model.table_layout import merged, shapes_of
from gossamer.sites import plan
from gossamer.sites.file.params import names_in
from gossamer.sites.file.problems import Path, did_you_mean
from gossamer.sites.format import FieldRule, Layer, StoreRule, stored_fields
from gossamer.sites.tables.parts import continues
from gossamer.sites.tables.tables import EXTRA, column_of, described
from gossamer.sites.tables.whole import untold

if TYPE_CHECKING:
    from gossamer.sites.check.site import Checker
    from gossamer.sites.plan import LayerGraph

URL = "url"
_NEXT = re.compile(r"\bnext\b|pagina|[-_]next|next[-_]", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?\Z")

RESERVED = "sqlite_"
ARCHIVED_LENGTH = 53
"""Signs of the name of a table that is put aside, so that _r and the number of a round may follow."""

SHARED = (
    "all sites of this file write to this table, and a new round of any of them puts the rows of all aside",
    "write {parameters} in table:, or leave archive out",
)


def shared_archives(store: Any) -> Iterator[Path]:
    """Where a file of many sites puts one table aside for all of them. `store` is as written, before parameters are filled."""
    for name, rule in store.items() if isinstance(store, Mapping) else ():
        if isinstance(rule, Mapping) and rule.get("archive") is True:
            table = rule.get("table")
            if isinstance(table, str) and not names_in(table):
                yield ("store", name, "archive")


def check_store(checker: Checker) -> None:
    used: dict[str, tuple[str, Table]] = {}
    for name, rule in checker.site.store.items():
        path: Path = ("store", name)
        layer = checker.site.layers.get(name)
        if layer is None:
            checker.add(path, f"there is no layer {name}", did_you_mean(name, checker.site.layers), key=True)
            continue
        if rule.table == "":
            checker.add((*path, "table"), "the name of the table is empty", "write one, or leave table out")
        _check_rule(checker, layer, rule, path)
        _check_bodies(checker, name, rule, path)
        if not checker.sound:
            continue
        tables = described(checker.site, name)
        if not rule.existing and not any(table.growing for table in tables):
            _check_layout(checker, tables, path)
        for table in tables:
            if not _IDENTIFIER.match(table.name):
                checker.add(
                    (*path, "table"),
                    f"{table.name!r} cannot be the name of a table",
                    "write table: with the letters a to z and A to Z, digits and _, at most 63",
                )
            elif table.name.lower().startswith(RESERVED):
                checker.add(
                    (*path, "table"), f"SQLite keeps names that begin with {RESERVED} for itself", "choose another name"
                )
            elif rule.archive and len(table.name) > ARCHIVED_LENGTH:
                checker.add(
                    (*path, "table"),
                    f"{table.name} is too long to be put aside when a round begins: its name grows by that of the round",
                    f"write table: with at most {ARCHIVED_LENGTH} signs",
                )
            if table.name.lower() in (PAGES.name, SOURCES.name, GAPS.name):
                checker.add(
                    (*path, "table"), f"{table.name} is a table that the store keeps itself", "choose another name"
                )
            other, known = used.setdefault(table.name.lower(), (name, table))
            if other != name and (problem := _contradiction(known, table)):
                checker.add(
                    (*path, "table"),
                    f"layer {other} writes to table {table.name}, too, {problem}",
                    "describe the table alike in both, or give one of them another table",
                )
        if continues(checker.site, name, EXTRA):
            _check_turns(checker, layer, rule, path)
        else:
            _check_next(checker, name, layer, rule)


def _contradiction(one: Table, other: Table) -> str:
    """Why two layers cannot feed one table; "" if they can."""
    if one.name != other.name:
        return f"and spells it {one.name}"
    if set(one.key) != set(other.key):
        return f"with the key ({', '.join(one.key) or 'position'}) and not ({', '.join(other.key) or 'position'})"
    if one.parent != other.parent:
        return "for records of another table"
    for option in ("history", "archive", "existing", "growing", "gone"):
        if getattr(one, option) != getattr(other, option):
            return f"and only one of them says {option}"
    types = {column.name: column.type for column in one.columns}
    for column in other.columns:
        if types.get(column.name, column.type) != column.type:
            return f"and its column {column.name} is {types[column.name]} there and {column.type} here"
    return ""


def _check_turns(checker: Checker, layer: Layer, rule: StoreRule, path: Path) -> None:
    """Nested records of a thread. In a column one page's would replace the other's; without a key nobody sees that they are the same."""
    for field, one in stored_fields(layer.fields).items():
        kept = rule.children.get(field)
        if one.each is not None and not (kept is not None and (kept.key or kept.json_)):
            checker.warn(
                (*path, "children", field) if kept is not None else path,
                f"{field} has no key: if a page of a thread has two URLs (as /t/1 and /t/1?page=1), its records are stored twice",
                f"write children: {{{field}: {{key: …}}}} with a field that tells them apart",
            )
    for field, child in rule.children.items():
        if child.json_ and field in layer.fields:
            checker.add(
                (*path, "children", field, "json"),
                f"the page turns of this layer bring more {field}, and one column holds those of one page only",
                "leave json out, so that they go into a table of their own",
            )


def _check_next(checker: Checker, name: str, layer: Layer, rule: StoreRule) -> None:
    """Links to the next page of a thread that are not written as page turns: its pages would be told apart by nothing."""
    nested = [field for field, found in stored_fields(layer.fields).items() if found.each is not None]
    if not nested or layer.records is not None or set(rule.key) <= set(EXTRA) - set(layer.fields):
        return
    for place, follow in enumerate(layer.follow):
        if follow.to == name and follow.pages is None and _NEXT.search(follow.css or follow.xpath or ""):
            checker.warn(
                ("layers", name, "follow", place),
                f"this looks like a link to the next page, whose {nested[0]} would replace those of this one",
                "write pages: 0, so that they add up",
            )


def _check_layout(checker: Checker, tables: list[Table], path: Path) -> None:
    """What the store would refuse when a worker prepares the tables: names of its own, keys of types that are none, …"""
    try:
        shapes_of(merged(tables))
    except StoreError as error:
        message, _, hint = str(error).rstrip(".").partition(". ")
        checker.add(path, message[0].lower() + message[1:], hint[:1].lower() + hint[1:])


def _check_bodies(checker: Checker, name: str, rule: StoreRule, path: Path) -> None:
    """Whether pages with one URL and different bodies would overwrite each other."""
    site = checker.site
    layer = site.layers[name]
    if rule.key != (URL,) or URL in layer.fields or layer.records is not None:
        return
    follows = [follow for other in site.layers.values() for follow in other.follow if follow.to == name]
    seeds = [seed for seed in site.seeds if seed.layer == name]
    own = [asked for asked in (layer.request or site.request,) if asked is not None]
    if any(
        body.form is not None or body.json_ is not None or body.body is not None for body in (*follows, *seeds, *own)
    ):
        checker.warn(
            (*path, "key"),
            "pages of this layer are requested with a body; of those with the same URL only the last record stays",
            "name fields in key that tell them apart",
        )


def _check_rule(checker: Checker, layer: Layer, rule: StoreRule, path: Path) -> None:
    if layer.handler is not None and not (rule.existing or rule.types) and rule.archive:
        checker.add(
            (*path, "archive"),
            "a table is put aside only if its columns are declared",
            "write types (in Python: record), or leave archive out",
        )
    elif layer.handler is None and rule.types:
        checker.add((*path, "types"), "types is for layers that a function reads", "write type in the fields")
    elif layer.handler is None and not stored_fields(layer.fields):
        checker.add(path, "this layer has no fields, so there is nothing to store", "write fields in the layer")
    if rule.gone:
        _check_gone(checker, layer, rule, path)
    for place, extra in enumerate(rule.add):
        if extra not in EXTRA:
            checker.add((*path, "add", place), f"there is no column {extra} to add", did_you_mean(extra, EXTRA))
        elif extra == "file" and layer.save != "files":
            checker.add(
                (*path, "add", place), "pages of this layer are kept in no files", "write save: files in the layer"
            )
        elif extra in stored_fields(layer.fields):
            checker.add(
                (*path, "add", place),
                f"a field is called {extra}, too, and its values would stand in this column",
                "rename the field, or leave this out",
            )
    fields = stored_fields(layer.fields)
    known = {*fields, *rule.types, *rule.add, *EXTRA}
    any_field = layer.handler is not None and not rule.types
    nested = {name for name, field in fields.items() if field.each is not None}
    if not rule.key:
        checker.add((*path, "key"), "nothing tells records apart", "name fields in key")
    for place, key in enumerate(rule.key):
        if key not in known and not any_field:
            checker.add((*path, "key", place), *_missing(key, layer, known))
        elif key in nested:
            checker.add(
                (*path, "key", place), f"{key} is a list of records and tells nothing apart", "name a plain field"
            )
    if layer.records is not None and set(rule.key) <= set(EXTRA) - set(fields):
        checker.add(
            (*path, "key"),
            "all records of a page have the same key, so only the last would stay",
            "name a field that tells them apart",
        )
    for field, column in rule.columns.items():
        if field not in known and not any_field:
            checker.add((*path, "columns", field), *_missing(field, layer, known), key=True)
        elif not _IDENTIFIER.match(column):
            checker.add(
                (*path, "columns", field),
                f"{column!r} cannot be the name of a column",
                "use the letters a to z and A to Z, digits and _, at most 63",
            )
    _check_columns(checker, rule, layer, path)
    for field, child in rule.children.items():
        there = fields.get(field)
        where = (*path, "children", field)
        if there is None or there.each is None:
            checker.add(where, f"there is no list of records {field}", did_you_mean(field, sorted(nested)), key=True)
            continue
        _check_child(checker, there, child.key, where)


def _check_gone(checker: Checker, layer: Layer, rule: StoreRule, path: Path) -> None:
    """Whether a row of this table can be gone at all, and the column is free to say so."""
    if rule.archive:
        checker.add(
            (*path, "gone"), "a table that begins empty in each round has no rows that are gone", "leave one out"
        )
    for place, key in enumerate(rule.key):
        if key in ("round", "fetched_at") and key not in layer.fields:
            checker.add(
                (*path, "key", place),
                f"each fetch adds a row of its own ({key}), and with gone all earlier ones would be gone",
                f"leave {key} out of the key, or leave gone out",
            )
    nested = [one.fields for one in stored_fields(layer.fields).values() if one.each is not None]
    named = [column_of(rule, name) for name in (*stored_fields(layer.fields), *rule.types, *rule.add)]
    if GONE in (name.lower() for name in (*named, *(name for fields in nested for name in fields))):
        checker.add((*path, "gone"), f"{GONE} is the column that gone writes", "rename your own column")


def check_rounds_of_gone(checker: Checker, layout: LayerGraph) -> None:
    """Whether a round can tell which rows are gone."""
    for name, because in untold(checker.site, layout.edges, plan.lanes(layout)).items():
        path: Path = ("store", name, "gone")
        if because == [name]:
            checker.warn(
                path,
                "no row is ever gone: pages of this layer are fetched once, and never again",
                "write seen: round in the layer, and in those that lead to it",
            )
        else:
            checker.warn(
                path,
                f"no round can tell which rows are gone: pages that lead here may be fetched once and never again ({', '.join(because)})",
                "write seen: round there, too, or for the whole site",
            )


def _missing(name: str, layer: Layer, known: Iterable[str]) -> tuple[str, str]:
    if name in layer.fields:
        return f"{name} is a helper field, which is stored nowhere", "give it a name without _ at its beginning"
    return f"there is no field {name}", did_you_mean(name, sorted(known))


def _check_columns(checker: Checker, rule: StoreRule, layer: Layer, path: Path) -> None:
    columns: dict[str, str] = {}
    for field in dict.fromkeys((*stored_fields(layer.fields), *rule.types, *rule.add)):
        column = column_of(rule, field)
        other = columns.setdefault(column.lower(), field)
        if other != field:
            checker.add(
                (*path, "columns"),
                f"{other} and {field} have the same column {column}",
                "rename one of them in columns",
            )


def _check_child(checker: Checker, field: FieldRule, key: tuple[str, ...], path: Path) -> None:
    for place, name in enumerate(key):
        if name not in (known := stored_fields(field.fields)):
            checker.add((*path, "key", place), f"the records have no field {name}", did_you_mean(name, known))
