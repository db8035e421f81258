from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gossamer.engine.page.retry import LONGEST, delay
from gossamer.model.politeness import LONGEST_PAUSE


def test_waits_double_and_end() -> None:
    assert [delay(attempt, 3, chance=lambda: 1.0) for attempt in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, None]
    assert [delay(attempt, 3, chance=lambda: 0.0) for attempt in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, None]
    assert delay(1, 0) is None
    assert delay(1, 5, retriable=False) is None
    assert delay(20, 50, chance=lambda: 1.0) == LONGEST


def test_what_was_asked_for_counts() -> None:
    assert delay(1, 3, asked=30.0) == 30.0
    assert delay(9, 20, asked=1.0, chance=lambda: 1.0) == 256.0
    assert delay(1, 3, asked=1e12) == LONGEST_PAUSE


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1e9), st.booleans())
def test_a_wait_is_always_bounded(attempt: int, retries: int, asked: float, retriable: bool) -> None:
    wait = delay(attempt, retries, retriable=retriable, asked=asked)
    if not retriable or attempt > retries:
        assert wait is None
    else:
        assert wait is not None
        assert min(asked, LONGEST_PAUSE) <= wait <= max(LONGEST, LONGEST_PAUSE)
        assert wait >= 0.5
