"""Fields: where values come from, what is done to them, and what becomes of those that are not there."""

from __future__ import annotations

from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from tests.sites.extract.small_site import URL, SmallSite, fields, read, reader, saved

from gossamer.sites.extract.layer import RuleProblems
from gossamer.sites.page import PageVerdict


def test_sources_other_than_the_page() -> None:
    found = fields(
        """
        fields:
          url: {from: url}
          number: {from: url, regex: '/(\\d+)$', type: int}
          forum: {from: url.forum}
          sort: {from: url.sort}
          etag: {from: headers.ETag}
          length: {from: headers, jmespath: '"content-length"', type: int}
          status: {from: status, type: int}
          title: {from: parent.title}
          deep: {from: parent.author.name}
          parent: {from: parent, type: json}
          again: {from: fields.number, type: int}
          both: {value: '{forum} of {board}, page {page}'}
          constant: {value: [1, two]}
          none: {from: headers.missing}
        """,
        url="http://bbs.example/list/python/3?sort=new&sort=old",
        headers={"etag": '"abc"', "content-length": "17"},
        inherited={"title": "T", "author": {"name": "N"}},
        site=SmallSite(board="Board"),
    )
    assert found == {
        "url": "http://bbs.example/list/python/3?sort=new&sort=old",
        "number": None,
        "forum": "python",
        "sort": "new",
        "etag": '"abc"',
        "length": 17,
        "status": 200,
        "title": "T",
        "deep": "N",
        "parent": {"title": "T", "author": {"name": "N"}},
        "again": None,
        "both": "python of Board, page 3",
        "constant": [1, "two"],
        "none": None,
    }


def test_fields_found_before_also_from_within_nested_records() -> None:
    found = fields(
        """
        fields:
          id: {css: b, type: int}
          items: {each: {css: li}, fields: {of: {from: fields.id, type: int}, text: {from: content}, upper: {from: fields.text, clean: upper}}}
        """,
        "<b>7</b><ul><li>a<li>b</ul>",
    )
    assert found == {"id": 7, "items": [{"of": 7, "text": "a", "upper": "A"}, {"of": 7, "text": "b", "upper": "B"}]}


def test_what_is_missing_is_null_or_the_default_and_named() -> None:
    reading = read(
        """
        fields:
          a: {css: .a}
          b: {css: .b, default: none}
          c: {css: .c, all: true}
          d: {css: .d, all: true, default: [1]}
          e: {each: {css: li}, fields: {x: .x, y: {css: .y, default: 0}}}
          f: {each: {css: .f}, fields: {x: .x}}
          g: {css: .g, fields: {x: .x}}
          h: {css: li, nth: 5}
        """,
        "<li>1<li><i class=x>x</i>",
    )
    assert reading.records[0].fields == {
        "a": None,
        "b": "none",
        "c": [],
        "d": [1],
        "e": [{"x": None, "y": 0}, {"x": "x", "y": 0}],
        "f": [],
        "g": None,
        "h": None,
    }
    assert reading.missing == ("a", "b", "c", "d", "e.x", "e.y", "f", "g", "h")
    assert reading.verdict is PageVerdict.OK


def test_a_default_that_is_a_list_is_not_shared_between_pages() -> None:
    read_one = reader("fields: {a: {css: .a, default: [1]}, b: {value: {x: [1]}}}").read
    from gossamer.model.page import Response

    first = read_one(Response(URL, 200, {}, b"")).records[0].fields
    first["a"].append(2)
    first["b"]["x"].append(2)
    assert read_one(Response(URL, 200, {}, b"")).records[0].fields == {"a": [1], "b": {"x": [1]}}


def test_nested_records_of_each_kind() -> None:
    found = fields(
        """
        fields:
          plain: {fields: {h: h1, lists: {each: {css: ul}, fields: {items: {each: {css: li}, fields: {t: {from: content}, id: {from: content, attr: id}}}}}}}
          first: {css: ul, fields: {t: li}}
          last: {css: ul, nth: -1, fields: {t: li}}
          every: {css: ul, all: true, fields: {t: li}}
          matches: {each: {regex: '<li[^>]*>\\w+'}, fields: {letter: {regex: '>(\\w)'}}}
        """,
        "<h1>H</h1><ul><li id=1>a</li><li>b</li></ul><ul><li>c</li></ul>",
    )
    assert found == {
        "plain": {
            "h": "H",
            "lists": [{"items": [{"t": "a", "id": "1"}, {"t": "b", "id": None}]}, {"items": [{"t": "c", "id": None}]}],
        },
        "first": {"t": "a"},
        "last": {"t": "c"},
        "every": [{"t": "a"}, {"t": "c"}],
        "matches": [{"letter": "a"}, {"letter": "b"}, {"letter": "c"}],
    }


