from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from gossamer.model.politeness import LONGEST_DELAY, LONGEST_PAUSE, crawl_delay, retry_after


def test_the_header() -> None:
    now = 1_000_000_000.0
    assert retry_after("120", now) == 120.0
    assert retry_after(" 5 ", now) == 5.0
    assert retry_after("Sun, 09 Sep 2001 01:47:40 GMT", now) == 60.0
    assert retry_after("Sun, 09 Sep 2001 01:46:00 GMT", now) == 0.0
    assert retry_after("99999999999999999999999", now) == LONGEST_PAUSE
    for nonsense in ("", "soon", "-5", "1.5", "\u0661", "Sun, 99 Sep 2001 01:47:40 GMT"):
        assert retry_after(nonsense, now) is None


@given(st.text(max_size=60))
def test_any_header_is_read_without_harm(value: str) -> None:
    assert 0.0 <= (retry_after(value, 0.0) or 0.0) <= LONGEST_PAUSE


def test_the_delay_of_a_robots_txt() -> None:
    for said, seconds in (("2.5", 2.5), ("0", 0.0), ("-1", 0.0), ("soon", 0.0), ("1e9", LONGEST_DELAY)):
        assert crawl_delay(Protego.parse(f"User-agent: us\nCrawl-delay: {said}\n"), "us") == seconds
    assert crawl_delay(Protego.parse("User-agent: *\nDisallow: /a\n"), "us") == 0.0
    assert crawl_delay(None, "us") == 0.0, "a parser that cannot be asked"
