"""The accident of the demo: halfway through, the worker that holds most is killed with -9."""

from __future__ import annotations

import signal
from collections.abc import Callable

from gossamer.fleet import Fleet, WorkerProcess
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import WorkerInfo
from gossamer.model.plural import counted
from gossamer.status.progress import Progress


class Kill:
    """Call it with each account: at `pages` it strikes, once. `held` is what the killed worker had in progress by the
    frontier's own books; None before."""

    def __init__(self, fleet: Fleet, frontier: ValkeyFrontier, pages: int, notice: Callable[[str], None]) -> None:
        self._fleet, self._frontier, self._pages, self._notice = fleet, frontier, pages, notice
        self.held: int | None = None

    def __call__(self, now: Progress) -> None:
        if self.held is not None or now.pages < self._pages or self._fleet.stopping:
            return
        running = {str(worker.pid): worker for worker in self._fleet.running}
        found = [
            (info.held, info, running[info.info["pid"]])
            for info in self._frontier.workers()
            if info.held and info.info.get("pid") in running
        ]
        if found:
            _, info, worker = max(found, key=lambda entry: entry[0])
            self._strike(info, worker)

    def _strike(self, info: WorkerInfo, worker: WorkerProcess) -> None:
        worker.send(signal.SIGKILL)
        if worker.process is not None:
            worker.process.wait()
        # The last words of the dead may still lie in the server's ear: once it has answered us they have been heard.
        self._frontier.workers()
        [self.held] = [x.held for x in self._frontier.workers() if x.incarnation == info.incarnation]
        self._notice(f"worker {worker.number} is killed (kill -9) while it holds {counted(self.held, 'request')}")
