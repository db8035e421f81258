"""`scheduler.queue` and `scheduler.df` on the frontier: what code of a project reads and clears there.

Each call asks the server and waits for it, as with scrapy-redis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from scrapy import Request, Spider

from gossamer.errors import GossamerError
from gossamer.frontier.seen.clear import clear_seen
from gossamer.scrapy_redis.dupefilter import digest

if TYPE_CHECKING:
    from gossamer.scrapy_redis.fleet.scheduler import LeasingScheduler


class QueueView:
    """What waits in the group; what a worker has in progress is not in it."""

    def __init__(self, scheduler: LeasingScheduler) -> None:
        self._scheduler = scheduler

    def __len__(self) -> int:
        return sum(lane.queued + lane.delayed for lane in self._lanes())

    def __bool__(self) -> bool:
        return True

    def push(self, request: Request) -> None:
        """Queue a request, whether it was seen or not."""
        self._scheduler.enqueue_request(request.replace(dont_filter=True))

    def pop(self, timeout: int = 0) -> NoReturn:
        raise GossamerError(
            f"Requests of {self._scheduler.group} are leased to workers and cannot be popped. `gossamer export` writes them to a file."
        )

    def clear(self) -> None:
        """Throw away what waits; it is no longer seen. Refused while pages are in progress, which may still add to it."""
        scheduler = self._scheduler
        if leased := sum(lane.leased for lane in self._lanes()):
            raise GossamerError(
                f"The queue of {scheduler.group} cannot be cleared while {leased} of its pages are in progress. Stop its workers, "
                f"then: gossamer group drop {scheduler.group}"
            )
        scheduler.drop_lanes()
        with scheduler.frontier() as frontier:
            frontier.define(scheduler.group, scheduler.join.lanes, scheduler.join.policy)

    def _lanes(self) -> list[Any]:
        group = self._scheduler.group
        with self._scheduler.frontier() as frontier:
            return [lane for lane in frontier.counts(group).lanes if lane.lane.rpartition(".")[0] == group]


class SeenView:
    """What the group remembers."""

    def __init__(self, scheduler: LeasingScheduler, own: Any) -> None:
        self._scheduler, self._own = scheduler, own
        self.server = scheduler.server

    def request_seen(self, request: Request) -> bool:
        """Whether the request is known. Unlike in scrapy-redis, asking does not make it so: it is known when it is queued."""
        scheduler = self._scheduler
        with scheduler.frontier() as frontier:
            return frontier.seen(scheduler.request_codec.lane_of(request), [scheduler.join.number(request)])[0]

    def request_fingerprint(self, request: Request) -> str:
        """As scrapy-redis has it, or the project's own filter."""
        return str(self._own.request_fingerprint(request)) if self._own is not None else digest(request).hex()

    def clear(self) -> None:
        """Forget all, for all workers."""
        with self._scheduler.frontier() as frontier:
            clear_seen(frontier, self._scheduler.group)
        self._scheduler.courier.known.clear()

    def log(self, request: Request, spider: Spider) -> None:
        self._scheduler.duplicates.filtered(request, spider)
