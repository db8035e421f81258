"""Counters of many groups, on their way to the frontier with the same exchanges."""

from __future__ import annotations

from gossamer.courier import Tally
from gossamer.model import Counter
from gossamer.model.counter_names import LATENCY_BUCKETS


class Tallies(Tally):
    """A tally for each site that a worker serves. What the courier itself counts (exchanges, outages) belongs to no site in
    particular: each time it is charged to one of the sites that the exchange is about, in turn, so that the sum over all sites
    is what it was. A worker without sites keeps it to itself."""

    def __init__(self) -> None:
        super().__init__("")
        self._of: dict[str, Tally] = {}
        self._turn = 0

    def of(self, group: str) -> Tally:
        tally = self._of.get(group)
        if tally is None:
            tally = self._of[group] = Tally(group)
            # All buckets of the histogram, from the start.
            for bucket in LATENCY_BUCKETS:
                tally.add(bucket, 0)
        return tally

    def take(self) -> list[Counter]:
        changed = [tally for tally in self._of.values() if tally]
        own = super().take()
        if own and self._of:
            groups = changed or list(self._of.values())
            self._turn += 1
            payer = groups[self._turn % len(groups)]
            for counter in own:
                payer.change(counter.name, counter.value, counter.op)
            if not changed:
                changed = [payer]
        return [counter for tally in changed for counter in tally.take()]

    def __bool__(self) -> bool:
        return any(self._of.values())
