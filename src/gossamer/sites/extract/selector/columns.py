"""A field of many JSON records, read from all of them at once.

Only for fields that are keys of objects, and only where every record has a value of the wanted type; otherwise the field is read
record by record, as everywhere else. Without this module JSON pages of bench/extract.py take 35 % longer (0.1 ms for 30 records).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from gossamer.sites.extract.clean import of_text
from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.selector.jmespath import keys_of
from gossamer.sites.extract.types import Turn, turn_into
from gossamer.sites.format import FieldRule, Kind

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
"""Types that values are converted to, one like the other."""
TEXTS, NUMBERS, LISTS = frozenset({str}), frozenset({int, float}), frozenset({list})


def column_of(name: str, rule: FieldRule) -> Column | None:
    """What reads a field as a column; None where it can only be read record by record. `name` is the field's in notes."""
    keys = _keys(rule)
    if not keys:
        return None
    if rule.type in TURNED:
        return _of_turned(keys, turn_into(rule), rule.strip)
    if rule.all:
        return _of_lists(name, keys)
    if rule.type is Kind.TEXT and rule.strip:
        return _of_texts(keys, of_text(rule.clean))
    return _of_types(keys, AS_THEY_ARE[rule.type])


def _keys(rule: FieldRule) -> tuple[str, ...]:
    if rule.jmespath is None or not (rule.type in AS_THEY_ARE or rule.type in TURNED):
        return ()
    if rule.css or rule.xpath or rule.regex or rule.attr or rule.html or rule.source != "content":
        return ()
    if rule.fields or rule.nth is not None or "value" in rule.model_fields_set:
        return ()
    if rule.all and (rule.type is not Kind.TEXT or not rule.strip or rule.clean or rule.default is not None):
        return ()
    if rule.clean and not (rule.type is Kind.TEXT and rule.strip and of_text(rule.clean)):
        return ()
    return keys_of(rule.jmespath)


def _of_types(keys: tuple[str, ...], types: frozenset[type]) -> Column:
    found = _getter(keys)

    def column(page: PageContent, things: list[Any]) -> list[Any] | None:
        try:
            values = list(found(things))
        except (KeyError, TypeError):
            return None
        return values if types.issuperset(map(type, values)) else None

    return column


def _of_texts(keys: tuple[str, ...], change: Callable[[str], str] | None = None) -> Column:
    found, strip = _getter(keys), str.strip

    def column(page: PageContent, things: list[Any]) -> list[Any] | None:
        try:
            texts = map(strip, found(things))
            return list(texts if change is None else map(change, texts))
        except (KeyError, TypeError):
            return None

    return column


def _of_lists(name: str, keys: tuple[str, ...]) -> Column:
    found, strip = _getter(keys), str.strip

    def column(page: PageContent, things: list[Any]) -> list[Any] | None:
        try:
            values = list(found(things))
            if set(map(type, values)) != LISTS:
                return None
            texts = [[strip(value) for value in each] for each in values]
        except (KeyError, TypeError):
            return None
        if not all(texts):
            page.missing[name] = None
        return texts

    return column


def _of_turned(keys: tuple[str, ...], turn: Turn, strip: bool) -> Column:
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
