"""Rows that come in parts: threads over several pages, and two layers that feed one table, in every database."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.store.conftest import Sql
from tests.store.tables import PRICES

from gossamer.errors import StoreRefused
from gossamer.store import PAGES, UNREAD, Column, PagePart, Row, Store, Table
from gossamer.store.parts import Columns, Thread, apply

THREADS = Table("threads", (Column("id", "int"), Column("title", "text"), Column("closed", "text")), ("id",))
COMMENTS = Table("comments", (Column("id", "text"), Column("body", "text")), ("id",), parent="threads")
FILES = Table("files", (Column("name", "text"),), parent="threads")
ALL = [THREADS, COMMENTS, FILES, PAGES]


def page(number: int, ids: str, last: int, *, round: int = 1, direct: bool = False, id: int = 1, **values: Any) -> Row:
    """Page `number` (from 1) of a thread with the next link; the last one has none. `direct`: linked by the list itself."""
    turns = (number + 1,) if number < last else ()
    part = PagePart(number, 0 if direct else number - 1, turns, round, rank=number)
    return row(ids, part, id=id, **values)


def row(ids: str, part: PagePart | None, id: int = 1, **values: Any) -> Row:
    children = {"comments": [Row("comments", {"id": one, "body": one * 2}) for one in ids]}
    return Row("threads", {"id": id, **values}, children, part)


def ids(store: Store, id: int = 1) -> str:
    return "".join(sorted(row["id"] for row in store.read("comments") if row["parent_id"] == id))


def columns(store: Store) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in store.read("threads"))


@pytest.fixture
def forum(store: Store) -> Store:
    store.prepare(ALL)
    return store


def test_pages_of_a_thread_accumulate_and_what_a_later_round_does_not_find_goes(forum: Store, sql: Sql) -> None:
    for number, found in enumerate(("abc", "def", "g"), 1):
        forum.write([page(number, found, 3, title="T" if number == 1 else None)])
        forum.write([page(number, found, 3, title="T" if number == 1 else None)])  # Written twice.
    assert ids(forum) == "abcdefg"
    # b is deleted, d and g move up, the thread has two pages.
    forum.write([page(1, "acd", 2, round=2)])
    assert ids(forum) == "abcdefg", "nothing goes before the whole thread is read"
    forum.write([page(2, "efg", 2, round=2)])
    assert ids(forum) == "acdefg"
    forum.write([page(1, "a", 1, round=3)])
    assert ids(forum) == "a", "a thread of one page again"
    assert sql("SELECT COUNT(*) FROM gossamer_pages") == [(1,)], "of a page that is done only the row itself is noted"


def test_a_page_that_is_not_read_takes_nothing_along(forum: Store) -> None:
    forum.write([page(1, "ab", 2), page(2, "cd", 2)])
    forum.write([page(1, "a", 2, round=2)])  # The second page fails.
    forum.write([page(1, "a", 2, round=3)])
    assert ids(forum) == "abcd"
    # Cut off by a limit: nobody knows what comes behind.
    forum.write([row("a", PagePart(1, 0, (2,), 4)), row("c", PagePart(2, 1, (UNREAD,), 4))])
    assert ids(forum) == "abcd"
    forum.write([page(2, "c", 2, round=3)])
    assert ids(forum) == "abcd", "a page that comes late, from a round before"
    forum.write([page(1, "a", 2, round=5), page(2, "c", 2, round=5)])
    assert ids(forum) == "ac"


def test_a_page_turn_that_leads_nowhere_or_back_does_not_keep_what_is_gone(forum: Store) -> None:
    """Pages by number end with one that is not there, or that redirects to another page of the thread."""

    def absent(number: int, round: int, *to: int) -> Row:
        return row("", PagePart(number, number - 1, to, round, absent=True), title=None)

    forum.write([absent(2, 1), page(1, "ab", 3, title="T"), page(2, "cd", 3), absent(3, 1)])
    assert (ids(forum), columns(forum)) == ("abcd", [(1, "T", None)])
    forum.write([page(1, "a", 3, round=2), absent(2, 2, 7)])
    assert ids(forum) == "abcd", "it leads to a page that is not known, and is read as that"
    forum.write([page(2, "c", 3, round=2), absent(3, 1), absent(3, 2, 2), absent(2, 2)])
    assert ids(forum) == "ac"
    forum.write([page(1, "a", 2, round=3), absent(2, 2)])
    assert ids(forum) == "ac", "a page of the round before"
    forum.write([absent(2, 3, 1), absent(2, 3, 1), absent(5, 3)])
    assert (ids(forum), columns(forum)) == ("a", [(1, "T", None)])
    forum.write([absent(2, 1)._replace(values={"id": 2})])
    assert columns(forum) == [(1, "T", None)], "no row for a thread that nobody has read"


def test_a_page_that_redirected_is_also_the_page_that_it_led_to(forum: Store) -> None:
    """The list links /t/1, which leads to /t/1/a (page 9); further pages link that one, which is seen and does not come."""

    def first(ids: str, round: int, title: str, number: int = 1, alias: int = 9) -> Row:
        return row(ids, PagePart(number, 0, (2,), round, rank=1, alias=alias), title=title)

    def second(ids: str, round: int) -> Row:
        return row(ids, PagePart(2, 1, (9,), round, rank=2), title="page")

    forum.write([first("ab", 1, "T"), second("cd", 1)])
    forum.write([first("a", 2, "U"), second("c", 2)])
    assert (ids(forum), columns(forum)) == ("ac", [(1, "U", None)])
    # Linked as /t/1/a, then as /t/1 again: both are the first page.
    forum.write([first("ie", 3, "V", 9, 0), second("f", 3)])
    assert (ids(forum), columns(forum)) == ("efi", [(1, "V", None)])
    forum.write([first("ae", 4, "V", 9, 0), second("f", 4)])
    assert (ids(forum), columns(forum)) == ("aef", [(1, "V", None)])
    forum.write([first("g", 5, "W"), second("h", 5)])
    assert (ids(forum), columns(forum)) == ("gh", [(1, "W", None)])
    # A number that is too high leads to ?p=1 (7), which is not the URL of the first page.
    forum.write(
        [first("g", 6, "W"), row("g", PagePart(2, 1, (3,), 6, alias=7)), row("", PagePart(3, 2, (7,), 6, absent=True))]
    )
    assert ids(forum) == "g"


def test_a_page_turn_may_lead_to_a_page_that_is_stored_a_moment_later(forum: Store) -> None:
    """The list links the last page (9), too, to which the second URL redirects: nothing else comes under that one."""
    for round, (first, last) in enumerate((("ab", "cd"), ("a", "d")), 1):
        forum.write([page(1, first, 2, round=round)])
        forum.write([row("", PagePart(2, 1, (9,), round, absent=True))])
        assert ids(forum) == ("ab" if round == 1 else "abcd")
        forum.write([row(last, PagePart(9, 0, (), round, rank=9))])
    assert ids(forum) == "ad"


def test_a_last_page_that_is_linked_directly_is_not_the_whole_thread(forum: Store) -> None:
    forum.write([page(1, "ab", 1)])
    for round in (2, 3):  # The thread has grown; its first page was seen and is not read again.
        forum.write([page(2, "cd", 2, round=round, direct=True)])
        assert ids(forum) == "abcd"
    # Before the first page, in the first round.
    for number, found in ((3, "z"), (1, "xy"), (2, "")):
        forum.write([page(number, found, 3, direct=number != 2, id=2)])
    for round in (2, 3):
        forum.write([page(3, "z", 3, round=round, direct=True, id=2)])
        assert ids(forum, 2) == "xyz"
    forum.write([page(1, "x", 3, round=3, id=2), page(2, "", 3, round=3, id=2)])
    assert ids(forum, 2) == "xz"


def test_page_numbers_lead_to_all_pages_in_any_order(forum: Store) -> None:
    for seed in range(12):
        pages = [
            row(one, PagePart(n, min(n - 1, 1), tuple({1, 2, 3, 4} - {n}), 1), seed) for n, one in enumerate("abcd", 1)
        ]
        later = [
            row(one, PagePart(n, min(n - 1, 1), tuple({1, 2, 3} - {n}), 2), seed) for n, one in enumerate("axc", 1)
        ]
        further = pages[1:]
        random.Random(seed).shuffle(further)
        for one in (pages[0], *further):
            forum.write([one])
        forum.write(later if seed % 2 else [later[0], later[2], later[1]])
        assert ids(forum, seed) == "acx"


def test_further_pages_fill_the_columns_that_the_first_left_empty(forum: Store) -> None:
    forum.write([page(1, "", 2, title="T", closed=None), page(2, "", 2, title="T, page 2", closed="yes")])
    assert columns(forum) == [(1, "T", "yes")]
    forum.write([page(1, "", 2, title="U", closed=None, round=2)])
    forum.write([page(2, "", 2, title=None, closed="no", round=2)])
    assert columns(forum) == [(1, "U", "no")]
    # The page turns of a chain of rows of their own.
    for title in ("old", "new"):
        forum.write([page(2, "", 2, title=title, closed=None, id=7)])
    assert columns(forum)[1] == (7, "new", None)


def test_children_without_a_key_are_told_apart_by_page_and_position(forum: Store) -> None:
    def files(names: str, part: PagePart | None) -> Row:
        return Row("threads", {"id": 1}, {"files": [Row("files", {"name": name}) for name in names]}, part)

    def stored() -> str:
        return "".join(row["name"] for row in sorted(forum.read("files"), key=lambda row: row["place"]))

    forum.write([files("old", None)])
    first, second, last = PagePart(901, 0, (77,), 1), PagePart(77, 1, (5,), 1), PagePart(5, 2, (), 1)
    for part, names in ((first, "abc"), (second, "def"), (second, "def"), (last, "g")):
        forum.write([files(names, part)])
    assert stored() == "abcdefg"
    forum.write([files("ac", first._replace(round=2, turns=())), files("q", PagePart(4, 0, (), 2))])
    assert stored() == "qac" or stored() == "acq"


def test_layers_of_one_table_replace_their_own_children_only(forum: Store) -> None:
    post, api = PagePart(1, source=11, whole=True, shared=True), PagePart(2, source=12, whole=True, shared=True)
    forum.write([row("ab", post, title="T"), row("bc", api, closed="yes")])
    assert (ids(forum), columns(forum)) == ("abc", [(1, "T", "yes")])
    forum.write([row("a", post)])
    assert ids(forum) == "abc", "b is one of the other's, too"
    forum.write([row("", api)])
    assert ids(forum) == "a"
    paged = PagePart(3, source=13, shared=True)
    for round, found in ((1, "xyz"), (2, "xy")):
        forum.write([row(found[:2], paged._replace(round=round, turns=(4,)))])
        forum.write([row(found[2:], paged._replace(page=4, turn=1, round=round))])
    assert ids(forum) == "axy"


def test_several_pages_of_a_layer_add_up_and_each_replaces_its_own(forum: Store) -> None:
    """A topic comes with its first posts; the others come in batches, which are pages of another layer, in any order."""
    topic = PagePart(1, source=11, whole=True, shared=True)
    batches = [PagePart(page, source=12, whole=True, shared=True) for page in (2, 3)]
    for round in (1, 2):
        forum.write([row("ef", batches[1]._replace(round=round))])
        forum.write([row("ab", topic._replace(round=round), title="T")])
        forum.write([row("cd", batches[0]._replace(round=round))])
        assert ids(forum) == "abcdef"
    forum.write([row("c", batches[0]._replace(round=3))])
    assert ids(forum) == "abcef"


def test_sweeps_of_one_transaction_add_up(forum: Store) -> None:
    batches = [PagePart(page, source=12, whole=True, shared=True) for page in (2, 3)]
    forum.write([row("ab", batches[0]), row("cd", batches[1])])
    forum.write([row("a", batches[0]), row("c", batches[1])])
    assert ids(forum) == "ac"


PAGERS: dict[str, Callable[[int, int], set[int]]] = {
    "next": lambda page, last: {page + 1},
    "next and last": lambda page, last: {page + 1, last} if page < last else set(),
    "previous and next": lambda page, last: {page - 1, page + 1},
    "all": lambda page, last: set(range(1, last + 1)),
    "by number": lambda page, last: {page + 1},
}


@pytest.mark.parametrize("pager", PAGERS)
def test_threads_of_any_shape_have_what_their_pages_have(pager: str) -> None:
    """Lists link the first page and others, pages arrive in any order, some fail, and each round finds another thread."""
    for seed in range(500):
        chance, thread, stored, columns = random.Random(f"{pager}{seed}"), Thread(), set[int](), dict[str, Any]()
        redirects = chance.random() < 0.3  # The first page was linked by another URL than its pages link it by.
        latest = chance.random() < 0.3  # So was the last one, as by a link to the latest post.
        comments, size, told = list(range(chance.randrange(12))), chance.randint(1, 3), f"{pager}, {seed}"
        for round in range(5):
            pages = [comments[at : at + size] for at in range(0, len(comments), size)] or [[]]
            last, had, read = len(pages), set(stored), set[int]()
            failing = {page for page in range(2 if round == 0 else 1, last + 1) if chance.random() < 0.08}
            queue = {1: 0, chance.choice([1, last, chance.randint(1, last)]): 0}
            seen = set(queue)
            while queue:
                page = chance.choice(list(queue))
                turn = queue.pop(page)
                if page in failing:
                    continue
                if page > last:  # It is not there, or leads to the last one.
                    absent = PagePart(page, turn, chance.choice([(), (last,)]), round, absent=True)
                    does, sweep = apply(thread, absent, frozenset())
                    stored = {one for one in stored if sweep is None or not sweep.removes(one)}
                    assert does is Columns.LEAVES, told
                    continue
                read.add(page)
                there = last + (pager == "by number")
                children, turns = (
                    frozenset(pages[page - 1]),
                    PAGERS[pager](page, last) & set(range(1, there + 1)) - {page},
                )
                part = PagePart(page, turn, tuple(turns), round, rank=page)
                if page == 1 and redirects and chance.random() < 0.7:
                    part = part._replace(page=1000, alias=1)
                elif page == last and last > 1 and not turn and latest:
                    part = part._replace(page=2000, alias=last)
                does, sweep = apply(thread, part, children)
                stored = {one for one in stored if sweep is None or not sweep.removes(one)} | children
                for name, value in {"page": (round, page), "last": round if page == last else None}.items():
                    empty = columns.get(name) is None
                    if does is Columns.SAYS or (does is Columns.JOINS and value is not None) or empty:
                        columns[name] = value
                queue |= dict.fromkeys(turns - seen, turn + 1)
                seen |= turns
            unread = {one for page, found in enumerate(pages, 1) if page not in read for one in found}
            assert stored >= set(comments) - unread | unread & had, told
            if not failing:
                assert stored == set(comments), told
                assert columns["page"] == (round, 1), told
                assert columns["last"] is not None, told
            for new in range(chance.randrange(5)):
                if comments and chance.random() < 0.4:
                    comments.remove(chance.choice(comments))
                else:
                    comments.insert(chance.choice([0, len(comments)]), 100 + 10 * round + new)


def test_a_history_has_no_row_for_what_a_further_page_lacks(store: Store) -> None:
    store.prepare([PRICES, PAGES])
    for round in (1, 2):
        store.write([Row("prices", {"url": "a", "price": 5, "tags": None}, part=PagePart(1, 0, (2,), round))])
        store.write([Row("prices", {"url": "a", "price": None, "tags": ["x"]}, part=PagePart(2, 1, (), round))])
    found = [(row["price"], row["tags"]) for row in sorted(store.read("prices"), key=lambda row: row["valid_from"])]
    assert found[:2] == [(5, None), (5, ["x"])]
    assert (None, ["x"]) not in found


def test_many_writers_of_one_thread_do_not_lose_a_page(url: str, forum: Store) -> None:
    letters = "abcdefgh"
    for id in (1, 2):
        forum.write([row("0", PagePart(1, 0, tuple(range(2, 10)), 1), id)])
    failures: list[BaseException] = []

    def work(offset: int) -> None:
        try:
            with Store.open(url) as mine:
                mine.prepare(ALL)
                for number in range(offset, 8, 4):
                    part = PagePart(number + 2, 1, tuple(range(1, 10)), 1)
                    mine.write([row(letters[number], part, id) for id in ((1, 2) if offset % 2 else (2, 1))])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert ids(forum) == ids(forum, 2) == "0" + letters
    assert [row["page"] for row in forum.read("gossamer_pages")] == [0, 0], "both are wholly read"


def test_a_thread_whose_urls_change_is_followed_once_its_first_page_stays_away(forum: Store) -> None:
    """The pages 11 and 12 are 1 and 2 under another name, of a higher rank; the list links the last page, too, before the first."""
    forum.write([page(1, "abc", 2, title="Old")])
    forum.write([page(2, "de", 2)])
    for round in (2, 3):
        forum.write([page(12, "ef", 12, round=round, direct=True, title="page")])
        assert ids(forum) == "abcdef", "the last page alone is not the thread"
        forum.write([page(11, "acd", 12, round=round, direct=True, title="New")])
        assert columns(forum) == [(1, "New" if round == 3 else "Old", None)]
        assert ids(forum) == ("acdef" if round == 3 else "abcdef")
    # The same with its old name again: that of a lower rank is believed at once.
    forum.write([page(1, "ac", 1, round=4, direct=True, title="Old")])
    assert (ids(forum), columns(forum)) == ("ac", [(1, "Old", None)])


def test_a_thread_whose_urls_change_in_every_round_is_followed_at_once_from_the_second_time_on(forum: Store) -> None:
    forum.write([page(1, "abc", 2, title="0"), page(2, "d", 2)])
    for round in range(2, 7):
        first = 10 * round
        forum.write([page(first + 2, "ef", first + 2, round=round, direct=True, title="last")])
        forum.write([page(first + 1, f"ab{round}", first + 2, round=round, direct=True, title=str(round))])
        if round > 2:
            assert (ids(forum), columns(forum)) == (f"{round}abef", [(1, str(round), None)])
    assert "c" not in ids(forum)


def test_lists_of_two_pages_of_a_thread_do_not_replace_each_other(forum: Store) -> None:
    def put(page: int, lists: int, *turns: int) -> None:
        values = {"id": 1, "title": f"{page} {lists}"}
        forum.write([Row("threads", values, part=PagePart(page, turns=turns, lists=lists))])

    for first, second in ((1, 2), (2, 1)):
        put(first, 10 + first, *((2,) if first == 1 else ()))
        with pytest.raises(StoreRefused, match="have records with the same key and other lists"):
            put(second, 10 + second, *((2,) if second == 1 else ()))
        put(first, 20, *((2,) if first == 1 else ()))  # The same page again, with other lists.
        put(second, 20, *((2,) if second == 1 else ()))  # The same lists.
        put(3, 33)  # A page that has nothing to do with the others, as where the URL has changed.
        assert columns(forum) == [(1, "3 33", None)]
