"""Pages made to harm: stated outcomes, in bounded time and memory, and never an exception."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.sites.extract.small_site import PAGES, URL, read, reader, saved

from gossamer.model.page import Response
from gossamer.sites.extract import content, regex
from gossamer.sites.extract.content import own_declarations
from gossamer.sites.extract.layer import LayerReader
from gossamer.sites.page import PageVerdict, Reading

EVERYTHING = """
valid: {status: [200, 500], lacks: [nevermore], contains: []}
records: {css: 'li, tr, item, p'}
fields:
  text: {css: '*', clean: [squeeze, strip_tags, unescape, {truncate: 50}]}
  all: {xpath: './/text()', all: true}
  html: {css: a, html: true}
  number: {css: td, type: int}
  date: {css: time, attr: datetime, type: datetime, tz: Europe/Berlin}
  price: {regex: '([\\d.]+),', type: decimal, decimal: ','}
  link: {css: a, attr: href, type: url}
  json: {css: script, jmespath: 'a.b[0]', type: json}
  source: {from: url, regex: '(\\d+)'}
  inner: {each: {css: a}, fields: {t: {from: content}, href: {from: content, attr: href}, again: {each: {css: b}, fields: {x: i}}}}
follow:
  - {css: a, to: here, pass: [text], match: '.'}
  - {regex: 'https?://[^\\s"<]+', to: here}
  - {url: '/x/{number}?q={text}', to: here, form: {a: '{link}'}, when: number}
"""
READERS: dict[str, LayerReader] = {
    kind: reader(f"format: {kind}\n{EVERYTHING}") for kind in ("html", "xml", "text", "binary")
} | {
    "json": reader(
        """
        format: json
        records: {jmespath: 'items || @'}
        fields: {a: {jmespath: '[*].a', all: true}, b: {jmespath: b.c, type: int}, c: {jmespath: c, type: datetime}, d: {css: a}, e: {regex: '\\d+', type: date}, f: {jmespath: 'keys(@)'}}
        follow: [{jmespath: '*', to: here}, {jmespath: next, to: here}]
        """
    )
}


def check(reading: Reading) -> None:
    assert isinstance(reading.verdict, PageVerdict)
    assert bool(reading.reason) == (reading.verdict is not PageVerdict.OK)
    assert len(reading.notes) <= content.NOTES + 1
    assert all(link.url.startswith(("http://", "https://")) and link.url.isascii() for link in reading.links)


def every_way(body: bytes, **rest: Any) -> None:
    for one in READERS.values():
        check(one.read(Response(URL, 200, {"content-type": "text/html", **rest}, body)))


@given(st.binary(max_size=300))
@example(b"\xfe\xff\xd8")
@example(b"<?xml version='1.0' encoding='utf-32'?><a>")
@example("\ud800".encode("utf-8", "surrogatepass"))
@example(b'{"a": "\\ud800"}')
@example(b'["\\ud800"]')
@example(b'{"items": [{"a": NaN, "b": {"c": -Infinity}, "c": NaN}], "next": Infinity}')
@example(b'{"next": "http://\\ud800/\\ud800", "items": [{"b": {"c": 1e400}, "c": -1e300}]}')
@settings(deadline=None)
def test_any_bytes(body: bytes) -> None:
    every_way(body)


MARKUP = st.lists(
    st.sampled_from([
        "<a href='", "'>", "<li>", "</li>", "<td>", "<p>", "</p>", "&", "&#x0;", "&#1114112;", "]]>", "<![CDATA[", "<!--", "-->", "<!DOCTYPE a [", "<!ENTITY e 'x'>", "]>", "&e;",
        "<?xml ", "?>", "<script>", "</script>", '{"a":', "{", "[", "]", "1.234,5", "2024-01-01", "http://", "//", "\\", "\0", "\ufeff", "\u2028", "𝟙", "é", "<a xmlns:x='u' x:href='", "<base href='",
        "http://[", "://", "<time datetime='", "x" * 50, "<svg><a>", "<plaintext>", "\x85", "\x1b$B",
    ]),
    max_size=25,
).map("".join)  # fmt: skip


@given(MARKUP, st.sampled_from(["utf-8", "gbk", "utf-16", "cp1252", "iso-2022-jp"]))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_markup(text: str, codec: str) -> None:
    body = text.encode(codec, "replace")
    every_way(body)
    every_way(body, **{"content-type": f"text/html; charset={codec}"})


@given(st.sampled_from(sorted(path.name for path in PAGES.iterdir())), st.randoms(use_true_random=False))
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_saved_pages_damaged(name: str, chance: Any) -> None:
    body = bytearray(saved(name)[:6000])
    for _ in range(chance.randrange(1, 20)):
        place = chance.randrange(len(body))
        match chance.randrange(4):
            case 0:
                body[place] = chance.randrange(256)
            case 1:
                del body[place : place + chance.randrange(60)]
            case 2:
                body[place:place] = body[chance.randrange(len(body)) :][: chance.randrange(60)]
            case _:
                body[place:place] = chance.choice([b"<", b">", b'"', b"\0", b"&", b"\xff", b"]]>", b"<!--"])
        if not body:
            break
    every_way(bytes(body))


@given(
    st.text(max_size=60),
    st.dictionaries(st.sampled_from(["content-type", "etag"]), st.text(max_size=30)),
    st.integers(-1, 999),
)
@settings(deadline=None)
def test_any_url_headers_and_status(url: str, headers: dict[str, str], status: int) -> None:
    for one in READERS.values():
        check(one.read(Response(url, status, headers, b"<p><a href='x'>1</a>")))


def lean(
    body: bytes,
    rule: str = "fields: {t: '.x', all: {css: 'a::attr(href)', all: true}, text: {css: body}, html: {css: body, html: true}}\nfollow: [{css: a, to: here}]",
) -> Reading:
    """Read with little memory more than there is: a page must not make much of little."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 1_500_000_000, before[1]))
    try:
        return read(rule, body)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize(
    "body",
    [
        b"<div>" * 100_000 + b"<b class=x>deep</b>",
        b"<b>" * 100_000,
        b"<table>" * 20_000 + b"<a href=/x>",
        b"<p " + b"a=1 " * 1_000_000 + b">",
        b"<p>" + b"x" * 20_000_000,
        b"<p>" + b"&amp;" * 2_000_000,
        b"<" * 2_000_000,
        b"<!--" * 500_000,
        b"</p>" * 500_000,
        b"&" * 2_000_000,
        b"<a href='" + b"x" * 5_000_000 + b"'>",
        b"\0" * 5_000_000,
        b"<script>" * 200_000,
    ],
    ids=[
        "deep",
        "inline",
        "tables",
        "same-attribute",
        "long-text",
        "entities",
        "less",
        "comments",
        "closing",
        "ampersands",
        "href",
        "zeros",
        "scripts",
    ],
)
def test_html_bombs(body: bytes) -> None:
    check(lean(body))


