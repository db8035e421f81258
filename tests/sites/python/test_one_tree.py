"""Rules, functions and all selectors see one tree of a page, also where it goes on after </html>."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsel import Selector
from tests.sites.extract.small_site import URL, SmallSite, read

from gossamer.model.page import Response
from gossamer.sites.extract.content import PageContent
from gossamer.sites.format import Format

RULES = """
fields:
  css: {css: a, all: true}
  plain: {css: "a.k", all: true}
  xpath: {xpath: //a, all: true}
  within: {xpath: .//a, all: true}
  each: {each: {css: a}, fields: {t: {xpath: .}}}
follow: [{css: a, to: here}]
"""


def counts(body: bytes) -> set[int]:
    """How many links each way finds."""
    [record] = (reading := read(RULES, body)).records
    root = PageContent(Response(URL, 200, {}, body), "here", Format.HTML, None, SmallSite()).root()
    selector = Selector(root=root, type="html")
    values = [len(value or []) for value in record.fields.values()]
    return {
        *values,
        len(reading.links),
        len(selector.css("a")),
        len(selector.xpath("//a")),
        len(selector.css("html a")),
    }


@pytest.mark.parametrize(
    "body",
    [
        "<html><body>{}</body></html>{}",
        "<html><head></head><body>{}</html>{}</html>{}",
        "<html><body>{}</body></html><!-- c -->{}<?x y?>",
        "<html><body>{}</body></html><html class=z><head><title>y</title></head><body id=q>{}</body></html>{}",
        "<html></html><head><title>t</title></head><body>{}</body></html>{}",
        "{}</html>text{}</body>tail{}",
    ],
)
def test_links_after_the_end_of_the_page_are_found_by_all(body: str) -> None:
    parts = body.count("{}")
    links = [f"<p>{n} <a class=k href=/{n}>{n}</a> after {n}</p>" for n in range(parts)]
    assert counts(body.format(*links).encode()) == {parts}


PIECES = [
    "</html>",
    "</body>",
    "<html>",
    "<body>",
    "<p>",
    "</p>",
    "<!-- c -->",
    "text",
    "<b>",
    "</b>",
    "</head>",
    "<i>x</i>tail",
]


@given(st.lists(st.sampled_from([*PIECES, "LINK", "LINK"]), max_size=30))
@settings(deadline=None)
def test_every_link_and_text_of_any_page_is_found_by_all(pieces: list[str]) -> None:
    body = "".join(f"<a class=k href=/{n}>l{n}</a>" if piece == "LINK" else piece for n, piece in enumerate(pieces))
    assert counts(body.encode()) == {body.count("<a ")}
    [record] = read("fields: {t: {css: html, clean: squeeze}}", body).records
    text = re.sub(r"<!--.*?-->|<[^>]*>", "", body)
    assert re.sub(r"\s", "", record.fields["t"] or "") == text


def test_a_page_of_very_many_ends_is_read() -> None:
    body = b"<html><body>" + b"</html>x<a class=k href=/1>1</a>y" * 5_000
    [record] = read("fields: {t: html, n: {xpath: 'count(//a)', type: int}}", body).records
    assert record.fields["n"] == 5_000
    assert record.fields["t"] == "x1y" * 5_000


@pytest.mark.parametrize("sign", ["\x01", "\x0b", "\x0c", "\x1f", "&#1;", "\ufffe", "&#xffff;"])
def test_signs_that_no_tree_can_be_given_do_not_stop_a_page(sign: str) -> None:
    body = f"<html><body><p>a</p></body></html>b{sign}c<a class=k href=/1>x</a>{sign}d<html>e{sign}f".encode()
    assert counts(body) == {1}
    [record] = read("fields: {t: {css: html, clean: squeeze}}", body).records
    assert re.sub(r"[^a-z]", "", record.fields["t"]) == "abcxdef"
