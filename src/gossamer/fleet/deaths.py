"""Workers whose processes have ended: the frontier is told at once, so that others take what they held."""

from __future__ import annotations

import time

from gossamer.errors import FrontierError
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings.fleet_place import PLACE

LOOK_SECONDS = 1.0
LAST_WORDS_SECONDS = 5.0
"""The server may read the last call of a process some time after its end."""


class EndedWorkers:
    """Call `look` now and then: a server that cannot be reached is told later."""

    def __init__(self, frontier: ValkeyFrontier) -> None:
        self._frontier = frontier
        self._ended: dict[str, float] = {}
        self._next = 0.0

    def add(self, place: str) -> int | None:
        """The process in this place has ended. Answers how many leases its workers have settled; None: the frontier cannot be reached."""
        self._ended[place] = time.monotonic()
        return self._tell(place)

    def look(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        for place, ended in list(self._ended.items()):
            if self._tell(place) is not None and now - ended >= LAST_WORDS_SECONDS:
                del self._ended[place]

    def _tell(self, place: str) -> int | None:
        try:
            workers = [worker for worker in self._frontier.workers() if worker.info.get(PLACE) == place]
            for worker in workers:
                self._frontier.gone(worker.incarnation, 0.0, worker.groups)
        except FrontierError:
            return None
        return sum(worker.settled for worker in workers)
