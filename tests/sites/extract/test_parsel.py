"""What a layer reads is what hand-written parsel code reads, on saved pages."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from parsel import Selector
from tests.sites.extract.small_site import PAGES, fields, read, saved
from w3lib.encoding import html_to_unicode

from gossamer.sites.extract.content import tree

HTML_PAGES = sorted(path.name for path in PAGES.glob("*.html"))
EXPRESSIONS: list[dict[str, str]] = [
    *({"css": css} for css in (
        "h1::text", "title::text", "a::attr(href)", "a.post::text", "p::text", "p *::text", "td:nth-child(2) a::text", "li:first-child::text",
        "div > p::text", "a[href^='/']::attr(href)", "time::attr(datetime)", "h1::text, h3::text", ".reply .reply .u::text", "*::text",
        "img::attr(src)", "meta::attr(content)", "a:not([class])::text", "script::text", "p.t::text", "tr.thread + tr .num::text",
        "li:last-of-type a::text", "a:contains('page')::text",
    )),
    *({"xpath": xpath} for xpath in (
        "//h1/text()", "//a/@href", "//a[@class='u']/text()", "string(//title)", "//td[last()]//text()", "//*[@id]/@id",
        "normalize-space(//h1)", "(//a)[2]/@href", "//p[re:test(., '[0-9]')]/text()", "//div[has-class('reply')]/@id", "boolean(//h1)",
        "//text()[contains(., 'a')]", "//a[contains(@href, '?')]/@href", "count(//a)", "//a[position() < 4]/text()", "name(/*)",
        "//a[@href][last()]/@href", "//p[preceding-sibling::p]/text()", "//li//a/@href", "concat(//h1, '|', //title)",
    )),
]  # fmt: skip


def text_of(name: str) -> str:
    return html_to_unicode(None, saved(name), auto_detect_fun=lambda body: "utf-8" if valid(body) else "cp1252")[1]


def valid(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def by_hand(selector: Selector, expression: dict[str, str]) -> Any:
    return selector.css(expression["css"]) if "css" in expression else selector.xpath(expression["xpath"])


@pytest.mark.parametrize("name", HTML_PAGES)
def test_first_last_and_all_of_what_expressions_find(name: str) -> None:
    selector = Selector(root=tree(text_of(name).encode()), type="html")
    rules: dict[str, Any] = {}
    wanted: dict[str, Any] = {}
    for number, expression in enumerate(EXPRESSIONS):
        found = by_hand(selector, expression)
        every = found.getall()
        rules |= {
            f"first{number}": {**expression, "strip": False},
            f"stripped{number}": expression,
            f"last{number}": {**expression, "nth": -1, "strip": False},
            f"third{number}": {**expression, "nth": 2, "strip": False},
            f"before{number}": {**expression, "nth": -2, "strip": False},
            f"all{number}": {**expression, "all": True, "strip": False},
        }
        wanted |= {
            f"first{number}": found.get(),
            f"stripped{number}": found.get(default="").strip() if every else None,
            f"last{number}": every[-1] if every else None,
            f"third{number}": every[2] if len(every) > 2 else None,
            f"before{number}": every[-2] if len(every) > 1 else None,
            f"all{number}": every,
        }
    assert fields(yaml.safe_dump({"fields": rules}), saved(name), content_type="") == wanted


@pytest.mark.parametrize("name", HTML_PAGES)
@pytest.mark.parametrize("css", ["h1", "body", "p", "a", "td", "head", "li", "title", ".reply", "script"])
def test_markup_text_and_attributes_of_elements(name: str, css: str) -> None:
    selector = Selector(root=tree(text_of(name).encode()), type="html").css(css)
    rules = {
        "html": {"css": css, "html": True, "all": True, "strip": False},
        "one": {"css": css, "html": True, "strip": False},
        "text": {"css": css, "all": True, "strip": False},
        "first": {"css": css, "strip": False},
        "href": {"css": css, "attr": "href", "all": True, "strip": False},
        "class": {"css": css, "attr": "class", "nth": -1, "strip": False},
    }
    classes = [one.attrib["class"] for one in selector if "class" in one.attrib]
    texts = [one.xpath("string()").get() for one in selector]
    assert fields(yaml.safe_dump({"fields": rules}), saved(name), content_type="") == {
        "html": selector.getall(),
        "one": selector.get(),
        "text": texts,
        "first": texts[0] if texts else None,
        "href": [one.attrib["href"] for one in selector if "href" in one.attrib],
        "class": classes[-1] if classes else None,
    }


def test_a_tree_of_replies() -> None:
    one = {
        "author": {"css": ".head .u"},
        "at": {"css": "time", "attr": "datetime"},
        "score": {"css": ".score", "type": "int"},
        "text": {"css": ".t", "clean": "squeeze"},
        "quotes": {"css": "blockquote::text", "all": True},
    }
    two = {**one, "replies": {"each": {"xpath": "./div[@class='replies']/div"}, "fields": one}}
    three = {**one, "replies": {"each": {"xpath": "./div[@class='replies']/div"}, "fields": two}}
    rule = {"fields": {"replies": {"each": {"css": "#replies > .reply"}, "fields": three}}}

    def hand(node: Selector, deep: int) -> dict[str, Any]:
        found: dict[str, Any] = {
            "author": node.css(".head .u::text").get(),
            "at": node.css("time::attr(datetime)").get(),
            "score": int(node.css(".score::text").get() or ""),
            "text": " ".join((node.css(".t").xpath("string()").get() or "").split()),
            "quotes": node.css("blockquote::text").getall(),
        }
        if deep:
            found["replies"] = [hand(child, deep - 1) for child in node.xpath("./div[@class='replies']/div")]
        return found

    by_hand = [hand(node, 2) for node in Selector(text=text_of("post.html")).css("#replies > .reply")]
    assert len(by_hand) == 12
    assert len(by_hand[0]["replies"][0]["replies"]) == 2
    assert fields(yaml.safe_dump(rule), saved("post.html")) == {"replies": by_hand}


def test_records_of_a_feed() -> None:
    selector = Selector(text=saved("feed.xml").decode(), type="xml")
    selector.remove_namespaces()
    wanted = [
        {
            "title": item.css("title::text").get(),
            "link": item.xpath("./link/text()").get(),
            "by": item.xpath("creator/text()").get(),
            "more": item.css("encoded::text").get(),
            "inside": Selector(text=item.xpath("description/text()").get()).css("a::attr(href)").get(),
        }
        for item in selector.css("item")
    ]
    reading = read(
        """
        format: xml
        records: {css: item}
        fields:
          title: title
          link: {xpath: ./link}
          by: {xpath: creator}
          more: encoded
          description: description
          inside: {from: fields.description, css: 'a::attr(href)'}
        """,
        saved("feed.xml"),
    )
    assert len(wanted) == 15
    assert [
        {key: value for key, value in record.fields.items() if key != "description"} for record in reading.records
    ] == wanted


@pytest.mark.parametrize(
    "query",
    [
        "meta.total",
        "items[].body",
        "items[0].author.name",
        "items[?score > `50`].id",
        "meta",
        "items[].tags[]",
        "nothing",
        "items[*].parent",
    ],
)
def test_jmespath_as_parsel_reads_it(query: str) -> None:
    found = Selector(text=saved("api.json").decode(), type="json").jmespath(query)
    rule = {
        "format": "json",
        "fields": {
            "first": {"jmespath": query, "type": "json", "nth": 0},
            "all": {"jmespath": query, "type": "json", "all": True},
        },
    }
    assert fields(yaml.safe_dump(rule), saved("api.json")) == {
        "first": found.get(),
        "all": [one for one in found.getall() if one is not None],
    }


def test_json_within_html() -> None:
    selector = Selector(text=text_of("news.html")).css("script[type='application/ld+json']::text")
    data = json.loads(selector.get() or "")
    found = fields(
        """
        fields:
          headline: {css: 'script[type="application/ld+json"]', jmespath: headline}
          authors: {css: 'script[type="application/ld+json"]::text', jmespath: 'author[].name', all: true}
          free: {css: 'script[type="application/ld+json"]', jmespath: isAccessibleForFree, type: bool}
          id: {css: script, regex: '"id":(\\d+)', type: int}
          state: {css: script, nth: -1}
        """,
        saved("news.html"),
    )
    assert found["headline"] == data["headline"]
    assert found["authors"] == [one["name"] for one in data["author"]]
    assert found["free"] is True
    assert found["id"] == 99812
    assert found["state"].startswith("window.__STATE__")


@pytest.mark.parametrize(
    "body",
    [b"", b"   \n", b"\0\0", b"plain", b"<", b"&amp;", b"\xff\xfe", "﻿<p>a".encode(), b"<!-- only -->", b"<p>\0a\0"],
)
def test_hardly_any_page(body: bytes) -> None:
    selector = Selector(text=html_to_unicode(None, body)[1])
    found = fields("fields: {p: 'p::text', all: {css: '*', html: true, all: true, strip: false}}", body)
    assert found == {"p": selector.css("p::text").get(), "all": selector.css("*").getall()}