@pytest.mark.parametrize(
    "attribute", [b"a%d", b"a%d=1", b"a%d='x'", b'a%d = ""', b'a%d="<b>"', b"/a%d", b'"%d', b"=%d"]
)
@pytest.mark.parametrize("number", [3_000, 1_000_000])
def test_more_attributes_than_an_element_has(attribute: bytes, number: int) -> None:
    if number == 3_000 and attribute in (b'a%d="<b>"', b"=%d"):
        number *= 7
    reading = lean(b"<p " + b" ".join(attribute % n for n in range(number)) + b">")
    assert (reading.verdict, reading.reason) == (
        PageVerdict.INVALID,
        "an element has more than 2000 attributes (format: html)",
    )


def test_long_tags_with_few_attributes_are_read() -> None:
    body = b"<p class=x data-a='" + b"a b='c\" \n".replace(b"'", b"&#39;") * 30_000 + b"' data-b>here"
    assert read("fields: {p: p}", body).records[0].fields == {"p": "here"}


LAUGHS = b"".join(b"<!ENTITY e%d '%s'>" % (n, b"&e%d;" % (n - 1) * 10) for n in range(1, 12))
XML_RULE = "format: xml\nfields: {t: x, a: {css: x, attr: a}, all: {css: '*', all: true}}"


@pytest.mark.parametrize(
    "garbage", [b"", b"\xef\xbb\xbf", b"<?xml version='1.0'?><!-- <x> --> ", b"garbage", b"<?unclosed"]
)
@pytest.mark.parametrize(
    "body",
    [
        b"<!DOCTYPE a [<!ENTITY e0 'ha'>" + LAUGHS + b"]><a><x>&e11;</x></a>",
        b"<!DOCTYPE a [<!ENTITY e0 'ha'>" + LAUGHS + b"]><a><x a='&e11;'/></a>",
        b"<!DOCTYPE a [<!ATTLIST x a CDATA '" + b"z" * 200_000 + b"'>]><a>" + b"<x/>" * 50_000 + b"</a>",
        b"<!DOCTYPE a [<!ENTITY f SYSTEM 'file:///etc/hostname'>]><a><x>&f;</x></a>",
        b"<!DOCTYPE a [<!ENTITY % p SYSTEM 'http://127.0.0.1:9/p.dtd'> %p;]><a><x>1</x></a>",
        b"<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/a.dtd'><a><x>1</x></a>",
    ],
    ids=["text", "attribute", "defaults", "file", "parameter", "external"],
)
def test_xml_bombs(body: bytes, garbage: bytes) -> None:
    reading = lean(garbage + body, XML_RULE)
    check(reading)
    if reading.records:
        found = reading.records[0].fields
        assert len(found["t"] or "") < 100
        assert len(found["a"] or "") < 10_000_000
        assert "localhost" not in str(found["t"])


