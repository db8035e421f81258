"""Databases that are killed while four processes write: all that was acknowledged is there, and nothing is there twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.store.database.writing_process import PAGES, url_of
from tests.store.tables import FORUM, PRICES, bodies, titles
from tests.support import fork_server
from tests.support.fork_server import Started
from tests.support.servers.databases import DatabaseServer, MariaDBServer, PostgreSQLServer

from gossamer.store import Store
from gossamer.testing.process import wait_until

# Several processes on a machine that may have other things to do.
pytestmark = pytest.mark.timeout(400)

WORKERS = 4


@contextmanager
def workers_on(url: str, directory: Path) -> Iterator[list[tuple[Started, Path]]]:
    """Processes that are ready and wait for `go`."""
    started: list[tuple[Started, Path]] = []
    try:
        for number in range(WORKERS):
            said = directory / f"worker{number}.txt"
            words = [url, str(number), str(directory / "gate")]
            child = fork_server.start(
                "tests.store.database.writing_process", words, environ=os.environ, directory=directory, stdout=said
            )
            started.append((child, said))

        def ready() -> bool:
            for child, said in started:
                assert child.poll() is None, said.read_text()
            return all("ready" in said.read_text() for _, said in started)

        wait_until(ready, "all workers", 120)
        yield started
    finally:
        for child, _ in started:
            child.kill()
            child.wait()


def go(directory: Path) -> None:
    (directory / "gate").touch()


def go_on(directory: Path) -> None:
    """Let the last pages be written, too."""
    (directory / "gate.last").touch()


def acknowledged(said: Path) -> set[int]:
    return {int(line.split()[1]) for line in said.read_text().splitlines() if line.startswith("done ")}


@pytest.mark.parametrize("server_type", [PostgreSQLServer, MariaDBServer])
def test_nothing_acknowledged_is_lost_and_nothing_is_doubled(server_type: type[DatabaseServer], tmp_path: Path) -> None:
    with server_type() as server, workers_on(server.url(), tmp_path) as workers:

        def all_done() -> int:
            for child, said in workers:
                assert child.poll() is None or "end" in said.read_text(), said.read_text()
            return sum(len(acknowledged(said)) for _, said in workers)

        go(tmp_path)
        whole = WORKERS * PAGES
        for part in (whole // 5, whole // 2):
            wait_until(lambda part=part: all_done() >= part, f"{part} pages", 120)  # type: ignore[misc]
            server.kill()
            known = [acknowledged(said) for _, said in workers]
            assert sum(map(len, known)) < whole, "the kill came too late to prove anything"
            server.restart()
            with Store.open(server.url()) as store:
                store.prepare([*FORUM, PRICES])
                there = set(titles(store))
                for number, pages in enumerate(known):
                    assert {url_of(number, page) for page in pages} <= there, "acknowledged, and gone after the kill"
        go_on(tmp_path)
        for child, said in workers:
            assert child.wait(120) == 0, said.read_text()
            assert said.read_text().splitlines()[-1] == "end"
        expected = {url_of(number, page) for number in range(WORKERS) for page in range(PAGES)}
        with Store.open(server.url()) as store:
            store.prepare([*FORUM, PRICES])
            assert titles(store) == {where: where for where in expected}
            assert bodies(store) == {(where, place): str(place) for where in expected for place in (0, 1)}
            assert sorted(row["url"] for row in store.read("prices")) == sorted(expected), (
                "a price was noted twice or not at all"
            )


def test_several_processes_write_one_sqlite_file_and_one_is_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    with workers_on(url, tmp_path) as workers:
        go(tmp_path)
        victim, told = workers[0]
        wait_until(lambda: len(acknowledged(told)) >= PAGES // 5, "some pages of the first", 120)
        victim.kill()
        victim.wait()
        assert len(acknowledged(told)) < PAGES, "the kill came too late to prove anything"
        go_on(tmp_path)
        for child, said in workers[1:]:
            assert child.wait(120) == 0, said.read_text()
        expected = {url_of(number, page) for number in range(1, WORKERS) for page in range(PAGES)}
        kept = {url_of(0, page) for page in acknowledged(told)}
        with Store.open(url) as store:
            store.prepare([*FORUM, PRICES])
            there = titles(store)
            assert expected | kept <= set(there)
            assert set(there) <= expected | {url_of(0, page) for page in range(PAGES)}
            assert bodies(store) == {(where, place): str(place) for where in there for place in (0, 1)}
            assert sorted(row["url"] for row in store.read("prices")) == sorted(there)
