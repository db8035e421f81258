"""What a group brought on one day."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple


class DailyCounts(NamedTuple):
    """What one lane of a group brought on one day of UTC; `lane` is "" for what belongs to no lane in particular.

    `fetched` counts attempts that ended: `finished` pages, those that were `replaced` by where they redirect to, `retried` ones and
    `failed` ones. `lost` are leases that ran out with their worker. `read` pages were read by a site's layer, `lacking` of them
    lack a required field, `rows` were stored. `items` are those of the whole group.
    """

    group: str
    lane: str
    day: date
    finished: int = 0
    replaced: int = 0
    retried: int = 0
    failed: int = 0
    lost: int = 0
    read: int = 0
    lacking: int = 0
    rows: int = 0
    items: int = 0

    @property
    def fetched(self) -> int:
        return self.finished + self.replaced + self.retried + self.failed
