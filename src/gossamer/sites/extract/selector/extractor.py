"""The one way to the values of a rule.

Nearly every field asks for the first value, which is found without a list of all: otherwise the pages of bench/extract.py take
half as long again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.regex import Pattern
from gossamer.sites.extract.selector.css import first_of
from gossamer.sites.extract.selector.jmespath import keys_of, search
from gossamer.sites.extract.selector.selector import (
    Finder,
    compiled,
    data_of,
    element_of,
    finder,
    is_element,
    text_of,
    translated,
)
from gossamer.sites.format import DATA, Format, Selected

First = Callable[[PageContent, Any], Any]
ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*").fullmatch


class Extractor:
    """What a rule finds on a page, whichever of css, xpath, regex and jmespath it uses. Both methods return a function of the page
    and of the thing to look at: None for the page's content, or an element, a text or a value of JSON."""

    def __init__(self, rule: Selected, format: Format) -> None:
        self._rule, self._format = rule, format

    def every(self) -> Finder:
        """All values, as elements, texts, numbers or values of JSON."""
        return finder(self._rule, self._format)

    def one(self, nth: int = 0, whole: bool = False) -> First:
        """One value as a text, a number or a value of JSON, None if there is none: 0 is the first, -1 the last. With `whole`, a
        list of JSON is one value."""
        rule, format = self._rule, self._format
        if nth != 0:
            return _nth(rule, format, nth, whole)
        simple = rule.source == "content" and rule.regex is None and not rule.html
        nodes = rule.css is not None or rule.xpath is not None
        if simple and rule.jmespath is not None and not nodes:
            keys = keys_of(rule.jmespath)
            return _at_path(keys) if keys and not whole else _of_data(search(rule.jmespath), whole)
        if simple and rule.jmespath is None and nodes and (found := _of_nodes(rule, format)) is not None:
            return found
        return _of_matches(rule, format) if rule.regex is not None else _nth(rule, format, 0, whole)


def _nth(selected: Selected, format: Format, nth: int, whole: bool) -> First:
    find = finder(selected, format, nth, whole)
    # Where nodes are looked for, and nothing in them, none but the one that was asked for is found.
    sought = selected.css is not None or selected.xpath is not None
    place = 0 if sought and not (selected.regex or selected.jmespath or selected.attr) else nth

    def one(page: PageContent, thing: Any) -> Any:
        values = find(page, thing)
        return _valued(values[place]) if -len(values) <= place < len(values) else None

    return one


def _of_matches(selected: Selected, format: Format) -> First:
    """The first match in the first value that has one: mostly the first value."""
    looked_in = selected.model_copy(update={"regex": None})
    pattern, first_value = Pattern(selected.regex or ""), Extractor(looked_in, format).one()
    find = finder(selected, format)
    sought = selected.css is not None or selected.xpath is not None

    def first(page: PageContent, thing: Any) -> Any:
        value = first_value(page, thing)
        if value is None:
            return None
        if (match := pattern.first(text_of(value), page)) is not None or not sought:
            return match
        return next(iter(find(page, thing)), None)

    return first


def _valued(value: Any) -> Any:
    return text_of(value) if is_element(value) else value


def _of_nodes(selected: Selected, format: Format) -> First | None:
    name = selected.attr
    expression = selected.xpath or ""
    if selected.css is not None:
        expression = translated(selected.css, format is Format.XML)
    if name is not None:
        if not ATTRIBUTE(name) or not compiled(expression)[1]:
            return None
        # Of texts and attributes there are no attributes: nothing is found, and nothing is wrong.
        expression = f"({expression})/@{name}"
    evaluate, nodes = compiled(expression, 0)
    if not nodes:
        return None
    first_in = first_of(selected.css) if selected.css is not None and format is Format.HTML else None

    def first(page: PageContent, thing: Any) -> Any:
        node = element_of(page, thing)
        if node is None:
            return None
        if first_in is not None:
            element = first_in(node)
            if element is None:
                return None
            if name is None:
                return text_of(element)
            if (value := element.get(name)) is not None:
                return value
            # The next one may have it.
        found = evaluate(node)
        if not found:
            return None
        value = found[0]
        return value if value.__class__ is str else text_of(value)

    return first


def _at_path(keys: tuple[str, ...]) -> First:
    """What most rules on JSON are: keys of objects within objects."""

    def first(page: PageContent, thing: Any) -> Any:
        if thing.__class__ is not dict:
            thing = (
                data_of(thing) if thing is not None else page.data() if page.format in DATA else data_of(page.text())
            )
        for key in keys:
            if thing.__class__ is not dict:
                return None
            thing = thing.get(key)
        return thing if thing.__class__ is not list else next((one for one in thing if one is not None), None)

    return first


def _of_data(ask: Callable[[Any], Any], whole: bool) -> First:
    def first(page: PageContent, thing: Any) -> Any:
        if thing.__class__ is dict:
            result = ask(thing)
        elif thing is None:
            result = ask(page.data() if page.format in DATA else data_of(page.text()))
        else:
            result = ask(data_of(thing))
        if result.__class__ is list and not whole:
            return next((one for one in result if one is not None), None)
        return result

    return first
