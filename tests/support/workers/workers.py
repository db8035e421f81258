"""Worker processes with scenario spiders, on any supported Scrapy and event loop, and what they recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.support import fork_server
from tests.support.auditor.audit import audit
from tests.support.workers.recorder import RECORD
from tests.support.workers.variants import PLAIN, Variant

from gossamer.frontier.codec import decode
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import DeadLetter
from gossamer.settings import load
from gossamer.testing.process import end, wait_until

ROOT = Path(__file__).resolve().parents[3]
SETTINGS: dict[str, Any] = {
    "ADDONS": {"gossamer.Addon": 100},
    "EXTENSIONS": {"tests.support.workers.recorder.Recorder": 0},
    "LOG_LEVEL": "DEBUG",
    "TELNETCONSOLE_ENABLED": False,
    "RETRY_TIMES": 2,
    "CONCURRENT_REQUESTS": 32,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 32,
    "DOWNLOAD_DELAY": 0,
    "GOSSAMER_ITEMS": "stream",
    # A worker that is started again finishes what is left; tests of rounds say otherwise.
    "GOSSAMER_ROUND": "join",
    # By arguments, tests let one worker stop where the next one goes on.
    "GOSSAMER_ARGUMENTS": "any",
}


class Event(NamedTuple):
    spider: str
    kind: str
    what: str
    more: Mapping[str, Any]
    time: float


class Worker:
    """One process, which dies with this one."""

    def __init__(self, directory: Path, name: str, plan: dict[str, Any], environ: Mapping[str, str], path: str) -> None:
        self.name = name
        self._record, self._end, self._log = (directory / f"{name}.{kind}" for kind in ("record", "end", "log"))
        self._record.touch()
        file = directory / f"{name}.plan"
        file.write_text(json.dumps({**plan, "end": str(self._end)}))
        self.process = fork_server.start(
            "tests.support.workers.main",
            [str(file)],
            environ={**os.environ, RECORD: str(self._record), **environ},
            directory=directory,
            stdout=self._log,
            path=[path],
            # A warning from within the garbage collector imports modules, which Python 3.11 does not always survive there.
            options=["-Walways", "-Wignore::ResourceWarning"],
        )

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def events(self) -> list[Event]:
        """What it recorded so far; the line that is being written is left out."""
        text = self._record.read_text()
        return [Event(*json.loads(line)) for line in text[: text.rfind("\n") + 1].splitlines()]

    def until(self, kind: str, what: str, seconds: float = 60.0) -> None:
        """Return when an event has happened; RuntimeError if the worker ends without it."""

        def happened() -> bool:
            gone = self.process.poll() is not None
            if any(event.kind == kind and event.what == what for event in self.events):
                return True
            if gone:
                raise RuntimeError(f"worker {self.name} ended without {kind} {what}:\n{self.log[-4000:]}")
            return False

        try:
            wait_until(happened, f"{kind} {what}", seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}. Its log ends:\n{self.log[-4000:]}") from None

    def said(self, text: str, seconds: float = 60.0) -> None:
        """Return when its log has this text."""
        try:
            wait_until(lambda: text in self.log, f"{text!r} in the log", seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}. Its log ends:\n{self.log[-4000:]}") from None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 100.0) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"worker {self.name} has not ended. Its log ends:\n{self.log[-6000:]}") from None

    def result(self) -> dict[str, Any]:
        """What it said at its end."""
        # 1: it was refused, or failed in another way that its log tells.
        code = self.wait()
        if code not in (0, 1) or not self._end.exists():
            raise RuntimeError(f"worker {self.name} ended with {code}. Its log ends:\n{self.log[-6000:]}")
        found: dict[str, Any] = json.loads(self._end.read_text())
        return found

    def stats(self, spider: str = "") -> dict[str, Any]:
        """The stats of its only spider, or of this one."""
        spiders = self.result()["spiders"]
        found: dict[str, Any] = spiders[spider or next(iter(spiders))]["stats"]
        return found

    def calls(self) -> list[str]:
        """The verbs of the frontier that it called since its spider was open."""
        return of(self.events, "call")

    def reason(self, spider: str = "") -> str:
        return str(self.stats(spider).get("finish_reason"))


class Workers:
    """Workers of one crawl. Leaving the `with` block ends them and removes what they wrote."""

    def __init__(self, address: str, crawl: str, variant: Variant = PLAIN, **settings: Any) -> None:
        self.variant, self.crawl = variant, crawl
        self.environ = {"GOSSAMER_URL": address, "GOSSAMER_CRAWL": crawl}
        self.settings = {**SETTINGS, **variant.settings, **settings}
        self._holder = tempfile.TemporaryDirectory(prefix="gossamer-")
        self.all: list[Worker] = []

    def start(
        self,
        *spiders: type,
        settings: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        patches: Sequence[str] = (),
        show: Sequence[str] = (),
        variant: Variant | None = None,
        **arguments: str,
    ) -> Worker:
        """One more process with these spiders."""
        variant = variant or self.variant
        plan = {
            "spiders": [f"{spider.__module__}.{spider.__qualname__}" for spider in spiders],
            "settings": {**self.settings, **variant.settings, **(settings or {})},
            "arguments": arguments,
            "process": variant.process,
            "patches": list(patches),
            "show": list(show),
        }
        name = f"worker{len(self.all)}"
        environ = {**self.environ, **(environ or {})}
        worker = Worker(Path(self._holder.name), name, plan, environ, variant.path())
        self.all.append(worker)
        return worker

    def frontier(self) -> ValkeyFrontier:
        return ValkeyFrontier.find(load({name: self.environ[name] for name in self.environ}, environ={}))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.all:
            end(worker.process, 2.0)
        self._holder.cleanup()


class Left(NamedTuple):
    """What a group's crawl left in the frontier."""

    items: list[Any]
    dead: list[DeadLetter]
    counters: Mapping[str, float]

    def ids(self) -> Counter[str]:
        return Counter(str(item["id"]) for item in self.items)

    def reasons(self) -> Counter[str]:
        return Counter(letter.reason for letter in self.dead)


def left(frontier: ValkeyFrontier, group: str, *, drained: bool = True) -> Left:
    """AssertionError unless the crawl is at peace with itself, nothing is leased and (with `drained`) nothing is open."""
    audit(frontier)
    counts = frontier.counts(group)
    assert all(lane.leased == 0 for lane in counts.lanes), f"something is still leased: {counts.lanes}"
    if drained:
        assert frontier.drained(group).drained, f"{frontier.drained(group)}: {counts.lanes}"
    items = []
    for partition in range(frontier.partitions):
        after = "0-0"
        while rows := frontier.read_items(group, partition, after, 1000):
            items += [decode(item) for _, item in rows]
            after = rows[-1][0]
    row = next(row for row in counts.groups if row.group == group)
    assert row.lost == row.refused_items == row.refused_children == 0, row
    return Left(items, frontier.dead_letters(group), row.counters)


def of(events: Sequence[Event], kind: str) -> list[str]:
    """What happened of one kind, in order."""
    return [event.what for event in events if event.kind == kind]
