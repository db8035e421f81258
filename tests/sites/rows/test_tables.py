"""Tables: a record for each row, with the cells where a browser shows them, and nothing without bounds."""

from __future__ import annotations

from html import escape
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sites.extract.small_site import URL, SmallSite, fields, read, reader, urls

from gossamer.model.page import Response
from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.layer import RuleProblems
from gossamer.sites.format import Format
from gossamer.sites.page import PageVerdict
from gossamer.sites.python.page import Page

RULES = """
records: {table: table.p}
fields: {row: {jmespath: "@", type: json}}
"""


def rows(body: str) -> list[Any]:
    reading = read(RULES, f"<table class=p>{body}</table>")
    assert reading.verdict is PageVerdict.OK, reading.reason
    return [record.fields["row"] for record in reading.records]


def test_each_row_is_a_record_whose_fields_are_columns() -> None:
    rules = """
records: {table: table.p}
fields: {name: {jmespath: Name}, price: {jmespath: '"Unit price"', type: decimal}, _link: {jmespath: Name_href}}
follow: [{url: "{_link}", to: post}]
"""
    reading = read(
        rules,
        """<base href="http://bbs.example/a/"><table class=p><thead><tr><th>Name<th>Unit
           price</thead><tr><td><a href="../post/1">Lamp</a> <a href="../post/9">x</a><td> 3.50 <tr><td>Desk<td>4</table>
           <table><tr><td>other</table>""",
    )
    assert [[str(value) for value in record.fields.values()] for record in reading.records] == [
        ["Lamp x", "3.50"],
        ["Desk", "4"],
    ]
    assert urls(reading) == ["http://bbs.example/post/1"]


def test_cells_that_span_columns_and_rows_are_in_all_of_them() -> None:
    found = rows("""<tr><th rowspan=2>Town<th colspan=2>Price<tr><th>net<th>gross
        <tr><td rowspan=2>Ulm<td>1<td>2<tr><td colspan=2>3<tr><td>Bonn<td rowspan=0>4<td>5<tr><td>Köln<td>6<tr><td>Trier<td>7""")
    town = ("Town", "Price net", "Price gross")
    cells = [("Ulm", "1", "2"), ("Ulm", "3", "3"), ("Bonn", "4", "5"), ("Köln", "4", "6"), ("Trier", "4", "7")]
    assert [tuple(text.strip() for text in row.values()) for row in found] == cells
    assert {tuple(row) for row in found} == {town}


def test_no_cell_spans_more_than_its_group() -> None:
    assert rows(
        "<thead><tr><th>a<th>b</thead><tbody><tr><td rowspan=1000000000>1<td>2</tbody><tbody><tr><td>3<td>4</tbody>"
    ) == [
        {"a": "1", "b": "2"},
        {"a": "3", "b": "4"},
    ]
    assert rows(
        "<thead><tr><th rowspan=9>a<th>b</thead><tbody><tr><td rowspan=0>1<td>2<tr><td>3<tfoot><tr><td>5<td>6"
    ) == [
        {"a": "1", "b": "2"},
        {"a": "1", "b": "3"},
        {"a": "5", "b": "6"},
    ]


def test_columns_without_a_header_have_numbers() -> None:
    assert rows("<tr><td>1<td>2") == [{"column_1": "1", "column_2": "2"}]
    assert rows("<tr><th>a<th><tr><td>1<td>2<td>3") == [{"a": "1", "column_2": "2", "column_3": "3"}]
    assert rows("<tr><th>Name<td>Lamp<tr><th>Price<td>3") == [
        {"column_1": "Name", "column_2": "Lamp"},
        {"column_1": "Price", "column_2": "3"},
    ]


def test_headings_between_rows_and_rows_without_cells_are_no_records() -> None:
    assert rows("<tr><th>a<th>b<tr><td>1<td>2<tr><th colspan=2>More<tr></tr><tr><td>3<td>4") == [
        {"a": "1", "b": "2"},
        {"a": "3", "b": "4"},
    ]


def test_inner_tables_are_tables_of_their_own() -> None:
    inner = "<table class=q><tr><th>x<tr><td><a href=/y>1</a></table>"
    assert rows(f"<tr><th>a<th>b<tr><td>1 {inner} 2<td>3<br>4") == [{"a": "1  2", "b": "3\n4"}]
    assert [
        record.fields["row"]
        for record in read(RULES.replace("table.p", "table"), f"<table><tr><td>1{inner}</table>").records
    ] == [
        {"column_1": "1"},
        {"x": "1", "x_href": "/y"},
    ]


