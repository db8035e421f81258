"""`gossamer demo`: a real fleet with an accident and a checked end, and a clean end at any moment."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.cli import exit_codes
from gossamer.demo.check import DemoOutcome, findings
from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey_async import AsyncValkeyFrontier
from gossamer.model import Token
from gossamer.settings import load
from gossamer.status.progress import Progress
from gossamer.testing.forum import Arrival
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

GOSSAMER = [sys.executable, "-m", "gossamer"]
SMALL = ["--boards", "1", "--hosts", "2"]


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


@pytest.mark.timeout(400)
def test_every_page_and_item_comes_though_a_worker_is_killed(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = absent\n")
    done = subprocess.run(
        [*GOSSAMER, "demo", "--json", *SMALL],
        cwd=tmp_path,
        env={**environ, "GOSSAMER_LANES": "nowhere", "SCRAPY_SETTINGS_MODULE": "absent"},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    checks = {check["what"]: check for check in answer["checks"]}
    assert answer["ok"]
    assert all(check["ok"] is not False for check in checks.values())
    assert checks["pages crawled"]["found"] == "412"
    assert int(checks["in progress in the killed worker"]["found"]) > 0
    assert int(checks["retried after 429 or 503"]["found"]) > 0
    assert answer["workers_replaced"] == 1
    assert "is killed (kill -9) while it holds" in done.stderr
    assert "another takes its place" in done.stderr
    assert leftovers(tmp_path) == []


@pytest.mark.timeout(300)
def test_what_is_kept_can_be_looked_at(tmp_path: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(
        [*GOSSAMER, "demo", *SMALL, "--data-dir", "kept"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    look = done.stderr.splitlines()[-1].removeprefix("look at it: gossamer ").split()
    status = subprocess.run(
        [*GOSSAMER, *look, "--json"], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    [group] = json.loads(status.stdout)["groups"]
    assert (group["group"], group["open"], group["items"]) == ("forum", 0, 400)
    assert "Spider closed (finished)" in (tmp_path / "kept" / "worker-1.log").read_text()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("moment", ["at once", "starting", "crawling"])
def test_ctrl_c_ends_the_demo_and_all_it_started(moment: str, tmp_path: Path, environ: dict[str, str]) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stream:
        child = subprocess.Popen([*GOSSAMER, "demo"], cwd=tmp_path, env=environ, stdout=stream, stderr=stream)
    try:
        if moment == "crawling":
            wait_until(lambda: "pages/s" in log.read_text(), "the crawl to be under way", 120)
        else:
            wait_until(lambda: any(tmp_path.glob("gossamer-demo-*")), "the demo to begin", 60)
        if moment == "starting":
            wait_until(lambda: any(tmp_path.glob("gossamer-demo-*/state.json")), "the server to start", 60)
        child.send_signal(signal.SIGINT)
        assert child.wait(120) == exit_codes.INTERRUPTED, log.read_text()
    finally:
        child.kill()
        child.wait()
    assert log.read_text().endswith("interrupted\n")
    assert "Traceback" not in log.read_text()
    assert leftovers(tmp_path) == []


@pytest.mark.timeout(300)
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
        # Whoever writes to a terminal that nobody reads stops.
        while child.poll() is None:
            try:
                seen += os.read(mine, 4096)
            except OSError:
                break
        assert child.wait(60) == exit_codes.INTERRUPTED
    finally:
        child.kill()
        child.wait()
        os.close(mine)
    assert leftovers(tmp_path) == []


def arrival(path: str, status: int = 200, in_flight: int = 1) -> Arrival:
    return Arrival(0.0, "h", path, status, in_flight, 1)


def outcome(
    *arrivals: Arrival,
    items: tuple[str, ...] = ("http://h/post/1",),
    held: int | None = 1,
    pages: int = 3,
    dead: int = 0,
    expired: int = 0,
) -> DemoOutcome:
    progress = Progress(pages=pages, dead=dead, expired=expired, exists=True)
    known = frozenset({"http://h/", "http://h/post/1"}), frozenset({"http://h/go/1"}), frozenset({"http://h/gone"})
    return DemoOutcome(*known, [*arrivals], progress, [*items], 2, held)


GOOD = (arrival("/"), arrival("/post/1"), arrival("/go/1", 302), arrival("/gone", 404))


@pytest.mark.parametrize(
    ("result", "failing"),
    [
        (outcome(*GOOD), []),
        (outcome(*GOOD, held=None), []),
        (outcome(*GOOD[1:]), ["pages crawled"]),
        (
            outcome(*GOOD[:2]),
            ["redirects followed", "pages that are missing (404)", "of all these fetched exactly once"],
        ),
        (outcome(*GOOD, arrival("/")), []),
        (outcome(*GOOD, arrival("/", 0)), []),
        (
            outcome(*GOOD, arrival("/"), arrival("/gone", 404)),
            ["of all these fetched exactly once", "fetched again because of the kill"],
        ),
        (outcome(*GOOD, arrival("/"), arrival("/gone", 404), expired=2), []),
        (
            outcome(*GOOD, arrival("/"), held=None),
            ["of all these fetched exactly once", "fetched again because of the kill"],
        ),
        (outcome(*GOOD, arrival("/x", 404)), ["pages that are missing (404)", "unexpected requests"]),
        (outcome(arrival("/", 503), *GOOD), []),
        (
            outcome(arrival("/x", 503), *GOOD),
            ["retried after 429 or 503"],
        ),
        (outcome(*GOOD, items=()), ["items, one per post or comment", "items lost"]),
        (
            outcome(*GOOD, items=("http://h/post/1",) * 2),
            ["items, one per post or comment", "items doubled or unknown"],
        ),
        (outcome(*GOOD, items=("http://h/",)), ["items lost", "items doubled or unknown"]),
        (outcome(*GOOD, dead=1), ["dead letters"]),
        (outcome(*GOOD, pages=2), ["pages settled in the frontier"]),
        (outcome(*GOOD[1:], arrival("/", in_flight=3)), ["most at once at one host"]),
    ],
)
def test_what_differs_is_found(result: DemoOutcome, failing: list[str]) -> None:
    assert [finding.what for finding in findings(result) if finding.ok is False] == failing


async def test_a_cancelled_worker_never_goes_on(valkey_server: Server, crawl_name: str) -> None:
    settings = load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}, {})

    async def work(frontier: AsyncValkeyFrontier) -> None:
        token = Token.fresh()
        while True:
            token = token.next()
            await frontier.call(Frontier.exchange, token)

    async with await AsyncValkeyFrontier.open(settings) as frontier:
        for number in range(100):
            task = asyncio.create_task(work(frontier))
            # A different place in the conversation each time.
            for _ in range(number):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=10)
            assert done, f"the cancellation after {number} steps was swallowed"
