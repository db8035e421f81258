"""Pages of CSV and TSV, packed or not: a record for each row, with nothing lost in silence and nothing without bounds."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sites.extract.small_site import read, urls

from gossamer.sites.page import RECORDS, PageVerdict
from gossamer.sites.rows.archive import MOST_BYTES
from gossamer.sites.rows.csv_text import CELLS, COLUMNS

RULES = """
format: csv
records: {jmespath: "[]"}
fields: {name: {jmespath: name}, price: {jmespath: price, type: decimal, decimal: ","}}
"""
NAMES = """
format: csv
records: {jmespath: "[]"}
fields: {row: {jmespath: "@", type: json}}
"""


def rows(body: bytes | str, rules: str = NAMES, **rest: object) -> list[object]:
    reading = read(rules, body, content_type=str(rest.pop("content_type", "text/csv")))
    assert reading.verdict is PageVerdict.OK, reading.reason
    return [record.fields["row"] for record in reading.records]


def zipped(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return target.getvalue()


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_row_is_a_record_whatever_the_delimiter(mark: str) -> None:
    body = f'\ufeffname{mark}"price"\r\nlamp{mark}"3,50"\r\n\r\n"a ""b""\n{mark}c"{mark}4\r\n'
    found = read(RULES, body.encode(), content_type="text/csv")
    assert [[str(value) for value in record.fields.values()] for record in found.records] == [
        ["lamp", "3.50"],
        [f'a "b"\n{mark}c', "4"],
    ]
    assert not found.broken
    assert not found.notes


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_line_by_which_spreadsheets_name_the_delimiter_is_no_header(mark: str) -> None:
    assert rows(f"\ufeffsep={mark}\r\na{mark}b\r\n1{mark}2\r\n") == [{"a": "1", "b": "2"}]
    assert rows(f'"sep={mark}"\na{mark}b\n1{mark}2') == [{"a": "1", "b": "2"}]


def test_tsv_has_no_other_delimiter() -> None:
    assert rows("a,b\tc\n1,2\t3", NAMES.replace("csv", "tsv")) == [{"a,b": "1,2", "c": "3"}]


def test_rows_are_read_in_the_character_set_of_the_page() -> None:
    text = "name;stadt\nMüller;Köln\n"
    assert rows(text.encode("cp1252"), content_type="text/csv; charset=windows-1252")[0] == {
        "name": "Müller",
        "stadt": "Köln",
    }
    text = "имя;город\nИван Петров;Москва\nАнна Иванова;Санкт-Петербург\n" * 5
    assert rows(zipped(("a.csv", text.encode("cp1251"))))[0] == {"имя": "Иван Петров", "город": "Москва"}


@pytest.mark.parametrize(
    "pack", [gzip.compress, lambda body: zipped(("d/", b""), ("__MACOSX/x", b"y"), ("d/a.csv", body))]
)
def test_packed_files_are_unpacked(pack) -> None:  # type: ignore[no-untyped-def]
    assert rows(pack(b"a,b\n1,2\n")) == [{"a": "1", "b": "2"}]
    valid = read(NAMES + "valid: {contains: ['a,b'], lacks: [wall]}\n", pack(b"a,b\n1,2\n"))
    assert valid.verdict is PageVerdict.OK


def test_columns_without_a_name_and_with_the_same() -> None:
    assert rows("x,, x ,x_2,x\n1,2,3,4,5") == [{"x": "1", "column_2": "2", "x_3": "3", "x_2": "4", "x_4": "5"}]


def test_rows_of_other_lengths_are_counted_and_the_rest_of_them_read() -> None:
    reading = read(NAMES, "a,b\n1\n1,2,3\n1,2,,\n1,2\n,\n", content_type="text/csv")
    assert [record.fields["row"] for record in reading.records] == [{"a": "1"}, *[{"a": "1", "b": "2"}] * 3]
    assert reading.broken
    assert reading.notes == (
        "csv: 1 rows have fewer cells than the header, 1 have more, which are left out; the first is row 1",
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"<!DOCTYPE html><p>Log in, please", "HTML"),
        (b'a,b\n1,"2\n3,4\n', "a quote in row 2 does not end"),
        (b'a,b\n1,"' + b"x,\n" * 100_000, "a quote does not end"),
        (zipped(("a", b"x"), ("b", b"y")), "2 files"),
        (zipped(*((str(n), b"") for n in range(200))), "more than one"),
        (zipped(), "0 files"),
        (zipped(("a", b"a,b\n1,2" * 100))[:-30], "zip is damaged"),
        (zipped(("a", b"a,b\n"), method=zipfile.ZIP_BZIP2), "deflate"),
        (gzip.compress(b"a,b\n" * 1_000)[:-9], "gzip file is damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "page",
)
def test_what_is_no_csv_is_no_page(body: bytes, why: str) -> None:
    reading = read(NAMES + "valid: {lacks: [wall]}\n", body, content_type="text/csv")
    assert reading.verdict is PageVerdict.INVALID
    assert why in reading.reason


@pytest.mark.parametrize(
    "body",
    [
        b"," * (CELLS + 1),
        b"x" + b"," * COLUMNS + b"\n1",
        b"a\n" + b"1\n" * (RECORDS + 1),
        gzip.compress(bytes(MOST_BYTES + 1)),
        zipped(("a", bytes(MOST_BYTES + 1))),
    ],
    ids=["cells", "columns", "rows", "gzip bomb", "zip bomb"],
)
def test_too_much_is_a_limit(body: bytes) -> None:
    assert read(NAMES, body).verdict is PageVerdict.LIMIT


def test_a_crowded_line_and_zero_bytes_are_no_trouble() -> None:
    [row] = rows(b"a\0,b\n\0" + b"x" * 100_000 + b",2")
    assert row == {"a": "x" * 100_000, "b": "2"}


def test_a_column_gives_links() -> None:
    rules = """
format: csv
records: {jmespath: "[]"}
fields: {name: {jmespath: name}}
follow: [{jmespath: "[].url", to: post}]
"""
    assert urls(read(rules, "name,url\na,/post/1\nb,/post/2")) == [
        "http://bbs.example/post/1",
        "http://bbs.example/post/2",
    ]


@given(st.binary(max_size=200), st.sampled_from(["", "csv", "gzip", "zip"]))
@settings(deadline=None)
def test_no_bytes_are_an_error(body: bytes, kind: str) -> None:
    if kind == "csv":
        body = b'a,b\n1,2\n"' + body
    if kind == "gzip":
        body = b"\x1f\x8b\x08" + body + zlib.compress(body)
    if kind == "zip":
        whole = bytearray(zipped(("a", b"a,b\n1,2\n" * 9)))
        for place, byte in enumerate(body):
            whole[place * 7 % len(whole)] ^= byte & (place % 3)
        body = bytes(whole)
    read(NAMES, body)


CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufdd0\ufeff"), max_size=6)


@given(st.lists(st.tuples(CELL, CELL), max_size=8), st.sampled_from(",;\t"))
@settings(deadline=None)
def test_what_python_writes_is_read_back(cells: list[tuple[str, str]], mark: str) -> None:
    target = io.StringIO()
    csv.writer(target, delimiter=mark).writerows([("a", "b"), *cells])
    wanted = [{"a": one, "b": other} for one, other in cells if one or other]
    assert rows(target.getvalue().encode(), content_type="text/csv; charset=utf-8") == wanted
