"""Who has fallen silent with requests in its hands, while this worker has nothing to do: what is waited for is said in the log, and
what is held by workers that are gone is had at once.

A worker is gone when nothing was heard of it for GOSSAMER_GONE_SECONDS and the connection is closed that it had named. One whose
event loop is held up, or whose process is stopped, has its connection open; of one that cannot be reached nobody knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gossamer.courier.courier import Courier
from gossamer.frontier.presence import closed
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import WorkerInfo

logger = logging.getLogger(__name__)

CONNECTION = "connection"
"""In what a worker tells of itself, the connection that is open as long as it lives."""
HUNGRY = 2.0
"""Seconds without anything to do after which a worker looks."""
SILENT = 10.0
"""Seconds after which a worker is called silent where GOSSAMER_GONE_SECONDS is 0."""
MARGIN = 15.0


class Silence:
    """`say` hands a line of the log to the engine's thread."""

    def __init__(self, courier: Courier, say: Callable[[Callable[[], None]], None]) -> None:
        self._courier, self._say = courier, say
        self._next = 0.0
        self._said: frozenset[str] = frozenset()

    def look(self, frontier: ValkeyFrontier, now: float) -> None:
        """Any thread that may wait."""
        plan, since = self._courier.plan, self._courier.hungry_since
        if since is None or now - since < min(HUNGRY, plan.lease_seconds / 8) or now < self._next:
            return
        least = plan.gone_seconds or SILENT
        self._next = now + least / 2
        moment, silent = frontier.silent_workers(least, plan.lease_seconds + MARGIN)
        mine = self._courier.token.incarnation
        silent = [worker for worker in silent if worker.held and worker.incarnation != mine]
        left = [worker for worker in silent if not self._is_gone(frontier, worker, moment)]
        names = frozenset(worker.incarnation for worker in left)
        if names - self._said:
            self._say(lambda: _tell(left, moment, plan.lease_seconds))
        self._said = names

    def _is_gone(self, frontier: ValkeyFrontier, worker: WorkerInfo, moment: float) -> bool:
        least, present = self._courier.plan.gone_seconds, worker.info.get(CONNECTION, "")
        seconds = moment - worker.seen
        if not least or not present or not closed(frontier.connection, frontier.crawl, present, seconds):
            return False
        groups = worker.groups
        count = frontier.gone(worker.incarnation, least, groups[0] if len(groups) == 1 else "")
        if count:
            self._say(
                lambda: logger.warning(
                    "The worker %s is gone: nothing was heard of it for %.0f s, and its connection is closed. "
                    "The %d requests that it held go to others now.",
                    worker.name,
                    seconds,
                    count,
                )
            )
        return True


def _tell(silent: Sequence[WorkerInfo], moment: float, lease: float) -> None:
    held, last = sum(worker.held for worker in silent), max(worker.seen for worker in silent)
    logger.warning(
        "Nothing to do at present: %d requests are held by %s, not heard of for %.0f s; they are back in %.0f s.",
        held,
        silent[0].name if len(silent) == 1 else f"{len(silent)} workers",
        moment - last,
        max(0.0, last + lease - moment),
    )
