"""Counters of many groups, on their way to the frontier with the same exchanges; among them what the downloads amount to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gossamer.courier import Counters
from gossamer.model import CounterChange
from gossamer.model import counter_names as names
from gossamer.model.fetch import BAD_REQUEST, FetchError
from gossamer.model.page import PageRequest, Response


class SiteCounters(Counters):
    """A tally for each site that a worker serves. What the courier itself counts (exchanges, outages) belongs to no site in
    particular: each time it is charged to one of the sites that the exchange is about, in turn, so that the sum over all sites
    is what it was. A worker without sites keeps it to itself."""

    def __init__(self) -> None:
        super().__init__("")
        self._of: dict[str, Counters] = {}
        self._logged: dict[tuple[str, str], int | None] = {}
        self._turn = 0

    def of(self, group: str) -> Counters:
        pending_counters = self._of.get(group)
        if pending_counters is None:
            pending_counters = self._of[group] = Counters(group)
            # All buckets of the histogram, from the start.
            for bucket in names.LATENCY_BUCKETS:
                pending_counters.add(bucket, 0)
        return pending_counters

    def is_first(self, group: str, round: int | None, counter: str) -> bool:
        """Whether this is the first time in a round that a worker asks so: of what it counts there, it logs one example."""
        if self._logged.get((group, counter), -1) == round:
            return False
        self._logged[group, counter] = round
        return True

    def take(self) -> list[CounterChange]:
        changed = [pending_counters for pending_counters in self._of.values() if pending_counters]
        own = super().take()
        if own and self._of:
            groups = changed or list(self._of.values())
            self._turn += 1
            payer = groups[self._turn % len(groups)]
            for counter in own:
                payer.change(counter.name, counter.value, counter.op)
            if not changed:
                changed = [payer]
        return [counter for pending_counters in changed for counter in pending_counters.take()]

    def __bool__(self) -> bool:
        return any(self._of.values())


class DownloadCounters:
    """Fetches with `fetch`, and counts by site, under the names that both engines share: pages and robots.txt alike."""

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
        counters.add_all(
            (
                (names.REQUESTS, 1),
                (names.REQUEST_BYTES, response.wrote),
                (names.response(response.status), 1),
                (names.RESPONSE_BYTES, response.size),
                *names.latency(response.seconds),
            )
        )
        return response
