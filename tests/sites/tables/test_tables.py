"""From fields to tables, from records to rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gossamer.errors import StoreRefused
from gossamer.model.page import Record
from gossamer.model.table import Column, Row, Table
from gossamer.sites.file.load import load_text
from gossamer.sites.tables.tables import Rows, tables

TEXT = """
site: my-shop
seeds: http://s.example/
layers:
  item:
    fields:
      id: {css: b, type: int}
      title: h1
      link: {css: a, attr: href, type: url}
      tags: {css: .tag, all: true}
      words: {css: p, clean: [{split: ' '}]}
      maker: {fields: {name: .m, city: .c}}
      price: {css: .p, type: decimal}
      raw: {css: pre, type: json}
      shots: {each: img, fields: {src: {css: img, attr: src}, sizes: {each: s, fields: {w: {css: w, type: int}}}}}
      notes: {each: li, fields: {text: p}}
      kept: {each: li, fields: {text: p}}
"""
STORE = """
store:
  item:
    table: items
    key: [id, site]
    columns: {title: name}
    add: [fetched_at, status, url]
    archive: true
    children: {notes: {table: remarks, key: [text]}, kept: {json: true}}
"""


def test_fields_become_columns_and_nested_records_tables() -> None:
    (site,) = load_text(TEXT + STORE)
    item, shots, sizes, remarks = tables(site)
    assert item == Table(
        "items",
        (
            Column("id", "int"),
            Column("name", "text"),
            Column("link", "text"),
            Column("tags", "json"),
            Column("words", "json"),
            Column("maker", "json"),
            Column("price", "decimal"),
            Column("raw", "json"),
            Column("kept", "json"),
            Column("site", "text"),
            Column("fetched_at", "datetime", False),
            Column("status", "int", False),
            Column("url", "text"),
        ),
        ("id", "site"),
        archive=True,
    )
    assert shots == Table("items_shots", (Column("src", "text"),), (), "items", archive=True)
    assert sizes == Table("items_shots_sizes", (Column("w", "int"),), (), "items_shots", archive=True)
    assert remarks == Table("remarks", (Column("text", "text"),), ("text",), "items", archive=True)


def test_without_a_name_a_table_is_called_by_site_and_layer_and_keyed_by_url() -> None:
    (site,) = load_text(TEXT + "store: {item: {}}\n")
    first = tables(site)[0]
    assert first.name == "my_shop_item"
    assert first.key == ("url",)
    assert first.columns[-1] == Column("url", "text")


def test_a_record_becomes_a_row_with_the_complete_set_of_its_children() -> None:
    (site,) = load_text(TEXT + STORE)
    now = datetime(2024, 1, 1, tzinfo=UTC)
    facts = {
        "url": "http://s.example/1",
        "fetched_at": now,
        "round": 3,
        "site": "my-shop",
        "layer": "item",
        "status": 200,
        "parent": None,
    }
    record = Record(
        "item",
        {
            "id": 7, "title": "T", "tags": ["a"], "maker": {"name": "m"}, "price": None, "kept": [{"text": "k"}],
            "shots": [{"src": "x", "sizes": [{"w": 1}, {"w": 2}]}, {"src": "y", "sizes": []}],
        },
    )  # fmt: skip
    row = Rows(site).row(record, facts)
    assert row == Row(
        "items",
        {
            "id": 7, "name": "T", "link": None, "tags": ["a"], "words": None, "maker": {"name": "m"}, "price": None, "raw": None,
            "kept": [{"text": "k"}], "site": "my-shop", "fetched_at": now, "status": 200, "url": "http://s.example/1",
        },
        {
            "items_shots": [
                Row("items_shots", {"src": "x"}, {"items_shots_sizes": [Row("items_shots_sizes", {"w": 1}, {}), Row("items_shots_sizes", {"w": 2}, {})]}),
                Row("items_shots", {"src": "y"}, {"items_shots_sizes": []}),
            ],
            "remarks": [],
        },
    )  # fmt: skip
    assert Rows(site).row(Record("other", {}), facts) is None


def test_a_field_goes_before_a_fact_of_the_same_name_and_texts_take_anything() -> None:
    (site,) = load_text(
        "site: s\nseeds: http://s.example/\nlayers: {a: {fields: {url: h1, v: {value: 5}, w: {value: [1]}, x: {value: true}}}}\nstore: {a: {}}\n"
    )
    row = Rows(site).row(Record("a", {"url": "own", "v": 5, "w": [1], "x": True}), {"url": "page"})
    assert row is not None
    assert row.values == {"url": "own", "v": "5", "w": "[1]", "x": "true"}


def test_a_handler_names_the_columns_of_somebody_elses_table() -> None:
    (site,) = load_text(
        "site: s\nseeds: http://s.example/\nlayers: {a: {handler: 'm:f'}}\nstore: {a: {table: t, existing: true, key: [id], add: [url]}}\n"
    )
    (table,) = tables(site)
    assert (table.existing, table.key, [column.name for column in table.columns]) == (True, ("id",), ["url"])
    assert Rows(site).row(Record("a", {"id": 1, "any": "x"}), {"url": "u"}) == Row(
        "t", {"url": "u", "id": 1, "any": "x"}, {}
    )


HANDLED = "site: s\nseeds: http://s.example/\nlayers: {a: {handler: 'm:f'}}\nstore: {a: {table: t, key: [id], %s}}\n"


def test_declared_columns_of_a_function_are_kept_to() -> None:
    (site,) = load_text(
        HANDLED % "add: [url], columns: {page-url: link}, types: {id: int, price: decimal?, page-url: 'url?'}"
    )
    (table,) = tables(site)
    assert [column[:2] for column in table.columns] == [
        ("id", "int"), ("price", "decimal"), ("link", "text"), ("url", "text"),
    ]  # fmt: skip
    assert not table.growing
    rows = Rows(site)
    row = rows.row(Record("a", {"id": 1, "page-url": "p"}), {"url": "u"})
    assert row is not None
    assert row.values == {"url": "u", "id": 1, "link": "p"}
    with pytest.raises(StoreRefused, match="has colour, which is not among its columns: id, price, page-url"):
        rows.row(Record("a", {"id": 1, "colour": "red"}), {})
    with pytest.raises(StoreRefused, match=r"has no id, which it must have. .*int\? in a site file"):
        rows.row(Record("a", {"id": None}), {})


def test_undeclared_columns_of_a_function_come_with_its_records() -> None:
    (site,) = load_text(HANDLED % "columns: {n: name}")
    (table,) = tables(site)
    assert (table.growing, table.columns) == (True, ())
    row = Rows(site).row(Record("a", {"id": 1, "n": "x", "a-b": 2}), {})
    assert row is not None
    assert row.values == {"id": 1, "name": "x", "a_b": 2}
    with pytest.raises(StoreRefused, match="two fields of one column: id, a-b, a_b"):
        Rows(site).row(Record("a", {"id": 1, "a-b": 2, "a_b": 3}), {})


def test_steps_that_clean_texts_leave_the_type_of_a_column_alone() -> None:
    fields = {
        "count": "{css: b, clean: [digits], type: int}",
        "parts": "{css: b, clean: [strip, {split: ','}, sort]}",
        "joined": "{css: b, all: true, clean: [unique, {join: ', '}]}",
        "both": "{css: b, clean: [{split: ','}, reverse, {join: ','}], type: date}",
        "again": "{css: b, all: true, clean: [{join: ' '}, {split: '-'}]}",
    }
    rules = "".join(f"      {name}: {rule}\n" for name, rule in fields.items())
    (site,) = load_text(
        f"site: s\nseeds: http://s.example/\nlayers:\n  item:\n    fields:\n{rules}store: {{item: {{}}}}\n"
    )
    types = {column.name: column.type for column in tables(site)[0].columns if column.name in fields}
    assert types == {"count": "int", "parts": "json", "joined": "text", "both": "date", "again": "json"}


def test_records_that_others_of_their_page_replace_are_counted() -> None:
    site = Rows(
        load_text(
            "site: s\nseeds: http://s.example/\nlayers: {a: {records: li, fields: {id: b, n: i, c: {each: u, fields: {x: a, y: p}}}}}\n"
            "store: {a: {key: [id], children: {c: {key: [x]}}}}\n"
        )[0]
    )

    def lost(*fields: dict[str, Any]) -> dict[str, int]:
        return site.overwritten("a", [Record("a", one) for one in fields])

    nested = {"id": 2, "n": "y", "c": [{"x": 1, "y": 1}, {"x": 1, "y": 2}, {"x": 1, "y": 2}]}
    assert lost({"id": 1, "n": "x"}, {"id": 1, "n": "x"}, {"id": 2, "n": "x"}) == {}, "the same twice is no loss"
    assert lost({"id": 1, "n": "x"}, {"id": 1, "n": "y"}, nested) == {"a": 1, "a.c": 1}
    assert site.overwritten("b", [Record("b", {"id": 1})]) == {}