@pytest.mark.parametrize(
    ("body", "cut"),
    [
        (b"<a>", (0, 0)),
        (b"<!DOCTYPE a><a x='['>", (0, 0)),
        (b"<!DOCTYPE a [x]><a>", (12, 15)),
        (b"<!DOCTYPE a ['] ' \"]\" <!-- ] --> <? ] ?>]><a>", (12, 41)),
        (b"<!DOCTYPE a [<!--", (12, 17)),
        (b"<!-- <!DOCTYPE a [ --><a>[]", (0, 0)),
        (b"<a><!DOCTYPE a []>", (0, 0)),
    ],
)
def test_where_a_document_declares_things_itself(body: bytes, cut: tuple[int, int]) -> None:
    assert own_declarations(body) == cut


@pytest.mark.parametrize(
    ("expression", "text"),
    [("(a|aa)+$", "a" * 100 + "!"), (r"(\w|w\w)+$", "w" * 200), ("(.*?,){25}P", "1,2,3,4,5,6,7," * 40)],
)
def test_regular_expressions_that_never_end(expression: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "PATIENCE", 0.2)
    monkeypatch.setattr(regex, "PATIENCE", 0.2)
    rule = f"fields: {{bad: {{regex: '{expression}'}}, later: {{regex: 'x+y+'}}, n: {{css: b, clean: [{{take: '{expression}'}}]}}, fine: b}}\nfollow: [{{css: a, to: here, match: '{expression}'}}]"
    reading = read(rule, f"<b>5</b>{text}<a href=/{'a' * 100}!>")
    assert reading.verdict is PageVerdict.LIMIT
    assert reading.reason.startswith(f"the regular expression {expression!r} took more than 0.2 s on ")
    # Without the field, the time runs out where links are chosen: they are not taken for none.
    fields, follow = rule.split("\n")
    assert read(f"fields: {{x: b}}\n{follow}", f"<a href='/{text}!'>").verdict is PageVerdict.LIMIT, fields


def test_all_of_a_long_text_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = "fields: {a: {regex: 'ab+c'}, n: {regex: 'x', all: true, clean: [{join: ''}]}}"
    assert read(rule, b"x" * 1_200_000 + b"abc").verdict is PageVerdict.LIMIT
    monkeypatch.setattr(regex, "MOST", 2_000_000)
    # More than a million matches take their time on a busy machine.
    monkeypatch.setattr("gossamer.sites.extract.content.PATIENCE", 60.0)
    found = read(rule, b"x" * 1_200_000 + b"abc").records[0].fields
    assert (found["a"], len(found["n"])) == ("abc", 1_200_000)


def test_a_hundred_thousand_links_and_as_many_records() -> None:
    page = b"".join(b"<li><a href=/%d>x</a>" % n for n in range(100_000))
    reading = lean(page)
    assert len(reading.links) == len(reading.records[0].fields["all"]) == 100_000
    reading = lean(page + b"<a href=/more>x</a>")
    assert (reading.verdict, reading.links) == (PageVerdict.LIMIT, [])
    assert reading.reason.startswith("the page has more than 100,000 links")


def test_records_within_records_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "RECORDS", 50)
    rule = "fields: {a: {each: {css: li}, fields: {b: {each: {xpath: //li}, fields: {t: {from: content}}}}}}"
    found = read(rule, b"<li>x" * 20)
    assert (found.verdict, found.records) == (PageVerdict.LIMIT, [])
    assert found.reason == "a.b: the page has more than 50 records, nested ones included"
    many = "records: {css: li}\nfields: {t: {from: content}}"
    assert len(read(many, b"<li>x" * 50).records) == 50
    assert read(many, b"<li>x" * 51).reason == "records: the page has more than 50 records, nested ones included"


def test_notes_are_bounded() -> None:
    rule = "fields: {" + ", ".join(f"f{n}: {{css: b, type: int}}" for n in range(80)) + "}"
    notes = read(rule, "<b>x</b>").notes
    assert len(notes) == 51
    assert notes[-1] == "… and 30 more"


