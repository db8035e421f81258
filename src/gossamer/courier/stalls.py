"""Workers that fell silent while they hold requests, or while they may do something that this worker waits for (run a start, end a round),
while this worker has nothing to do: the log names what it waits for, and requests held by workers that are gone are taken back at once.

A worker is gone when it is silent for GOSSAMER_GONE_SECONDS and the connection that it named is closed. One whose
event loop is held up, or whose process is stopped, has its connection open; one that cannot be reached counts as alive.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from gossamer.courier.courier import Courier
from gossamer.frontier.connection.presence import closed
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import WorkerInfo
from gossamer.model.plural import counted, counted_are

logger = logging.getLogger(__name__)

CONNECTION = "connection"
"""In a worker's info: the connection that is open as long as it lives."""
HUNGRY = 2.0
"""Seconds without anything to do after which a worker looks."""
SILENT = 10.0
"""Seconds after which a worker is called silent where GOSSAMER_GONE_SECONDS is 0."""
MARGIN = 15.0


def is_gone(frontier: ValkeyFrontier, least: float, most: float) -> frozenset[str]:
    """The workers that are gone, of those silent for at least `least` and at most `most` seconds; none if `least` is 0."""
    moment, silent = frontier.silent_workers(least, most) if least else (0.0, [])
    return frozenset(worker.incarnation for worker in silent if _closed(frontier, worker, moment - worker.seen))


def _closed(frontier: ValkeyFrontier, worker: WorkerInfo, seconds: float) -> bool:
    present = worker.info.get(CONNECTION, "")
    return bool(present) and closed(frontier.connection, frontier.crawl, present, seconds)


class StallReport:
    """`say` hands a line of the log to the engine's thread."""

    def __init__(self, courier: Courier, say: Callable[[Callable[[], None]], None]) -> None:
        self._courier, self._say = courier, say
        self._next = 0.0
        self._said: frozenset[str] = frozenset()

    def look(self, frontier: ValkeyFrontier, now: float) -> None:
        """Look once. Call it on a thread that may block."""
        plan, since, awaits = self._courier.plan, self._courier.hungry_since, dict(self._courier.awaits)
        hungry = since is not None and now - since >= min(HUNGRY, plan.lease_seconds / 8)
        if not (hungry or awaits) or now < self._next:
            return
        least = plan.gone_seconds or SILENT
        self._next = now + least / 2
        moment, silent = frontier.silent_workers(least, plan.lease_seconds + MARGIN)
        mine = self._courier.token.incarnation
        silent = [
            worker
            for worker in silent
            if worker.incarnation != mine and (worker.held or any(group in awaits for group in worker.groups))
        ]
        left = [worker for worker in silent if not self._is_gone(frontier, worker, moment, awaits)]
        names = frozenset(worker.incarnation for worker in left)
        if names - self._said:
            self._say(lambda: _log(left, moment, plan.lease_seconds, awaits))
        self._said = names

    def _is_gone(self, frontier: ValkeyFrontier, worker: WorkerInfo, moment: float, awaits: Mapping[str, str]) -> bool:
        least, seconds = self._courier.plan.gone_seconds, moment - worker.seen
        if not least or not _closed(frontier, worker, seconds):
            return False
        groups = worker.groups
        count = frontier.gone(
            worker.incarnation, least, groups if len(groups) == 1 else [group for group in groups if group in awaits]
        )
        if count:
            requests = min(count, worker.held)
            lost = [f"the {counted(requests, 'request')} that it held"] if requests else []
            if count > requests:
                lost.append(_what(awaits, groups) or f"start() of {groups[0]}")
            self._say(
                lambda: logger.warning(
                    "The worker %s is gone: silent for %.0f s, and its connection is closed. "
                    "Other workers take over: %s.",
                    worker.name,
                    seconds,
                    " and ".join(lost),
                )
            )
        return True


def _what(awaits: Mapping[str, str], groups: Sequence[str]) -> str:
    """What is waited for that a worker of these groups may do."""
    return ", ".join(awaits[group] for group in groups if group in awaits)


def _log(silent: Sequence[WorkerInfo], moment: float, lease: float, awaits: Mapping[str, str]) -> None:
    holders = [worker for worker in silent if worker.held]
    if holders:
        last = max(worker.seen for worker in holders)
        logger.warning(
            "Nothing to do at present: %s held by %s, silent for %.0f s; back in %.0f s.",
            counted_are(sum(worker.held for worker in holders), "request"),
            holders[0].name if len(holders) == 1 else f"{len(holders)} workers",
            moment - last,
            max(0.0, last + lease - moment),
        )
    for worker in silent:
        if what := _what(awaits, worker.groups):
            logger.warning(
                "This worker waits for %s. %s, which may be doing that, is silent for %.0f s: if so, another worker "
                "does it in %.0f s at the latest.",
                what,
                worker.name,
                moment - worker.seen,
                max(0.0, worker.seen + lease - moment),
            )
