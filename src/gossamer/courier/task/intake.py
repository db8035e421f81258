"""Tasks: taken from a producer's key while the crawl runs, turned into requests, settled when those are added.

A task is leased, so a worker that dies with it loses nothing; its requests are added under its id, so that whoever takes it
up again adds nothing twice; a task that cannot be used becomes a dead letter with its reason.
"""

from __future__ import annotations

import logging
import random
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from gossamer.courier.outage import pause
from gossamer.courier.starts import FULL_PAUSE
from gossamer.courier.task.report import carrying, is_filtered, split_report
from gossamer.courier.transport import Transport
from gossamer.errors import BadTask, FrontierUnavailable, InvalidRequest, MemoryLimitReached
from gossamer.frontier.contract import Frontier
from gossamer.model import AddOutcome, Request, Task, Token
from gossamer.model.reply import BAD_TASK, POISON
from gossamer.model.request import AddKey

logger = logging.getLogger(__name__)

EMPTY_FIRST, EMPTY_LAST = 0.1, 1.0
"""How long to wait after a look that found nothing, at first and at last."""

POISONED = "Its lease ran out {attempt} times while its worker was silent, the last time alone."

_REFUSED = {
    AddOutcome.INVALID: "The frontier cannot take the task's request",
    AddOutcome.UNKNOWN_LANE: "The task's lane does not exist",
    AddOutcome.CLOSED: "The task's lane is being dropped",
}

Made = Callable[[bytes], Sequence[Request]]
"""Makes requests of a task's data, or raises."""
Asked = Callable[[Callable[[bool], None]], object]
"""Finds out whether tasks are for this worker, and calls back with that."""