def test_json_records_and_html_within_them() -> None:
    reading = read(
        """
        format: json
        records: {jmespath: 'items[?score > `0`]'}
        fields:
          id: {jmespath: id, type: int}
          author: {jmespath: author.name}
          text: {each: {jmespath: html}, fields: {t: '.c', link: {css: a, attr: href, type: url}}}
          tags: {jmespath: tags, all: true}
        """,
        saved("api.json"),
    )
    assert len(reading.records) > 20
    first = reading.records[0].fields
    assert first["author"].startswith("user")
    assert first["text"][0]["link"].startswith("http://bbs.example/u/")
    assert isinstance(first["tags"], list)


def test_shop_listing() -> None:
    reading = read(
        """
        records: {css: li.product}
        fields:
          sku: {from: content, attr: data-sku}
          name: h3
          price: {css: .amount, type: decimal, decimal: ','}
          currency: {css: .currency, clean: {map: {€: EUR}}}
          stock: {css: .stock, clean: {map: {in stock: yes, sold out: no}}, type: bool}
          stars: {css: .stars, attr: title, clean: {take: '^[\\d.]+'}, type: float}
          url: {css: a, attr: href, type: url}
        """,
        saved("shop.html"),
        url="http://shop.example/garden/",
    )
    assert len(reading.records) == 24
    first = reading.records[0].fields
    assert first["sku"] == "SKU-1001"
    assert first["currency"] == "EUR"
    assert first["url"] == "http://shop.example/garden/product.php?id=1001&ref=list"
    assert first["stock"] is True
    assert reading.records[2].fields["stock"] is False
    assert reading.notes == ()
    assert reading.missing == ()


@pytest.mark.parametrize(
    ("steps", "value"),
    [
        (["squeeze"], "Ab 1,5 &amp; <b>x</b> cD"),
        (["lower", "squeeze"], "ab 1,5 &amp; <b>x</b> cd"),
        (["upper", "squeeze"], "AB 1,5 &AMP; <B>X</B> CD"),
        (["digits"], "15"),
        (["squeeze", "strip_tags"], "Ab 1,5 & x cD"),
        (["squeeze", "unescape"], "Ab 1,5 & <b>x</b> cD"),
        ([{"take": r"(\d),"}], "1"),
        ([{"take": "zzz"}], None),
        ([{"remove": "(?s)&.*"}, "strip"], "Ab \n 1,5"),
        ([{"replace": [r"(?s).*(\d),(\d).*", r"\2.\1"]}], "5.1"),
        (["squeeze", {"truncate": 4}, {"prefix": "<"}, {"suffix": ">"}], "<Ab 1>"),
        (["squeeze", {"split": " "}, {"truncate": 1}, "sort", "unique", {"join": "|"}], "&|1|<|A|c"),
        (["squeeze", {"split": " "}, {"batch": [2, "+"]}, {"join": " "}], "Ab+1,5 &amp;+<b>x</b> cD"),
        ([{"truncate": 2}, {"batch": [2, "+"]}], "Ab"),
        (["squeeze", {"split": " "}, "reverse", {"join": " "}], "cD <b>x</b> &amp; 1,5 Ab"),
        ([{"truncate": 2}, {"map": {"Ab": 3}}], "3"),
        (["title", {"truncate": 2}], "Ab"),
    ],
)
def test_cleaning_steps(steps: list[Any], value: Any) -> None:
    rule = {"fields": {"v": {"from": "parent.t", "clean": steps}}}
    assert fields(yaml.safe_dump(rule), inherited={"t": " Ab \n 1,5 &amp; <b>x</b>\tcD "}) == {"v": value}


