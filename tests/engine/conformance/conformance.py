"""One list of cases for both engines: each is a site file, a site that answers as the case says, and what must come of it."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import sqlite3
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from tests.support import fork_server
from tests.support.native_crawl import Crawl
from tests.support.site import Site
from tests.support.workers.variants import Variant

from gossamer.sites.file.load import load_text
from gossamer.testing.process import end
from gossamer.testing.servers import Server

SHARED = frozenset({"host", "connection", "content-length", "keep-alive"})
"""Headers that belong to a connection, not to what a site is asked."""
PROMISED = (
    "site/",
    "gossamer/responses/",
    "engine/failed/",
    "gossamer/retries",
    "gossamer/filtered",
    "gossamer/requests",
    "gossamer/tasks",
)


Result = TypeVar("Result")


class Asked(NamedTuple):
    """One request as the site saw it; headers by lower-case name, without those of a connection."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class Came(NamedTuple):
    """What came of a case. The site's own address is SITE, that of the other one OTHER, wherever it stands."""

    asked: list[Asked]
    other: list[Asked]
    """What the other host was asked."""
    items: list[dict[str, Any]]
    dead: list[tuple[str, str]]
    """Reason and detail."""
    counters: Mapping[str, float]
    folder: Path
    """Where the worker kept its data."""
    written: list[str]
    """Names of headers with X- as they were written."""
    told: list[Any]
    """What the hooks of tests/engine/conformance/hooks.py wrote down for this case."""

    def targets(self) -> list[str]:
        return [one.target for one in self.asked]

    def one(self, path: str) -> Asked:
        [found] = [one for one in self.asked if one.path == path]
        return found

    def of(self, layer: str) -> list[dict[str, Any]]:
        return [item for item in self.items if item["layer"] == layer]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        database = sqlite3.connect(self.folder / "items.db")
        try:
            return database.execute(query).fetchall()
        finally:
            database.close()


@dataclass(frozen=True)
class Case:
    """`text` is the file without `site` and `engine`; `prepare(site, other)` says what the site answers; `tasks` are pushed to
    the key TASKS; `check` says what must be true."""

    name: str
    text: str
    prepare: Callable[[Site, Site], object]
    check: Callable[[Came], object]
    tasks: tuple[str, ...] = ()
    same_order: bool = False


def once(folders: pytest.TempPathFactory, worker_id: str, name: str, crawl: Callable[[], Result]) -> Result:
    """What came of a crawl that is made once for all processes of pytest."""
    if worker_id == "master":
        return crawl()
    shared = folders.getbasetemp().parent / f"conformance-{name}"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            shared.write_bytes(pickle.dumps(crawl()))
        found: Result = pickle.loads(shared.read_bytes())
    return found


@contextmanager
def crawled(
    server: Server,
    name: str,
    folder: Path,
    engine: str,
    cases: list[Case],
    project: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Came]]:
    """All cases, crawled by one worker process with one of the engines; "scrapy 2.13.4" is that version. `project` are the
    files of the directory that it runs in, `words` what else stands for something in the cases' files."""
    engine, _, version = engine.partition(" ")
    with ExitStack() as stack:
        sites = {case.name: (stack.enter_context(Site()), stack.enter_context(Site())) for case in cases}
        told = folder / "told.jsonl"
        crawl = Crawl(server, name, folder, next(iter(sites.values()))[0], GOSSAMER_SITE_PATHS="/")
        for case in cases:
            _prepare(server, crawl, case, *sites[case.name], engine, words or {})
        for file, text in (project or {}).items():
            place = folder / "project" / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        _work(crawl, [case.name for case in cases], told, Variant(version, "asyncio").path() if version else "")
        lines = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
        yield {
            case.name: _came(crawl, case.name, *sites[case.name], [said for site, *said in lines if site == case.name])
            for case in cases
        }


def _prepare(
    server: Server, crawl: Crawl, case: Case, site: Site, other: Site, engine: str, words: Mapping[str, str]
) -> None:
    case.prepare(site, other)
    key = f"{crawl.given['GOSSAMER_CRAWL']}:{case.name}"
    text = f"site: {case.name}\nengine: {engine}\n" + textwrap.dedent(case.text)
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    text = text.replace("TASKS", key).replace("OTHER_HOST", other.host)
    text = text.replace("SITE", site.url).replace("OTHER", other.url)
    load_text(text, case.name)  # what is wrong with it is said here
    with crawl.frontier() as frontier:
        frontier.put_document("site", case.name, text)
    for task in case.tasks:
        server.call("RPUSH", key, task.replace("SITE", site.url))


def _work(crawl: Crawl, names: list[str], told: Path, first: str) -> None:
    words = ["work", "--sites", ",".join(names), "--all-stages", "--drained"]
    for setting, value in crawl.given.items():
        words += ["-s", f"{setting}={value}"]
    (crawl.folder / "project").mkdir(exist_ok=True)
    environ = {**os.environ, "CONFORMANCE_TOLD": str(told), "CONFORMANCE_SECRET": "s3cret"}
    folder, log = crawl.folder / "project", crawl.folder / "log"
    worker = fork_server.start(
        "gossamer", words, environ=environ, directory=folder, stdout=log, path=[first], options=["-P"]
    )
    try:
        code = worker.wait(240)
    finally:
        end(worker)
    if code:
        raise AssertionError(f"the worker ended with {code}:\n{log.read_text()[-5000:]}")


def _came(crawl: Crawl, name: str, site: Site, other: Site, told: list[Any]) -> Came:
    def plain(value: Any) -> Any:
        if isinstance(value, str):
            for one, word in ((site, "SITE"), (other, "OTHER")):
                value = value.replace(one.url, word).replace(one.host, f"{word}_HOST")
            return value
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        return [plain(one) for one in value] if isinstance(value, list | tuple) else value

    def asked(one: Site) -> list[Asked]:
        return [
            Asked(
                visit.method,
                plain(visit.target),
                {
                    key.lower(): plain(value)
                    for key, value in sorted(visit.headers.items())
                    if key.lower() not in SHARED
                },
                visit.body,
            )
            for visit in one.visits
        ]

    counters = {key: value for key, value in crawl.counters(name).items() if key.startswith(PROMISED)}
    return Came(
        asked(site),
        asked(other),
        [plain(item) for item in crawl.items(name)],
        sorted((reason, plain(detail)) for reason, detail in crawl.dead(name)),
        counters,
        crawl.folder,
        sorted({name for visit in site.visits for name in visit.headers if name.lower().startswith("x-")}),
        plain(told),
    )