class TaskIntake:
    """Serves one key. One step at a time: lease, make requests, add them, settle; then the next tasks. `mine` is asked whenever tasks
    are there after there were none; if they are not for this worker, it gives them back and takes no more."""

    def __init__(
        self,
        link: Transport,
        source: str,
        group: str,
        make: Made,
        *,
        batch: int,
        lease_seconds: float,
        taken: Callable[[int], None],
        bad: Callable[[str], None],
        failed: Callable[[BaseException], None],
        mine: Asked | None = None,
    ) -> None:
        self.link, self.source, self.group, self._make = link, source, group, make
        self._batch, self._renew_after = batch, lease_seconds / 3
        self._taken, self._bad, self._failed, self._mine = taken, bad, failed, mine
        self._asks = True
        self._token = Token.fresh()
        self._empty = EMPTY_FIRST
        self._tasks: list[Task] = []
        self._requests: list[Request] = []
        self._keys: list[str] = []
        self._owners: list[Task] = []
        self._buried: list[tuple[Task, str, str]] = []
        self._leased_at = 0.0
        self._stopped = False
        self._idle = True
        self._done: Callable[[], None] | None = None

    def begin(self) -> None:
        self._look()

    def stop(self, done: Callable[[], None]) -> None:
        """Take no more; call `done` when what was taken is settled or given back."""
        self._stopped = True
        self._done = done
        if self._idle:
            self._rest()

    def _look(self) -> None:
        if self._stopped:
            self._rest()
            return
        self._idle = False
        self._leased_at = self.link.now()
        self.link.call(Frontier.lease_tasks, self._leased, self._token, self.source, self._batch)

    def _rest(self) -> None:
        self._idle = True
        if self._stopped and self._done is not None:
            done, self._done = self._done, None
            done()

    def _again(self, error: BaseException, step: Callable[[], None]) -> None:
        """After an error: the same step again if the server did not answer or had no memory left, else the end of this intake."""
        if isinstance(error, FrontierUnavailable | MemoryLimitReached):
            if self._stopped:
                self._rest()  # leases of tasks run out, and others take them up
            else:
                self.link.later(pause(), step)
            return
        self._rest()
        self._failed(error)

    def _leased(self, tasks: list[Task] | None, error: BaseException | None) -> None:
        if error is not None:
            self._again(error, self._look)
            return
        self._token = self._token.next()
        if not tasks:
            self._idle = self._asks = True
            if self._stopped:
                self._rest()
            else:
                self.link.later(self._empty * random.uniform(0.7, 1.0), self._look)
                self._empty = min(self._empty * 2, EMPTY_LAST)
            return
        self._empty, self._tasks = EMPTY_FIRST, tasks
        if self._asks and self._mine is not None and not self._stopped:
            self._mine(self._told)
        else:
            self._use()

    def _told(self, mine: bool) -> None:
        self._asks = False
        self._stopped = self._stopped or not mine
        self._use()

    def _use(self) -> None:
        if self._stopped:
            self._give_back()
            return
        self._requests, self._keys, self._owners, self._buried = [], [], [], []
        for task in self._tasks:
            if task.poison:
                self._buried.append((task, POISON, POISONED.format(attempt=task.attempt - 1)))
                self._bad(POISON)
                logger.error(
                    "A task from %s became a dead letter: its lease ran out too often while its worker was silent.",
                    self.source,
                )
                continue
            try:
                data, report = split_report(task.data)
                made = list(self._make(data))
                if report is not None:
                    if not made:
                        raise BadTask("The task asks for a report, and no request was made of it.")
                    made[0] = carrying(made[0], report, always=not is_filtered(data))
            except Exception as problem:
                self._refuse(task, problem)
                continue
            for number, request in enumerate(made):
                self._requests.append(request)
                self._keys.append(AddKey(f"t{self.source}:{task.identity}:{number}"))
                self._owners.append(task)
        self._taken(len(self._tasks))
        self._add()

    def _refuse(self, task: Task, problem: Exception) -> None:
        reason = getattr(problem, "reason", BAD_TASK)
        known = isinstance(problem, InvalidRequest)
        detail = str(problem) if known else "".join(traceback.format_exception(problem))
        logger.error("Task from %s cannot be used and became a dead letter: %s", self.source, str(problem) or reason)
        self._bad(str(problem))
        self._buried.append((task, reason, detail))

    def _add(self) -> None:
        if self._requests:
            self.link.call(Frontier.add, self._added, self._requests, key=self._keys)
        else:
            self._bury()

    def _added(self, answer: Any, error: BaseException | None) -> None:
        if error is not None:
            self._again(error, self._add)
            return
        outcomes, invalid, _ = answer
        for index, outcome in enumerate(outcomes):
            if outcome in _REFUSED:
                why = invalid.get(index) or f"{_REFUSED[outcome]}: {self._requests[index].lane}."
                self._refuse(self._owners[index], InvalidRequest(why))
        full = [index for index, outcome in enumerate(outcomes) if outcome is AddOutcome.FULL]
        if not full:
            self._bury()
            return
        # No room: the tasks stay leased, and what found no room is offered again.
        self._requests = [self._requests[index] for index in full]
        self._keys = [self._keys[index] for index in full]
        self._owners = [self._owners[index] for index in full]
        if self._stopped:
            self._give_back()
        elif self.link.now() - self._leased_at > self._renew_after:
            self._leased_at = self.link.now()
            self.link.call(Frontier.settle_tasks, self._kept, self._token, self.source, renew=self._tasks)
        else:
            self.link.later(FULL_PAUSE, self._add)

    def _kept(self, _answer: Any, error: BaseException | None) -> None:
        if error is not None:
            self._again(error, self._add)
        else:
            self.link.later(FULL_PAUSE, self._add)

    def _bury(self) -> None:
        if not self._buried:
            self._settle()
            return
        task, reason, detail = self._buried[0]
        key = AddKey(f"t{self.source}:{task.identity}")
        self.link.call(Frontier.bury, self._one_buried, self.group, task.data, reason=reason, key=key, detail=detail)

    def _one_buried(self, _answer: Any, error: BaseException | None) -> None:
        if error is not None:
            self._again(error, self._bury)
            return
        self._buried.pop(0)
        self._bury()

    def _settle(self) -> None:
        self.link.call(Frontier.settle_tasks, self._settled, self._token, self.source, done=self._tasks)

    def _give_back(self) -> None:
        self.link.call(Frontier.settle_tasks, self._settled, self._token, self.source, release=self._tasks)

    def _settled(self, _answer: Any, error: BaseException | None) -> None:
        if error is not None:
            self._again(error, self._settle)
            return
        self._tasks = []
        self._look()
