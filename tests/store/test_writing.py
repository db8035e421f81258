"""Rows by key: written twice is written once, children are a set, the later write wins."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.store.conftest import Sql
from tests.store.tables import FORUM, GOODS, POSTS, SHOPS, bodies, goods, post, reply, shop, titles, votes

from gossamer.errors import StoreRefused
from gossamer.store import Column, Row, Store, Table


def test_a_row_that_comes_again_is_written_over(store: Store) -> None:
    store.prepare([POSTS])
    store.write([post("a", "one"), post("b", "two")])
    store.write([post("a", "one")])
    store.write([post("a", "uno")])
    assert titles(store) == {"a": "uno", "b": "two"}


def test_columns_that_a_row_does_not_name_stay(store: Store) -> None:
    store.prepare([POSTS])
    store.write([Row("posts", {"url": "a", "title": "one", "views": 5})])
    store.write([Row("posts", {"url": "a", "views": 6}), Row("posts", {"url": "b"})])
    assert sorted(tuple(row.values()) for row in store.read("posts")) == [("a", "one", 6), ("b", None, None)]
    store.write([Row("posts", {"url": "a", "title": None})])
    assert titles(store)["a"] is None
    store.write([Row("posts", {"url": "a"})])
    assert titles(store) == {"a": None, "b": None}


def test_of_two_rows_with_one_key_the_later_wins(store: Store) -> None:
    store.prepare([POSTS])
    store.write(
        [Row("posts", {"url": "a", "title": "1", "views": 1}), post("b", "x"), Row("posts", {"url": "a", "title": "2"})]
    )
    assert {row["url"]: (row["title"], row["views"]) for row in store.read("posts")} == {
        "a": ("2", 1),
        "b": ("x", None),
    }


def test_keys_are_told_apart_byte_by_byte(store: Store) -> None:
    store.prepare([POSTS])
    long = "http://x/" + "y" * 9000
    keys = ["a", "A", "a ", "ä", "a\u0308", "", " ", "ß", "ss", long + "1", long + "2", "😀", "😁"]
    store.write([post(key, repr(key)) for key in keys])
    assert titles(store) == {key: repr(key) for key in keys}


def test_children_are_replaced_as_a_set(store: Store) -> None:
    store.prepare(FORUM)
    store.write([post("a", replies=[reply("0"), reply("1"), reply("2")]), post("b", replies=[reply("b0")])])
    store.write([post("a", replies=[reply("zero"), reply("one")])])
    assert bodies(store) == {("a", 0): "zero", ("a", 1): "one", ("b", 0): "b0"}
    store.write([post("a", "t")])
    assert len(bodies(store)) == 3, "a row that says nothing of its children leaves them as they are"
    store.write([post("a", replies=[])])
    assert bodies(store) == {("b", 0): "b0"}


def test_grandchildren_go_with_their_parent_and_stay_with_it(store: Store) -> None:
    store.prepare(FORUM)
    store.write([post("a", replies=[reply("0", ann=1, bob=2), reply("1", ann=3)])])
    assert votes(store) == {("a", 0, "ann"): 1, ("a", 0, "bob"): 2, ("a", 1, "ann"): 3}
    store.write([post("a", replies=[reply("0", bob=5)])])
    assert votes(store) == {("a", 0, "bob"): 5}
    store.write([post("a", replies=[reply("0 again")])])
    assert votes(store) == {("a", 0, "bob"): 5}
    store.write([post("a", replies=[])])
    assert votes(store) == {}


def test_children_with_short_keys_have_no_digests(store: Store, sql: Sql) -> None:
    store.prepare([SHOPS, GOODS])
    store.write([shop(1, goods={10: "tea", 11: "cup"}), shop(2, goods={10: "pot"})])
    store.write([shop(1, goods={11: "mug", 12: "jar"})])
    assert goods(store) == {(1, 11): "mug", (1, 12): "jar", (2, 10): "pot"}
    sql("DELETE FROM shops WHERE id = 1")
    assert goods(store) == {(2, 10): "pot"}, "the foreign key takes children along"


def test_a_parent_that_is_deleted_takes_its_children_along(store: Store, sql: Sql) -> None:
    store.prepare(FORUM)
    store.write([post("a", replies=[reply("0", ann=1)]), post("b", replies=[reply("b", ann=1)])])
    sql("DELETE FROM posts WHERE url = 'a'")
    assert set(bodies(store)) == {("b", 0)}
    assert set(votes(store)) == {("b", 0, "ann")}


def test_one_transaction_means_what_its_writes_would_mean_one_by_one(store: Store) -> None:
    store.prepare(FORUM)
    first = [
        post("a", "1", [reply("0", ann=1), reply("1", ann=1, bob=1)]),
        post("a", "2", [reply("zero")]),
        post("a", "3", [reply("0", cid=1), reply("1 again")]),
        post("b", "1", [reply("x", ann=1)]),
        post("b", "2", []),
    ]
    store.write([post("a", replies=[reply("old", old=1), reply("old", old=1)])])
    store.write(first)
    together = (titles(store), bodies(store), votes(store))
    store.write([post("a", replies=[]), post("b", replies=[])])
    store.write([post("a", replies=[reply("old", old=1), reply("old", old=1)])])
    for row in first:
        store.write([row])
    assert (titles(store), bodies(store), votes(store)) == together
    assert votes(store) == {("a", 0, "cid"): 1}


def test_a_child_may_come_alone_when_it_names_its_parent(store: Store) -> None:
    store.prepare(FORUM)
    store.write([post("a", replies=[reply("0")])])
    store.write([Row("replies", {"parent_url": "a", "place": 1, "body": "late"})])
    assert bodies(store) == {("a", 0): "0", ("a", 1): "late"}
    with pytest.raises(StoreRefused):
        store.write([Row("replies", {"parent_url": "nobody", "place": 0, "body": "lost"})])


def test_one_row_that_is_refused_refuses_its_transaction(store: Store) -> None:
    store.prepare([POSTS])
    with pytest.raises(StoreRefused, match="Table posts, column views: a whole number is wanted, str was given"):
        store.write([post("a", "x"), post("b", views="many")])
    assert titles(store) == {}


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("row", "said"),
    [
        (Row("nowhere", {"url": "a"}), "no table nowhere"),
        (Row("posts", {"url": "a", "colour": "red"}), "no column colour"),
        (Row("posts", {"title": "x"}), "column url: it is part of the key"),
        (Row("posts", {"url": None}), "column url: it is part of the key"),
        (Row("posts", {"url": "a"}, {"posts": []}), "holds no children of posts"),
        (Row("posts", {"url": "a"}, {"replies": [Row("votes", {"who": "x"})]}), "under its own table"),
    ],
)
def test_rows_that_fit_no_table_are_refused(store: Store, row: Row, said: str) -> None:
    store.prepare(FORUM)
    with pytest.raises(StoreRefused, match=said):
        store.write([row])


def test_many_rows_and_large_sets(store: Store) -> None:
    store.prepare(FORUM)
    rows = [post(f"http://x/{n}", str(n), [reply(f"{n}.{m}") for m in range(3)]) for n in range(700)]
    store.write([*rows, post("big", replies=[reply(str(n)) for n in range(1500)])])
    store.write(rows)
    store.write([post("big", replies=[reply(str(n)) for n in range(900)])])
    assert len(list(store.read("posts"))) == 701
    assert len(bodies(store)) == 700 * 3 + 900


def test_writers_of_the_same_rows_do_not_stop_each_other(url: str, store: Store) -> None:
    """Each of them writes the same rows in another order. Deadlocks may happen; nobody sees them."""
    store.prepare([*FORUM, SHOPS, GOODS])
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with Store.open(url) as mine:
                mine.prepare([*FORUM, SHOPS, GOODS])
                for turn in range(8):
                    rows: list[Row] = [post(f"u{n}", f"{number}", [reply("x"), reply("y")]) for n in range(20)]
                    rows += [shop(n, f"{number}", {n: "a", n + turn: "b"}) for n in range(20)]
                    mine.write(rows if (number + turn) % 2 else rows[::-1])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(titles(store)) == 20
    assert len(bodies(store)) == 40
    sizes: dict[Any, int] = {}
    for parent, _ in goods(store):
        sizes[parent] = sizes.get(parent, 0) + 1
    assert set(sizes.values()) <= {1, 2}, "sets of two writers were mixed"


def test_keys_of_several_columns_and_types(store: Store) -> None:
    columns = (Column("site", "text"), Column("number", "int"), Column("value", "text"))
    store.prepare([Table("mixed", columns, ("site", "number"))])
    first, second = {"site": "a", "number": 11}, {"site": "1a", "number": 1}
    store.write([Row("mixed", {**first, "value": "x"}), Row("mixed", {**second, "value": "y"})])
    store.write([Row("mixed", {**first, "value": "z"})])
    assert {(r["site"], r["number"]): r["value"] for r in store.read("mixed")} == {("a", 11): "z", ("1a", 1): "y"}
    # In another order the key is the same key.
    store.prepare([Table("mixed", columns, ("number", "site"))])
    store.write([Row("mixed", {"number": 11, "site": "a", "value": "w"})])
    assert len(list(store.read("mixed"))) == 2


def test_the_digest_of_a_text_key_is_its_sha256(store: Store, sql: Sql, kind: str) -> None:
    store.prepare([POSTS])
    store.write([post("http://x/ä", "found")])
    lookups = {
        "postgresql": "gossamer_key = sha256(convert_to('http://x/ä', 'UTF8'))",
        "mysql": "gossamer_key = UNHEX(SHA2('http://x/ä', 256))",
        "sqlite": "url = 'http://x/ä'",
    }
    assert sql(f"SELECT title FROM posts WHERE {lookups[kind]}") == [("found",)]