def test_a_function_reads_the_same_rows() -> None:
    body = b"<table class=p><tr><th>a<th>b<tr><td rowspan=2>1<td>2<tr><td>3</table>"
    content = PageContent(Response(URL, 200, {}, body), "here", Format.HTML, None, SmallSite())
    assert Page(cast(Any, SimpleNamespace(name="s")), "here", content).table("table.p") == rows(body.decode()[15:])


def test_rows_within_a_form_count() -> None:
    assert rows("<form><tr><th>a</tr><tr><td>1</td></tr></form><tr><td>2") == [{"a": "1"}, {"a": "2"}]


def test_a_column_whose_name_is_that_of_a_link_has_its_own_text() -> None:
    assert rows("<tr><th>a<th>a_href<tr><td><a href=/x>1</a><td>2") == [{"a": "1", "a_href": "2"}]


def test_tables_in_records_and_as_values() -> None:
    found = fields(
        """
fields:
  all: {table: table, type: json}
  second: {table: table, nth: 1, type: json}
  town: {table: table, fields: {a: {jmespath: a}}}
  each: {each: {table: table}, fields: {a: {jmespath: a, type: int}}}
  parts: {each: {css: div}, fields: {rows: {each: {table: table}, fields: {a: {jmespath: a}}}}}
""",
        "<div><table><tr><th>a<tr><td>1<tr><td>2</table></div>",
    )
    one, two = {"a": "1"}, {"a": "2"}
    assert found == {
        "all": [one, two],
        "second": two,
        "town": one,
        "each": [{"a": 1}, {"a": 2}],
        "parts": [{"rows": [one, two]}],
    }


def test_what_is_no_table_is_named() -> None:
    reading = read(RULES.replace("table.p", "div"), "<div><table><tr><td>1</table></div>")
    assert reading.records == []
    assert reading.missing == ("records",)
    assert reading.notes == ("table: div finds <div>, which is not a table",)


@pytest.mark.parametrize(
    "rule",
    ["{table: 'a b[', type: json}", "{table: t, css: p}", "{table: t, jmespath: a}"],
)
def test_what_cannot_be_used_is_refused(rule: str) -> None:
    with pytest.raises((RuleProblems, ValueError)):
        reader(f"fields: {{x: {rule}}}")
    with pytest.raises(ValueError, match="no links"):
        reader("follow: [{table: t, to: post}]")


@pytest.mark.parametrize(
    "body",
    [
        "<tr>" + "<td>" * 1_001,
        "<tr><td colspan=1000>" * 6_000,
        "<tr><td rowspan=0 colspan=1000>1" + "<tr><td>" * 6_000,
    ],
)
def test_too_many_cells_are_a_limit(body: str) -> None:
    assert read(RULES, f"<table class=p>{body}</table>").verdict is PageVerdict.LIMIT


def test_tables_in_tables_without_end_are_read_once() -> None:
    body = "<table><tr><td>x" * 200 + "<b></b>" * 20_000
    assert read(RULES.replace("table.p", "table"), body).verdict is PageVerdict.OK


SPAN = st.sampled_from(
    ["", " colspan=2", " rowspan=2", " rowspan=3 colspan=2", " rowspan=0", " colspan=x", " rowspan=-1"]
)


@given(st.lists(st.lists(SPAN, min_size=1, max_size=4), max_size=6))
@settings(deadline=None)
def test_each_cell_is_where_a_browser_has_it(spans: list[list[str]]) -> None:
    count = 0
    grid: dict[tuple[int, int], str] = {}
    html = "<tbody>"
    for y, row in enumerate(spans):
        html += "<tr>"
        x = 0
        for span in row:
            count += 1
            html += f"<td{span}>{escape(str(count))}"
            while (y, x) in grid:
                x += 1
            down = 1
            if "rowspan=" in span and "-" not in span:
                down = int(span.split("rowspan=")[1][0]) or len(spans)
            for across in range(2 if "colspan=2" in span else 1):
                if (y, x + across) in grid:
                    break
                for below in range(y, min(y + down, len(spans))):
                    grid[below, x + across] = str(count)
    wanted = [
        {f"column_{x + 1}": grid[y, x] for x in sorted(x for row, x in grid if row == y)} for y in range(len(spans))
    ]
    assert rows(html) == wanted
