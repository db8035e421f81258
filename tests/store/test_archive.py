"""Tables are put aside once for each suffix, whatever happens in between, and empty ones take their place."""

from __future__ import annotations

import threading

import pytest
from tests.store.conftest import Sql
from tests.store.tables import FORUM, GOODS, POSTS, SHOPS, bodies, goods, post, reply, shop, titles, votes

from gossamer.errors import StoreError, TableMismatch
from gossamer.store import Column, Row, Store


def test_tables_are_put_aside_with_their_children(store: Store, sql: Sql) -> None:
    store.prepare([*FORUM, SHOPS, GOODS])
    store.write([post("a", "old", [reply("0", ann=1)]), shop(1, goods={5: "tea"})])
    store.archive([POSTS], "r1")
    assert (titles(store), bodies(store), votes(store)) == ({}, {}, {})
    assert goods(store) == {(1, 5): "tea"}
    assert sql("SELECT url, title FROM posts_r1") == [("a", "old")]
    assert sql("SELECT body FROM replies_r1") == [("0",)]
    assert sql("SELECT who FROM votes_r1") == [("ann",)]
    # Both generations keep their foreign keys.
    store.write([post("a", "new", [reply("1")])])
    sql("DELETE FROM posts_r1")
    assert sql("SELECT count(*) FROM votes_r1") == [(0,)]
    assert bodies(store) == {("a", 0): "1"}
    sql("DELETE FROM posts")
    assert bodies(store) == {}


def test_the_same_suffix_again_does_nothing_more(store: Store, sql: Sql, url: str) -> None:
    store.prepare(FORUM)
    store.write([post("a", "old")])
    store.archive(["posts"], "r1")
    store.write([post("b", "new", [reply("x")])])
    store.archive(["posts"], "r1")
    with Store.open(url) as other:
        other.prepare(FORUM)
        other.archive(FORUM, "r1")
    assert titles(store) == {"b": "new"}
    store.archive(["posts"], "r2")
    store.archive(["posts"], "r3")
    assert sql("SELECT url FROM posts_r1") == [("a",)]
    assert sql("SELECT url FROM posts_r2") == [("b",)]
    assert sql("SELECT url FROM posts_r3") == []
    store.prepare(FORUM)
    store.write([post("c", "newest", [reply("y")])])
    assert bodies(store) == {("c", 0): "y"}


def test_tables_that_are_not_there_yet_leave_an_empty_archive(store: Store, sql: Sql) -> None:
    store.archive(FORUM, "r1")
    store.write([post("a", "x")])
    store.archive(FORUM, "r1")
    assert titles(store) == {"a": "x"}
    assert sql("SELECT count(*) FROM posts_r1") == [(0,)]


@pytest.mark.parametrize("kind", ["mysql"], indirect=True)
def test_what_a_crash_left_behind_is_cleared_away(store: Store, sql: Sql) -> None:
    """Only here do changes of tables commit by themselves: new tables may be there, not yet in their place."""
    store.prepare(FORUM)
    store.write([post("a", "old", [reply("0")])])
    sql("CREATE TABLE posts__new (id INT PRIMARY KEY)")
    sql("CREATE TABLE replies__new (id INT, FOREIGN KEY (id) REFERENCES posts__new (id))")
    store.archive(["posts"], "r1")
    assert sql("SELECT url FROM posts_r1") == [("a",)]
    store.write([post("b", "new", [reply("x")])])
    assert bodies(store) == {("b", 0): "x"}


def test_what_was_half_done_is_finished(store: Store, sql: Sql) -> None:
    """As after a crash between the first table and the second, or when a child's table was described later."""
    store.prepare([*FORUM, SHOPS])
    store.write([post("a", "old", [reply("0")]), shop(1, "s")])
    store.archive(["shops"], "r1")
    store.write([shop(2, "new")])
    store.archive(["posts", "shops"], "r1")
    assert [row["id"] for row in store.read("shops")] == [2]
    assert sql("SELECT url FROM posts_r1") == [("a",)]
    assert titles(store) == {}


def test_several_workers_put_aside_while_others_write(store: Store, url: str, sql: Sql) -> None:
    store.prepare(FORUM)
    failures: list[BaseException] = []
    written = 60

    def write(number: int) -> None:
        try:
            with Store.open(url) as mine:
                mine.prepare(FORUM)
                for n in range(number, written, 2):
                    mine.write([post(f"u{n}", "x", [reply("r")])])
        except BaseException as error:
            failures.append(error)

    def archive() -> None:
        try:
            with Store.open(url) as mine:
                mine.prepare(FORUM)
                mine.archive(["posts"], "r1")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    threads += [threading.Thread(target=archive) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    aside = {row[0] for row in sql("SELECT url FROM posts_r1")}
    assert aside | set(titles(store)) == {f"u{n}" for n in range(written)}
    assert aside & set(titles(store)) == set()
    assert len(bodies(store)) == len(titles(store))
    assert sql("SELECT count(*) FROM replies_r1") == [(len(aside),)]


def test_a_table_that_is_not_as_described_is_put_aside_too(store: Store, url: str, sql: Sql) -> None:
    store.prepare(FORUM)
    store.write([post("a", "old", [reply("0")], views=5)])
    changed = POSTS._replace(columns=(Column("id", "int"), Column("views", "date")), key=("id",))
    with Store.open(url) as other:
        with pytest.raises(TableMismatch):
            other.prepare([changed])
        other.archive([changed, *FORUM[1:]], "r1")
        other.write([Row("posts", {"id": 1}, {"replies": [reply("x")]})])
        assert [row["parent_id"] for row in other.read("replies")] == [1]
    assert sql("SELECT url FROM posts_r1") == [("a",)]


def test_long_names_find_their_indexes(store: Store, sql: Sql) -> None:
    parent = POSTS._replace(name="p" * 55)
    child = FORUM[1]._replace(name="c" * 55, parent=parent.name)
    store.prepare([parent, child])
    for suffix in ("r1", "r2", "r3"):
        store.archive([parent], suffix)
    store.prepare([parent, child])
    assert sql(f"SELECT count(*) FROM {child.name}_r3") == [(0,)]
    with pytest.raises(StoreError, match="longer than 63 bytes"):
        store.archive([parent], "round_12345")


def test_what_cannot_be_put_aside_is_told(store: Store, sql: Sql) -> None:
    store.prepare([SHOPS])
    sql("CREATE TABLE posts (url VARCHAR(100) PRIMARY KEY, title VARCHAR(10), views INT)")
    store.prepare([POSTS._replace(existing=True)])
    with pytest.raises(StoreError, match="never put aside"):
        store.archive(["posts"], "r1")
    with pytest.raises(StoreError, match="no table nowhere"):
        store.archive(["nowhere"], "r1")
    with pytest.raises(StoreError, match="Use letters"):
        store.archive(["shops"], "a b")
