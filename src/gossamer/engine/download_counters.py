"""What the engine's downloads amount to, counted by site under the names that both engines share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gossamer.engine.counters import SiteCounters
from gossamer.model import counter_names as names
from gossamer.model.fetch import BAD_REQUEST, FetchError
from gossamer.model.page import PageRequest, Response


class DownloadCounters:
    """Fetches with `fetch`, and counts: pages and robots.txt alike."""

    def __init__(self, fetch: Callable[[PageRequest], Awaitable[Response]], site_counters: SiteCounters) -> None:
        self._fetch, self._site_counters = fetch, site_counters

    async def fetch(self, request: PageRequest) -> Response:
        counters = self._site_counters.of(request.site)
        try:
            response = await self._fetch(request)
        except FetchError as error:
            if error.reason != BAD_REQUEST:
                counters.add(names.REQUESTS)
            counters.add(f"{names.ERRORS}{error.reason}")
            raise
        counters.add(names.REQUESTS)
        counters.add(names.REQUEST_BYTES, response.wrote)
        counters.add(names.response(response.status))
        counters.add(names.RESPONSE_BYTES, response.size)
        for name, value in names.latency(response.seconds):
            counters.add(name, value)
        return response
