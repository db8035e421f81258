"""Workers of two versions on one crawl: those of the version before go on to the end beside newer ones; another schema is refused.

The version before is taken from the history of this repository: the last commit whose server-side functions are others, and whose
schema is the same. Judged by the site's own log and by the items, on both engines.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from bench.crawls.fleet import Fleet
from bench.crawls.native import NativeFleet
from bench.crawls.project import ROOT, WorkerProcess, launched
from bench.crawls.shape import Shape
from tests.support.auditor.audit import audit

from gossamer.errors import UnknownCrawl
from gossamer.frontier.server import library
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

PAGES = 200
IN_FLIGHT = 8
LIBRARY = "src/gossamer/frontier/server/library.py"
RECORD = "src/gossamer/frontier/server/lua/revision.txt"
SCHEMA_LINE = re.compile(r"^SCHEMA = (\d+)$", re.MULTILINE)
REFUSED = {"native": 3, "scrapy": 1}
"""How `gossamer work` and `scrapy crawl` end that may not work."""
NEEDS = "this test takes the version before from the history of the repository: run it in a full clone (git fetch --unshallow)"


def git(*words: str) -> bytes:
    try:
        return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.fail(f"{NEEDS}; {' '.join(('git', *words))}: {getattr(error, 'stderr', b'').decode() or error}")


def schema_of(text: str) -> int:
    [number] = SCHEMA_LINE.findall(text)
    return int(number)


def commits_before() -> Iterator[str]:
    """The commits before each change of the server-side functions, newest first."""
    for changed in git("log", "--format=%H", "--", RECORD).decode().split():
        parents = git("rev-list", "--parents", "-n", "1", changed).decode().split()[1:]
        if parents and git("ls-tree", "--name-only", parents[0], "--", RECORD, LIBRARY).count(b"\n") == 2:
            yield parents[0]


def version_before() -> str:
    """The last commit with this schema and other functions; right after the schema was raised, the present one."""
    commit = next(commits_before(), None)
    if commit is None:
        pytest.fail(f"{NEEDS}; it has no change of {RECORD}")
    same = schema_of(git("show", f"{commit}:{LIBRARY}").decode()) == library.SCHEMA
    return commit if same else "HEAD"


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the version before."""
    folder = tmp_path_factory.mktemp("older")
    packed = git("archive", version_before(), "src")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
    return folder / "src"


@pytest.fixture(autouse=True)
def _as_anybody_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerProcess, "launch", staticmethod(launched))


def of_schema(number: int, folder: Path) -> Path:
    """The present sources as those of another schema."""
    sources = shutil.copytree(ROOT / "src", folder / f"schema{number}")
    path = sources.parent / sources.name / LIBRARY.removeprefix("src/")
    path.write_text(SCHEMA_LINE.sub(f"SCHEMA = {number}", path.read_text()))
    return sources


AnyFleet = Fleet | NativeFleet
Start = Callable[[Path], WorkerProcess]


def starter(fleet: AnyFleet) -> Start:
    """Starts a worker of these sources."""

    def start(sources: Path) -> WorkerProcess:
        folder = fleet.folder if isinstance(fleet, NativeFleet) else fleet.project.directory
        path = os.pathsep.join(map(str, (sources, ROOT, folder)))
        [worker] = fleet.start(environ={"PYTHONPATH": path})
        return worker

    return start


def fleet_of(engine: str, server: Server) -> AnyFleet:
    kind = NativeFleet if engine == "native" else Fleet
    return kind(Shape("ten", PAGES, 1), server.url, "upgrade", concurrent=IN_FLIGHT, delay=0.5, hold=True)


def revision(server: Server) -> int:
    """Of the functions that the server has now."""
    names = re.findall(rf"{library.LIBRARY}_r(\d+)_", str(server.call("FUNCTION", "LIST")))
    return int(names[0]) if names else 0


def joined(fleet: AnyFleet, worker: WorkerProcess) -> None:
    """Wait until it has called the frontier. The site holds its answers, so that the crawl is not over before."""

    def called() -> bool:
        assert worker.running, worker.log[-3000:]
        with suppress(UnknownCrawl), fleet.frontier() as frontier:
            return any(row.info.get("pid") == str(worker.process.pid) for row in frontier.workers())
        return False

    wait_until(called, "the worker to call", 120)


def reach(fleet: AnyFleet, share: float) -> None:
    wait_until(lambda: fleet.site.pages() >= share * PAGES, f"{share:.0%} of the pages", 120)


def check(fleet: AnyFleet, killed: int) -> None:
    visits: dict[int, list[str]] = {}
    for visit in sorted(fleet.site.visits()):
        visits.setdefault(visit.page, []).append(visit.who)
    with fleet.frontier() as frontier:
        assert fleet.items(frontier) == Counter(range(PAGES)), "one item of each page"
        audit(frontier)
        assert frontier.drained(fleet.group).drained
        assert frontier.dead_letters(fleet.group) == []
    assert set(visits) == set(range(PAGES))
    again = [whose for whose in visits.values() if len(whose) > 1]
    # In flight, or answered and not settled yet.
    assert sum(len(whose) - 1 for whose in again) <= killed * 2 * IN_FLIGHT, again
    if isinstance(fleet, Fleet):
        names = {f"worker{number}" for number in range(killed)}
        assert {whose[0] for whose in again} <= names, "a page that no killed worker had was fetched again"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["native", "scrapy"])
@pytest.mark.parametrize("first", ["older", "newer"])
def test_workers_of_the_version_before_go_on_to_the_end_beside_newer_ones(engine: str, first: str, older: Path) -> None:
    """One of each is killed in between, and one of each comes after that."""
    ours = ROOT / "src"
    order = (older, ours) if first == "older" else (ours, older)
    with Server() as server, fleet_of(engine, server) as fleet:
        start = starter(fleet)
        workers = [start(order[0])]
        joined(fleet, workers[0])
        fleet.begin()
        for number, share in enumerate((0.1, 0.3, 0.5)):
            reach(fleet, share)
            fleet.site.hold()
            if number:
                workers[number - 1].kill()
            workers.append(start(order[(number + 1) % 2]))
            joined(fleet, workers[-1])
            fleet.site.release()
            assert revision(server) >= library.REVISION, "the newer functions serve all"
        codes = [worker.wait(120) for worker in workers[2:]]
        assert codes == [0, 0], "\n".join(worker.log[-3000:] for worker in workers[2:])
        check(fleet, killed=2)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["native", "scrapy"])
def test_a_worker_of_another_schema_refuses_by_name_and_those_that_run_go_on(engine: str, tmp_path: Path) -> None:
    with Server() as server, fleet_of(engine, server) as fleet:
        start = starter(fleet)
        worker = start(ROOT / "src")
        joined(fleet, worker)
        fleet.begin()
        reach(fleet, 0.2)
        fleet.site.hold()
        for number, remedy in ((library.SCHEMA + 1, "Export it"), (library.SCHEMA - 1, "Upgrade this worker")):
            other = start(of_schema(number, tmp_path))
            assert other.wait(90) == REFUSED[engine], other.log
            said = f"crawl 'upgrade' has schema {library.SCHEMA}, this Gossamer writes {number}"
            assert said in other.log, other.log
            assert remedy in other.log, other.log
        fleet.site.release()
        assert worker.wait(120) == 0, worker.log[-3000:]
        check(fleet, killed=0)
