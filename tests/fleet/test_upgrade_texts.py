"""A worker of a version that does not know `changed`, on a crawl whose new site file has it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.engine.page.test_change_texts import SITE, Board, Model, stored, threads_of
from tests.fleet.test_upgrade import git
from tests.support.example_sites import Place
from tests.support.site import Site

from gossamer.errors import UnknownCrawl
from gossamer.model import WorkerInfo
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

TEXTS = "src/gossamer/frontier/server/lua/parts/state/changed.lua"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The sources of the version before texts."""
    came = git("log", "--diff-filter=A", "--format=%H", "--", TEXTS).decode().split()[-1]
    subprocess.run(["tar", "-x", "-C", str(tmp_path)], input=git("archive", f"{came}^", "src"), check=True)
    return tmp_path / "src"


def workers(place: Place) -> list[WorkerInfo]:
    with suppress(UnknownCrawl), place.frontier() as frontier:
        return [worker for worker in frontier.workers() if not worker.closed]
    return []


@pytest.fixture
def former(place: Place, older: Path) -> Iterator[subprocess.Popen[bytes]]:
    environ = {**place.environ, "PYTHONPATH": str(older)}
    command = [sys.executable, "-m", "gossamer", "work", "--forever"]
    with (
        (place.directory / "former.log").open("wb") as log,
        subprocess.Popen(command, cwd=place.directory, env=environ, stdout=log, stderr=log) as worker,
    ):
        try:
            wait_until(lambda: any(row.info.get("pid") == str(worker.pid) for row in workers(place)), "it to call", 120)
            yield worker
        finally:
            worker.send_signal(signal.SIGCONT)
            worker.kill()


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name, GOSSAMER_LEASE_SECONDS="3")


@pytest.fixture
def board(place: Place) -> Iterator[tuple[Board, Model, str]]:
    """A forum of which a round was crawled by a file without `changed`; and a file with it."""
    with Site() as site:
        board = Board(site, seed=8, threads=6)
        board.listed = [[*board.titles], [1]]
        text = SITE.replace("SITE", site.url).replace("SEEN", "seen: forever")
        place.write(text.replace(', changed: "{at}"', ""))
        place.crawl("site.yaml")
        model = Model(board)
        model.round()
        assert stored(place) == model.rows()
        model.known.clear()
        yield board, model, text


@pytest.mark.timeout(300)
def test_a_page_with_a_text_waits_for_a_worker_that_knows_of_texts(
    place: Place, board: tuple[Board, Model, str], former: subprocess.Popen[bytes]
) -> None:
    """Of the version before, it would lead to no page turns, and the text would stand for all of them from then on."""
    forum, model, text = board
    for number in forum.titles:
        forum.reply(number, 4)
        forum.at[number] += 1
    wanted = model.round()
    firsts = [path for path in wanted if path.count("/") == 2]
    former.send_signal(signal.SIGSTOP)
    forum.site.hold(*firsts)
    forum.site.visits.clear()
    place.write(text)
    with place.start("crawl", "site.yaml", "-w", "1") as crawl:
        forum.site.wait(lambda paths: paths.count("/list/2") and set(paths) & set(firsts), "lists and a thread")
        [newer] = [int(row.info["pid"]) for row in workers(place) if row.info["pid"] != str(former.pid)]
        crawl.kill()
        with suppress(ProcessLookupError):
            os.kill(newer, signal.SIGKILL)
    forum.site.release(*firsts)
    former.send_signal(signal.SIGCONT)
    assert former.wait(60) == 0, "it ends by itself"
    place.crawl("site.yaml", "--resume")
    assert set(threads_of(forum.site)) == set(wanted)
    assert stored(place) == model.rows()
    forum.site.visits.clear()
    place.crawl("site.yaml")
    assert threads_of(forum.site) == []
