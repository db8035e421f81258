"""Fields of JSON that are keys of objects, which most are: read in one step where the value is already what is wanted.

Whatever else is found (another type, a list of several kinds, a text where an object should be) goes the usual way, which knows
of all that a page may have.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

from gossamer.sites.extract.clean import of_text
from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.selector.jmespath import keys_of
from gossamer.sites.extract.types import Turn, turn_into
from gossamer.sites.format import FieldRule, Kind

Extract = Callable[[PageContent, Any], Any]
Column = Callable[[PageContent, list[Any]], list[Any] | None]
"""The values of one field in many things; None if not all of them have what is wanted."""
# Not float: it may be infinite.
AS_THEY_ARE: dict[Kind, frozenset[type]] = {
    Kind.TEXT: frozenset({str}),
    Kind.INT: frozenset({int}),
    Kind.BOOL: frozenset({bool}),
    Kind.JSON: frozenset({dict, list, int, float, bool}),
}
"""The types of JSON that are kept as they are."""
TURNED = frozenset({Kind.FLOAT, Kind.DECIMAL, Kind.DATE, Kind.DATETIME, Kind.URL})
"""Types that values are turned into, one like the other."""


TEXTS, NUMBERS = frozenset({str}), frozenset({int, float})


class JsonField(NamedTuple):
    """One field of a record: how its value is found in a thing, and in many at once where that is sooner."""

    name: str
    extract: Extract
    column: Column | None = None


def direct(key: str, name: str, rule: FieldRule, usual: Extract) -> JsonField:
    """A field by the short way, before the usual one; by that alone if there is none. `name` is that for notes."""
    keys = _keys(rule)
    if not keys:
        return JsonField(key, usual)
    if rule.type in TURNED:
        return JsonField(key, usual, _column_of_turned(keys, turn_into(rule), rule.strip))
    if rule.all:
        return JsonField(key, _texts(name, keys, rule.default is None, usual))
    types = AS_THEY_ARE[rule.type]
    strip = rule.type is Kind.TEXT and rule.strip
    change = of_text(rule.clean)
    if change is not None:
        return JsonField(key, usual, _column_of_texts(keys, change))
    column = _column_of_texts(keys) if strip else _column(keys, types)
    return JsonField(key, _one(name, keys, types, strip, rule.default, usual), column)


def _keys(rule: FieldRule) -> tuple[str, ...]:
    """The keys that lead to a field, if there is a short way to it."""
    if rule.jmespath is None or not (rule.type in AS_THEY_ARE or rule.type in TURNED) or rule.nth is not None:
        return ()
    if rule.css or rule.xpath or rule.regex or rule.attr or rule.html or rule.source != "content":
        return ()
    if rule.fields or "value" in rule.model_fields_set or (rule.all and not (rule.type is Kind.TEXT and rule.strip)):
        return ()
    if rule.clean and not (rule.type is Kind.TEXT and rule.strip and not rule.all and of_text(rule.clean)):
        return ()
    return keys_of(rule.jmespath)


def _one(
    name: str, keys: tuple[str, ...], types: frozenset[type], strip: bool, default: Any, usual: Extract
) -> Extract:
    shared = isinstance(default, list | dict)

    def extract(page: PageContent, thing: Any) -> Any:
        value = thing
        for key in keys:
            if value.__class__ is not dict:
                return usual(page, thing)
            value = value.get(key)
        found = value.__class__
        if found in types:
            return value.strip() if strip else value
        if value is None and not shared:
            page.missing[name] = None
            return default
        return usual(page, thing)

    return extract


def _texts(name: str, keys: tuple[str, ...], empty: bool, usual: Extract) -> Extract:
    strip = str.strip

    def extract(page: PageContent, thing: Any) -> Any:
        values = thing
        for key in keys:
            if values.__class__ is not dict:
                return usual(page, thing)
            values = values.get(key)
        if values.__class__ is not list:
            return usual(page, thing)
        if not values and empty:
            page.missing[name] = None
            return []
        try:
            return [strip(value) for value in values] or usual(page, thing)
        except TypeError:
            # Not all of them are texts.
            return usual(page, thing)

    return extract


def _column(keys: tuple[str, ...], types: frozenset[type]) -> Column:
    found = _getter(keys)

    def column(page: PageContent, things: list[Any]) -> list[Any] | None:
        try:
            values = list(found(things))
        except (KeyError, TypeError):
            return None
        return values if types.issuperset(map(type, values)) else None

    return column


def _column_of_texts(keys: tuple[str, ...], change: Callable[[str], str] | None = None) -> Column:
    found, strip = _getter(keys), str.strip

    def column(page: PageContent, things: list[Any]) -> list[Any] | None:
        try:
            texts = map(strip, found(things))
            return list(texts if change is None else map(change, texts))
        except (KeyError, TypeError):
            return None

    return column


def _column_of_turned(keys: tuple[str, ...], turn: Turn, strip: bool) -> Column:
    found = _getter(keys)

    def column(page: PageContent, things: list[Any]) -> list[Any] | None:
        try:
            values = list(found(things))
            types = set(map(type, values))
            if types == TEXTS:
                values = [value.strip() for value in values] if strip else values
                if "" in values:
                    return None
            elif not types <= NUMBERS:
                return None
            return [turn(value, page) for value in values]
        except (KeyError, TypeError, ValueError, OverflowError):
            return None

    return column


def _getter(keys: tuple[str, ...]) -> Callable[[list[Any]], Any]:
    getters = [itemgetter(key) for key in keys]

    def found(things: Any) -> Any:
        for getter in getters:
            things = map(getter, things)
        return things

    return found
