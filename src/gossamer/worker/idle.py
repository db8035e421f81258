"""Whether the whole group has anything left to do, asked of the frontier when this worker has nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable

from gossamer.courier import Courier
from gossamer.model import Drained

logger = logging.getLogger(__name__)

AGAIN = 0.5
"""Seconds from one question to the next."""


class Idle:
    """`busy` says whether this worker has something to do itself, `wake` makes the engine look again. With `stays`, the
    engine need not look when the group is drained: the worker goes on all the same."""

    def __init__(self, courier: Courier, busy: Callable[[], bool], wake: Callable[[], None], stays: bool) -> None:
        self._courier, self._busy, self._wake, self._stays = courier, busy, wake, stays
        self._answer: Drained | None = None
        self._asking = False
        self._since: float | None = None
        self._trouble = ""

    @property
    def seconds(self) -> float:
        """For how long the group has been drained, as far as it was asked."""
        return 0.0 if self._since is None else self._courier.link.now() - self._since

    def drained(self) -> bool:
        """Whether the group is drained; where that is not known for sure, it is asked, and the engine looks again."""
        answer, self._answer = self._answer, None
        hints = self._courier.hints
        if answer is not None and answer.drained and hints is not None and not hints.open:
            return True
        self.ask()
        return False

    def forget(self) -> None:
        """Something is open again."""
        self._answer = None

    def ask(self) -> None:
        hints = self._courier.hints
        if self._asking or hints is None or hints.open > 0 or self._busy():
            if hints is not None and hints.open > 0:
                self._since = None
            return
        self._asking = True
        self._courier.link.call("drained", self._answered, self._courier.plan.group)

    def _answered(self, answer: Drained | None, error: BaseException | None) -> None:
        self._answer = answer
        if error is not None and self._trouble != str(error):
            logger.warning("Whether %s is drained is not known: %s", self._courier.plan.group, error)
        self._trouble = str(error) if error is not None else ""
        if answer is not None and answer.drained:
            self._since = self._since or self._courier.link.now()
            self._asking = False
            if not self._stays:
                self._wake()
                return
        else:
            self._since = None
        self._courier.link.later(AGAIN, self._again)

    def _again(self) -> None:
        self._asking = False
        self._wake()
