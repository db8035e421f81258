"""`gossamer demo`: a real crawl with a checked end, and a clean end at any moment."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gossamer.cli import exits
from gossamer.demo.check import Outcome, findings
from gossamer.frontier.valkey_async import AsyncValkeyFrontier
from gossamer.model import GroupCounts, LaneCounts, Token
from gossamer.settings import load
from gossamer.testing.forum import Arrival
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

GOSSAMER = [sys.executable, "-m", "gossamer"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Everything temporary goes below the test's own directory, so that leftovers are found."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    return {**kept, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}


def leftovers(place: Path) -> list[str]:
    """Processes that work in `place` or name it, and what lies there."""
    found = [path.name for path in place.glob("gossamer-*")]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.name != str(os.getpid()) and (
                str(process.joinpath("cwd").readlink()).startswith(str(place))
                or str(place) in process.joinpath("cmdline").read_text(errors="replace")
            ):
                found.append(process.joinpath("cmdline").read_text(errors="replace").replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.timeout(180)
def test_the_demo_crawls_every_page_once_and_leaves_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(
        [*GOSSAMER, "demo", "--json"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    checks = {check["what"]: check for check in answer["checks"]}
    assert answer["ok"]
    assert all(check["ok"] is not False for check in checks.values())
    assert checks["pages crawled"]["expected"] == checks["pages crawled"]["found"]
    assert int(checks["links that were known already"]["found"].replace(",", "")) > 0
    assert int(checks["told to come later, tried again"]["found"].replace(",", "")) > 0
    assert "pages/s" in done.stderr
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("moment", ["at once", "starting", "crawling"])
def test_ctrl_c_ends_the_demo_within_two_seconds(moment: str, tmp_path: Path, environ: dict[str, str]) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stream:
        child = subprocess.Popen([*GOSSAMER, "demo"], cwd=tmp_path, env=environ, stdout=stream, stderr=stream)
    try:
        if moment == "crawling":
            wait_until(lambda: "pages/s" in log.read_text(), "the crawl to be under way")
        else:
            wait_until(lambda: any(tmp_path.glob("gossamer-demo-*")), "the demo to begin")
        if moment == "starting":
            wait_until(lambda: any(tmp_path.glob("gossamer-demo-*/state.json")), "the server to start")
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == exits.INTERRUPTED, log.read_text()
        assert time.monotonic() - began < 2
    finally:
        child.kill()
        child.wait()
    assert log.read_text().endswith("interrupted\n")
    assert "Traceback" not in log.read_text()
    assert leftovers(tmp_path) == []


def test_on_a_terminal_progress_is_drawn_and_sigterm_ends_it(tmp_path: Path, environ: dict[str, str]) -> None:
    mine, its = pty.openpty()
    environ = {**environ, "TERM": "xterm", "COLUMNS": "100"}
    child = subprocess.Popen([*GOSSAMER, "demo"], cwd=tmp_path, env=environ, stdin=its, stdout=its, stderr=its)
    os.close(its)
    seen = b""
    try:
        while "━".encode() not in seen or b"left" not in seen:
            seen += os.read(mine, 4096)
        child.terminate()
        assert child.wait(30) == exits.INTERRUPTED
    finally:
        child.kill()
        child.wait()
        os.close(mine)
    assert leftovers(tmp_path) == []


def arrival(path: str, status: int = 200, in_flight: int = 1) -> Arrival:
    return Arrival(0.0, "h", path, status, in_flight, 1)


def outcome(
    *arrivals: Arrival, items: tuple[str, ...] = ("http://h/post/1",), dead: int = 0, retried: int = 0
) -> Outcome:
    lane = LaneCounts("forum.list", 0, 0, 0, 2, 1, 2, 0, retried, 0, 0, 0, "")
    group = GroupCounts("forum", 0, 0, 2, 1, 1, dead, 0, 0, 0, "", "done", {})
    return Outcome(
        frozenset({"http://h/", "http://h/post/1"}), frozenset(), frozenset(), [*arrivals], [lane], group, [*items], 2
    )


GOOD = (arrival("/"), arrival("/post/1"))


@pytest.mark.parametrize(
    ("result", "failing"),
    [
        (outcome(*GOOD), []),
        (outcome(arrival("/")), ["pages crawled", "each page exactly once"]),
        (outcome(*GOOD, arrival("/")), ["each page exactly once"]),
        (outcome(*GOOD, arrival("/x", 404)), ["dead letters (404)", "requests nobody expected"]),
        (outcome(*GOOD, dead=1), ["dead letters kept"]),
        (outcome(arrival("/", 503), *GOOD), ["told to come later, tried again"]),
        (outcome(arrival("/", 503), *GOOD, retried=1), []),
        (outcome(*GOOD, items=()), ["items, one per post or comment"]),
        (outcome(*GOOD, items=("http://h/post/1",) * 2), ["items, one per post or comment"]),
        (outcome(GOOD[0], arrival("/post/1", in_flight=3)), ["most in flight at one host"]),
    ],
)
def test_what_differs_is_found(result: Outcome, failing: list[str]) -> None:
    assert [finding.what for finding in findings(result) if finding.ok is False] == failing


async def test_a_cancelled_worker_never_goes_on(valkey_server: Server, crawl_name: str) -> None:
    settings = load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}, {})

    async def work(frontier: AsyncValkeyFrontier) -> None:
        token = Token.fresh()
        while True:
            token = token.next()
            await frontier.exchange(token)

    async with await AsyncValkeyFrontier.open(settings) as frontier:
        for number in range(100):
            task = asyncio.create_task(work(frontier))
            # A different place in the conversation each time.
            for _ in range(number):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=10)
            assert done, f"the cancellation after {number} steps was swallowed"
