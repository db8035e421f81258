"""What the engine's downloads amount to, counted by site under the names that both engines share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gossamer.engine.counters import SiteCounters
from gossamer.engine.http.request import BAD_REQUEST, FetchError, FetchRequest, FetchResponse
from gossamer.model.counter_names import ERRORS, REQUEST_BYTES, REQUESTS, RESPONSE_BYTES, latency, response


class DownloadCounters:
    """Fetches with `fetch`, and counts: pages and robots.txt alike."""

    def __init__(self, fetch: Callable[[FetchRequest], Awaitable[FetchResponse]], site_counters: SiteCounters) -> None:
        self._fetch, self._site_counters = fetch, site_counters

    async def fetch(self, fetch_request: FetchRequest) -> FetchResponse:
        pending_counters = self._site_counters.of(fetch_request.site)
        try:
            fetch_response = await self._fetch(fetch_request)
        except FetchError as error:
            if error.reason != BAD_REQUEST:
                pending_counters.add(REQUESTS)
            pending_counters.add(f"{ERRORS}{error.reason}")
            raise
        pending_counters.add(REQUESTS)
        pending_counters.add(REQUEST_BYTES, fetch_response.wrote)
        pending_counters.add(response(fetch_response.status))
        pending_counters.add(RESPONSE_BYTES, fetch_response.size)
        for name, value in latency(fetch_response.seconds):
            pending_counters.add(name, value)
        return fetch_response
