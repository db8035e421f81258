"""A project of scrapy-redis as people write them, run as it is and with nothing but its import prefix replaced, at the same time.

Each side has a copy of the project, a server and a site of its own. What the site was asked for, what the project kept as items
and how its commands ended is what both must agree on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import fork_server
from tests.support.scrapy_redis.sides import SIDES, client
from tests.support.site import Site, links

from gossamer.testing.process import Process, end
from gossamer.testing.servers import Server

PROJECTS = Path(__file__).with_name("projects")
PREFIX = re.compile(r"\bscrapy_redis\b")
SECONDS = 100.0
PAGES: Mapping[str, tuple[str, ...]] = {
    "/": ("/a", "/b", "/list/1"),
    "/a": ("/c?session=1", "/b"),
    "/b": ("/c?session=2", "/d"),
    "/list/1": ("/list/2", "/post/1", "/post/2"),
    "/list/2": ("/list/1", "/post/2", "/post/3"),
}
LINKED = ["/", "/a", "/b", "/c?session=1", "/c?session=2", "/d", "/list/1", "/list/2", "/post/1", "/post/2", "/post/3"]
"""All that can be reached from /."""

_CFG = "[settings]\ndefault = project.settings\n"
# As if the server stood where everybody's stands: only the address that a project without any setting means is changed.
_REDIRECT = """
import socket
_found = socket.getaddrinfo

def getaddrinfo(host, port, *more, **named):
    return _found(host, PORT if str(port) == "6379" else port, *more, **named)

socket.getaddrinfo = getaddrinfo
"""


@dataclass(frozen=True)
class Ended:
    """A command of a project: its exit code, why its spider closed ("" if it had none), and all it said."""

    code: int
    reason: str
    log: str


@dataclass(frozen=True)
class Outcome:
    """What came of a project. `items` and `requests` do not tell one side's site from the other's."""

    items: Counter[str]
    requests: Counter[str]
    ends: tuple[tuple[int, str], ...]
    logs: tuple[str, ...]
    told: Any = None

    def paths(self) -> Counter[str]:
        """How often each address was asked for, whatever way."""
        counted: Counter[str] = Counter()
        for request, times in self.requests.items():
            counted[request.split(" ")[1]] += times
        return counted


class Side:
    """One copy of a project with what it needs to run."""

    def __init__(self, directory: Path, project: str, package: str, server: Server, site: Site) -> None:
        self.package, self.server, self.site, self.directory = package, server, site, directory
        self.client = client(server)
        self._commands = 0
        self.ended: list[Ended] = []
        shutil.copytree(PROJECTS / project, directory / "project", ignore=shutil.ignore_patterns("__pycache__"))
        for file in directory.rglob("*.py"):
            text = PREFIX.sub(package, file.read_text())
            file.write_text(text.replace("6379", str(server.port)).replace("http://site", site.url))
        (directory / "scrapy.cfg").write_text(_CFG)
        (directory / "sitecustomize.py").write_text(_REDIRECT.replace("PORT", str(server.port)))

    def run(self, *commands: str) -> list[Ended]:
        """These command lines in the project at once, each to its end; `scrapy` and `python` are the ones of these tests."""
        started = [self._start(command) for command in commands]
        ended = []
        try:
            for process, log, command in started:
                try:
                    code = process.wait(SECONDS)
                except subprocess.TimeoutExpired:
                    raise TimeoutError(f"{self.package}: {command!r} has not ended:\n{_tail(log)}") from None
                text = log.read_text(errors="replace")
                reasons = re.findall(r"Spider closed \((.*?)\)", text)
                ended.append(Ended(code, reasons[-1] if reasons else "", text))
        finally:
            for process, _, _ in started:
                end(process, grace=0.1)
        self.ended += ended
        return ended

    def _start(self, command: str) -> tuple[Process, Path, str]:
        program, *words = command.split()
        self._commands += 1
        log = self.directory / f"command-{self._commands}.log"
        # Nothing that the machine says of Gossamer: a project that was moved over has only its own settings.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
        if program != "scrapy":
            with log.open("wb") as out:
                line = [sys.executable, *words]
                environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(self.directory), environ.get("PYTHONPATH"))))
                process = subprocess.Popen(
                    line, cwd=self.directory, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out
                )
            return process, log, command
        started = fork_server.start("scrapy", words, environ=environ, directory=self.directory, stdout=log)
        return started, log, command

    def outcome(self, items: tuple[str, ...], told: Any) -> Outcome:
        kept = Counter(self._neutral(data.decode()) for key in items for data in self.client.lrange(key, 0, -1))
        visits = [f"{visit.method} {visit.target} {visit.body.decode()}".strip() for visit in self.site.visits]
        ends = tuple((each.code, each.reason) for each in self.ended)
        return Outcome(kept, Counter(visits), ends, tuple(each.log for each in self.ended), told)

    def _neutral(self, item: str) -> str:
        return json.dumps(json.loads(item.replace(self.site.url, "")), sort_keys=True)


Act = Callable[[Side], Any]


def both(
    directory: Path, project: str, act: Act, *, items: tuple[str, ...] = ("shop:items",)
) -> tuple[Outcome, Outcome]:
    """What comes of a project on scrapy-redis and on ours. `act` feeds and runs it, and may return what else is to be equal;
    `items` are the lists that it keeps items in."""
    with ThreadPoolExecutor(2) as pool, ExitStack() as stack:
        outcomes = list(pool.map(lambda side: _one(directory / side, project, side, act, items, stack), SIDES))
    return outcomes[0], outcomes[1]


def _one(directory: Path, project: str, package: str, act: Act, items: tuple[str, ...], stack: ExitStack) -> Outcome:
    directory.mkdir(parents=True)
    with Server() as server, Site() as site:
        for path, targets in PAGES.items():
            site.on(path, links(*targets))
        side = Side(directory, project, package, server, site)
        with side.client:
            told = act(side)
            return side.outcome(items, told)


def same(outcomes: tuple[Outcome, Outcome]) -> Outcome:
    """What came of both; AssertionError with all differences and the end of our log where it is not the same."""
    old, new = outcomes
    differences = []
    for name in ("items", "requests", "ends", "told"):
        there, here = getattr(old, name), getattr(new, name)
        if there != here:
            if isinstance(there, Counter):
                differences.append(f"{name} only there: {dict(there - here)}; only here: {dict(here - there)}")
            else:
                differences.append(f"{name} there: {there}; here: {here}")
    assert not differences, "\n".join([*differences, *(log[-5000:] for log in new.logs)])
    return old


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-5000:]
