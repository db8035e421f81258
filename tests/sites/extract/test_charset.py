"""The character set of a page, as browsers find it."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sites.extract.small_site import fields, read, saved

from gossamer.sites.extract import charset

RULE = "fields: {title: h1, text: p.t}"


@pytest.mark.parametrize(
    ("name", "title", "text"),
    [
        ("gbk.html", "蜘蛛论坛", "编译器与网络爬虫：第一章。"),
        ("shift_jis.html", "日本語の掲示板", "表示能力ソ十貼。①"),
        ("windows-1251.html", "Новости дня", "Ёлка — «пауки» и сети"),
        ("utf-16.html", "Ünïcode ✓", "sixteen – bits"),
    ],
)
def test_saved_pages_that_say_what_they_are(name: str, title: str, text: str) -> None:
    reading = read(RULE, saved(name), content_type="text/html")
    assert reading.records[0].fields == {"title": title, "text": text}
    assert reading.notes == ()


def test_a_page_that_says_nothing_and_is_not_utf8() -> None:
    reading = read(RULE, saved("undeclared-latin.html"), content_type="text/html")
    assert reading.records[0].fields == {"title": "Café Zoë", "text": "naïve façade “quoted” – £5"}
    assert reading.notes == (
        "charset: the page says none and is not UTF-8; it was read as cp1252 (encoding: in the layer sets another)",
    )


def p(text: str) -> str:
    return f"<p>{text}</p>"


@pytest.mark.parametrize(
    ("body", "content_type", "name"),
    [
        (codecs.BOM_UTF8 + p("é").encode(), "text/html; charset=gbk", "utf-8"),
        (codecs.BOM_UTF16_LE + p("é").encode("utf-16-le"), "text/html; charset=utf-8", "utf-16-le"),
        (codecs.BOM_UTF16_BE + p("é").encode("utf-16-be"), "", "utf-16-be"),
        (p("é").encode("utf-16-le"), "text/html", "utf-16-le"),
        (p("é").encode("utf-16-be"), "text/html", "utf-16-be"),
        (p("é").encode("cp1252"), "text/html; charset=ISO-8859-1", "cp1252"),
        (p("é").encode(), "text/html; charset=ISO-8859-1", "cp1252"),
        ('{"t": "é"}'.encode(), "application/json;charset=ISO-8859-1", "utf-8"),
        ('{"t": "é"}'.encode("cp1252"), "application/json;charset=ISO-8859-1", "cp1252"),
        ('{"t": "中"}'.encode("gbk"), "application/json;charset=gbk", "gb18030"),
        (b"<meta charset=gbk>" + p("é").encode(), "text/html;charset=UTF-8", "utf-8"),
        (b"<meta charset=gbk>" + p("中").encode("gbk"), 'text/html; charset="nonsense"', "gb18030"),
        (b"<meta charset=utf-16>" + p("é").encode(), "text/html", "utf-8"),
        (b'<?xml version="1.0" encoding="koi8-r"?>' + p("я").encode("koi8-r"), "", "koi8-r"),
        (b"<!-- <meta charset=gbk> --><meta charset=windows-1251>" + p("я").encode("cp1251"), "", "cp1251"),
        (b"<html>" + b" " * 2000 + b"<meta charset=windows-1251>" + p("я").encode("cp1251"), "", "cp1251"),
        (b"<meta charset=rot13>" + p("é").encode(), "", "utf-8"),
        (b"<meta charset=unicode_escape>" + p("\\u00e9é").encode(), "", "utf-8"),
        (b"<meta charset=utf-7>" + p("+ADw-é").encode(), "", "utf-8"),
        (p("é").encode(), "text/html; charset=hex", "utf-8"),
        (p("é" * 50).encode() + b"\xff", "", "utf-8"),
        (p("é").encode("cp1252") * 9, "", "cp1252"),
        (p("日本").encode("euc-jp"), "text/html; charset=euc-jp", "euc_jp"),
        (p("한국").encode("euc-kr"), "text/html; charset=ks_c_5601-1987", "cp949"),
        (p("x").encode(), "text/html; charset=\u2603", "utf-8"),
    ],
)
def test_what_goes_before_what(body: bytes, content_type: str, name: str) -> None:
    found = charset.find(body, content_type)
    assert found.name == name
    assert charset.decode(body, found)[0].startswith(("<", "{"))


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gbk", "中".encode("gbk")),
        ("utf-16", "中".encode("utf-16")),
        ("utf-16", "中".encode("utf-16-le")),
        ("UTF8", codecs.BOM_UTF8 + "中".encode()),
    ],
)
def test_the_encoding_of_the_layer_goes_before_all(encoding: str, body: bytes) -> None:
    found = fields(
        f"format: text\nencoding: {encoding}\nfields: {{t: {{from: content}}}}",
        body,
        content_type="text/html; charset=windows-1251",
    )
    assert found == {"t": "中"}


def test_bytes_that_do_not_fit_are_replaced_and_noted() -> None:
    reading = read("fields: {t: p}", b"<p>a\xffb\x81</p><p>later</p>", content_type="text/html; charset=utf-8")
    assert reading.records[0].fields == {"t": "a\ufffdb\ufffd"}
    assert reading.notes == (
        "charset: the page is not all utf-8; what did not fit was replaced (encoding: in the layer sets another)",
    )


def test_the_euro_of_gbk() -> None:
    assert fields("fields: {t: p}", b"<p>\x80 5 \xff</p>", content_type="text/html; charset=gbk") == {"t": "€ 5 \ufffd"}


def test_ascii_pages_need_no_charset_but_escapes_do() -> None:
    assert fields(
        "fields: {t: p}", "<p>日本</p>".encode("iso-2022-jp"), content_type="text/html; charset=iso-2022-jp"
    ) == {"t": "日本"}
    assert fields("fields: {t: p}", b"<p>&#26085;</p>", content_type="text/html; charset=iso-2022-jp") == {"t": "日"}


LABELS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["utf-8", "base64", "zlib", "idna", "punycode", "undefined", "mbcs", "utf-32", "utf_8_sig", "hz", "\0"]
    ),
)


@given(st.binary(max_size=200), LABELS, LABELS)
@settings(deadline=None)
def test_no_bytes_and_no_label_is_an_error(body: bytes, header: str, label: str) -> None:
    for page in (body, b"<meta charset='" + label.encode() + b"'>" + body):
        found = charset.find(page, f"text/html; charset={header}", label)
        text, _ = charset.decode(page, found)
        assert isinstance(text, str)


@given(st.text(min_size=1, max_size=50), st.sampled_from(["utf-8", "gb18030", "utf-16-le", "utf-16-be"]))
@settings(deadline=None)
def test_what_is_said_is_what_is_read(text: str, codec: str) -> None:
    body = text.encode(codec, "ignore")
    assert charset.decode(body, charset.Charset(codec))[0] == body.decode(codec)