def test_halves_of_characters_in_json_are_replaced() -> None:
    body = '{"a": "x\\ud83d", "b": "\\ud83d\\ude00", "\\udc00": ["\\uDFFF"], "c": "\\\\ud800"}'
    rule = "format: json\nfields: {a: {jmespath: a}, b: {jmespath: b}, all: {jmespath: '@', type: json}}"
    found = read(rule, body).records[0].fields
    assert (found["a"], found["b"]) == ("x\ufffd", "\U0001f600")
    assert found["all"]["\ufffd"] == ["\ufffd"]
    assert found["all"]["c"] == "\\ud800"
    inside = read("fields: {j: {css: script, type: json}}", f"<script>{body}</script>").records[0].fields["j"]
    assert inside == found["all"]


@pytest.mark.parametrize(
    ("expression", "text", "found"),
    [
        ("(?:ab+c+){e<=1}", "abc{e<=1}", "abc{e<=1}"),
        ("(?:ab+c+){e<x", "abc{e<x", "abc{e<x"),
        ('"a":{("b":+1+)}', '"a":{"b":1}', '"b":1'),
        ("(a+b{2,3}c{,1}d{1})+", "abbcd", "abbcd"),
        (r"x+\{(\N{DIGIT ONE}+)[{a]+", "x{11{", "11"),
        (r"(\\{+)+", "\\{", "\\{"),
    ],
)
def test_long_texts_are_searched_in_the_same_language_as_short_ones(expression: str, text: str, found: str) -> None:
    assert re.search(expression, text)
    rule = yaml.safe_dump({"format": "text", "fields": {"a": {"regex": expression}}})
    for filling in ("", "-" * 5_000):
        assert read(rule, filling + text).records[0].fields == {"a": found}


@pytest.mark.parametrize("kind", ["html", "xml"])
def test_halves_of_characters_in_markup_are_replaced(kind: str) -> None:
    body = "<r><p a='&#xDfff;'>&#xd800;&#55296;&#0057343;&#xE000;</p></r>"
    found = read(f"format: {kind}\nfields: {{p: p, a: {{css: p, attr: a}}}}", body).records[0].fields
    assert found == {"p": "\ufffd\ufffd\ufffd\ue000", "a": "\ufffd"}


def test_names_in_broken_xml_that_cannot_be_written_stay() -> None:
    body = "<a xmlns='u' xmlns:n='v'><lhttp:>w</lhttp:><x n:b='2'>t</x><:y/><n:b:c/><x n:b='3'>v</x></a>"
    found = read("format: xml\nfields: {x: {css: x, all: true}, b: {xpath: '//@b', all: true}}", body).records[0].fields
    assert found == {"x": ["t", "v"], "b": ["2", "3"]}


def test_every_half_and_nothing_else_is_found() -> None:
    for code in (*range(0xD700, 0xE100), 0, 0x5D80, 0x1D800, 0x10FFFF):
        for reference in (b"&#%d;" % code, b"&#x%x;" % code, b"&#x00%X;" % code):
            assert bool(content.HALVES.fullmatch(reference)) is (0xD800 <= code <= 0xDFFF)


def test_an_expression_that_cannot_be_stopped_is_not_run() -> None:
    reading = read(
        "fields: {a: {regex: '[ [:foo:]]+a+'}, b: {css: p, clean: [{remove: '[ [:foo:]]+a+'}]}}", b"<p>" + b"a" * 3000
    )
    assert reading.verdict is PageVerdict.LIMIT
    assert "cannot be run" in reading.reason


FAULTS = ["<b></c>", "\x0b", "&", "&nbsp;", "&undeclared;", "<x:y/>", "</item>", "<", "]]>", "<!-- -- -->", "&#0;"]


@given(
    st.lists(st.sampled_from(FAULTS), max_size=3),
    st.integers(0, 4),
    st.sampled_from(["a&b", "?x=1&y=2", "R&amp;D", "<&>"]),
)
@settings(max_examples=60, deadline=None)
def test_faults_of_xml_change_no_value_elsewhere_in_silence(faults: list[str], place: int, value: str) -> None:
    """After a fault, values are what they were, or the page says that it is broken."""
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    parts = [f"<item><v>{escaped}</v></item>" for _ in range(4)]
    parts.insert(place, "".join(faults))
    reading = read("format: xml\nrecords: item\nfields: {v: v}", f"<list>{''.join(parts)}</list>".encode())
    if reading.verdict is PageVerdict.OK:
        values = [record.fields["v"] for record in reading.records]
        assert set(values) <= {value, None}
        assert values == [value] * 4 or reading.broken
