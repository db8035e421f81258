"""What a worker does while the frontier cannot be reached: it repeats the call after a pause, for as long as it takes."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from gossamer.courier.transport import Ask, Verb
from gossamer.errors import FrontierUnavailable

logger = logging.getLogger(__name__)

FIRST, LAST = 0.5, 15.0
"""Seconds before the first repetition of an exchange, and before any; the pause doubles each time."""
PAUSE = 2.0
"""Seconds before any other call is repeated."""

P = ParamSpec("P")
T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


def pause(longest: float = PAUSE) -> float:
    """Between half of `longest` and all of it: workers that lost the server together do not come back together."""
    return longest * random.uniform(0.5, 1.0)


class Outage:
    """Whether the frontier is unreachable, and when to try again. True while it is."""

    def __init__(self) -> None:
        self._longest = self._since = 0.0

    def __bool__(self) -> bool:
        return self._longest > 0

    def failed(self, now: float) -> float:
        """A call was not answered: the seconds until it is repeated."""
        if not self._longest:
            self._since = now
        self._longest = min(max(FIRST, self._longest * 2), LAST)
        return pause(self._longest)

    def answered(self, now: float) -> None:
        if self._longest:
            logger.warning("The frontier answers again after %.0f s.", now - self._since)
            self._longest = 0.0


async def patiently(
    ask: Ask,
    sleep: Sleep,
    waits: str,
    verb: Verb[P, T],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Call a verb until it is answered. `waits` says in the log what waits; "" logs nothing."""
    said = not waits
    while True:
        try:
            return await ask(verb, *args, **kwargs)
        except FrontierUnavailable as error:
            if not said:
                logger.warning("The frontier cannot be reached; %s: %s", waits, error)
            said = True
            await sleep(pause())
