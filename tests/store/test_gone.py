"""Rows whose source is gone: `gone_at`, closing rows, children, and which page brought what."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.store.conftest import Sql
from tests.store.tables import FORUM, POSTS, PRICES, SHOPS, post, reply

from gossamer.model.table import GAPS, SOURCES, PageOutcome, PageSource, PageThread
from gossamer.store import Column, Row, Store, Table

SITE, LIST, ITEM = 1, 2, 3
GONE_POSTS = [table._replace(gone=True) for table in FORUM]
GONE_PRICES = PRICES._replace(gone=True)


def page(number: int, round: int | None = 0, current: int = 0, layer: int = ITEM, **more: Any) -> PageSource:
    return PageSource(SITE, layer, number, round, current if round is None else round, **more)


def absent(number: int, round: int, layer: int = ITEM) -> Row:
    return Row(SOURCES.name, {}, source=page(number, round, layer=layer, outcome=PageOutcome.ABSENT))


def unchanged(number: int, round: int) -> Row:
    return Row(SOURCES.name, {}, source=page(number, round, outcome=PageOutcome.UNCHANGED))


def brought(source: PageSource, *rows: Row) -> list[Row]:
    return [row._replace(source=source) for row in rows] or [Row(SOURCES.name, {}, source=source)]


def gone(store: Store, table: str = "posts") -> dict[Any, bool]:
    return {row[next(iter(row))]: row["gone_at"] is not None for row in store.read(table)}


def settle(store: Store, number: int, *layers: int) -> int:
    after = None
    while after := store.settle_round(SITE, layers or (LIST, ITEM), number, after):
        pass
    return store.gone_in_round(SITE, number)


@pytest.fixture
def ready(store: Store) -> Store:
    store.prepare([*GONE_POSTS, GONE_PRICES, SOURCES, GAPS])
    return store


def test_children_that_their_parent_has_not_any_more_stay_and_say_so(ready: Store) -> None:
    ready.write([post("u", replies=[reply("a", ann=1, bob=2), reply("b", cy=3)])])
    ready.write([post("u", replies=[reply("a", ann=1)])])
    replies = {row["body"]: row["gone_at"] for row in ready.read("replies")}
    votes = {row["who"]: row["gone_at"] for row in ready.read("votes")}
    assert replies["a"] is None
    assert votes["ann"] is None
    assert replies["b"]
    assert votes["bob"]
    assert votes["cy"]
    # They keep their time, and come back.
    ready.write([post("u", replies=[reply("a", ann=1)])])
    assert {row["body"]: row["gone_at"] for row in ready.read("replies")} == replies
    ready.write([post("u", replies=[reply("a", ann=1), reply("b", cy=3)])])
    assert {row["who"]: row["gone_at"] for row in ready.read("votes")} == {"ann": None, "bob": votes["bob"], "cy": None}


def test_a_page_that_does_not_exist_takes_its_rows_with_all_below(ready: Store) -> None:
    before = datetime.now(UTC)
    ready.write(brought(page(1), post("u", replies=[reply("a", ann=1)])) + brought(page(2), post("v")))
    ready.write([absent(1, 1)])
    assert gone(ready) == {"u": True, "v": False}
    [at] = [row["gone_at"] for row in ready.read("posts") if row["url"] == "u"]
    assert before <= at <= datetime.now(UTC)
    assert all(row["gone_at"] == at for table in ("replies", "votes") for row in ready.read(table))
    ready.write([absent(1, 2)])
    assert [row["gone_at"] for row in ready.read("posts") if row["url"] == "u"] == [at]
    assert (ready.gone_in_round(SITE, 1), ready.gone_in_round(SITE, 2)) == (1, 0)
    ready.write(brought(page(1, 3), post("u", replies=[reply("a", ann=1)])))
    assert not any(gone(ready).values())
    assert not any(gone(ready, "votes").values())


def test_a_round_that_did_not_bring_a_row_says_that_it_is_gone(ready: Store) -> None:
    ready.write([row for n in range(5) for row in brought(page(n), post(f"u{n}"))])
    assert settle(ready, 0) == 0
    # One is brought, one has not changed, one comes with another page, one is on a page that belongs to no round.
    ready.write(
        [
            *brought(page(0, 1), post("u0")),
            unchanged(1, 1),
            *brought(page(9, 1), post("u2")),
            *brought(page(3, None, 1), post("u3")),
        ]
    )
    assert settle(ready, 1) == 1
    assert gone(ready) == {"u0": False, "u1": False, "u2": False, "u3": False, "u4": True}
    assert settle(ready, 1) == 1  # Once more, by another worker.
    ready.write([unchanged(0, 2), unchanged(1, 2), *brought(page(9, 2), post("u9")), *brought(page(4, 2), post("u4"))])
    assert settle(ready, 2) == 1
    assert gone(ready) == {"u0": False, "u1": False, "u2": True, "u3": False, "u4": False, "u9": False}


def test_only_layers_that_ran_whole_say_what_is_gone(ready: Store) -> None:
    ready.write(
        brought(page(1, layer=LIST), post("both"), post("list"))
        + brought(page(2), post("both"))
        + brought(page(3), post("item"))
    )
    assert settle(ready, 1, LIST) == 1
    assert gone(ready) == {"both": False, "list": True, "item": False}
    assert settle(ready, 2, LIST, ITEM) == 2
    assert gone(ready) == {"both": True, "list": True, "item": True}


def test_a_page_that_ends_while_another_one_has_its_row_takes_nothing(ready: Store) -> None:
    ready.write(brought(page(1), post("a"), post("b")) + brought(page(2), post("c")))
    # A list has become shorter: what was on its second page is on the first.
    ready.write([*brought(page(1, 1), post("a"), post("b"), post("c")), absent(2, 1)])
    assert not any(gone(ready).values())
    # In the other order, it comes back.
    ready.write(brought(page(1, 2), post("a"), post("b")) + brought(page(2, 2), post("c")))
    ready.write([absent(2, 3)])
    assert gone(ready)["c"]
    ready.write(brought(page(1, 3), post("a"), post("b"), post("c")))
    assert not any(gone(ready).values())
    assert ready.gone_in_round(SITE, 3) == 0
    # It redirected to another page once, which is not there any more.
    ready.write(brought(page(7, 3), post("d")) + brought(page(8, 4), post("d")) + [absent(8, 5)])
    assert gone(ready)["d"]


def test_a_page_that_comes_late_says_nothing_of_a_later_round(ready: Store) -> None:
    ready.write(brought(page(1, 0), post("a"), post("b")))
    ready.write(brought(page(1, 2), post("a"), post("b")))
    ready.write([*brought(page(1, 1), post("a")), absent(1, 1)])
    assert settle(ready, 2) == 0
    assert not any(gone(ready).values())


def test_a_history_gets_a_closing_row(ready: Store) -> None:
    def price(value: int) -> Row:
        return Row("prices", {"url": "u", "price": value, "tags": ["x"], "fetched_at": datetime.now(UTC)})

    def history() -> list[tuple[int, list[str], bool]]:
        rows = sorted(ready.read("prices"), key=lambda row: row["valid_from"])
        return [(int(row["price"]), row["tags"], row["gone_at"] is not None) for row in rows]

    ready.write([absent(1, 0)])
    ready.write(brought(page(1), price(1)))
    ready.write([absent(1, 1)])
    ready.write([absent(1, 1)])
    assert history() == [(1, ["x"], False), (1, ["x"], True)]
    ready.write(brought(page(1, 2), price(1)))
    ready.write(brought(page(1, 2), price(1)))
    assert history() == [(1, ["x"], False), (1, ["x"], True), (1, ["x"], False)]
    assert settle(ready, 3) == settle(ready, 3) == 1
    assert history()[3:] == [(1, ["x"], True)]


def test_records_that_are_part_of_a_page_are_gone_with_it(ready: Store) -> None:
    tables = frozenset({"posts"})
    ready.write(brought(page(1, children=tables), post("a"), post("b")) + brought(page(2, children=tables), post("b")))
    ready.write(brought(page(1, 1, children=tables), post("c")))
    assert gone(ready) == {"a": True, "b": False, "c": False}, "another page has it"
    ready.write(brought(page(2, 1, children=tables, outcome=PageOutcome.ADDED)))
    assert gone(ready) == {"a": True, "b": False, "c": False}, "this one may have it"
    ready.write(brought(page(2, 2, children=tables), post("c")))
    assert gone(ready) == {"a": True, "b": True, "c": False}


@pytest.mark.parametrize("children", [frozenset[str](), frozenset({"posts"})], ids=["rows", "children"])
def test_a_page_that_has_nothing_any_more_keeps_its_rows_until_a_later_round_finds_it_so_again(
    ready: Store, children: frozenset[str]
) -> None:
    def empties(number: int) -> list[str]:
        return [gap.kind for gap in ready.gaps(SITE, number) if gap.kind == "empty"]

    ready.write(brought(page(1, 0, children=children), post("a")) + brought(page(2, 0, children=children), post("b")))
    # Twice, since the worker was killed before it had settled the page; and once for a task.
    for number in (1, 1, None):
        ready.write([*brought(page(1, number, 1, children=children)), unchanged(2, 1)])
        assert empties(1) == ["empty"]
        assert settle(ready, 1) == 0
        assert not any(gone(ready).values())
    # It is back, and has nothing again: that is the first time.
    ready.write(brought(page(1, 2, children=children), post("a")))
    assert (empties(2), gone(ready)["a"]) == ([], False)
    ready.write([*brought(page(1, 3, children=children)), unchanged(2, 3)])
    assert (empties(3), settle(ready, 3)) == (["empty"], 0)
    # The second time; the server may say as well that it has not changed since.
    ready.write(
        [*brought(page(1, 4, children=children)), unchanged(2, 4)] if children else [unchanged(1, 4), unchanged(2, 4)]
    )
    assert (empties(4), settle(ready, 4)) == ([], 1)
    assert gone(ready) == {"a": True, "b": False}


def test_a_table_gains_the_column_and_knows_what_comes_from_then_on(store: Store, sql: Sql) -> None:
    shops = SHOPS._replace(columns=(*SHOPS.columns, Column("code", "text")))
    store.prepare([shops])
    store.write([Row("shops", {"id": n, "name": "x", "code": "y"}) for n in range(3)])
    store.prepare([shops._replace(gone=True), SOURCES])
    store.write(brought(page(0, 1), Row("shops", {"id": 0})) + brought(page(1, 1), Row("shops", {"id": 1})))
    store.write([unchanged(0, 2)])
    assert settle(store, 2) == 1
    assert gone(store, "shops") == {0: False, 1: True, 2: False}
    sql("delete from shops where id = 0")
    assert settle(store, 3) == 0, "nobody counts a row that is not there"


def test_a_table_of_ones_own_must_have_the_column(store: Store, sql: Sql) -> None:
    sql("create table mine (name varchar(40) not null primary key, at date not null)")
    table = Table("mine", (Column("name", "text"), Column("at", "date")), ("name",), existing=True, gone=True)
    with pytest.raises(Exception, match="no column gone_at"):
        store.prepare([table])
    kind = (
        "timestamp with time zone"
        if "postgresql" in store.url
        else "datetime(6)"
        if "mysql" in store.url
        else "DATETIME_TEXT"
    )
    sql(f"alter table mine add gone_at {kind}")
    store.prepare([table, SOURCES])
    row = Row("mine", {"name": "x", "at": datetime.now(UTC).date()})
    store.write(brought(page(1), row))
    store.write([absent(1, 1)])
    assert sql("select count(*) from mine where gone_at is not null") == [(1,)]
    store.write(brought(page(1, 2), row))
    assert sql("select count(*) from mine where gone_at is not null") == [(0,)]


def test_keys_of_every_type_are_found_again(store: Store) -> None:
    columns = (Column("id", "int"), Column("on", "bool"), Column("day", "date"), Column("at", "datetime"))
    table = Table("keys", columns, ("id", "on", "day", "at"), gone=True)
    store.prepare([table, POSTS, SOURCES])
    moment = datetime(2026, 3, 4, 5, 6, 7, 89, UTC)
    store.write(brought(page(1), Row("keys", {"id": 1, "on": True, "day": moment.date(), "at": moment})))
    assert settle(store, 1) == 1
    assert gone(store, "keys") == {1: True}


def test_a_page_that_comes_back_unchanged_brings_what_it_had(ready: Store) -> None:
    ready.write(brought(page(1), post("u", replies=[reply("a", ann=1, bob=2), reply("b")]), post("v")))
    ready.write(brought(page(1, 1), post("u", replies=[reply("a", ann=1)])))
    assert settle(ready, 1) == 1
    replies = {row["body"]: row["gone_at"] for row in ready.read("replies")}
    for number in (2, 4, 6, 8):
        if number < 6:
            ready.write([absent(1, number)])
        else:
            settle(ready, number)
        assert gone(ready) == {"u": True, "v": True}
        ready.write([unchanged(1, number + 1)])
        assert gone(ready) == {"u": False, "v": True}
        assert {row["body"]: row["gone_at"] for row in ready.read("replies")} == replies
        assert {row["who"]: row["gone_at"] is None for row in ready.read("votes")} == {"ann": True, "bob": False}
        ready.write([Row(SOURCES.name, {}, source=page(1, number + 1, outcome=PageOutcome.KEPT))])
    assert replies["b"]


def test_a_page_that_nobody_asked_for_neither_loses_its_rows_nor_brings_them_back(ready: Store) -> None:
    ready.write(brought(page(1), post("u")) + brought(page(2), post("v")))
    ready.write([absent(2, 1), Row(SOURCES.name, {}, source=page(1, 1, outcome=PageOutcome.KEPT))])
    ready.write([Row(SOURCES.name, {}, source=page(2, 2, outcome=PageOutcome.KEPT))])
    settle(ready, 1)
    assert gone(ready) == {"u": False, "v": True}


def test_a_page_that_redirects_once_is_there_again_though_it_has_not_changed(ready: Store) -> None:
    def led(round: int) -> list[str]:
        """A round in which the page redirects: which layers it does not know for that."""
        ready.write([Row(SOURCES.name, {}, source=page(1, round, outcome=PageOutcome.LED))])
        ready.note_led(SITE, round, {ITEM: "item"})
        return [gap.layer for gap in ready.gaps(SITE, round) if gap.kind == "empty"]

    ready.write(brought(page(1), post("u")))
    assert led(1) == ["item"]
    ready.write([unchanged(1, 2)])
    assert settle(ready, 2, ITEM) == 0
    assert gone(ready) == {"u": False}
    # The round has read it, by its other URL: that it redirects, too, says nothing.
    assert led(2) == []
    assert led(3) == ["item"]
    assert led(4) == []
    assert settle(ready, 4, ITEM) == 1
    assert gone(ready) == {"u": True}


def test_more_rows_than_one_transaction_looks_at(ready: Store) -> None:
    ready.write([row for n in range(1203) for row in brought(page(n), post(f"u{n}"))])
    ready.write([row for n in range(0, 1203, 3) for row in brought(page(5000 + n, 1), post(f"u{n}"))])
    assert settle(ready, 1) == 802
    assert sum(gone(ready).values()) == 802


class Claims:
    """Two sites that fill one table, each with rounds of its own, and what they say of its rows."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store, self.dice = store, random.Random(seed)
        self.rounds = {1: 0, 2: 40}
        self.pages: dict[tuple[int, int], tuple[int, set[str]]] = {}
        """By site and number: the round in which a page was last there, and what it had."""
        self.claims: dict[tuple[int, int], set[str]] = {}
        """What a page still stands for."""
        self.dropped: dict[int, set[str]] = {1: set(), 2: set()}
        """What a page of a site has not any more: its round will say."""
        self.gone: dict[str, bool] = {}

    def _source(self, page: tuple[int, int], outcome: PageOutcome) -> PageSource:
        site, number = page
        return PageSource(site, ITEM, number, self.rounds[site], self.rounds[site], outcome)

    def step(self) -> None:
        dice = self.dice
        site = dice.choice([1, 1, 2])
        page = site, dice.randrange(4)
        now, (_, had) = self.rounds[site], self.pages.get(page, (0, set[str]()))
        match dice.choice(["read", "read", "absent", "unchanged", "over"]):
            case "read":
                rows = {f"u{n}" for n in dice.sample(range(6), dice.randrange(1, 4))}
                self.store.write(brought(self._source(page, PageOutcome.READ), *map(post, sorted(rows))))
                self.dropped[site] |= self.claims.get(page, set()) - rows
                self.pages[page], self.claims[page] = (now, rows), set(rows)
                self.gone |= dict.fromkeys(rows, False)
            case "unchanged" if had:
                self.store.write([Row(SOURCES.name, {}, source=self._source(page, PageOutcome.UNCHANGED))])
                self.pages[page], self.claims[page] = (now, had), set(had)
                self.gone |= dict.fromkeys(had, False)
            case "absent" if had:
                self.store.write([Row(SOURCES.name, {}, source=self._source(page, PageOutcome.ABSENT))])
                lost, self.claims[page] = self.claims[page], set()
                self.pages[page] = now, had
                self._lose(site, lost)
            case "over":
                after = None
                while after := self.store.settle_round(site, [ITEM], now, after):
                    pass
                past = [one for one, (last, _) in self.pages.items() if one[0] == site and last < now]
                self._lose(site, self.dropped[site].union(*(self.claims[one] for one in past)))
                self.claims |= {one: set() for one in past}
                self.dropped[site] = set()
                self.rounds[site] += 1

    def _lose(self, site: int, rows: set[str]) -> None:
        """These are gone, unless another site has them, or a page of this one has brought them in this round."""
        holding = [one for one in self.claims if one[0] != site or self.pages[one][0] == self.rounds[site]]
        lost = rows.difference(*(self.claims[one] for one in holding))
        self.gone |= dict.fromkeys(lost, True)
        self.dropped[site] -= lost
        self.claims |= {one: has - lost for one, has in self.claims.items() if one[0] == site}


