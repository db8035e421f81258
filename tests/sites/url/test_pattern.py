"""Patterns that are looked for in URLs: what they find is what Python's own engine finds, and none of them takes for ever."""

from __future__ import annotations

import logging
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.sites.url.match import Matcher
from gossamer.sites.url.pattern import LONG, UrlPattern, degree

PATTERNS = [
    "",
    "^/",
    r"^/board/(?P<board>\w+)/\d+$",
    r"^/(?P<y>\d{4})/(?P<m>\d{2})(/(?P<d>\d+))?",
    r"^/[^/]+(?:/[^/]+)*/?$",
    r"([?&]a=\d+)+",
    r"^/(post|page)/(?P<n>\d+|x)",
    r"^(/?[a-z]+)+\d$",
    r"(?i)/A{b}c",
    r"^https?://(?:\w+\.)+example/",
    r"/(.*)/(.*)/(.*)/x",
]
URLS = [
    "/",
    "/board/python/12",
    "/2024/05/17",
    "/2024/05",
    "/a/b/c/",
    "/x?a=1&a=22&b=3",
    "/post/7",
    "/page/x",
    "/abc/def/9",
    "/a{b}C",
    "http://www.s.example/",
    "/1/2/3/x/y/x",
    "/é/%20/ü9",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_is_found_is_what_python_finds(pattern: str) -> None:
    mine, own = UrlPattern(pattern), re.compile(pattern)
    for url in URLS:
        expected = own.search(url)
        for search in (mine.search, mine._search):
            found = search(url)
            assert (found is None) == (expected is None), url
            if found is not None and expected is not None:
                assert (found.span(), found.groupdict()) == (expected.span(), expected.groupdict())


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("^/c/", 0),
        (r"^/20\d\d/\d+\.html$", 1),
        (r"/\d+", 2),
        (r"^/(a|b)/\d+", 2),
        (r"^/[(+*]\+\(", 0),
        (r"^(\w+)*", None),
        (r"^(?:\w+\s?){2,}x", None),
        (r"^(\w+){9}x", None),
        (r"^/(a{1,100}){1,100}b", None),
        (r"^/(?:a{0,50}){20}b", None),
        (r"^/a{1,100}a{1,100}a{1,}b", 3),
        (r"^/\d{1,2}/\d{4}", 0),
        (r"^(a|a)*$", None),
        (r"^(a?){30}a", None),
        ("^a?a?a?a?a?a?b", None),
        (r"^(/\w)?(/\d)?", 0),
    ],
)
def test_how_the_steps_grow(pattern: str, expected: int | None) -> None:
    assert degree(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "unit"),
    [
        (r"^(/?[a-z]+)+\d$", "a"),
        (r"^/(a|a)*b$", "a"),
        (r"^/(\w+-?)+=", "a"),
        (r"^/(a?){30}a{30}$", "a"),
        (r"^/(a{1,100}){1,100}b$", "a"),
        (r"/(.*)/(.*)/(.*)/x", "/"),
    ],
)
def test_no_url_takes_for_ever(pattern: str, unit: str, caplog: pytest.LogCaptureFixture) -> None:
    """Python's own engine would need years for each of them."""
    matcher = Matcher([("a", pattern)], None)
    with caplog.at_level(logging.WARNING):
        for number in range(8):
            assert matcher.layer_of(f"http://s.example/{unit * (LONG - 100)}~{number}~") is None
    assert len(caplog.records) <= 1


def test_a_pattern_that_was_slow_still_fits_what_it_fits() -> None:
    matcher = Matcher([("a", r"/(.*)/(.*)/(.*)/x$")], None)
    for number in range(5):
        assert matcher.layer_of(f"http://s.example/{'/' * (LONG - 100)}{number}") is None
    assert matcher.layer_of("http://s.example/some/good/and/long/path/of/more/than/a/few/parts/x") == ("a", {})


@settings(max_examples=300, deadline=None)
@given(st.text("ab/01^$()[]{}|?*+.,-\\dwP<n>:=!", max_size=14), st.text("ab/01{}n", max_size=10))
def test_whatever_python_takes_for_a_pattern_is_one(text: str, url: str) -> None:
    try:
        quick = re.compile(text)
    except (re.error, OverflowError, FutureWarning):
        return
    found, expected = UrlPattern(text).search(url), quick.search(url)
    assert (found and (found.span(), found.groups())) == (expected and (expected.span(), expected.groups()))
