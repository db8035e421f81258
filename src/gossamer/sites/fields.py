"""Fields: rules compiled into functions that take a page and the thing looked at, and give a value.

A function never raises: what is not there is null (or the default) and in the page's `missing`; what cannot be turned into its type
is null and in the page's `notes`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gossamer.sites.clean import Cleaning, cleaning
from gossamer.sites.content import Page
from gossamer.sites.first import First, first_finder, nth_finder
from gossamer.sites.format import FieldRule, Format, Kind, Selected
from gossamer.sites.kinds import Place, Turn, as_text, turn_into
from gossamer.sites.names import Unknown, filled, named
from gossamer.sites.pattern import TooSlow
from gossamer.sites.select import FAILURES, Finder, finder, text_of

Extract = Callable[[Page, Any], Any]
Path = tuple[str | int, ...]
Report = Callable[[Path, str], None]
DEEPEST = 50
"""Records within records."""


class Shape(NamedTuple):
    """What all fields of a layer have in common: the format, and who is told of rules that cannot be compiled."""

    format: Format
    report: Report


def compile_fields(
    rules: Mapping[str, FieldRule], shape: Shape, path: Path = ("fields",), name: str = ""
) -> list[tuple[str, Extract]]:
    """Functions by field, in the file's order. `name` is that of the record the fields belong to, for notes."""
    if len(path) > 2 * DEEPEST:
        shape.report(path, f"records are nested more than {DEEPEST} deep")
        return []
    found = []
    for key, rule in rules.items():
        try:
            found.append((key, _compile(f"{name}.{key}" if name else key, rule, shape, (*path, key))))
        except ValueError as error:
            shape.report((*path, key), str(error))
    return found


def fill(page: Page, thing: Any, fields: list[tuple[str, Extract]]) -> dict[str, Any]:
    """A record: what the fields find in a thing."""
    record: dict[str, Any] = {}
    page.scopes.append(record)
    for name, extract in fields:
        record[name] = extract(page, thing)
    page.scopes.pop()
    return record


def _compile(name: str, rule: FieldRule, shape: Shape, path: Path) -> Extract:
    if rule.fields:
        return _nested(name, rule, shape, path)
    if "value" in rule.model_fields_set:
        return _constant(name, rule)
    clean, turn = cleaning(rule.clean), turn_into(rule)
    if rule.type is Kind.JSON and rule.jmespath is not None:
        turn = _as_it_is
    bare = not (rule.css or rule.xpath or rule.regex or rule.jmespath)
    if rule.type is Kind.BYTES and bare and rule.source == "content":
        return lambda page, thing: page.document.body if thing is None else turn(text_of(thing), page)
    whole = rule.type is Kind.JSON and rule.nth is None and not rule.all
    if rule.all:
        return _all(name, rule, finder(rule, shape.format), clean, turn)
    nth = rule.nth or 0
    first = nth_finder(rule, shape.format, nth, whole) if nth else first_finder(rule, shape.format, whole)
    if rule.type is Kind.TEXT and clean is None:
        return _text(name, first, rule.strip, _default(rule))
    return _one(name, rule, first, clean, turn)


def _as_it_is(value: Any, place: Place) -> Any:
    return value


def _default(rule: FieldRule) -> Callable[[], Any]:
    value = rule.default
    return (lambda: copy.deepcopy(value)) if isinstance(value, list | dict) else (lambda: value)


def _text(name: str, first: First, strip: bool, default: Callable[[], Any]) -> Extract:
    """The most common field by far, with nothing that it does not need."""

    def extract(page: Page, thing: Any) -> Any:
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
    default, strip, plain, data = _default(rule), rule.strip, rule.type is Kind.TEXT, rule.type is Kind.JSON

    def extract(page: Page, thing: Any) -> Any:
        try:
            value = first(page, thing)
            if strip and value.__class__ is str:
                value = value.strip()
            if clean is not None and value is not None:
                value = clean(value, page)
        except FAILURES as error:
            return _failed(page, name, error)
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
    default, strip = _default(rule), rule.strip
    plain = rule.type is Kind.TEXT and clean is None and strip

    def extract(page: Page, thing: Any) -> Any:
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
            return [] if rule.default is None else default()
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


def _turned(page: Page, name: str, value: Any, turn: Turn) -> Any:
    try:
        return turn(value, page)
    except (ValueError, OverflowError, RecursionError) as error:
        page.note(f"{name}: {error}")
        return None


def _failed(page: Page, name: str, error: BaseException) -> None:
    why = str(error) if isinstance(error, TooSlow) else f"{type(error).__name__}: {error}"
    page.note(f"{name}: {why}")
    page.missing[name] = None


def _constant(name: str, rule: FieldRule) -> Extract:
    turn, clean = turn_into(rule), cleaning(rule.clean)
    value, templated, default = rule.value, named(rule.value), _default(rule)

    def extract(page: Page, thing: Any) -> Any:
        result = value
        try:
            if templated:
                result = filled(value, page, page.scopes[-1])
            if clean is not None:
                result = clean(result, page)
        except Unknown:
            page.missing[name] = None
            return default()
        except FAILURES as error:
            return _failed(page, name, error)
        if result is None:
            return None
        if rule.type is Kind.TEXT:
            # A constant is what the file says it is.
            return copy.deepcopy(result)
        if isinstance(result, list) and rule.type is not Kind.JSON:
            return [_turned(page, name, one, turn) for one in result]
        return _turned(page, name, copy.deepcopy(result), turn)

    return extract


def _nested(name: str, rule: FieldRule, shape: Shape, path: Path) -> Extract:
    fields = compile_fields(rule.fields, shape, (*path, "fields"), name)
    default = _default(rule)
    selected: Selected | None = rule.each
    if selected is None and (rule.css or rule.xpath or rule.regex or rule.jmespath or rule.source != "content"):
        selected = rule
    if selected is None:
        return lambda page, thing: fill(page, thing, fields)
    many = rule.each is not None or rule.all
    nth = rule.nth or 0
    find = finder(selected, shape.format)

    def extract(page: Page, thing: Any) -> Any:
        try:
            found = find(page, thing)
        except FAILURES as error:
            _failed(page, name, error)
            found = []
        if not found or not (many or -len(found) <= nth < len(found)):
            page.missing[name] = None
            return [] if many and rule.default is None else default()
        if not many:
            return fill(page, found[nth], fields)
        if len(found) > page.records_left:
            page.note(
                f"{name}: {len(found)} records are too many for one page; those after the first {page.records_left} were left out"
            )
            found = found[: page.records_left]
        page.records_left -= len(found)
        return [fill(page, one, fields) for one in found]

    return extract