def test_a_page_is_outdated_when_another_has_lost_a_row_of_both_unless_it_was_read_since(ready: Store) -> None:
    first, second, third = 1, 2, 3

    def outdated() -> set[int]:
        assert all(layer == ITEM for layer, _ in ready.outdated_pages(SITE))
        return {number for _, number in ready.outdated_pages(SITE)}

    for number in (first, second, third):
        ready.write(brought(page(number), post("u", f"of {number}")))
    settle(ready, 0)
    ready.write([unchanged(first, 1)])
    ready.write(brought(page(second, 1, 1), post("u", "of 2")))
    assert outdated() == set()
    ready.write([absent(third, 1)])
    assert outdated() == {first}, "the second was read in this round, and what it says is there"
    ready.write([unchanged(first, 2), unchanged(second, 2)])
    assert outdated() == {first}, "it is still to be read"
    # Another row takes its place on the page: the end of the round tells that.
    ready.write(brought(page(first, 3, 3), post("v")))
    assert outdated() == set()
    ready.write([unchanged(second, 3)])
    settle(ready, 3)
    assert outdated() == {second}
    ready.write(brought(page(second, 4, 4), post("u")))
    settle(ready, 4)
    assert outdated() == set()
    assert gone(ready) == {"u": False, "v": True}


@pytest.mark.parametrize("seed", range(3))
def test_random_pages_of_two_sites_with_one_table(ready: Store, seed: int) -> None:
    model = Claims(ready, seed)
    for number in range(60):
        model.step()
        assert gone(ready) == model.gone, number


@pytest.mark.parametrize("urls", [{1}, {1, 3}, {1, 2, 3}])
@pytest.mark.parametrize("rows", [0, 1])
def test_the_first_page_of_a_thread_may_come_by_redirects_and_without_rows(
    ready: Store, urls: set[int], rows: int
) -> None:
    thread = PageThread(frozenset(urls), 7, True, children=frozenset({"posts"}))
    there = 3 if 3 in urls else 0
    ready.write(brought(page(1, 1, there=there, thread=thread), *[post("u"), post("v")][:rows]))
    assert gone(ready) == dict.fromkeys(["u"][:rows], False)
    thread, outcome = thread._replace(number=8), PageOutcome.ABSENT
    ready.write(brought(page(1, 2, outcome=outcome, there=there, thread=thread)))
    assert gone(ready) == dict.fromkeys(["u"][:rows], True)
