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


def archived(sql: Sql, *ends: str) -> list[list[str]]:
    """The URLs in the tables that were put aside, by the ends of their names."""
    return [[url for (url,) in sql(f"SELECT url FROM posts_{end} ORDER BY url")] for end in ends]


def test_a_round_puts_the_rows_of_the_last_one_aside_by_its_number(store: Store, sql: Sql, url: str) -> None:
    store.prepare([*FORUM, SHOPS])
    for number in range(3):
        for _ in range(2):
            # A worker that begins the round, and another that goes on with its start.
            store.archive_round([POSTS, SHOPS], 7, number, "born")
            store.write([post(f"a{number}", "x", [reply(f"{number}", ann=1)]), shop(number, "x")])
            with Store.open(url) as other:
                other.prepare([*FORUM, SHOPS])
                other.archive_round([POSTS, SHOPS], 7, number, "born")
    assert titles(store) == {"a2": "x"}
    assert archived(sql, "r0", "r1") == [["a0"], ["a1"]]
    assert sql("SELECT body FROM replies_r1") == [("1",)]
    assert sql("SELECT who FROM votes_r1") == [("ann",)]
    assert sql("SELECT id FROM shops_r1") == [(1,)]
    with pytest.raises(StoreError):
        store.archive(["posts_r2"], "x")


def test_rounds_that_count_from_0_again_put_aside_what_is_there(store: Store, sql: Sql) -> None:
    """Their group was dropped."""
    store.prepare(FORUM)
    for birth in ("one", "two", "three"):
        for number in range(2):
            store.archive_round([POSTS], 7, number, birth)
            store.write([post(f"{birth} {number}", "x")])
    assert titles(store) == {"three 1": "x"}
    ends = ("r0", "r1", "r0_2", "r1_2", "r0_3")
    assert archived(sql, *ends) == [["one 0"], ["one 1"], ["two 0"], ["two 1"], ["three 0"]]


def test_sites_that_fill_one_table_put_it_aside_once_for_each_round(store: Store, sql: Sql) -> None:
    store.prepare(FORUM)
    for number in range(2):
        for site in (7, 8):
            store.archive_round([POSTS], site, number, f"born {site}")
            store.write([post(f"{site} {number}", "x")])
    assert sorted(titles(store)) == ["7 1", "8 1"]
    assert archived(sql, "r0") == [["7 0", "8 0"]]


def test_what_is_there_before_the_first_round_is_put_aside(store: Store, sql: Sql) -> None:
    store.prepare(FORUM)
    store.write([post("a", "old")])
    store.archive_round([POSTS], 7, 0, "born")
    assert (titles(store), archived(sql, "before")) == ({}, [["a"]])


def test_a_start_that_the_version_before_began_goes_on(store: Store, sql: Sql) -> None:
    """It named what it put aside by the round that began, and noted nothing."""
    store.prepare(FORUM)
    for number in range(3):
        store.archive([POSTS], f"r{number}")
        store.write([post(f"a{number}", "x")])
    store.archive_round([POSTS], 7, 2, "born")
    assert titles(store) == {"a2": "x"}
    store.archive_round([POSTS], 7, 3, "born")
    assert (titles(store), archived(sql, "r0", "r1", "r2", "r2_2")) == ({}, [[], ["a0"], ["a1"], ["a2"]])


@pytest.mark.parametrize("kind", ["mysql"], indirect=True)
def test_a_crash_before_it_was_noted_puts_aside_nothing_twice(store: Store, sql: Sql) -> None:
    """Only here do changes of tables commit by themselves."""
    store.prepare(FORUM)
    store.archive_round([POSTS], 7, 0, "born")
    store.write([post("a", "x", [reply("0")])])
    store.archive([POSTS], "r0")
    store.archive_round([POSTS], 7, 1, "born")
    store.write([post("b", "x")])
    store.archive_round([POSTS], 7, 2, "born")
    assert (titles(store), archived(sql, "r0", "r1")) == ({}, [["a"], ["b"]])
