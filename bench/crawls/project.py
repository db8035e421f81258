"""A Scrapy project on disk and `scrapy crawl` in it: workers as anybody would start them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from bench.crawls.spider import OPENED, REPORT, Walker

from gossamer.testing.process import Process, end, is_stopped, spawn, wait_until

ROOT = Path(__file__).resolve().parents[2]
COMMON: dict[str, Any] = {
    "BOT_NAME": "bench",
    "SPIDER_MODULES": ["bench.crawls.spider"],
    "EXTENSIONS": {"bench.crawls.spider.Meter": 0},
    # Scrapy's default writes two lines for every page, which would be a large part of what is measured.
    "LOG_LEVEL": "INFO",
}


class Report(NamedTuple):
    """What a worker said at its end: seconds of its processor, of the clock, and why its spider was closed."""

    cpu: float
    wall: float
    reason: str


Launch = Callable[[Sequence[str], Mapping[str, str], Path, Path], Process]
"""Starts `python -m WORDS` with what is added to the environment, in a directory; its output is appended to a file."""


def launched(words: Sequence[str], environ: Mapping[str, str], directory: Path, log: Path) -> Process:
    """As anybody would start it."""
    command = [str(shutil.which("env")), *(f"{name}={value}" for name, value in environ.items())]
    return spawn([*command, sys.executable, "-m", *words], directory, log)


class WorkerProcess:
    """`python -m …` with an environment of its own, which dies with this process."""

    def __init__(self, name: str, directory: Path, environ: Mapping[str, str], words: Sequence[str]) -> None:
        self.name = name
        self._log = directory / f"{name}.log"
        environ = {
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), str(directory), os.environ.get("PYTHONPATH")))),
            **environ,
        }
        self.process = self.launch(words, environ, directory, self._log)

    @staticmethod
    def launch(words: Sequence[str], environ: Mapping[str, str], directory: Path, log: Path) -> Process:
        """Tests, which start many and measure none, have a quicker way."""
        return launched(words, environ, directory, log)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def log(self) -> str:
        """All that it wrote, logging included."""
        return self._log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it has gone."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """SIGSTOP, and wait until it stands still."""
        self.signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(self.process.pid), f"worker {self.name} to stop on SIGSTOP")

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended by itself; TimeoutError with the end of its log if it has not in time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(
                f"worker {self.name} has not ended in {seconds:g} s. Its log ends:\n{self.log[-4000:]}"
            ) from None


class Worker(WorkerProcess):
    """One `scrapy crawl`."""

    def __init__(self, name: str, directory: Path, environ: Mapping[str, str], arguments: Sequence[str]) -> None:
        self._report = directory / f"{name}.json"
        # By its name the site knows who came.
        words = ["scrapy", "crawl", Walker.name, "-s", f"USER_AGENT={name}"]
        for argument in arguments:
            words += ["-a", argument]
        super().__init__(name, directory, {REPORT: str(self._report), **environ}, words)

    @property
    def opened(self) -> bool:
        """Whether its spider is open; RuntimeError with the end of its log if it has ended before that."""
        if self._report.with_suffix(OPENED).exists():
            return True
        if not self.running:
            raise RuntimeError(
                f"worker {self.name} ended before its spider was open. Its log ends:\n{self.log[-4000:]}"
            )
        return False

    def report(self) -> Report:
        """What it said at its end; RuntimeError with the end of its log if it said nothing."""
        if not self._report.exists():
            raise RuntimeError(f"worker {self.name} ended without a report. Its log ends:\n{self.log[-4000:]}")
        return Report(**json.loads(self._report.read_text()))


class Project:
    """A directory with a settings module and nothing else. Leaving the `with` block ends its workers and removes it."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._holder = tempfile.TemporaryDirectory(prefix="gossamer-")
        self.directory = Path(self._holder.name)
        self.workers: list[Worker] = []
        lines = [f"{name} = {value!r}\n" for name, value in {**COMMON, **settings}.items()]
        (self.directory / "bench_settings.py").write_text("".join(lines))
        (self.directory / "scrapy.cfg").write_text("[settings]\ndefault = bench_settings\n")

    def start(self, environ: Mapping[str, str] | None = None, arguments: Sequence[str] = ()) -> Worker:
        """One more worker."""
        worker = Worker(f"worker{len(self.workers)}", self.directory, environ or {}, arguments)
        self.workers.append(worker)
        return worker

    def close(self) -> None:
        for worker in self.workers:
            end(worker.process, 2.0)
        self._holder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
