from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gossamer.engine.page.retry import LONGEST, LONGEST_ASKED, delay, retry_after


def test_waits_double_and_end() -> None:
    assert [delay(attempt, 3, chance=lambda: 1.0) for attempt in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, None]
    assert [delay(attempt, 3, chance=lambda: 0.0) for attempt in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, None]
    assert delay(1, 0) is None
    assert delay(1, 5, retriable=False) is None
    assert delay(20, 50, chance=lambda: 1.0) == LONGEST


def test_what_was_asked_for_counts() -> None:
    assert delay(1, 3, asked=30.0) == 30.0
    assert delay(9, 20, asked=1.0, chance=lambda: 1.0) == 256.0
    assert delay(1, 3, asked=1e12) == LONGEST_ASKED


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1e9), st.booleans())
def test_a_wait_is_always_bounded(attempt: int, retries: int, asked: float, retriable: bool) -> None:
    wait = delay(attempt, retries, retriable=retriable, asked=asked)
    if not retriable or attempt > retries:
        assert wait is None
    else:
        assert wait is not None
        assert min(asked, LONGEST_ASKED) <= wait <= max(LONGEST, LONGEST_ASKED)
        assert wait >= 0.5


def test_the_header() -> None:
    now = 1_000_000_000.0
    assert retry_after("120", now) == 120.0
    assert retry_after(" 5 ", now) == 5.0
    assert retry_after("Sun, 09 Sep 2001 01:47:40 GMT", now) == 60.0
    assert retry_after("Sun, 09 Sep 2001 01:46:00 GMT", now) == 0.0
    assert retry_after("99999999999999999999999", now) == LONGEST_ASKED
    for nonsense in ("", "soon", "-5", "1.5", "\u0661", "Sun, 99 Sep 2001 01:47:40 GMT"):
        assert retry_after(nonsense, now) == 0.0


@given(st.text(max_size=60))
def test_any_header_is_read_without_harm(value: str) -> None:
    assert 0.0 <= retry_after(value, 0.0) <= LONGEST_ASKED
