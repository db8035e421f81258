"""When pages are fetched again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model.page_rules import (
    PageRecord,
    RediscoveryRules,
    Visit,
    neocrawler_rules,
    rediscovered,
    visited,
)

from gossamer.model import PageState, RevisitRules

NOW = 1_000_000.0
HOUR = 3600.0
POSTS, LISTS = neocrawler_rules(HOUR, lists=False), neocrawler_rules(HOUR, lists=True)


@pytest.mark.parametrize(
    ("state", "age", "rules", "version", "wait"),
    [
        (PageState.FOUND, 0, POSTS, 1, 0),
        (PageState.FAILED, 0, POSTS, 1, 0),
        (PageState.FINISHED, HOUR - 1, POSTS, 1, 1),
        (PageState.FINISHED, HOUR, POSTS, 1, 0),
        (PageState.FINISHED, 10, POSTS, 2, HOUR - 10),
        (PageState.FINISHED, 10, LISTS, 2, 0),
        (PageState.FINISHED, 10, LISTS, 1, HOUR - 10),
        (PageState.SCHEDULED, 10, POSTS, 2, 290),
        (PageState.FETCHING, 299, LISTS, 2, 1),
        (PageState.FETCHING, 300, LISTS, 1, 0),
        (PageState.FINISHED, 10 * HOUR, RediscoveryRules(), 2, None),
        (PageState.GONE, 10 * HOUR, RediscoveryRules(), 2, None),
    ],
)
def test_a_page_that_is_found_again(
    state: PageState, age: float, rules: RediscoveryRules, version: int, wait: float | None
) -> None:
    found = rediscovered(PageRecord(state, NOW - age, version=1), rules, version, NOW)
    assert found.at == (None if wait is None else NOW + wait)
    assert state.value in found.why or "version" in found.why


def test_a_page_that_nobody_knows_is_scheduled_now() -> None:
    assert rediscovered(None, RediscoveryRules(), 0, NOW) == (NOW, "new")


def test_a_fixed_interval_stays_and_an_adaptive_one_follows_the_changes() -> None:
    fixed, adaptive = RevisitRules(HOUR), RevisitRules(HOUR, min=600, max=4 * HOUR, adaptive=True)
    record, now = PageRecord(PageState.FETCHING, 0.0), 0.0
    gaps = []
    for signature in (1, 1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 6):
        record, due = visited(record, adaptive, Visit.READ, signature, now)
        assert due is not None
        gaps.append(round((due - now) / 60, 1))
        now = due
        assert visited(record, fixed, Visit.READ, signature, now)[1] == now + HOUR
    assert gaps == [60, 90, 45, 22.5, 11.2, 10, 10, 15, 22.5, 33.8, 50.6, 75.9, 113.9, 170.9, 240]
    assert record.changes == 5


def test_not_modified_counts_as_unchanged_and_keeps_the_signature() -> None:
    rules = RevisitRules(HOUR, adaptive=True, max=10 * HOUR)
    record, _ = visited(PageRecord(PageState.FETCHING, 0.0), rules, Visit.READ, 7, 0.0)
    record, due = visited(record, rules, Visit.UNCHANGED, 0, HOUR)
    assert (record.signature, record.changes, due) == (7, 0, HOUR + 1.5 * HOUR)


def test_a_page_that_is_missing_so_many_times_in_a_row_is_gone() -> None:
    rules = RevisitRules(HOUR, gone=2)
    record, due = visited(PageRecord(PageState.FETCHING, 0.0, signature=3), rules, Visit.MISSING, 0, 0.0)
    assert (record.state, due) == (PageState.FINISHED, HOUR)
    back, _ = visited(record, rules, Visit.READ, 3, HOUR)
    assert (back.misses, back.changes) == (0, 0)
    record, due = visited(record, rules, Visit.MISSING, 0, HOUR)
    assert (record.state, due) == (PageState.GONE, None)


@given(
    every=st.floats(1, 1e6),
    low=st.floats(0, 1e4),
    spread=st.floats(0, 1e6),
    visits=st.lists(st.tuples(st.sampled_from(Visit), st.integers(1, 3)), min_size=1, max_size=30),
)
def test_no_revisit_before_the_minimum_or_after_the_maximum(
    every: float, low: float, spread: float, visits: list[tuple[Visit, int]]
) -> None:
    rules = RevisitRules(every, min=low, max=low + spread, adaptive=True, gone=1000)
    record, now = PageRecord(PageState.FETCHING, 0.0), 0.0
    for visit, signature in visits:
        record, due = visited(record, rules, visit, signature, now)
        assert due is not None
        assert due - now >= low - 1e-6
        if rules.max:
            assert due - now <= max(rules.max, low) + 1e-6 * now + 1e-6
        now = due
