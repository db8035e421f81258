"""A table of tasks: rows are given out once, take back their state, and are given out again when they were lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text
from tests.store.conftest import Sql

from gossamer.errors import StoreError, TableMismatch
from gossamer.store import Store
from gossamer.store.task_table import Ended, TaskEnding, TaskTable

MADE = "CREATE TABLE pages (id INTEGER PRIMARY KEY, url VARCHAR(100))"
COUNTED = "SELECT id, task_state, task_tries, task_detail FROM pages ORDER BY id"


def table_of(store: Store, where: str = "") -> TaskTable:
    table = TaskTable(store, "pages", ["url"], where)
    table.check(prepare=True)
    return table


def fill(sql: Sql, count: int) -> None:
    sql(MADE)
    sql("INSERT INTO pages (id, url) VALUES " + ", ".join(f"({n}, 'http://h/{n}')" for n in range(1, count + 1)))


def test_a_table_that_lacks_something_says_what(store: Store, sql: Sql) -> None:
    with pytest.raises(TableMismatch, match="there is no table pages"):
        table_of(store)
    sql("CREATE TABLE plain (url VARCHAR(100))")
    with pytest.raises(TableMismatch, match="has no primary key"):
        TaskTable(store, "plain", ["url"]).check(prepare=True)
    sql(MADE)
    with pytest.raises(TableMismatch, match="has no column link; it has id, url"):
        TaskTable(store, "pages", ["link"]).check(prepare=True)
    with pytest.raises(TableMismatch, match=r"task_state, task_tries, task_at, task_detail .* --prepare"):
        TaskTable(store, "pages", ["url"]).check(prepare=False)
    table_of(store)
    table_of(store)
    TaskTable(store, "pages", ["url"]).check(prepare=False)


def test_a_row_goes_through_its_states(store: Store, sql: Sql) -> None:
    fill(sql, 5)
    table = table_of(store)
    first = table.claim(3)
    assert [(row.key, row.tries, row.values) for row in first] == [
        (str(n), 1, {"url": f"http://h/{n}"}) for n in (1, 2, 3)
    ]
    assert [row.key for row in table.claim(10)] == ["4", "5"]
    assert table.claim(10) == []
    table.change(first, "waiting", "running")
    assert [(row.key, row.state) for row in table.open_rows("2", 2)] == [("3", "running"), ("4", "waiting")]
    assert table.open_count() == 5
    table.end([TaskEnding("1", 1, "done"), TaskEnding("2", 1, "failed", "status_500"), TaskEnding("99", 1, "done")])
    table.end([TaskEnding("1", 1, "failed", "late"), TaskEnding("not a key", 1, "done")])
    table.lose(table.open_rows("", 10), most=2)
    assert [tuple(row) for row in sql(COUNTED)] == [
        (1, "done", 1, None),
        (2, "failed", 1, "status_500"),
        (3, "lost", 1, None),
        (4, "lost", 1, None),
        (5, "lost", 1, None),
    ]
    assert [(row.key, row.tries) for row in table.claim(2)] == [("3", 2), ("4", 2)]
    ended = [TaskEnding("3", 1, "failed", "of the first try"), TaskEnding("4", 1, "done"), TaskEnding("1", 0, "failed")]
    assert table.end(ended) == Ended(done=1, failed=0, tried_again=frozenset({"3"}))
    table.lose(table.open_rows("", 10), most=2)
    assert table.counts() == {"new": 0, "waiting": 0, "running": 0, "done": 2, "failed": 2, "lost": 1, "other": 0}
    assert sql("SELECT task_detail FROM pages WHERE id = 3") == [("lost, 2 times",)]
    assert table.left()
    assert table.renew_failed() == 2
    assert [(row.key, row.tries) for row in table.claim(9)] == [("5", 2), ("2", 2), ("3", 3)]
    assert sql("SELECT COUNT(*) FROM pages WHERE task_at IS NULL") == [(0,)]


def test_keys_of_several_columns_and_conditions(store: Store, sql: Sql) -> None:
    sql("CREATE TABLE pages (day DATE, forum VARCHAR(20), url VARCHAR(100), PRIMARY KEY (day, forum))")
    for day in (1, 2):
        for forum in ("a'b", "q:x", "z"):
            quoted = forum.replace("'", "''").replace(":", "\\:")
            sql(f"INSERT INTO pages (day, forum, url) VALUES ('2026-01-0{day}', '{quoted}', 'u')")
    table = table_of(store, "forum <> 'z' AND url <> 'a:b'")
    rows = table.claim(10)
    assert [row.key for row in rows] == [f'["2026-01-0{day}", "{forum}"]' for day in (1, 2) for forum in ("a'b", "q:x")]
    assert [row.key for row in table.open_rows(rows[1].key, 10)] == [row.key for row in rows[2:]]
    table.end([TaskEnding(row.key, 1, "done") for row in rows])
    assert not table.left()
    assert table.counts()["done"] == 4
    assert sql("SELECT COUNT(*) FROM pages WHERE task_state IS NULL") == [(2,)]


def test_two_who_claim_at_once_get_different_rows(store: Store, sql: Sql, url: str) -> None:
    fill(sql, 40)
    table_of(store)
    with Store.open(url) as other:
        tables = [TaskTable(one, "pages", ["url"]) for one in (store, other)]
        for table in tables:
            table.check(prepare=False)
        got = [[row.key for row in tables[turn % 2].claim(7)] for turn in range(6)]
    assert sorted(int(key) for part in got for key in part) == list(range(1, 41))


def test_rows_that_were_given_out_are_waited_for_whatever_becomes_of_the_condition(store: Store, sql: Sql) -> None:
    """As when a pipeline notes in the same row that it was fetched."""
    fill(sql, 3)
    table = table_of(store, "url <> 'x' AND url <> '{}{0}'")
    given = table.claim(2)
    sql("UPDATE pages SET url = 'x'")
    assert table.left(), "the report is still to come"
    table.end([TaskEnding(row.key, row.tries, "done") for row in given])
    assert not table.left(), "the third does not meet it"


KEYS = {"sqlite": "id PRIMARY KEY", "postgresql": "id FLOAT PRIMARY KEY", "mysql": "id FLOAT PRIMARY KEY"}


def test_a_row_that_cannot_be_found_by_its_key_is_refused(store: Store, sql: Sql, kind: str) -> None:
    """It was given out for ever, and its page fetched with it."""
    sql(f"CREATE TABLE pages ({KEYS[kind]}, url VARCHAR(100))")
    sql("INSERT INTO pages (id, url) VALUES (3, 'http://h/3'), (0.1, 'http://h/0.1')")
    table = table_of(store)
    if kind == "postgresql":
        assert [row.key for row in table.claim(10)] == ['"0.1"', '"3.0"'], "it finds them"
        return
    with pytest.raises(StoreError, match=r'primary key "0\.1" cannot be changed.* --where'):
        table.claim(10)
    assert sql("SELECT COUNT(*) FROM pages WHERE task_state IS NULL") == [(2,)], "nothing was given out"
    assert [row.values["url"] for row in table_of(store, "id > 1").claim(10)] == ["http://h/3"]


def test_a_row_without_a_key_is_refused(tmp_path: Path) -> None:
    """SQLite alone has them; claimed, it would be claimed for ever."""
    with Store.open(f"sqlite:///{tmp_path}/tasks.db") as store:
        rows = "INSERT INTO pages (name, url) VALUES ('a', 'http://a/'), (NULL, 'http://b/')"
        store.transaction(lambda one: one.execute(text("CREATE TABLE pages (name TEXT PRIMARY KEY, url TEXT)")))
        store.transaction(lambda one: one.execute(text(rows)))
        table = TaskTable(store, "pages", ["url"])
        table.check(prepare=True)
        with pytest.raises(StoreError, match="NULL in its primary key"):
            table.claim(10)
        given = TaskTable(store, "pages", ["url"], "name IS NOT NULL")
        given.check(prepare=False)
        assert [row.key for row in given.claim(10)] == ['"a"']
