"""Plain selectors find without XPath what they find with it, in whole pages and within elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree  # type: ignore[import-untyped]
from parsel.csstranslator import HTMLTranslator
from tests.sites.extract.small_site import saved

from gossamer.sites.extract.content import tree
from gossamer.sites.extract.selector.css import every_of, first_of

NAMES = st.sampled_from(["", "a", "b", "p", "div", "DIV", "li", "td", "*"])
TESTS = st.lists(
    st.sampled_from([".x", ".y", ".x-y", "#i", "#j", "[href]", "[HREF]", "[data-a='1']", '[class="x y"]', "[id=i]"]),
    max_size=2,
).map("".join)
PART = st.tuples(NAMES, TESTS).map("".join).filter(bool)
SELECTORS = st.builds(
    lambda first, rest: first + "".join(combinator + part for combinator, part in rest),
    PART,
    st.lists(st.tuples(st.just(" "), PART), max_size=3),
)
CLASSES = st.sampled_from(["", "x", "y", "x y", " y\tx ", "x\ny", "x-y", "xy", "y\xa0x", "X", "x\x0cy"])
TAGS = st.sampled_from(["a", "b", "p", "div", "li", "td", "span"])
ELEMENTS = st.recursive(
    st.builds(lambda tag, css: f'<{tag} class="{css}">t</{tag}>', TAGS, CLASSES),
    lambda inner: st.builds(
        lambda tag, css, more, inside: f'<{tag} class="{css}" {more}><!-- c -->{"".join(inside)}</{tag}>tail',
        TAGS,
        CLASSES,
        st.sampled_from(["", "id=i", "id=j href=1", "href", "data-a=1", "data-a='1 '"]),
        st.lists(inner, max_size=4),
    ),
    max_leaves=15,
)


def by_xpath(css: str, element: Any) -> list[Any]:
    found: list[Any] = etree.XPath(HTMLTranslator().css_to_xpath(css))(element)
    return found


def same(css: str, elements: Iterable[Any]) -> None:
    first, every = first_of(css), every_of(css)
    assert first is not None
    for element in elements:
        wanted = by_xpath(css, element)
        assert every is None or every(element) == wanted
        assert first(element) is (wanted[0] if wanted else None)


@given(SELECTORS, ELEMENTS)
@settings(deadline=None)
def test_the_same_elements_as_by_xpath(css: str, html: str) -> None:
    same(css, tree(html.encode()).iter("*"))


@pytest.mark.parametrize("name", ["forum-list.html", "post.html", "shop.html", "broken.html"])
@pytest.mark.parametrize(
    "css",
    [
        "a",
        ".u",
        "td.num.views",
        ".reply .head .u",
        "div p",
        "li a[href]",
        "#post h1",
        "*",
    ],
)
def test_the_same_elements_of_saved_pages(css: str, name: str) -> None:
    root = tree(saved(name))
    same(css, (root, *root.iter("tr", "li", "section", "article")))


@pytest.mark.parametrize(
    "css",
    [
        "a, b",
        "a > b",
        "a::text",
        "a + b",
        "a ~ b",
        "a:first-child",
        "a[b^=c]",
        "a[b~=c]",
        "a:not(.b)",
        "svg|a",
        "[x|y]",
        "a[",
    ],
)
def test_what_is_not_plain_is_left_to_xpath(css: str) -> None:
    assert first_of(css) is every_of(css) is None
