"""Changes of counters on their way: joined by name and kind, in the order of their first use."""

from __future__ import annotations

from typing import Any

from gossamer.courier.counters import Counters
from gossamer.model import CounterOp


def test_changes_of_a_kind_are_joined_and_kinds_keep_their_order() -> None:
    counters = Counters("shop")
    counters.add("pages")
    counters.change("depth", 3, CounterOp.MAX)
    counters.add_all([("pages", 2), ("bytes", 10)])
    counters.change("depth", 2, CounterOp.MAX)
    counters.change("pages", 7, CounterOp.MAX)
    taken = [(one.group, one.name, one.value, one.op) for one in counters.take()]
    assert taken == [
        ("shop", "pages", 3, CounterOp.ADD),
        ("shop", "depth", 3, CounterOp.MAX),
        ("shop", "bytes", 10, CounterOp.ADD),
        ("shop", "pages", 7, CounterOp.MAX),
    ]
    assert not counters


def test_what_is_added_after_a_set_counts_from_there() -> None:
    counters = Counters("shop")
    counters.add("pages", 5)
    counters.change("pages", 10, CounterOp.SET)
    counters.add("pages", 2)
    assert [(one.value, one.op) for one in counters.take()] == [(10, CounterOp.SET), (2, CounterOp.ADD)]


def test_a_name_that_is_no_text_becomes_one() -> None:
    counters = Counters("shop")
    number: Any = 404
    pair: Any = ("a", CounterOp.MAX)
    counters.add(number)
    counters.change(number, 1, CounterOp.ADD)
    counters.add(pair)
    assert [(one.name, one.value, one.op) for one in counters.take()] == [
        ("404", 2, CounterOp.ADD),
        (str(pair), 1, CounterOp.ADD),
    ]
