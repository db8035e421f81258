"""Rows by conditions on columns, in every database."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.store.conftest import Sql

from gossamer.errors import StoreError
from gossamer.store import Column, Row, Store, Table
from gossamer.store.select import ColumnTest

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
THINGS = Table(
    "things",
    (
        Column("url", "text"),
        Column("at", "datetime"),
        Column("day", "date"),
        Column("price", "decimal"),
        Column("score", "float"),
        Column("views", "int"),
        Column("open", "bool"),
        Column("raw", "json"),
    ),
    ("url",),
)


@pytest.fixture
def things(store: Store) -> Store:
    store.prepare([THINGS])
    rows = []
    for number in range(10):
        at = NOW - timedelta(days=number)
        values: dict[str, Any] = {"at": at, "day": at.date(), "price": Decimal(number * 10), "score": number / 2}
        rows.append(Row("things", {"url": f"u{number}", **values, "views": number, "open": number % 2 == 0, "raw": {}}))
    store.write([*rows, Row("things", {"url": "empty"})])
    return store


@pytest.mark.parametrize(
    ("test", "found"),
    [
        (("at", "since", NOW - timedelta(days=2)), "012"),
        (("at", "before", NOW - timedelta(days=7)), "89"),
        (("day", "since", NOW - timedelta(days=2)), "012"),
        (("at", "min", "2026-03-09T12:00:00+00:00"), "01"),
        (("day", "max", "2026-03-02"), "89"),
        (("price", "min", 75), "89"),
        (("price", "is", 20), "2"),
        (("score", "max", 0.5), "01"),
        (("views", "one_of", [3, 4]), "34"),
        (("open", "is", False), "13579"),
        (("open", "not", True), "13579empty"),
        (("views", "is", None), "empty"),
        (("views", "not", None), "0123456789"),
        (("url", "is", "u3"), "3"),
        (("url", "is", "u3' OR '1'='1"), ""),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_one_condition(things: Store, test: tuple[str, str, Any], found: str) -> None:
    check(things, [ColumnTest(*test)], found)


def check(store: Store, tests: list[ColumnTest], found: str) -> None:
    rows = sorted(row["url"].removeprefix("u") for row in store.select("things", ["url", "at"], tests))
    assert "".join(rows) == found


def test_conditions_together_in_every_database(things: Store) -> None:
    check(things, [ColumnTest("at", "since", NOW - timedelta(days=5)), ColumnTest("open", "is", True)], "024")
    check(
        things, [ColumnTest("price", "min", "15"), ColumnTest("day", "max", date(2026, 3, 8).isoformat())], "23456789"
    )
    check(things, [ColumnTest("open", "not", True), ColumnTest("views", "max", 3), ColumnTest("url", "not", "u1")], "3")
    check(things, [ColumnTest("score", "one_of", [1, 1.5]), ColumnTest("views", "min", 0)], "23")
    assert things.columns_in("things") >= {"url", "at"}
    assert things.columns_in("nothing") == frozenset()


def test_many_rows_and_types(store: Store) -> None:
    store.prepare([THINGS])
    store.write([Row("things", {"url": f"u{n}", "views": n, "at": NOW}) for n in range(2300)])
    rows = list(store.select("things", ["views", "at", "url"], [ColumnTest("views", "min", 100)]))
    assert sorted(row["views"] for row in rows) == list(range(100, 2300))
    assert rows[0]["at"] == NOW


def test_a_query_of_ones_own_reads_and_changes_nothing(things: Store, url: str, sql: Sql) -> None:
    asked = "SELECT url, price AS cost, ':x' AS mark FROM things WHERE views < 2 AND url LIKE 'u%' ORDER BY url"
    assert [
        tuple(row.items())
        for row in things.query(asked.replace("cost", '"meta.cost"' if "mysql" not in url else "`meta.cost`"), 10)
    ] == [
        (("url", f"u{number}"), ("meta.cost", row["price"]), ("mark", ":x"))
        for number, row in enumerate(things.query("SELECT price FROM things WHERE views < 2 ORDER BY url", 10))
    ]
    with pytest.raises(StoreError, match=r"more than 3 rows"):
        things.query("SELECT url FROM things", 3)
    with pytest.raises(StoreError, match="two columns called url"):
        things.query("SELECT url, url FROM things", 30)
    with pytest.raises(StoreError):
        things.query("SELECT nothing FROM nowhere", 30)
    for statement in ("DELETE FROM things", "DROP TABLE things", "SELECT 1; DELETE FROM things"):
        with pytest.raises(StoreError, match=r"not a query|more than one statement"):
            things.query(statement, 30)
    with pytest.raises(StoreError):
        things.query("WITH some AS (SELECT 1) DELETE FROM things", 30)
    assert sql("SELECT COUNT(*) FROM things WHERE views > 0") == [(9,)]


def test_what_cannot_be_asked_is_said(things: Store, sql: Sql) -> None:
    for table, columns, test, said in (
        ("nothing", ["url"], None, "there is no table nothing"),
        ("things", ["colour"], None, "no column colour"),
        ("things", ["url"], ("x; DROP TABLE things", "is", 1), "no column x; DROP TABLE things"),
        ("things", ["url"], ("views", "since", NOW), "need a column of type datetime or date"),
        ("things", ["url"], ("raw", "is", "x"), "cannot be compared"),
        ("things", ["url"], ("at", "min", "yesterday"), "'yesterday' cannot be compared with datetime"),
    ):
        tests = [ColumnTest(*test)] if test else []
        with pytest.raises(StoreError, match=said):
            list(things.select(table, columns, tests))
