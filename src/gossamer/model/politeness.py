"""What hosts ask of crawlers, read from their answers and their robots.txt. Pure."""

from __future__ import annotations

import email.utils
from typing import Any

from gossamer.model.request import HostVerdict

TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE = 429, 503
REFUSALS = frozenset({TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE})
"""Statuses by which a host may ask for a pause."""
LONGEST_PAUSE = 86400.0
"""Seconds; no server can ask for a longer pause."""
LONGEST_DELAY = 3600.0
"""Seconds; no robots.txt can ask for a longer delay."""


def refusal(status: int, asked: float | None, again: bool) -> HostVerdict:
    """What one of `REFUSALS` says about its host; `asked` is its Retry-After, and `again` says that the page was tried before. A 503
    without one may be meant for its page alone."""
    if asked or status == TOO_MANY_REQUESTS:
        return HostVerdict.THROTTLED
    return HostVerdict.STILL_UNAVAILABLE if again else HostVerdict.UNAVAILABLE


def retry_after(value: str, now: float) -> float | None:
    """The seconds that a Retry-After header asks for, as a number or as a date; 0 for a date gone by, None for what cannot be
    read. `now` is the time of the clock, not of a timer."""
    text = value.strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_PAUSE)
    try:
        at = email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    return max(0.0, min(at - now, LONGEST_PAUSE))


def crawl_delay(parser: Any, agent: str) -> float:
    """The seconds between requests that a robots.txt asks `agent` for, 0 for none. `parser` is Protego's."""
    try:
        seconds = float(parser.crawl_delay(agent) or 0)
    except (AttributeError, TypeError, ValueError):
        return 0.0
    return min(seconds, LONGEST_DELAY) if seconds > 0 else 0.0
