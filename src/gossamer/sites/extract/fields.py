"""Fields: rules compiled into functions of a page and the thing to look at.

A function raises nothing but LimitExceeded: a missing value is null (or the default) and in the page's `missing`; a value that
cannot be converted to its type is null and in the page's `notes`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gossamer.sites.extract.clean import Cleaning, cleaning, gives_list
from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.selector.columns import Column, column_of
from gossamer.sites.extract.selector.extractor import Extractor, First
from gossamer.sites.extract.selector.jmespath import search
from gossamer.sites.extract.selector.selector import FAILURES, Finder, text_of
from gossamer.sites.extract.types import NOWHERE, Turn, UrlBase, as_text, turn_into
from gossamer.sites.format import FieldRule, Format, Kind, Selected, is_helper
from gossamer.sites.template import UnknownName, filled, named

Path = tuple[str | int, ...]
Report = Callable[[Path, str], None]
Extract = Callable[[PageContent, Any], Any]
DEEPEST = 50
"""Records within records."""
MANY = 4
"""From this number of records on, they are read field by field."""


class FieldOptions(NamedTuple):
    """What all fields of a layer have in common: the format, and where to report rules that cannot be compiled."""

    format: Format
    report: Report


class CompiledField(NamedTuple):
    """One field of a record: what finds its value in a thing, and in many things at once where that can be."""

    name: str
    extract: Extract
    column: Column | None


class Fields(NamedTuple):
    """The fields of a record, compiled; `columns`: whether they may be read field by field."""

    every: tuple[CompiledField, ...]
    columns: bool


def compile_fields(
    rules: Mapping[str, FieldRule], shape: FieldOptions, path: Path = ("fields",), name: str = ""
) -> Fields:
    """The fields of a record, in the file's order. `name` is that of their record, for notes."""
    if len(path) > 2 * DEEPEST:
        shape.report(path, f"records are nested more than {DEEPEST} deep")
        return Fields((), False)
    found = []
    for key, rule in rules.items():
        full = f"{name}.{key}" if name else key
        try:
            found.append(CompiledField(key, _compile(full, rule, shape, (*path, key)), column_of(full, rule)))
        except ValueError as error:
            shape.report((*path, key), str(error))
    columns = any(field.column is not None for field in found) and not any(map(_looks_at_fields, rules.values()))
    return Fields(tuple(found), columns)


def _looks_at_fields(rule: FieldRule) -> bool:
    """Whether a field may need those before it in the record."""
    looked = (rule, rule.each) if rule.each is not None else (rule,)
    return (
        rule.when is not None
        or named(rule.value)
        or any(one.source.partition(".")[0] == "fields" for one in looked)
        or any(map(_looks_at_fields, rule.fields.values()))
    )


def fill(page: PageContent, things: list[Any], fields: Fields) -> list[dict[str, Any]]:
    """The record of each thing."""
    if fields.columns and len(things) >= MANY:
        return _fill_by_columns(page, things, fields)
    records, scopes = [], page.scopes
    for thing in things:
        record: dict[str, Any] = {}
        scopes.append(record)
        for name, extract, _ in fields.every:
            record[name] = extract(page, thing)
        scopes.pop()
        records.append(record)
    return records


def _fill_by_columns(page: PageContent, things: list[Any], fields: Fields) -> list[dict[str, Any]]:
    """The same, field by field where that works for all things; the other fields thing by thing, which is the order of notes."""
    columns: list[list[Any]] = []
    rest: list[tuple[Extract, list[Any]]] = []
    for _, extract, column in fields.every:
        values = column(page, things) if column is not None else None
        if values is None:
            values = []
            rest.append((extract, values))
        columns.append(values)
    if rest:
        for thing in things:
            for extract, values in rest:
                values.append(extract(page, thing))
    records: list[dict[str, Any]] = [{} for _ in things]
    for field, values in zip(fields.every, columns, strict=True):
        name = field.name
        for record, value in zip(records, values, strict=True):
            record[name] = value
    return records


