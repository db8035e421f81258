"""Parents without children are found, page by page."""

from __future__ import annotations

import pytest
from tests.store.tables import FORUM, GOODS, PRICES, SHOPS, post, reply, shop

from gossamer.errors import StoreError
from gossamer.store import Column, Row, Store, Table
from gossamer.store import query as pages


@pytest.fixture(autouse=True)
def _short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE", 7)


def test_parents_without_children_are_found(store: Store) -> None:
    store.prepare([*FORUM, SHOPS, GOODS])
    store.write([post(f"u{n}", replies=[reply("x")] * (n % 3)) for n in range(40)])
    store.write([shop(n, goods={1: "x"} if n % 2 else {}) for n in range(40)])
    assert sorted(row["url"] for row in store.missing("posts", "replies")) == sorted(f"u{n}" for n in range(0, 40, 3))
    assert list(store.missing(SHOPS, GOODS)) == [{"id": n} for n in range(0, 40, 2)]
    assert len(list(store.missing("replies", "votes"))) == 39
    assert set(next(store.missing("replies", "votes"))) == {"parent_url", "place"}


def test_tables_that_are_no_family_are_joined_by_columns(store: Store) -> None:
    comments = Table("comments", (Column("url", "text"), Column("parent", "text")), ("url",))
    store.prepare([*FORUM, comments, PRICES])
    store.write([post(f"u{n}") for n in range(20)])
    store.write([Row("comments", {"url": f"c{n}", "parent": f"u{n}"}) for n in range(5)])
    found = [row["url"] for row in store.missing("posts", "comments", on={"url": "parent"})]
    assert sorted(found) == sorted(f"u{n}" for n in range(5, 20))
    with pytest.raises(StoreError, match="has not the parent posts"):
        list(store.missing("posts", "comments"))
    with pytest.raises(StoreError, match="no column page"):
        list(store.missing("posts", "comments", on={"url": "page"}))
    with pytest.raises(StoreError, match="no table nowhere"):
        store.missing("nowhere", "comments")


def test_a_history_names_each_key_once(store: Store) -> None:
    notes = Table("notes", (Column("url", "text"),), ("url",))
    store.prepare([PRICES, notes])
    for price in (1, 2, 3):
        store.write([Row("prices", {"url": f"u{n}", "price": price}) for n in range(10)])
    store.write([Row("notes", {"url": "u3"})])
    found = sorted(row["url"] for row in store.missing("prices", "notes", on={"url": "url"}))
    assert found == sorted(f"u{n}" for n in range(10) if n != 3)


def test_a_table_is_read_whole_and_once(store: Store) -> None:
    store.prepare([SHOPS, GOODS])
    store.write([shop(n, goods=dict.fromkeys(range(3), "x")) for n in range(50)])
    assert [row["id"] for row in store.read("shops")] == list(range(50))
    assert sorted((r["parent_id"], r["sku"]) for r in store.read("goods")) == [
        (n, m) for n in range(50) for m in range(3)
    ]
