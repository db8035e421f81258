"""What a plain CSS selector finds within an element, without XPath.

To set up an XPath and to run its tests of classes takes longer than to walk through the elements of the name, and it does not stop at
the first. Only what can be told at a glance is done here (names, classes, ids, attributes; inside and directly inside), and
gives what the XPath of the selector gives; the rest is XPath's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from cssselect import SelectorError, parser

Test = Callable[[Any], bool]


class Compound(NamedTuple):
    """One part of a selector: how it stands to the part on its right, the name ("*" for any), and what else must hold."""

    combinator: str
    name: str
    tests: list[Test]

    def holds(self, element: Any) -> bool:
        return self.name in ("*", element.tag) and all(test(element) for test in self.tests)


class PlainSelector(NamedTuple):
    """A plain selector: `first` and `every` element that it finds in an element, that itself included."""

    first: Callable[[Any], Any]
    every: Callable[[Any], list[Any]]
    alone: bool
    """Whether it is of one part that says a name: then every element is found sooner than by XPath."""


@lru_cache(maxsize=4096)
def plain(css: str) -> PlainSelector | None:
    """The selector, if it is plain."""
    try:
        selectors = parser.parse(css)
    except SelectorError:
        return None
    if len(selectors) != 1 or selectors[0].pseudo_element is not None:
        return None
    parts: list[Compound] = []
    combinator, tree = "", selectors[0].parsed_tree
    while isinstance(tree, parser.CombinedSelector):
        part = _compound(combinator, tree.subselector)
        if part is None or tree.combinator not in (" ", ">"):
            return None
        parts.append(part)
        combinator, tree = tree.combinator, tree.selector
    part = _compound(combinator, tree)
    if part is None:
        return None
    parts.append(part)
    every = _every(parts)
    if all(part.combinator != ">" for part in parts):
        first = _first(parts[::-1])
    else:

        def first(element: Any) -> Any:
            return next(every(element), None)

    return PlainSelector(first, lambda element: list(every(element)), len(parts) == 1 and parts[0].name != "*")


def _first(parts: list[Compound]) -> Callable[[Any], Any]:
    """From the outside in: the first one inside the first that has one comes first in the document, too."""
    _, name, tests = parts[0]
    inner = _first(parts[1:]) if len(parts) > 1 else None
    if inner is None and not tests:
        return lambda element: next(element.iter(name), None)
    if inner is None and len(tests) == 1:
        (test,) = tests

        def simple(element: Any) -> Any:
            for one in element.iter(name):
                if test(one):
                    return one
            return None

        return simple

    def first(element: Any) -> Any:
        for one in element.iter(name):
            for test in tests:
                if not test(one):
                    break
            else:
                if inner is None:
                    return one
                for child in one:
                    if (found := inner(child)) is not None:
                        return found
        return None

    return first


def _every(parts: list[Compound]) -> Callable[[Any], Iterator[Any]]:
    """From the inside out: each element once, in the order of the document."""
    _, name, tests = parts[0]
    around = _within(parts[1:]) if len(parts) > 1 else None

    def every(element: Any) -> Iterator[Any]:
        for one in element.iter(name):
            for test in tests:
                if not test(one):
                    break
            else:
                if around is None or around(one, element):
                    yield one

    return every


def _compound(combinator: str, tree: Any) -> Compound | None:
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
    return Compound(combinator, (tree.element or "*").lower(), tests[::-1])


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


def _within(outer: list[Compound]) -> Callable[[Any, Any], bool]:
    """Whether an element stands in others as the rest of the selector says, no further out than a given one."""

    def stands(element: Any, top: Any, place: int = 0) -> bool:
        if place == len(outer):
            return True
        part = outer[place]
        while element is not top:
            element = element.getparent()
            if element is None:
                return False
            if part.holds(element) and stands(element, top, place + 1):
                return True
            if part.combinator == ">":
                return False
        return False

    return stands
