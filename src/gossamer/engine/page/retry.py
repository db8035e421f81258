"""Whether a page that failed is tried again, and when. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable

from gossamer.model.politeness import LONGEST_PAUSE

RETRY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
"""Statuses that are failures where a site says nothing else."""
FIRST, LONGEST = 1.0, 300.0
"""Seconds before the first retry, and before any, unless a server asks for more."""


def delay(
    attempt: int,
    retries: int,
    *,
    retriable: bool = True,
    asked: float = 0.0,
    first: float = FIRST,
    longest: float = LONGEST,
    chance: Callable[[], float] = random.random,
) -> float | None:
    """Seconds until the next attempt, None to give up. `attempt` is the one that failed, the first being 1; after it there
    are `retries` more. The wait doubles each time up to `longest` and is somewhere between its half and its whole, so that
    what failed together does not come back together. `asked` is what the server or the proxies asked for: never sooner."""
    if not retriable or attempt > retries:
        return None
    # The exponent is bounded: a count of attempts can be any number.
    wait = min(longest, first * 2.0 ** min(max(attempt - 1, 0), 64)) * (0.5 + 0.5 * chance())
    return max(wait, min(asked, LONGEST_PAUSE))
