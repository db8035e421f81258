"""What plain CSS selectors find, without XPath.

An XPath tests the classes of every element and does not stop at the first: without this module the pages of bench/extract.py take
40 % longer. It takes names, classes, ids and attributes, and one inside another; the rest is left to XPath.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from cssselect import SelectorError, parser

Test = Callable[[Any], bool]
First = Callable[[Any], Any]


class Compound(NamedTuple):
    """One part of a selector: the name ("*" for any), and what else must hold."""

    name: str
    tests: list[Test]


def first_of(css: str) -> First | None:
    """What finds the first element within an element, that itself included, as the XPath of the selector does; None for a
    selector that is not plain."""
    parts = _parts(css)
    return _first(parts) if parts else None


def every_of(css: str) -> Callable[[Any], list[Any]] | None:
    """What finds every element of a plain selector of one part with a name, which also takes less time than its XPath."""
    parts = _parts(css)
    if len(parts) != 1 or parts[0].name == "*":
        return None
    return lambda element: list(_matching(parts[0], element))


@lru_cache(maxsize=4096)
def _parts(css: str) -> list[Compound]:
    """The parts of a plain selector, the outermost first; none if it is not plain."""
    try:
        selectors = parser.parse(css)
    except SelectorError:
        return []
    if len(selectors) != 1 or selectors[0].pseudo_element is not None:
        return []
    trees, tree = list[Any](), selectors[0].parsed_tree
    while isinstance(tree, parser.CombinedSelector):
        if tree.combinator != " ":
            return []
        trees.append(tree.subselector)
        tree = tree.selector
    parts = [_compound(one) for one in (tree, *reversed(trees))]
    plain = [part for part in parts if part is not None]
    return plain if len(plain) == len(parts) else []


def _first(parts: list[Compound]) -> First:
    """From the outside in: the first one inside the first that has one comes first in the document, too."""
    inner = _first(parts[1:]) if len(parts) > 1 else None
    if inner is None:
        return lambda element: next(_matching(parts[0], element), None)

    def first(element: Any) -> Any:
        for one in _matching(parts[0], element):
            for child in one:
                if (found := inner(child)) is not None:
                    return found
        return None

    return first


def _matching(part: Compound, element: Any) -> Iterator[Any]:
    """The elements within an element, that itself included, for which a part holds."""
    found: Iterator[Any] = element.iter(part.name)
    for test in part.tests:
        found = filter(test, found)
    return found


def _compound(tree: Any) -> Compound | None:
    tests: list[Test] = []
    while not isinstance(tree, parser.Element):
        match tree:
            case parser.Class():
                tests.append(_of_class(tree.class_name))
            case parser.Hash():
                tests.append(_of_attribute("id", tree.id))
            case parser.Attrib(namespace=None, operator="exists"):
                tests.append(_having(tree.attrib.lower()))
            case parser.Attrib(namespace=None, operator="="):
                tests.append(_of_attribute(tree.attrib.lower(), str(tree.value and tree.value.value)))
            case _:
                return None
        tree = tree.selector
    if tree.namespace is not None:
        return None
    return Compound((tree.element or "*").lower(), tests[::-1])


def _of_class(name: str) -> Test:
    def test(element: Any) -> bool:
        given = element.get("class")
        if given is None or name not in given:
            return False
        # White space as XPath counts it.
        return given == name or name in given.replace("\n", " ").replace("\t", " ").replace("\r", " ").split(" ")

    return test


def _of_attribute(name: str, value: str) -> Test:
    return lambda element: element.get(name) == value


def _having(name: str) -> Test:
    return lambda element: element.get(name) is not None
