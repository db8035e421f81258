"""Verdicts: pages that are not the ones asked for, and pages without what is required."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sites.extract.small_site import read, saved

from gossamer.sites.page import PageVerdict

BODY = "<p>Hello wörld, please stay</p><a href=/x>x</a>"
LINK = "fields: {p: p}\nfollow: [{css: a, to: here}]\n"


@pytest.mark.parametrize(
    ("valid", "given", "reason"),
    [
        ("{}", {"status": 404}, "status 404 (valid.status: 200 to 299)"),
        ("{}", {"status": 302}, "status 302 (valid.status: 200 to 299)"),
        ("{status: [200, 404]}", {"status": 201}, "status 201 (valid.status: 200, 404)"),
        ("{min_length: 500}", {}, "48 bytes are fewer than 500 (valid.min_length)"),
        ("{contains: [Hello, 'id=\"post\"']}", {}, "lacks the text 'id=\"post\"' (valid.contains)"),
        ("{contains: wörlds}", {}, "lacks the text 'wörlds' (valid.contains)"),
        ("{lacks: [captcha, please]}", {}, "has the text 'please' (valid.lacks)"),
        ("{lacks: wörld}", {}, "has the text 'wörld' (valid.lacks)"),
        (
            "{content_type: '^text/plain'}",
            {"content_type": "text/html"},
            "Content-Type 'text/html' does not match '^text/plain' (valid.content_type)",
        ),
    ],
)
def test_a_page_that_is_not_the_one_asked_for_gives_nothing(valid: str, given: dict[str, Any], reason: str) -> None:
    reading = read(f"valid: {valid}\n{LINK}", BODY, **given)
    assert (reading.verdict, reason) == (PageVerdict.INVALID, reading.reason)
    assert (reading.records, reading.links) == ([], [])


@pytest.mark.parametrize(
    ("valid", "given"),
    [
        ("{}", {"status": 204}),
        ("{status: 404}", {"status": 404}),
        ("{min_length: 48, contains: [Hello, wörld], lacks: [captcha, wurld], content_type: HTML}", {}),
    ],
)
def test_a_page_that_is(valid: str, given: dict[str, Any]) -> None:
    reading = read(f"valid: {valid}\n{LINK}", BODY, **given)
    assert (reading.verdict, reading.reason) == (PageVerdict.OK, "")
    assert len(reading.records) == len(reading.links) == 1


def test_texts_are_looked_for_in_the_page_s_own_character_set() -> None:
    assert read("valid: {contains: [网络, charset, 章]}", saved("gbk.html"), content_type="").verdict is PageVerdict.OK
    assert (
        read("valid: {contains: Ünïcode, lacks: Unicode}", saved("utf-16.html"), content_type="").verdict
        is PageVerdict.OK
    )
    # The second byte of a character is not a letter.
    assert (
        read("valid: {lacks: '\\'}", "ソ".encode("cp932"), content_type="text/html; charset=shift_jis").verdict
        is PageVerdict.OK
    )


@pytest.mark.parametrize("body", ["", "<html>", "{", '{"a": 1}x', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"])
def test_a_page_that_is_no_json(body: str) -> None:
    reading = read("format: json\nfields: {a: {jmespath: a}}", body)
    assert reading.verdict is PageVerdict.INVALID
    assert reading.reason.startswith("the page is not JSON: ")
    assert reading.reason.endswith("(format: json)")


@pytest.mark.parametrize("body", [b"", b"no markup", b"\xff\xff", b"<!-- -->"])
def test_a_page_that_is_no_xml(body: bytes) -> None:
    reading = read("format: xml\nfields: {a: a}", body)
    if body:
        assert (reading.verdict, reading.reason) == (
            PageVerdict.INVALID,
            "the page is not XML: it has no element (format: xml)",
        )
    else:
        assert reading.missing == ("a",)


REQUIRE = "require: [title, [author, uid]]\nfields: {title: h1, author: .a, uid: {css: .u, type: int}}\nfollow: [{css: a, to: here}]\nlacking: "


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<h1>T</h1><i class=u>0</i>", ""),
        ("<h1>T</h1><i class=a>A</i>", ""),
        ("<h1>T</h1>", "lacks one of author or uid"),
        ("<h1> </h1><i class=a>A</i>", "lacks title"),
        ("", "lacks title, one of author or uid"),
    ],
)
@pytest.mark.parametrize(("lacking", "records", "links"), [("fail", 0, 0), ("keep", 1, 1), ("drop", 0, 1)])
def test_what_becomes_of_a_page_without_required_fields(
    body: str, reason: str, lacking: str, records: int, links: int
) -> None:
    reading = read(REQUIRE + lacking, body + "<a href=/x>")
    assert reading.reason == reason
    assert reading.verdict is (PageVerdict.LACK if reason else PageVerdict.OK)
    assert (len(reading.records), len(reading.links)) == ((records, links) if reason else (1, 1))


@pytest.mark.parametrize(
    ("lacking", "names", "links"), [("fail", [], 0), ("keep", ["a", None, "c"], 3), ("drop", ["a", "c"], 3)]
)
def test_records_that_lack_something_among_others(lacking: str, names: list[Any], links: int) -> None:
    rule = f"records: {{css: li}}\nrequire: [b]\nlacking: {lacking}\nfields: {{b: b}}\nfollow: [{{css: a, to: here, pass: [b]}}]"
    reading = read(rule, "<li><b>a</b><a href=/1></a><li><a href=/2></a><li><b>c</b><a href=/3></a>")
    assert (reading.verdict, reading.reason) == (PageVerdict.LACK, "1 of 3 records lack b")
    assert [record.fields["b"] for record in reading.records] == names
    assert len(reading.links) == links


def test_a_page_of_records_that_has_none() -> None:
    reading = read("records: {css: li}\nrequire: [b]\nfields: {b: b}", "<p>no more</p>")
    assert (reading.verdict, reading.records, reading.missing) == (PageVerdict.OK, [], ("records",))


def test_a_layer_without_fields_has_no_records() -> None:
    reading = read("follow: [{css: a, to: here}]", BODY)
    assert (reading.verdict, reading.records, len(reading.links)) == (PageVerdict.OK, [], 1)
