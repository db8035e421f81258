"""Selectors, compiled once: what css, xpath, regex and jmespath find on a page, in an element or in a value.

A finder takes the page and the thing to look at (None for the page's content; otherwise an element, a text or a value of JSON) and
returns a list of elements, texts, numbers or values of JSON: the same as parsel, without its objects.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cssselect import SelectorError
from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]
from lxml import etree  # type: ignore[import-untyped]
from parsel import csstranslator  # also registers has-class() for XPath

from gossamer.sites.extract.content import PageContent, tree
from gossamer.sites.extract.regex import Pattern
from gossamer.sites.extract.selector.css import every_of
from gossamer.sites.extract.selector.jmespath import search
from gossamer.sites.extract.selector.table import rows_of_table
from gossamer.sites.extract.types import as_text, loads
from gossamer.sites.format import DATA, Format, Selected
from gossamer.sites.template import dig

Finder = Callable[[PageContent, Any], list[Any]]
Looked = Callable[[PageContent, Any], Any]

STRING = etree.XPath("string()", smart_strings=False, regexp=False)
NAMESPACES = {"re": "http://exslt.org/regular-expressions", "set": "http://exslt.org/sets"}
PROBE = etree.fromstring(b"<html/>")
CSS = {True: csstranslator.GenericTranslator(), False: csstranslator.HTMLTranslator()}
FAILURES = (etree.XPathError, JMESPathError, RecursionError, MemoryError, UnicodeError)
"""What a finder may raise on a page. A rule that cannot be compiled is a ValueError before that."""

_Element = etree._Element


@lru_cache(maxsize=4096)
def compiled(expression: str, nth: int | None = None) -> tuple[Any, bool]:
    """An XPath, and whether it returns nodes. With `nth`, it returns only that node."""
    namespaces = {prefix: uri for prefix, uri in NAMESPACES.items() if f"{prefix}:" in expression} or None
    options = {"namespaces": namespaces, "smart_strings": False, "regexp": "re:" in expression}
    try:
        evaluate = etree.XPath(expression, **options)
        nodes = isinstance(evaluate(PROBE), list)
        if nodes and nth is not None:
            place = nth + 1 if nth >= 0 else f"last() - {-nth - 1}" if nth < -1 else "last()"
            expression = f"({expression})[{place}]"
            evaluate = etree.XPath(expression, **options)
            evaluate(PROBE)
    except etree.XPathError as error:
        raise ValueError(f"{expression!r} is not an XPath: {error}") from error
    if "set:" in expression:
        # Each call registers the functions of this namespace again, and an evaluator keeps a message of each.
        return (lambda node: etree.XPath(expression, **options)(node)), nodes
    return evaluate, nodes


@lru_cache(maxsize=4096)
def translated(css: str, xml: bool = False) -> str:
    try:
        return CSS[xml].css_to_xpath(css)
    except (SelectorError, ValueError) as error:
        raise ValueError(f"{css!r} is not a CSS selector: {error}") from error


def text_of(thing: Any) -> str:
    """The text of a value; of an element, all the text in it."""
    if thing.__class__ is str:
        return thing
    if isinstance(thing, _Element):
        return (thing.text or "") if len(thing) == 0 else STRING(thing)
    return as_text(thing)


def is_element(thing: Any) -> bool:
    return isinstance(thing, _Element)


def element_of(page: PageContent, thing: Any) -> Any:
    """The element to apply css and xpath to; a text is parsed as HTML. None for a value of JSON."""
    if thing is None:
        return page.root()
    if isinstance(thing, _Element):
        return thing
    return tree(thing.encode("utf-8", "replace")) if isinstance(thing, str) else None


def finder(selected: Selected, format: Format, nth: int | None = None, whole: bool = False) -> Finder:
    """The finder of a rule. With `nth`, it may return only that value; with `whole`, a list of JSON is one value."""
    look = source(selected.source)
    if selected.table is not None:
        return _of_tables(selected.table, format, look, whole)
    nodes = selected.css is not None or selected.xpath is not None
    after = selected.regex is not None or selected.jmespath is not None
    if not nodes:
        return _of_values(selected, look, whole)
    if selected.css is not None:
        expression = translated(selected.css, format is Format.XML and selected.source == "content")
    else:
        expression = selected.xpath or ""
    narrowed = None if after or selected.attr else nth
    evaluate, gives_nodes = compiled(expression, narrowed)
    if selected.css is not None and format is Format.HTML and narrowed is None:
        evaluate = every_of(selected.css) or evaluate
    # A number or a text is the only value: the first and the last.
    find = _of_nodes(evaluate, look, gives_nodes, nth in (None, 0, -1))
    if selected.attr is not None:
        find = _attributes(find, selected.attr)
    elif selected.html:
        find = _markup(find, format is Format.XML)
    if selected.regex is not None:
        return _matches(find, Pattern(selected.regex))
    if selected.jmespath is not None:
        return _searched(find, search(selected.jmespath), whole)
    return find


def _of_nodes(evaluate: Any, look: Looked | None, gives_nodes: bool, wanted: bool) -> Finder:
    def find(page: PageContent, thing: Any) -> list[Any]:
        if look is not None:
            thing = look(page, thing)
            if thing is None:
                return []
        node = element_of(page, thing)
        if node is None:
            return []
        found = evaluate(node)
        if gives_nodes:
            return found  # type: ignore[no-any-return]
        return [("1" if found else "0") if found.__class__ is bool else found] if wanted else []

    return find


def _of_tables(css: str, format: Format, look: Looked | None, whole: bool) -> Finder:
    evaluate, _ = compiled(translated(css, format is Format.XML and look is None))

    def find(page: PageContent, thing: Any) -> list[Any]:
        if look is not None and (thing := look(page, thing)) is None:
            return []
        node = element_of(page, thing)
        rows: list[Any] = []
        for table in evaluate(node) if node is not None else ():
            if is_element(table) and table.tag == "table":
                rows += rows_of_table(page, table)
            else:
                page.note(
                    f"table: {css} finds {f'<{table.tag}>' if is_element(table) else 'a text'}, which is not a table"
                )
        return [rows] if whole and rows else rows

    return find


def _of_values(selected: Selected, look: Looked | None, whole: bool) -> Finder:
    """A rule without css and xpath: it reads the thing itself."""

    def itself(page: PageContent, thing: Any) -> list[Any]:
        if look is not None:
            thing = look(page, thing)
            return [] if thing is None else [thing]
        return [page.text() if thing is None else thing]

    if selected.jmespath is not None:
        ask = search(selected.jmespath)
        if look is None:

            def of_data(page: PageContent, thing: Any) -> list[Any]:
                if thing is None:
                    return _results(ask(page.data() if page.format in DATA else data_of(page.text())), whole)
                return _results(ask(data_of(thing)), whole)

            return of_data
        return _searched(itself, ask, whole)
    find: Finder = itself
    if selected.attr is not None:
        find = _attributes(itself, selected.attr)
    elif selected.html:
        find = _markup(itself, False)
    return find if selected.regex is None else _matches(find, Pattern(selected.regex))


def _attributes(find: Finder, name: str) -> Finder:
    def attributes(page: PageContent, thing: Any) -> list[Any]:
        found = find(page, thing)
        return [value for one in found if isinstance(one, _Element) and (value := one.get(name)) is not None]

    return attributes


def _markup(find: Finder, xml: bool) -> Finder:
    method = "xml" if xml else "html"

    def markup(page: PageContent, thing: Any) -> list[Any]:
        return [
            etree.tostring(one, method=method, encoding="unicode", with_tail=False)
            if isinstance(one, _Element)
            else one
            for one in find(page, thing)
        ]

    return markup


def _matches(find: Finder, pattern: Pattern) -> Finder:
    def matches(page: PageContent, thing: Any) -> list[Any]:
        return [match for one in find(page, thing) for match in pattern.all(text_of(one), page)]

    return matches


def _searched(find: Finder, ask: Callable[[Any], Any], whole: bool) -> Finder:
    def searched(page: PageContent, thing: Any) -> list[Any]:
        return [result for one in find(page, thing) for result in _results(ask(data_of(one)), whole)]

    return searched


def _results(result: Any, whole: bool) -> list[Any]:
    if result is None:
        return []
    return [one for one in result if one is not None] if result.__class__ is list and not whole else [result]


def data_of(thing: Any) -> Any:
    """JSON of a text that is an object or a list; other texts and values as they are."""
    if isinstance(thing, _Element):
        thing = text_of(thing)
    if isinstance(thing, str) and thing.lstrip()[:1] in ("{", "["):
        try:
            return loads(thing)
        except (ValueError, RecursionError):
            return None
    return thing


def source(name: str) -> Looked | None:
    """What `from` names; None for the content."""
    kind, _, key = name.partition(".")
    match kind:
        case "url":
            return (lambda page, thing: page.document.url) if not key else lambda page, thing: _of_url(page, key)
        case "status":
            return lambda page, thing: page.document.status
        case "headers":
            if not key:
                return lambda page, thing: dict(page.document.headers)
            return lambda page, thing: page.document.headers.get(key.lower())
        case "parent":
            return lambda page, thing: dig(page.document.inherited, key) if key else _passed_on(page)
        case "page":
            return lambda page, thing: dig(page.values, key) if key else dict(page.values)
        case "fields":
            return lambda page, thing: _of_fields(page, key)
    return None


def _passed_on(page: PageContent) -> dict[str, Any]:
    return {name: value for name, value in page.document.inherited.items() if name[:1] != "="}


def _of_fields(page: PageContent, key: str) -> Any:
    if not key:
        return page.scopes[-1]
    return next((value for scope in reversed(page.scopes) if (value := dig(scope, key)) is not None), None)


def _of_url(page: PageContent, key: str) -> str | None:
    """A named group of `match`, or else an argument of the query."""
    if (group := page.groups().get(key)) is not None:
        return group
    try:
        return dict(reversed(parse_qsl(urlsplit(page.document.url).query))).get(key)
    except ValueError:
        return None
