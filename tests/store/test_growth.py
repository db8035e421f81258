"""Tables whose columns come with their rows: the first value makes the column, what does not fit is refused, and workers agree."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.store.conftest import Sql

from gossamer.errors import StoreRefused
from gossamer.store import Column, Row, Store, Table, TableGrowth

LAMPS = Table("lamps", (Column("url", "text"),), ("sku",), growing=True)
GROWING = {"lamps": LAMPS}


async def write(store: Store, growth: TableGrowth, *records: Mapping[str, Any]) -> None:
    rows = await growth.fitted([Row("lamps", {"url": "u", **one}) for one in records], GROWING)
    store.write(rows)


async def test_columns_are_added_as_values_come(store: Store, url: str, sql: Sql) -> None:
    growth = TableGrowth(store)
    await write(store, growth, {"sku": "a", "price": None})
    assert store.columns_of("lamps") == {"sku": "text", "url": "text"}
    values = {
        "price": Decimal("9.50"),
        "stock": 3,
        "weight": 1.5,
        "new": True,
        "made": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, 3, tzinfo=UTC),
        "tags": ["x", {"y": 1}],
        "raw": b"\0",
    }
    await write(store, growth, {"sku": "b", **values}, {"sku": "c", "colour": "red"})
    assert store.columns_of("lamps") == {
        "sku": "text", "url": "text", "price": "decimal", "stock": "int", "weight": "float", "new": "bool", "made": "date",
        "at": "datetime", "tags": "json", "raw": "bytes", "colour": "text",
    }  # fmt: skip
    # Another worker, whose first value is of another type: what the database has counts.
    with Store.open(url) as other:
        second = TableGrowth(other)
        await write(other, second, {"sku": "d", "weight": 2, "price": 4})
        with pytest.raises(StoreRefused, match=r"Table lamps, column stock: a whole number is wanted, str was given"):
            await write(other, second, {"sku": "e", "stock": "many"})
        read = {row["sku"]: row for row in other.read("lamps")}
    assert [sku for (sku,) in sql("SELECT sku FROM lamps ORDER BY sku")] == ["a", "b", "c", "d"]
    assert (read["d"]["weight"], read["d"]["price"], read["b"]["stock"]) == (2.0, Decimal(4), 3)
    assert {name: read["b"][name] for name in ("price", "stock")} == {"price": Decimal("9.50"), "stock": 3}


async def test_what_no_table_can_have_is_refused_and_the_rest_goes_on(store: Store, sql: Sql) -> None:
    growth = TableGrowth(store)
    for record, said in (
        ({"price": 1}, "column sku: it is part of the key and has no value"),
        ({"sku": 1.5}, "sku is float and cannot be a key"),
        ({"sku": "a", "unit price": 1}, "cannot be a name in every database"),
        ({"sku": "a", "Price": 1, "price": 2}, "differ by case only"),
    ):
        with pytest.raises(StoreRefused, match=said):
            await write(store, growth, record)
    await write(store, growth, {"sku": "a", "price": 1})
    assert sql("SELECT sku, price FROM lamps") == [("a", 1)]


async def test_many_pages_at_once_in_two_stores(store: Store, url: str, sql: Sql) -> None:
    with Store.open(url) as other:
        stores = [(store, TableGrowth(store)), (other, TableGrowth(other))]

        async def page(number: int) -> None:
            one, growth = stores[number % 2]
            record = {"sku": f"{number}", f"c{number % 5}": number if number % 3 else f"{number}"}
            try:
                rows = await growth.fitted([Row("lamps", {"url": "u", **record})], GROWING)
                one.write(rows)
            except StoreRefused as error:
                refused.append(str(error))

        refused: list[str] = []
        await asyncio.gather(*(page(number) for number in range(40)))
    assert len(sql("SELECT sku FROM lamps")) == 40 - len(refused)
    assert refused, "columns of one type never get the other"
    assert all("is wanted" in said for said in refused)


def test_an_existing_table_says_its_own_key(store: Store, sql: Sql, url: str) -> None:
    with Store.open(url) as maker:
        maker.prepare([Table("lamps", (Column("sku", "text"), Column("stock", "int")), ("stock",))])
    store.prepare([LAMPS._replace(columns=(), key=("stock",), existing=True)])
    store.write([Row("lamps", {"stock": 1, "sku": "a"}), Row("lamps", {"stock": 1, "sku": "b"})])
    assert sql("SELECT sku, stock FROM lamps") == [("b", 1)]


async def test_a_value_that_is_there_no_more_goes_whoever_brought_its_column(store: Store, url: str, sql: Sql) -> None:
    growth = TableGrowth(store)
    await write(store, growth, {"sku": "a", "price": 1, "tags": ["x"]}, {"sku": "b", "price": 2})
    with Store.open(url) as other:
        # A worker of a later round, which has seen no value of these columns.
        await write(other, TableGrowth(other), {"sku": "a", "price": None, "tags": None})
        assert sql("SELECT sku, price, tags FROM lamps ORDER BY sku") == [("a", None, None), ("b", 2, None)]
        assert other.columns_of("lamps")["tags"] == "json"


async def test_a_value_goes_that_another_worker_brought_meanwhile(
    store: Store, url: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gossamer.store.growth.LOOK", 0.0)
    growth = TableGrowth(store)
    await write(store, growth, {"sku": "a", "price": None})
    with Store.open(url) as other:
        await write(other, TableGrowth(other), {"sku": "a", "price": 1})
    await write(store, growth, {"sku": "a", "price": None})
    assert sql("SELECT sku, price FROM lamps") == [("a", None)]


async def test_a_history_carries_what_other_workers_brought_and_ends_it(store: Store, url: str, sql: Sql) -> None:
    table = LAMPS._replace(name="changes", history=True)

    async def change(store: Store, growth: TableGrowth, **values: Any) -> None:
        store.write(await growth.fitted([Row("changes", {"url": "u", "sku": "a", **values})], {"changes": table}))

    await change(store, TableGrowth(store), price=1, colour="red")
    with Store.open(url) as other:
        await change(other, TableGrowth(other), price=2)
    with Store.open(url) as other:
        await change(other, TableGrowth(other), price=None)
    assert sql("SELECT price, colour FROM changes ORDER BY valid_from") == [(1, "red"), (2, "red"), (None, "red")]


async def test_columns_that_others_made_and_that_cannot_be_empty_are_left_alone(
    store: Store, url: str, sql: Sql
) -> None:
    await write(store, TableGrowth(store), {"sku": "a", "price": 1})
    sql("ALTER TABLE lamps ADD COLUMN rating INTEGER DEFAULT 5 NOT NULL")
    with Store.open(url) as other:
        await write(other, TableGrowth(other), {"sku": "a", "price": None}, {"sku": "b", "price": 2})
    assert sql("SELECT sku, price, rating FROM lamps ORDER BY sku") == [("a", None, 5), ("b", 2, 5)]
