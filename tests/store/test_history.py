"""A table with history has a row for each change, and only for changes."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from tests.store.tables import PRICES

from gossamer.errors import StoreError
from gossamer.store import Column, Row, Store, Table


def price(value: str | None, url: str = "u", **more: Any) -> Row:
    return Row("prices", {"url": url, "price": None if value is None else Decimal(value), **more})


def seen(store: Store, url: str = "u") -> list[Any]:
    return [row["price"] for row in sorted(store.read("prices"), key=lambda r: r["valid_from"]) if row["url"] == url]


def test_only_a_change_adds_a_row(store: Store) -> None:
    store.prepare([PRICES])
    for value in ("1.5", "1.50", "2", "2", "1.5", None, None, "1.5"):
        store.write([price(value)])
    assert seen(store) == [Decimal("1.5"), 2, Decimal("1.5"), None, Decimal("1.5")]


def test_what_does_not_count_is_no_change(store: Store) -> None:
    store.prepare([PRICES])
    store.write([price("1", fetched_at=datetime(2030, 1, 1, tzinfo=UTC), tags=["a", {"b": 1}])])
    store.write([price("1", fetched_at=datetime(2031, 1, 1, tzinfo=UTC), tags=["a", {"b": 1}])])
    assert len(seen(store)) == 1
    store.write([price("1", fetched_at=datetime(2032, 1, 1, tzinfo=UTC), tags=["a", {"b": 2}])])
    rows = sorted(store.read("prices"), key=lambda row: row["valid_from"])
    assert [row["tags"][1]["b"] for row in rows] == [1, 2]
    assert [row["fetched_at"].year for row in rows] == [2030, 2032]


def test_all_changes_of_one_transaction_are_kept_in_order(store: Store) -> None:
    store.prepare([PRICES])
    store.write([price("1"), price("9", "other"), price("2"), price("2"), price("1")])
    assert seen(store) == [1, 2, 1]
    assert seen(store, "other") == [9]
    store.write([price("1"), price("2")])
    assert seen(store) == [1, 2, 1, 2]


def test_columns_that_a_row_does_not_name_are_carried_on(store: Store) -> None:
    store.prepare([PRICES])
    store.write([price("1", tags=["x"])])
    store.write([price("2")])
    store.write([Row("prices", {"url": "u", "tags": ["x"]})])
    assert [(row["price"], row["tags"]) for row in sorted(store.read("prices"), key=lambda r: r["valid_from"])] == [
        (1, ["x"]),
        (2, ["x"]),
    ]


def test_values_of_every_type_are_compared_as_they_are_stored(store: Store) -> None:
    kinds = ("text", "int", "float", "decimal", "bool", "date", "datetime", "json", "bytes")
    table = Table(
        "all_kinds", (Column("id", "int"), *(Column(f"c_{kind}", kind) for kind in kinds)), ("id",), history=True
    )
    store.prepare([table])
    moment = datetime(2024, 3, 4, 5, 6, 7, 89, timezone(timedelta(hours=5)))
    values = {
        "c_text": "ü\n'\"\\%s:x",
        "c_int": -(2**63),
        "c_float": 0.1 + 0.2,
        "c_decimal": Decimal("12345678901234567890.123456789"),
        "c_bool": True,
        "c_date": moment.date(),
        "c_datetime": moment,
        "c_json": {"a": [1, 2.5, None, "x"], "b": {}},
        "c_bytes": b"\x00\xff'",
    }
    for _ in range(2):
        store.write([Row("all_kinds", {"id": 1, **values})])
    assert [{name: row[name] for name in values} for row in store.read("all_kinds")] == [values]
    for name in values:
        store.write([Row("all_kinds", {"id": 1, **values, name: None})])
    assert len(list(store.read("all_kinds"))) == 1 + len(values)


def test_writers_of_one_key_do_not_both_note_the_same_change(url: str, store: Store) -> None:
    store.prepare([PRICES])
    failures: list[BaseException] = []
    together = threading.Barrier(4)

    def work() -> None:
        try:
            with Store.open(url) as mine:
                mine.prepare([PRICES])
                for turn in range(6):
                    together.wait(30)
                    mine.write([price(str(turn), f"u{n}") for n in range(4)])
        except BaseException as error:
            failures.append(error)
            together.abort()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert seen(store, "u0") == [0, 1, 2, 3, 4, 5]
    assert len(list(store.read("prices"))) == 24


def test_a_history_has_no_children_and_no_parent(store: Store) -> None:
    with pytest.raises(StoreError, match="json column"):
        store.prepare([PRICES, Table("sizes", (Column("size", "text"),), parent="prices")])
    with pytest.raises(StoreError, match="no history"):
        store.prepare(
            [PRICES._replace(history=False), Table("s", (Column("x", "text"),), parent="prices", history=True)]
        )


def test_a_column_of_its_own_called_valid_from_is_the_same_one(store: Store) -> None:
    described = PRICES._replace(columns=(*PRICES.columns, Column("valid_from", "datetime")))
    store.prepare([described])
    store.write([price("1", valid_from=datetime(1999, 1, 1, tzinfo=UTC))])
    assert [row["valid_from"].year > 1999 for row in store.read("prices")] == [True]
    with pytest.raises(StoreError, match="valid_from is the store's own"):
        store.prepare([PRICES._replace(columns=(*PRICES.columns, Column("valid_from", "text")))])
