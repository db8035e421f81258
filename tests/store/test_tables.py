"""Tables come to be as described: created, widened where nothing is lost, otherwise told what does not fit."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from tests.store.conftest import Sql
from tests.store.tables import FORUM, GOODS, POSTS, PRICES, REPLIES, SHOPS, bodies, post, reply, titles
from tests.support.fork_context import fork_context

from gossamer.errors import StoreError, StoreRefused, TableMismatch
from gossamer.store import TYPES, Column, Row, Store, Table
from gossamer.store.database.url import database_of

WHOLE = Table("kinds", (Column("id", "int"), *(Column(f"c_{kind}", kind) for kind in TYPES)), ("id",))


def changed(table: Table, column: str, kind: str) -> Table:
    columns = tuple(Column(c.name, kind) if c.name == column else c for c in table.columns)
    return table._replace(columns=columns)


def test_preparing_again_changes_nothing(store: Store, url: str) -> None:
    store.prepare([WHOLE, *FORUM, SHOPS, GOODS, PRICES])
    store.write([post("a", "x", [reply("0")])])
    with Store.open(url) as other:
        other.prepare([*FORUM, PRICES, WHOLE, SHOPS, GOODS])
        assert titles(other) == {"a": "x"}
    store.prepare([POSTS])
    assert bodies(store) == {("a", 0): "0"}


def test_a_new_column_is_added(store: Store) -> None:
    store.prepare([POSTS])
    store.write([post("a", "x")])
    more = tuple(Column(f"c_{kind}", kind) for kind in TYPES)
    store.prepare([POSTS._replace(columns=(*POSTS.columns, *more))])
    store.write([post("b", "y", c_int=5, c_json=[1])])
    rows = {row["url"]: row for row in store.read("posts")}
    assert (rows["a"]["c_int"], rows["b"]["c_int"], rows["b"]["c_json"]) == (None, 5, [1])


def test_a_description_without_a_column_keeps_it(store: Store, sql: Sql) -> None:
    store.prepare([POSTS])
    store.write([post("a", "x", views=3)])
    store.prepare([POSTS._replace(columns=(Column("url", "text"), Column("note", "text")))])
    store.write([post("a", "z", note="n")])
    assert sql("SELECT title, views, note FROM posts") == [("z", 3, "n")]


def test_whole_numbers_become_text_or_decimals(store: Store, url: str) -> None:
    store.prepare([POSTS, PRICES])
    store.write([post("a", "x", views=2**62)])
    store.prepare([changed(POSTS, "views", "text")])
    store.write([post("b", views="many")])
    assert {row["url"]: row["views"] for row in store.read("posts")} == {"a": str(2**62), "b": "many"}
    with Store.open(url) as other:
        other.prepare([SHOPS._replace(columns=(*SHOPS.columns, Column("size", "int")))])
        other.write([Row("shops", {"id": 1, "size": -7})])
        other.prepare([SHOPS._replace(columns=(*SHOPS.columns, Column("size", "decimal")))])
        other.write([Row("shops", {"id": 2, "size": Decimal("0.5")})])
        assert [row["size"] for row in other.read("shops")] == [-7, Decimal("0.5")]


def test_a_smaller_whole_number_becomes_a_large_one(store: Store, sql: Sql) -> None:
    store.prepare([SHOPS])
    sql("ALTER TABLE shops ADD COLUMN size SMALLINT")
    store.prepare([SHOPS._replace(columns=(*SHOPS.columns, Column("size", "int")))])
    store.write([Row("shops", {"id": 1, "size": 2**40})])
    assert sql("SELECT size FROM shops") == [(2**40,)]


@pytest.mark.parametrize("wanted", ["int", "json"])
def test_any_other_change_of_type_is_told(store: Store, wanted: str) -> None:
    store.prepare([WHOLE])
    store.write([Row("kinds", {"id": 1, "c_text": "x"})])
    with pytest.raises(
        TableMismatch, match=f"Table kinds, column c_text: the database has .*, the description says {wanted} "
    ):
        store.prepare([changed(WHOLE, "c_text", wanted)])
    store.write([Row("kinds", {"id": 2, "c_text": "y"})])
    assert [row["c_text"] for row in store.read("kinds")] == ["x", "y"]


def test_no_type_is_taken_for_another(store: Store, url: str) -> None:
    store.prepare([WHOLE])
    database = database_of(url)
    with database.engine().connect() as connection:
        found = database.columns(connection, "kinds")
    pairs = [(kind, wanted) for kind in TYPES for wanted in TYPES]
    taken = {pair for pair in pairs if found[f"c_{pair[0]}"].type in database.alike[pair[1]]}
    assert taken == {(kind, kind) for kind in TYPES}
    widened = {pair for pair in pairs if found[f"c_{pair[0]}"].type in database.wider.get(pair[1], ())}
    assert widened - taken == {("int", "text"), ("int", "decimal")}


def test_another_key_parent_or_history_is_told(store: Store) -> None:
    store.prepare([POSTS, SHOPS, PRICES])
    with pytest.raises(TableMismatch, match=r"has the key \(url\), the description says \(title\)"):
        store.prepare([POSTS._replace(key=("title",))])
    with pytest.raises(TableMismatch, match=r"has the key \(id\), the description says \(name\)"):
        store.prepare([SHOPS._replace(key=("name",))])
    with pytest.raises(TableMismatch, match=r"says \(id, name\)"):
        store.prepare([SHOPS._replace(key=("id", "name"))])
    with pytest.raises(TableMismatch, match="keeps no history"):
        store.prepare([SHOPS._replace(history=True)])
    with pytest.raises(TableMismatch, match="keeps a history"):
        store.prepare([PRICES._replace(history=False)])
    with pytest.raises(TableMismatch, match="key"):
        store.prepare([SHOPS, POSTS._replace(parent="shops")])
    with pytest.raises(TableMismatch, match="column id: the database has"):
        store.prepare([changed(SHOPS, "id", "date")])
    store.write([post("a", "still")])
    assert titles(store) == {"a": "still"}


def test_descriptions_of_one_table_are_united(store: Store) -> None:
    narrow = POSTS._replace(columns=(Column("url", "text"), Column("lang", "text")))
    store.prepare([POSTS, narrow])
    store.write([post("a", "x"), Row("posts", {"url": "a", "lang": "de"})])
    assert [(row["title"], row["lang"]) for row in store.read("posts")] == [("x", "de")]
    with pytest.raises(StoreError, match="described twice"):
        store.prepare([POSTS, POSTS._replace(key=("title",))])


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([POSTS._replace(key=())], "has no key"),
        ([POSTS._replace(key=("urll",))], "no column urll, which its key names. It has: url, title, views"),
        ([POSTS._replace(columns=(*POSTS.columns, Column("x", "varchar")))], "'varchar' is not a type. Types: text"),
        ([POSTS._replace(columns=(*POSTS.columns, Column("URL", "text")))], "differ by case only"),
        ([POSTS._replace(columns=(*POSTS.columns, Column("url", "text")))], "two columns of one name"),
        ([POSTS._replace(columns=(*POSTS.columns, Column("gossamer_key", "text")))], "store's own"),
        ([POSTS, POSTS._replace(name="Posts")], "differ by case only"),
        ([POSTS._replace(name="a-b")], "Use letters, digits and _"),
        ([POSTS._replace(name="p" * 64)], "longer than 63 bytes"),
        ([POSTS._replace(name="9a")], "not a digit first"),
        ([REPLIES], "the parent posts, which is not described"),
        ([POSTS._replace(parent="replies"), REPLIES], "its own ancestor: posts → replies → posts"),
        ([Table("t", (Column("j", "json"),), ("j",))], "json and cannot be a key"),
        ([Table("t", (Column("j", "float"),), ("j",))], "float and cannot be a key"),
        ([POSTS, REPLIES._replace(columns=(Column("place", "text"),))], "place is the store's own and int"),
    ],
)
def test_what_no_database_could_hold_is_told(tables: list[Table], said: str, tmp_path: object) -> None:
    with Store.open(f"sqlite:///{tmp_path}/x.db") as store, pytest.raises(StoreError) as caught:
        store.prepare(tables)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_in_any_language_and_reserved_words(store: Store) -> None:
    columns = tuple(Column(name, "text") for name in ("order", "größe", "标题", "Select", "from"))
    store.prepare([Table("group", columns, ("order",)), Table("Table", columns, parent="group")])
    row = {"order": "1", "größe": "2", "标题": "3", "Select": "4", "from": "5"}
    store.write([Row("group", row, {"Table": [Row("Table", row)]})])
    assert list(store.read("group")) == [row]
    assert [{name: one[name] for name in row} for one in store.read("Table")] == [row]
    store.archive(["group"], "ältere")
    assert list(store.read("group")) == []


def _prepare(url: str, number: int, start: object) -> None:
    extra = tuple(Column(f"c{n}", "text") for n in range(number % 3 + 1))
    start.wait(60)  # type: ignore[attr-defined]
    with Store.open(url) as store:
        store.prepare([*FORUM, SHOPS, GOODS, PRICES, POSTS._replace(columns=(*POSTS.columns, *extra))])
        store.write([post(f"u{number}", "x", [reply("r")])])


def test_several_processes_prepare_at_once(url: str, store: Store) -> None:
    context = fork_context()
    start = context.Barrier(3)
    workers = [context.Process(target=_prepare, args=(url, number, start)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 3
    store.prepare(FORUM)
    assert len(titles(store)) == len(bodies(store)) == 3


def test_a_table_that_was_dropped_is_made_again(store: Store, sql: Sql) -> None:
    store.prepare([POSTS])
    store.write([post("a")])
    sql("DROP TABLE posts")
    store.write([post("b")])
    assert set(titles(store)) == {"b"}


def test_a_column_that_somebody_changed_refuses_rows_and_says_why(store: Store, sql: Sql) -> None:
    store.prepare([POSTS, SHOPS])
    sql("ALTER TABLE posts DROP COLUMN views")
    sql("ALTER TABLE posts ADD COLUMN views DATE")
    sql("ALTER TABLE posts DROP COLUMN title")
    with pytest.raises(StoreRefused, match="column views: the database has date"):
        store.write([post("a", "x", views=5)])
    store.write([Row("shops", {"id": 1, "name": "x"})])


EXISTING = POSTS._replace(existing=True)


def test_an_existing_table_is_used_as_it_is(store: Store, sql: Sql) -> None:
    sql("CREATE TABLE posts (url VARCHAR(100) PRIMARY KEY, title VARCHAR(10), views INT, note VARCHAR(9) DEFAULT 'n')")
    store.prepare([EXISTING])
    store.write([post("a", "x", views=1), post("b", "y", views=2)])
    store.write([post("a", "z")])
    assert sorted(sql("SELECT * FROM posts")) == [("a", "z", 1, "n"), ("b", "y", 2, "n")]


def test_columns_of_an_existing_table_may_be_named_without_being_described(store: Store, sql: Sql) -> None:
    sql(
        "CREATE TABLE posts (url VARCHAR(100) PRIMARY KEY, title VARCHAR(10), views INT, price FLOAT, day DATE, note VARCHAR(30))"
    )
    store.prepare([Table("posts", (Column("url", "text"),), ("url",), existing=True)])
    store.write([post("a", "x", views=1, price=1.5, day=date(2020, 1, 2), note=["n", 1])])
    store.prepare([Table("posts", (Column("url", "text"),), ("url",), existing=True)])
    store.write([post("a", "y", views=None)])
    found = [tuple(map(str, row)) for row in sql("SELECT * FROM posts")]
    assert found == [("a", "y", "None", "1.5", "2020-01-02", '["n",1]')]
    with pytest.raises(StoreRefused, match="no column colour"):
        store.write([post("a", "y", colour="red")])


@pytest.mark.parametrize(
    ("created", "said"),
    [
        (None, "There is no table posts"),
        ("url VARCHAR(100) PRIMARY KEY, title VARCHAR(10)", "no column views; it has url, title"),
        ("url VARCHAR(100), title VARCHAR(10), views INT", r"no primary key or unique index on exactly \(url\)"),
        ("url VARCHAR(100), title VARCHAR(10), views INT, PRIMARY KEY (url, title)", "unique index on exactly"),
    ],
)
def test_an_existing_table_that_does_not_fit_is_told_and_left_alone(
    store: Store, sql: Sql, created: str | None, said: str
) -> None:
    if created:
        sql(f"CREATE TABLE posts ({created})")
    with pytest.raises(TableMismatch, match=said):
        store.prepare([EXISTING])
    if created:
        assert sql("SELECT count(*) FROM posts") == [(0,)]


def test_a_unique_index_is_a_key_too(store: Store, sql: Sql) -> None:
    sql("CREATE TABLE posts (id INTEGER, url VARCHAR(100) NOT NULL, title VARCHAR(10), views INT)")
    sql("CREATE UNIQUE INDEX by_url ON posts (url)")
    store.prepare([EXISTING])
    store.write([post("a", "x"), post("a", "y")])
    store.write([post("a", "z")])
    assert sql("SELECT url, title FROM posts") == [("a", "z")]


def test_another_unique_key_of_an_existing_table_never_redirects_a_row(store: Store, sql: Sql) -> None:
    sql("CREATE TABLE posts (url VARCHAR(100) PRIMARY KEY, title VARCHAR(10) UNIQUE, views INT)")
    store.prepare([EXISTING])
    store.write([post("a", "x", views=1)])
    with pytest.raises(StoreRefused):
        store.write([post("b", "x", views=2)])
    store.write([post("a", "y", views=3), post("c", "x", views=4)])
    assert sorted(sql("SELECT url, title, views FROM posts")) == [("a", "y", 3), ("c", "x", 4)]


def test_what_an_existing_table_does_not_take_is_refused(store: Store, sql: Sql) -> None:
    sql(
        "CREATE TABLE posts (url VARCHAR(100) PRIMARY KEY, title VARCHAR(3) NOT NULL CHECK (title <> 'bad'), views INT)"
    )
    store.prepare([EXISTING])
    with pytest.raises(StoreRefused, match="Table posts: "):
        store.write([post("a", "bad")])
    with pytest.raises(StoreRefused):
        store.write([Row("posts", {"url": "a", "views": 1, "title": None})])
    assert sql("SELECT * FROM posts") == []


def test_children_of_an_existing_table(store: Store, sql: Sql) -> None:
    sql("CREATE TABLE posts (url VARCHAR(100) PRIMARY KEY, title VARCHAR(10), views INT)")
    store.prepare([EXISTING, REPLIES])
    store.write([post("a", "x", [reply("0"), reply("1")]), post("b", "y", [reply("b")])])
    store.write([post("a", "x", [reply("zero")])])
    assert bodies(store) == {("a", 0): "zero", ("b", 0): "b"}


def test_an_existing_table_of_children(store: Store, sql: Sql) -> None:
    sql("CREATE TABLE replies (parent_url VARCHAR(50), place INT, body VARCHAR(99), PRIMARY KEY (parent_url, place))")
    store.prepare([POSTS, REPLIES._replace(existing=True)])
    store.write([post("a", "x", [reply("0"), reply("1")]), post("b", "y", [reply("b")])])
    store.write([post("a", "x", [reply("zero")])])
    assert sorted(sql("SELECT * FROM replies")) == [("a", 0, "zero"), ("b", 0, "b")]
    assert list(store.missing("posts", "replies")) == []
