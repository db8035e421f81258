"""The example project as a user has it: copied, its import prefix replaced or not, its workers started with `scrapy crawl`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support import fork_server

from gossamer.errors import UnknownCrawl
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.process import end, wait_until

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "scrapy_redis_project"
PREFIX = re.compile(r"\bscrapy_redis\b")


class Worker:
    """One `scrapy crawl`; its log is a file."""

    def __init__(self, directory: Path, number: int, words: list[str], environ: Mapping[str, str], path: str) -> None:
        self._log = directory / f"worker-{number}.log"
        self.process = fork_server.start(
            "scrapy",
            ["crawl", *words],
            environ={**os.environ, **environ},
            directory=directory,
            stdout=self._log,
            path=[path],
        )

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def said(self, text: str, times: int = 1, seconds: float = 60.0) -> None:
        def there() -> bool:
            gone = self.process.poll() is not None
            if self.log.count(text) >= times:
                return True
            if gone:
                raise AssertionError(f"the worker ended without saying {text!r}:\n{self.log[-6000:]}")
            return False

        wait_until(there, f"{text!r} in the log", seconds)

    def ended(self, seconds: float = 100.0) -> str:
        """Its log, when it has ended in good order."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the worker has not ended. Its log ends:\n{self.log[-6000:]}") from None
        assert code == 0, self.log[-6000:]
        return self.log

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Project:
    """A copy of the example under an import prefix. Leaving the `with` block ends its workers."""

    def __init__(self, directory: Path, prefix: str, url: str, *, scrapy_path: str = "", **settings: Any) -> None:
        self.settings = settings
        self.directory = directory / "project"
        shutil.copytree(EXAMPLE, self.directory)
        for file in self.directory.rglob("*.py"):
            file.write_text(PREFIX.sub(prefix, file.read_text()))
        self.environ, self._path = {"REDIS_URL": url}, scrapy_path
        self.workers: list[Worker] = []

    def start(self, spider: str, *words: str, **settings: Any) -> Worker:
        """`scrapy crawl spider words…`, with settings as after -s."""
        given = [word for name, value in {**self.settings, **settings}.items() for word in ("-s", f"{name}={value}")]
        self.workers.append(
            Worker(self.directory, len(self.workers), [spider, *words, *given], self.environ, self._path)
        )
        return self.workers[-1]

    def frontier(self) -> ValkeyFrontier:
        """Waits until a worker has made the crawl."""
        given = {
            "GOSSAMER_URL": self.environ["REDIS_URL"],
            "GOSSAMER_CRAWL": self.settings.get("GOSSAMER_CRAWL", "main"),
        }

        def found() -> ValkeyFrontier | None:
            with suppress(UnknownCrawl):
                return ValkeyFrontier.find(load(given, environ={}))
            return None

        frontier = wait_until(found, "the crawl to be there", 60)
        assert frontier is not None
        return frontier

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            end(worker.process, grace=0.1)