def test_cleaning_goes_through_lists_and_before_types() -> None:
    found = fields(
        """
        fields:
          n: {css: li, all: true, clean: [digits], type: int}
          split: {css: p, clean: {split: '/'}, type: int}
          joined: {css: li, all: true, clean: {join: ', '}}
          batches: {css: u, all: true, clean: {batch: [2, ',']}}
          none: {css: s, all: true, clean: {batch: [2, ',']}}
          quoted: {css: i, clean: unquote}
          kept: {css: b, strip: false}
          unique: {css: u, all: true, clean: unique}
        """,
        "<li>1 a<li>b 2<li>none</li><p>1/x/3</p><i>a%20b</i><b> x </b><u>1</u><u>2</u><u>1</u>",
    )
    assert found == {
        "n": [1, 2, None],
        "split": [1, None, 3],
        "joined": "1 a, b 2, none",
        "batches": ["1,2", "1"],
        "none": [],
        "quoted": "a b",
        "kept": " x ",
        "unique": ["1", "2"],
    }


def test_regular_expressions_on_the_source_and_on_elements() -> None:
    found = fields(
        r"""
        fields:
          views: {regex: 'views: (\d+)', type: int}
          whole: {regex: 'views: \d+'}
          ids: {css: tr.thread, attr: id, regex: 't(\d)', all: true}
          year: {css: title, regex: 'Page (\d+)', type: int}
          either: {regex: '(nothing)|id="threads"'}
        """,
        saved("forum-list.html"),
    )
    assert found["views"] == 88213
    assert found["whole"] == "views: 88213"
    assert found["ids"] == ["4"] * 40
    assert found["year"] == 3
    assert found["either"] is None


def test_formats_without_a_tree() -> None:
    assert fields(
        "format: text\nfields: {n: {regex: 'n=(\\d+)', type: int}, all: {from: content}}",
        "n=5\n",
        content_type="text/plain",
    ) == {
        "n": 5,
        "all": "n=5",
    }
    body = b"\x89PNG\r\n\x1a\n\x00\xff"
    assert fields("format: binary\nfields: {data: {from: content, type: bytes}, sign: {regex: '[A-Z]+'}}", body) == {
        "data": body,
        "sign": "PNG",
    }


def test_xml_names_have_no_namespaces_and_its_own_entities_are_left_out() -> None:
    body = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY e "]>expanded"><!ATTLIST x y CDATA "z">]><a xmlns="urn:a" xmlns:b="urn:b">
    <x b:href="1">t&amp;&e;</x><b:X>big</b:X></a>"""
    reading = read("format: xml\nfields: {x: x, y: {css: x, attr: y}, href: {xpath: //x/@href}, big: {css: X}}", body)
    assert reading.records[0].fields == {"x": "t&&e;", "y": None, "href": "1", "big": "big"}
    assert reading.notes == ("xml: the document's own entities and attributes were left out",)


def test_all_rules_that_cannot_be_compiled_are_told_at_once_with_their_place() -> None:
    with pytest.raises(RuleProblems) as caught:
        reader(
            """
            encoding: klingon
            require: [nobody]
            valid: {content_type: '('}
            records: {xpath: '//['}
            fields:
              a: {css: 'a['}
              b: {regex: '(b'}
              c: {each: {css: li}, fields: {d: {jmespath: 'a..b'}}}
              e: {css: a, clean: [{replace: ['a', '\\2']}]}
            follow: [{css: a}, {xpath: '///'}, {css: a, to: nowhere}]
            """
        )
    assert {path for path, _ in caught.value.problems} == {
        ("encoding",),
        ("require",),
        ("valid",),
        ("records",),
        ("fields", "a"),
        ("fields", "b"),
        ("fields", "c", "fields", "d"),
        ("fields", "e"),
        ("follow", 1),
        ("follow", 2),
    }
    assert all(message for _, message in caught.value.problems)
    assert "fields.c.fields.d" in str(caught.value)


def test_what_is_left_without_tags_has_no_white_space_at_its_ends() -> None:
    page = "<div> <p> a <b>b</b> </p>\n</div>"
    assert fields("fields: {t: {css: div, html: true, clean: strip_tags}}", page) == {"t": "a b"}
    kept = fields("fields: {t: {css: div, html: true, clean: strip_tags, strip: false}}", page)
    assert kept == {"t": "  a b \n"}


def test_words_of_two_lines_do_not_become_one_without_tags() -> None:
    page = "<div><p>one<br/>two</p><P class=x>three <b>b</b>old</p>\n<ul><li>a</li><li>b</li></ul><td>1<td>2</div>"
    text = "one\ntwo\nthree bold\na\nb\n1\n2"
    assert fields("fields: {t: {css: div, html: true, clean: strip_tags, strip: false}}", page) == {"t": text}
