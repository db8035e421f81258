"""Workers that fell silent while they hold requests, or while they may do something that this worker waits for (run a start, end a round).

One is gone when it is silent for GOSSAMER_GONE_SECONDS and the connection that it named is closed: what it holds is taken back at once,
whatever the worker that notices it has to do. One whose event loop is held up, or whose process is stopped, has its connection open; one
that cannot be reached counts as alive. Where connections break all together (a proxy restarts), workers come back one after the other:
one that is back judges only by what has happened since, until it has been back for a while.

Of the others the log says so while there is nothing to do but wait for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from gossamer.courier.courier import Courier
from gossamer.courier.reports import CONNECTION
from gossamer.frontier.connection.presence import closed
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import WorkerInfo
from gossamer.model.plural import counted, counted_are

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""One of all workers looks so often."""
BACK_SECONDS = 10.0
"""A worker whose connection is open for so long judges all others: those that lost theirs with it are back as well."""
MARGIN_SECONDS = 15.0
"""A worker that was silent for so much longer than a lease holds nothing any more."""
HUNGRY = 2.0
"""Seconds without anything to do after which a worker looks."""
SILENT = 10.0
"""Seconds after which a worker is called silent where GOSSAMER_GONE_SECONDS is 0."""


def is_gone(frontier: ValkeyFrontier, least: float, most: float) -> frozenset[str]:
    """The workers that are gone, of those silent for at least `least` and at most `most` seconds; none if `least` is 0."""
    return gone_of(frontier, *frontier.silent_workers(least, most)) if least else frozenset()


def gone_of(frontier: ValkeyFrontier, moment: float, silent: Iterable[WorkerInfo]) -> frozenset[str]:
    """Those of these workers whose connections are closed; `moment` is the server's time."""
    connections = {each.incarnation: (each.info.get(CONNECTION, ""), moment - each.seen) for each in silent}
    without = closed(
        frontier.connection, frontier.crawl, {name: seconds for name, seconds in connections.values() if name}
    )
    return frozenset(incarnation for incarnation, (name, _) in connections.items() if name in without)


class GoneWorkers:
    """`say` hands a line of the log to the engine's thread."""

    def __init__(self, courier: Courier, say: Callable[[Callable[[], None]], None]) -> None:
        self._courier, self._say = courier, say

    def look(self, frontier: ValkeyFrontier, connected: float) -> None:
        """Let what others hold that are gone expire, if it is this worker's turn to look. `connected`: for how many seconds its own
        connection has been open. Call it on a thread that may block."""
        plan = self._courier.plan
        if plan.gone_seconds and connected >= plan.gone_seconds and frontier.turn_to_look(LOOK_SECONDS):
            moment, silent = frontier.silent_workers(plan.gone_seconds, plan.lease_seconds + MARGIN_SECONDS)
            self.judge(frontier, moment, [worker for worker in silent if worker.held], connected)

    def judge(
        self, frontier: ValkeyFrontier, moment: float, silent: Sequence[WorkerInfo], connected: float
    ) -> frozenset[str]:
        """Which of these are gone, at the server's time `moment`; what they hold has expired."""
        least, mine = self._courier.plan.gone_seconds, self._courier.token.incarnation
        asked = [
            worker
            for worker in silent
            if worker.incarnation != mine and connected >= min(moment - worker.seen, BACK_SECONDS)
        ]
        gone = gone_of(frontier, moment, asked) if least and asked else frozenset()
        for worker in asked:
            if worker.incarnation in gone:
                self._take_back(frontier, worker, moment)
        return gone

    def _take_back(self, frontier: ValkeyFrontier, worker: WorkerInfo, moment: float) -> None:
        awaits, groups = dict(self._courier.awaits), worker.groups
        count = frontier.gone(
            worker.incarnation,
            self._courier.plan.gone_seconds,
            groups if len(groups) == 1 else [group for group in groups if group in awaits],
        )
        if not count:
            return
        requests = min(count, worker.held)
        lost = [f"the {counted(requests, 'request')} that it held"] if requests else []
        if count > requests:
            lost.append(", ".join(awaits[group] for group in groups if group in awaits) or f"start() of {groups[0]}")
        self._say(
            lambda: logger.warning(
                "The worker %s is gone: silent for %.0f s, and its connection is closed. Other workers take over: %s.",
                worker.name,
                moment - worker.seen,
                " and ".join(lost),
            )
        )


class StallReport:
    """`say` hands a line of the log to the engine's thread."""

    def __init__(self, courier: Courier, gone_workers: GoneWorkers, say: Callable[[Callable[[], None]], None]) -> None:
        self._courier, self._gone_workers, self._say = courier, gone_workers, say
        self._next = 0.0
        self._said: frozenset[str] = frozenset()

    def look(self, frontier: ValkeyFrontier, now: float, connected: float) -> None:
        """Look once; `connected` as in `GoneWorkers.look`. Call it on a thread that may block."""
        plan, since, awaits = self._courier.plan, self._courier.hungry_since, dict(self._courier.awaits)
        hungry = since is not None and now - since >= min(HUNGRY, plan.lease_seconds / 8)
        if not (hungry or awaits) or now < self._next:
            return
        least = plan.gone_seconds or SILENT
        self._next = now + least / 2
        moment, silent = frontier.silent_workers(least, plan.lease_seconds + MARGIN_SECONDS)
        mine = self._courier.token.incarnation
        silent = [
            worker
            for worker in silent
            if worker.incarnation != mine and (worker.held or any(group in awaits for group in worker.groups))
        ]
        gone = self._gone_workers.judge(frontier, moment, silent, connected)
        left = [worker for worker in silent if worker.incarnation not in gone]
        names = frozenset(worker.incarnation for worker in left)
        if names - self._said:
            self._say(lambda: _log(left, moment, plan.lease_seconds, awaits))
        self._said = names


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
        if what := ", ".join(awaits[group] for group in worker.groups if group in awaits):
            logger.warning(
                "This worker waits for %s. %s, which may be doing that, is silent for %.0f s: if so, another worker "
                "does it in %.0f s at the latest.",
                what,
                worker.name,
                moment - worker.seen,
                max(0.0, worker.seen + lease - moment),
            )
