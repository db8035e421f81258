"""Whether the whole group has anything left to do, asked of the frontier when this worker has nothing.

Scrapy says that a spider is idle when its scheduler has nothing pending. Here that is: nothing in the whole group, also not at
other workers, living or dead. The engine asks without waiting, so the answer comes a moment later and makes it look again.
Whatever else wakes the engine meanwhile, `spider_idle` is sent no sooner than a heartbeat of Scrapy after the last one, unless
this worker had something to do in between: extensions count these signals, and take each for five seconds.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from gossamer.courier import Courier
from gossamer.frontier.contract import Frontier
from gossamer.model import Drained

logger = logging.getLogger(__name__)

AGAIN = 0.5
"""Seconds from one question to the next."""
FRESH = 1.0
"""Seconds for which an answer counts: then others may have found something."""
MOMENT = 0.02
"""Seconds to add to a limit before checking it, so that every clock agrees that it has passed."""


class IdleCheck:
    """`busy` says whether this worker has something to do itself, `wake` makes the engine look again, `goes_on` is called when there
    is something to do again, `every` is how many seconds lie between two signals."""

    def __init__(
        self,
        courier: Courier,
        busy: Callable[[], bool],
        wake: Callable[[], None],
        goes_on: Callable[[], None],
        every: float,
    ) -> None:
        self._courier, self._busy, self._wake, self._goes_on, self._every = courier, busy, wake, goes_on, every
        self._due = 0.0
        self._drained_at: float | None = None
        self._since: float | None = None
        self._asking = self._wanted = self._held = False
        self._trouble = ""

    @property
    def seconds(self) -> float:
        """For how long the group has been drained, as far as it was asked or seen."""
        return 0.0 if self._since is None else self._courier.link.now() - max(self._since, self._courier.open_at)

    def pending(self) -> bool:
        """Whether the group may have something to do. If that is not known, it is asked, and the engine looks again."""
        if self._busy():
            self._wanted = True
            self.worked()
            return True
        if not self._held and self._courier.link.now() < self._due:
            return True
        hints = self._courier.hints
        fresh = self._drained_at is not None and (self._held or self._courier.link.now() - self._drained_at < FRESH)
        if fresh and hints is not None and not hints.open:
            return False
        self._wanted = True
        self.look()
        return True

    def hold(self) -> None:
        """The signal is being sent: until everybody has heard it, the answer counts, however long that takes."""
        if not self._held:
            self._held = True
            self._courier.link.later(0, self._let_go)
            self._due = math.inf
            self.look_in(self._every)

    def look_in(self, seconds: float) -> None:
        """Let the engine look again then, if the group is still drained, should that be sooner than it would otherwise."""
        due = self._courier.link.now() + seconds
        if due < self._due:
            self._due = due
            self._courier.link.later(seconds + MOMENT, self._look_now)

    def worked(self) -> None:
        """This worker has something to do: the next signal is a new one, however soon it comes."""
        self._due = 0.0
        self._goes_on()

    def forget(self) -> None:
        """Something is open again."""
        self._drained_at = self._since = None
        self._goes_on()

    def look(self) -> None:
        """Ask, if the engine waits for an answer and it may be that the group is drained."""
        hints = self._courier.hints
        if self._wanted and not self._asking and hints is not None and not hints.open and not self._busy():
            self._asking = True
            self._courier.link.call(Frontier.drained, self._answered, self._courier.plan.group)

    def _answered(self, answer: Drained | None, error: BaseException | None) -> None:
        if error is not None and self._trouble != str(error):
            logger.warning("Whether %s is drained is unknown: %s", self._courier.plan.group, error)
        self._trouble = str(error) if error is not None else ""
        if answer is not None and answer.drained and not self._busy():
            now = self._courier.link.now()
            self._drained_at, self._since = now, self._since or now
            self._asking = self._wanted = False
            self._wake()
            return
        self.forget()
        self._courier.link.later(AGAIN, self._again)

    def _again(self) -> None:
        self._asking = False
        self.look()

    def _let_go(self) -> None:
        # The next look is at another time, and wants to know of that.
        self._held, self._drained_at = False, None

    def _look_now(self) -> None:
        if self._courier.link.now() >= self._due:
            self._wanted = True
            self.look()