Trim = Callable[[dict[str, Any]], dict[str, Any]]


def without_helpers(rules: Mapping[str, FieldRule]) -> Trim | None:
    """What takes helper fields out of a record, those of nested records too; None if there are none."""
    nested = {name: trim for name, rule in rules.items() if rule.fields and (trim := without_helpers(rule.fields))}
    helpers = frozenset(filter(is_helper, rules))
    if not helpers and not nested:
        return None

    def trimmed(record: dict[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in record.items() if name not in helpers}
        for name, trim in nested.items():
            value = rest.get(name)
            if isinstance(value, list):
                rest[name] = [trim(one) if isinstance(one, dict) else one for one in value]
            elif isinstance(value, dict):
                rest[name] = trim(value)
        return rest

    return trimmed


def _compile(name: str, rule: FieldRule, shape: FieldOptions, path: Path) -> Extract:
    if rule.when is not None:
        return _conditional(name, rule, _compile(name, rule.model_copy(update={"when": None}), shape, path))
    if rule.fields:
        return _nested(name, rule, shape, path)
    if "value" in rule.model_fields_set:
        return _constant(name, rule)
    clean, turn = cleaning(rule.clean, rule.strip), turn_into(rule)
    if rule.type is Kind.JSON and rule.jmespath is not None:
        turn = _as_it_is
    bare = not rule.ways()
    if rule.type is Kind.BYTES and bare and rule.source == "content":
        return lambda page, thing: page.document.body if thing is None else turn(text_of(thing), page)
    whole = rule.type is Kind.JSON and rule.nth is None and not rule.all
    if rule.all:
        return _all(name, rule, Extractor(rule, shape.format).every(), clean, turn)
    first = Extractor(rule, shape.format).one(rule.nth or 0, whole)
    if rule.type is Kind.TEXT and clean is None:
        return _text(name, first, rule.strip, default_of(rule))
    return _one(name, rule, first, clean, turn)


def _conditional(name: str, rule: FieldRule, extract: Extract) -> Extract:
    """A field that is read only if the fields before it say so; otherwise it has its default and does not count as missing."""
    ask, default = search(rule.when or ""), default_of(rule)
    several = rule.default is None and (rule.each is not None or gives_list(rule.all, rule.clean))

    def read_if(page: PageContent, thing: Any) -> Any:
        try:
            if counts(ask(page.scopes[-1])):
                return extract(page, thing)
        except FAILURES as error:
            _failed(page, name, error)
        return [] if several else default()

    return read_if


def counts(value: Any) -> bool:
    """Whether the value of a condition is true: not empty, null, 0 or false."""
    return not (value is None or value is False or value == 0 or value in ("", [], {}))


def _as_it_is(value: Any, place: UrlBase) -> Any:
    return value


def default_of(rule: FieldRule) -> Callable[[], Any]:
    """What gives the value of a field where nothing is found."""
    value = rule.default
    if isinstance(value, str) and rule.type in (Kind.DATE, Kind.DATETIME, Kind.DECIMAL):
        value = turn_into(rule)(value, NOWHERE)  # YAML has no dates.
    return (lambda: copy.deepcopy(value)) if isinstance(value, list | dict) else (lambda: value)


def _text(name: str, first: First, strip: bool, default: Callable[[], Any]) -> Extract:
    """The most common field by far, with nothing else."""

    def extract(page: PageContent, thing: Any) -> Any:
        try:
            found = first(page, thing)
        except FAILURES as error:
            return _failed(page, name, error)
        if found is None:
            page.missing[name] = None
            return default()
        if found.__class__ is not str:
            found = as_text(found)
        return found.strip() if strip else found

    return extract


def _one(name: str, rule: FieldRule, first: First, clean: Cleaning | None, turn: Turn) -> Extract:
    default, strip, plain, data = default_of(rule), rule.strip, rule.type is Kind.TEXT, rule.type is Kind.JSON

    def extract(page: PageContent, thing: Any) -> Any:
        try:
            value = first(page, thing)
            if strip and value.__class__ is str:
                value = value.strip()
            if clean is not None and value is not None:
                value = clean(value, page)
        except FAILURES as error:
            return _failed(page, name, error)
        if plain and value.__class__ is str:
            return value
        if value is None or (value == "" and not plain):
            page.missing[name] = None
            return default()
        if clean is not None and value.__class__ is list and not data:
            return [_turned(page, name, one, turn) for one in value]
        try:
            return turn(value, page)
        except (ValueError, OverflowError, RecursionError) as error:
            page.note(f"{name}: {error}")
            return None

    return extract


def _all(name: str, rule: FieldRule, find: Finder, clean: Cleaning | None, turn: Turn) -> Extract:
    default, strip = default_of(rule), rule.strip
    plain = rule.type is Kind.TEXT and clean is None and strip
    empty = gives_list(True, rule.clean) and rule.default is None

    def extract(page: PageContent, thing: Any) -> Any:
        try:
            if plain and (found := find(page, thing)):
                return [(one if one.__class__ is str else text_of(one)).strip() for one in found]
            values: Any = [_tidy(one, strip) for one in find(page, thing)]
            if clean is not None and values:
                values = clean(values, page)
        except FAILURES as error:
            return _failed(page, name, error)
        if not values:
            page.missing[name] = None
            return [] if empty else default()
        if not isinstance(values, list):
            return _turned(page, name, values, turn)
        return [_turned(page, name, one, turn) for one in values]

    return extract


def _tidy(value: Any, strip: bool) -> Any:
    if value.__class__ is not str:
        if value is None or isinstance(value, int | float | list | dict | bytes):
            return value
        value = text_of(value)
    return value.strip() if strip else value


def _turned(page: PageContent, name: str, value: Any, turn: Turn) -> Any:
    try:
        return turn(value, page)
    except (ValueError, OverflowError, RecursionError) as error:
        page.note(f"{name}: {error}")
        return None


def _failed(page: PageContent, name: str, error: BaseException) -> None:
    page.note(f"{name}: {type(error).__name__}: {error}")
    page.missing[name] = None


def _constant(name: str, rule: FieldRule) -> Extract:
    turn, clean = turn_into(rule), cleaning(rule.clean, rule.strip)
    value, templated, default = rule.value, named(rule.value), default_of(rule)

    def extract(page: PageContent, thing: Any) -> Any:
        result = value
        try:
            if templated:
                result = filled(value, page, page.scopes[-1])
            if clean is not None:
                result = clean(result, page)
        except UnknownName:
            page.missing[name] = None
            return default()
        except FAILURES as error:
            return _failed(page, name, error)
        if result is None:
            return None
        if rule.type is Kind.TEXT:
            # A constant stays as the file has it.
            return copy.deepcopy(result)
        if isinstance(result, list) and rule.type is not Kind.JSON:
            return [_turned(page, name, one, turn) for one in result]
        return _turned(page, name, copy.deepcopy(result), turn)

    return extract


def _nested(name: str, rule: FieldRule, shape: FieldOptions, path: Path) -> Extract:
    fields = compile_fields(rule.fields, shape, (*path, "fields"), name)
    default = default_of(rule)
    selected: Selected | None = rule.each
    if selected is None and (rule.ways() or rule.source != "content"):
        selected = rule
    if selected is None:
        return lambda page, thing: fill(page, [thing], fields)[0]
    many = rule.each is not None or rule.all
    nth = rule.nth or 0
    find = Extractor(selected, shape.format).every()

    def extract(page: PageContent, thing: Any) -> Any:
        try:
            found = find(page, thing)
        except FAILURES as error:
            _failed(page, name, error)
            found = []
        if not found or not (many or -len(found) <= nth < len(found)):
            page.missing[name] = None
            return [] if many and rule.default is None else default()
        if not many:
            return fill(page, [found[nth]], fields)[0]
        page.count_records(name, len(found))
        return fill(page, found, fields)

    return extract
