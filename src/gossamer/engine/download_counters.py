"""What the engine's downloads amount to, counted by site under the names that both engines share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gossamer.engine.counters import Tallies
from gossamer.engine.http.request import BAD_REQUEST, Ask, FetchError, Got
from gossamer.model.counter_names import ERRORS, REQUEST_BYTES, REQUESTS, RESPONSE_BYTES, latency, response


class Meter:
    """Fetches with `fetch`, and counts: pages and robots.txt alike."""

    def __init__(self, fetch: Callable[[Ask], Awaitable[Got]], tallies: Tallies) -> None:
        self._fetch, self._tallies = fetch, tallies

    async def fetch(self, ask: Ask) -> Got:
        tally = self._tallies.of(ask.site)
        try:
            got = await self._fetch(ask)
        except FetchError as error:
            if error.reason != BAD_REQUEST:
                tally.add(REQUESTS)
            tally.add(f"{ERRORS}{error.reason}")
            raise
        tally.add(REQUESTS)
        tally.add(REQUEST_BYTES, got.wrote)
        tally.add(response(got.status))
        tally.add(RESPONSE_BYTES, got.size)
        for name, value in latency(got.seconds):
            tally.add(name, value)
        return got
