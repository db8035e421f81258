"""The supervisor: a number of workers, each a process, watched until all have ended."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from gossamer.closeable import Closeable
from gossamer.fleet.child import start
from gossamer.fleet.deaths import EndedWorkers
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings.fleet_place import VARIABLE

RESTARTS = 5
"""How often in a row a worker that died is replaced."""
WORKED_SECONDS = 5.0
"""A worker that fails after this time was at work: the cause may be gone. One that fails sooner could not begin, and neither
could another."""
DECIDED = 1
"""The exit code of a worker that says itself why it ended: its spider was closed (CLOSESPIDER_…), or could not be made. Another one
would come to the same end."""
MISUSED = 2
"""The exit code of a worker that cannot be used as it was called."""
LACKING = 4
"""The exit code of a worker that did its pages, while a feed lacks items: no other worker has them."""
UNFINISHED = 5
"""The exit code of a worker that ended too early because its server was replaced: another one must continue, however short the
run was."""
STEADY_SECONDS = 60.0
"""After this time a worker counts as well, and its earlier deaths no longer count. So does one that has settled something."""
LAST_BYTES = 8192


class WorkerProcess:
    """One place in the fleet: the process that fills it now, and what became of it. `code` is None while it runs; afterwards
    the exit code, negative for the signal that killed it for good. `restarts` counts its replacements."""

    def __init__(self, number: int, command: Sequence[str], log: Path | None) -> None:
        self.number, self.command, self.log = number, command, log
        self.process: subprocess.Popen[bytes] | None = None
        self.code: int | None = None
        self.restarts = 0
        self.place = ""
        """The name that its process was given, see `settings/fleet_place.py`."""
        self._since = 0.0
        self._deaths = 0
        self._log_from = 0

    @property
    def running(self) -> bool:
        return self.process is not None and self.code is None

    @property
    def pid(self) -> int:
        """Of the process that fills the place now; 0 if none ever did."""
        return self.process.pid if self.process is not None else 0

    def launch(self, environ: Mapping[str, str] | None, directory: Path | None) -> subprocess.Popen[bytes]:
        self._log_from = self.log.stat().st_size if self.log is not None and self.log.exists() else 0
        self.place = secrets.token_hex(8)
        environ = {**(os.environ if environ is None else environ), VARIABLE: self.place}
        self.process = start(self.command, self.log, environ, directory)
        self._since = time.monotonic()
        return self.process

    def died(self, code: int) -> bool:
        """Whether another worker might not end like this one did: it was killed by a signal, or ended by an error of its server
        or its code while it worked."""
        return (
            code < 0
            or code == UNFINISHED
            or (code not in (0, DECIDED, MISUSED, LACKING) and time.monotonic() - self._since >= WORKED_SECONDS)
        )

    def may_restart(self, most: int, settled: int) -> bool:
        """Whether to fill the place again after a death, which is counted; `settled`: how much its worker had settled."""
        if settled or time.monotonic() - self._since >= STEADY_SECONDS:
            self._deaths = 0
        self._deaths += 1
        return self._deaths <= most

    def send(self, number: int) -> None:
        """Signal its process, if it runs."""
        if self.running and self.process is not None:
            self.process.send_signal(number)

    def last_output(self) -> str:
        """The last error line of its process, or else its last line; "" if there is none, or no log of its own."""
        if self.log is None:
            return ""
        try:
            with self.log.open("rb") as file:
                file.seek(max(self._log_from, self.log.stat().st_size - LAST_BYTES))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        # What was printed by a spider may come after the error that ended it.
        said = [line.strip() for line in lines if line.strip()]
        return next((line for line in reversed(said) if line.startswith("error: ")), said[-1] if said else "")


class Fleet(Closeable):
    """Starts a worker per command and looks after them. One that is killed by a signal, or ends with an error while it
    works, is replaced, at most `restarts` times in a row without anything settled in between; one that ends by itself is not. `notice` gets
    what people should know. The `frontier` is told of workers whose processes have ended; without one it learns of them later, and every
    death counts that did not follow long work.

    Leaving the `with` block kills and reaps what still runs. To be used by one thread, which must outlive the workers.
    """

    def __init__(
        self,
        commands: Sequence[Sequence[str]],
        logs: Sequence[Path | None],
        notice: Callable[[str], None],
        *,
        frontier: ValkeyFrontier | None = None,
        restarts: int = RESTARTS,
        environ: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.workers = [
            WorkerProcess(place + 1, command, log)
            for place, (command, log) in enumerate(zip(commands, logs, strict=True))
        ]
        self.stopping = 0
        """The signal that ended the fleet's work; 0 while it goes on."""
        self._notice, self._most, self._environ, self._directory = notice, restarts, environ, directory
        self._ended_workers = EndedWorkers(frontier) if frontier is not None else None
        # What happened, from the threads that wait for the processes; None wakes whoever waits.
        self._events: queue.SimpleQueue[tuple[WorkerProcess, int] | None] = queue.SimpleQueue()

    @property
    def running(self) -> list[WorkerProcess]:
        return [worker for worker in self.workers if worker.running]

    @property
    def failed(self) -> list[WorkerProcess]:
        """Those that ended badly by themselves: an error, or killed once too often."""
        return [] if self.stopping else [worker for worker in self.workers if worker.code]

    @property
    def restarts(self) -> int:
        return sum(worker.restarts for worker in self.workers)

    def start(self) -> None:
        for worker in self.workers:
            self._launch(worker)

    def wait(self, seconds: float) -> None:
        """Until something happens, `seconds` at most; then look after what happened."""
        try:
            event = self._events.get(timeout=seconds)
            while True:
                if event is not None:
                    self._ended(*event)
                event = self._events.get_nowait()
        except queue.Empty:
            if self._ended_workers is not None:
                self._ended_workers.look()

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ask all to end: they finish what is in progress and give back what was not begun. The second time they are
        killed; what they held goes to others when its leases run out."""
        again, self.stopping = bool(self.stopping), self.stopping or number
        for worker in self.workers:
            worker.send(signal.SIGKILL if again else signal.SIGTERM)
        self._events.put(None)

    def _launch(self, worker: WorkerProcess) -> None:
        process = worker.launch(self._environ, self._directory)
        name = f"gossamer-worker-{worker.number}"
        threading.Thread(target=lambda: self._events.put((worker, process.wait())), name=name, daemon=True).start()
        if self.stopping:
            # Asked to stop while it was being started.
            worker.send(signal.SIGTERM)

    def _ended(self, worker: WorkerProcess, code: int) -> None:
        how = f"worker {worker.number} was killed by {_name(-code)}" if code < 0 else self._progress(worker, code)
        settled = self._ended_workers.add(worker.place) if code and self._ended_workers is not None else None
        if self.stopping or not worker.died(code):
            worker.code = code
            if code > 0 and not self.stopping:
                self._notice(how)
        elif worker.may_restart(self._most, settled or 0):
            worker.restarts += 1
            self._notice(f"{how}; another takes its place")
            self._launch(worker)
        else:
            worker.code = code
            self._notice(f"{how}, {self._most + 1} times in a row; its place stays empty")

    @staticmethod
    def _progress(worker: WorkerProcess, code: int) -> str:
        said = worker.last_output()
        return f"worker {worker.number} ended with exit code {code}" + (f": {said}" if said else "")

    def close(self) -> None:
        """Kill what runs and wait until it has gone."""
        for worker in self.workers:
            worker.send(signal.SIGKILL)
        for worker in self.workers:
            if worker.process is not None:
                code = worker.process.wait()
                worker.code = code if worker.code is None else worker.code


@contextlib.contextmanager
def stop_on_signals(fleet: Fleet) -> Iterator[None]:
    """Inside the block Ctrl-C, SIGTERM and SIGHUP stop the fleet in good order, a second one by force."""

    def obey(number: int, _: FrameType | None) -> None:
        fleet.stop(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, obey) for number in numbers]
    try:
        yield
    finally:
        for number, old in zip(numbers, before, strict=True):
            signal.signal(number, old)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
