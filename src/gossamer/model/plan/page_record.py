"""Page records: what is known of every page of a lane, and by which rules pages are fetched again."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from gossamer.errors import PolicyError

YEARS = 86400.0 * 3650


class PageState(enum.Enum):
    """FOUND: a link led to it, and it waits for its share. SCHEDULED: it is queued. FETCHING: a worker has it. FINISHED: it was read.
    FAILED: it became a dead letter. GONE: its server says that it does not exist any more."""

    FOUND = "found"
    SCHEDULED = "scheduled"
    FETCHING = "fetching"
    FINISHED = "finished"
    FAILED = "failed"
    GONE = "gone"


class PageEvent(enum.Enum):
    """FOUND: a link led to it for the first time. DUE: its time had come, and it was queued. SIGHTED: a link led to it again, and it was queued.
    READ, CHANGED, UNCHANGED, MISSING (404 or 410), FAILED, REPLACED (it redirected elsewhere): how a visit ended. DROPPED: an operator
    dropped it from the queue."""

    FOUND = "found"
    DUE = "due"
    SIGHTED = "sighted"
    READ = "read"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    MISSING = "missing"
    FAILED = "failed"
    REPLACED = "replaced"
    DROPPED = "dropped"


class PageVisit(NamedTuple):
    """What a worker found: the status (304: it has not changed; 404 and 410 without a signature: it does not exist) and the signature of its
    content (0: not known), a whole number below 2**64."""

    status: int = 0
    signature: int = 0


def content_signature(content: bytes) -> int:
    """A signature of this content; never 0."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big") or 1


class RevisitRules(NamedTuple):
    """`every`: seconds from one visit to the next; for adaptive ones, the first. An adaptive time is halved when a page has changed
    and grows by half when it has not, between `min` and `max`. After `gone` visits in a row on which the page does not exist, it is
    not visited again."""

    every: float
    min: float = 0.0
    max: float = 0.0
    adaptive: bool = False
    gone: int = 3

    @property
    def bounds(self) -> tuple[float, float]:
        """The shortest and the longest interval; without `min` and `max`, a minute or `every`, and 64 times that."""
        high = self.max or max(self.every * 64, self.min)
        return self.min or min(self.every, 60.0, high), high

    def bounded(self, interval: float) -> float:
        """An interval within these."""
        low, high = self.bounds
        return max(min(interval, high), low)


@dataclass(frozen=True, slots=True)
class RecordPolicy:
    """A lane with this policy keeps a record of every page, and asks it whether a link is new; its seen policy counts for nothing.

    `failed`, `finished` and `gone` are after how many seconds in that state a page is fetched again when a link leads to it (0: now; None:
    never); with `newer`, a finished or gone one also if a later round than the last leads to it. A page that is queued, in progress or waits is
    never queued a second time. `revisit` fetches pages again without any link. `max_pages` and `max_age` (seconds since the last
    change of state; 0: no limit, both) bound the records on each partition: what is forgotten is new again. Pages that wait or are in
    progress are never forgotten for it; by `max_age`, neither are those that will be visited again.
    """

    revisit: RevisitRules | None = None
    failed: float | None = 0.0
    finished: float | None = None
    gone: float | None = None
    newer: bool = False
    max_pages: int = 0
    max_age: float = 0.0

    def __post_init__(self) -> None:
        for name in ("failed", "finished", "gone", "max_age"):
            value = getattr(self, name)
            if value is not None and not _within(value, 0.0, YEARS):
                raise PolicyError(f"records: {name} is {value!r}; it must be from 0 seconds to ten years.")
        if isinstance(self.max_pages, bool) or not isinstance(self.max_pages, int) or self.max_pages < 0:
            raise PolicyError(f"records: max_pages is {self.max_pages!r}; it must be a whole number, 0 for no limit.")
        if (rules := self.revisit) is not None:
            if not _within(rules.every, 1.0, YEARS):
                raise PolicyError(f"revisit: every is {rules.every!r}; it must be from one second to ten years.")
            for name in ("min", "max"):
                value = getattr(rules, name)
                if value and not _within(value, 1.0, YEARS):
                    raise PolicyError(
                        f"revisit: {name} is {value!r}; it must be from one second to ten years, or 0 for the usual."
                    )
            if rules.max and rules.min > rules.max:
                raise PolicyError("revisit: min is larger than max.")
            if isinstance(rules.gone, bool) or not isinstance(rules.gone, int) or not 1 <= rules.gone <= 200:
                raise PolicyError(f"revisit: gone is {rules.gone!r}; it must be a whole number from 1 to 200.")


def _within(value: float, low: float, high: float) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and low <= value <= high


class PageInfo(NamedTuple):
    """One page as its record has it. Times are server time in seconds; `last` is its last visit and `due` the next one (0: none), `since`
    when it came into its state. `version` is the round in which it was queued last, `interval` the time between its visits (0: it is not visited
    again), `signature` that of its content (0: not known), `changes` how often that was another one than at the visit before, `misses`
    how often in a row it did not exist. `trail` has the last events with their times."""

    partition: int
    lane: str
    fingerprint: int
    state: PageState
    first: float
    last: float
    since: float
    due: float
    interval: float
    version: int
    status: int
    signature: int
    changes: int
    misses: int
    priority: int
    host: str
    trail: tuple[tuple[PageEvent, float], ...]
    payload: bytes


class RequestPlace(NamedTuple):
    """Where the request of a page is. `state`: queued (`ahead` requests of its host go before it, in its lane), delayed (until `at`),
    leased (by `worker`, until `at`), suspect (it may have killed its worker, and is tried alone), or "": it was not found. `queued` is what the lane
    has on the partition. `letter` is the number of a dead letter of the page, 0 for none. Without `whole`, what was not found may be
    behind what was looked at."""

    partition: int
    state: str
    priority: int
    ahead: int
    at: float
    worker: str
    queued: int
    whole: bool
    letter: int


FeedLane = tuple[str, int, int | None] | tuple[str, int, int | None, int]
"""A lane to feed: its full name, how many pages at most, how many requests it may have queued and delayed then (None: the lane's own limits
alone), and if they are known, how many pages are due."""


class LaneFeed(NamedTuple):
    """What `feed` moved in a lane: pages moved into the queue, due pages that are left, and what is queued and delayed now."""

    moved: int
    left: int
    queued: int
