"""The supervisor of local workers: it replaces what is killed, stops in good order, leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gossamer.cli.run import watch
from gossamer.fleet import Fleet, WorkerProcess, stop_on_signals
from gossamer.fleet.fleet import STEADY_SECONDS
from gossamer.model import GroupCounts, LaneCounts
from gossamer.model.reply import Counts
from gossamer.status.progress import GroupTotals, LaneTotals, Progress, progress_of
from gossamer.testing.process import wait_until

READY = "ready"
# Says that it is ready, then does as told until it is asked to end.
PATIENT = f"""
import signal, sys, time
def leave(*_):
    print("leaving", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("{READY}", flush=True)
while True:
    time.sleep(60)
"""
STUBBORN = PATIENT.replace('print("leaving", flush=True)\n    sys.exit(0)', 'print("no", flush=True)')
SUICIDAL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


def run(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


class Made:
    """A fleet under test, and what it said."""

    def __init__(self, place: Path, *codes: str, restarts: int = 5) -> None:
        self.said: list[str] = []
        logs = [place / f"{number + 1}.log" for number in range(len(codes))]
        self.fleet = Fleet([run(code) for code in codes], logs, self.said.append, restarts=restarts)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Look after the fleet until something is so."""

        def step() -> bool:
            self.fleet.wait(0.05)
            return condition()

        wait_until(step, what, 60)

    def ready(self, worker: WorkerProcess, times: int = 1) -> bool:
        assert worker.log is not None
        return worker.log.exists() and worker.log.read_text().count(READY) >= times

    def all_ready(self) -> None:
        self.until(lambda: all(self.ready(worker) for worker in self.fleet.workers), "all workers to be ready")

    def to_the_end(self) -> None:
        self.until(lambda: not self.fleet.running, "all workers to end")


@pytest.fixture
def fleet_of(tmp_path: Path) -> Iterator[Callable[..., Made]]:
    with contextlib.ExitStack() as stack:

        def make(*codes: str, restarts: int = 5) -> Made:
            made = Made(tmp_path, *codes, restarts=restarts)
            stack.enter_context(made.fleet)
            made.fleet.start()
            return made

        yield make


Make = Callable[..., Made]


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has reaped has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def test_workers_that_end_are_left_alone_and_their_codes_are_kept(
    fleet_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gossamer.fleet.fleet.WORKED_SECONDS", 3600.0)
    made = fleet_of("pass", "import sys; print('printed'); sys.exit('error: it broke')", "raise SystemExit(3)")
    made.to_the_end()
    assert [worker.code for worker in made.fleet.workers] == [0, 1, 3]
    assert [worker.number for worker in made.fleet.failed] == [2, 3]
    assert sorted(made.said) == ["worker 2 ended with exit code 1: error: it broke", "worker 3 ended with exit code 3"]
    assert made.fleet.restarts == 0


def test_one_that_fails_in_the_midst_of_work_is_replaced(
    fleet_of: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gossamer.fleet.fleet.WORKED_SECONDS", 0.0)
    mark = str(tmp_path / "mark")
    once = f"import os, sys; again = os.path.exists({mark!r}); open({mark!r}, 'w').close(); sys.exit(0 if again else 3)"
    made = fleet_of(once, "raise SystemExit(2)", "raise SystemExit(1)")
    made.to_the_end()
    assert [(worker.code, worker.restarts) for worker in made.fleet.workers] == [(0, 1), (2, 0), (1, 0)]
    assert "worker 1 ended with exit code 3; another takes its place" in made.said


def test_a_killed_worker_is_replaced(fleet_of: Make) -> None:
    made = fleet_of(PATIENT, PATIENT)
    made.all_ready()
    first, other = made.fleet.workers
    before = first.pid, other.pid
    first.send(signal.SIGKILL)
    made.until(lambda: made.ready(first, times=2), "the place to be filled again")
    assert first.pid != before[0]
    assert other.pid == before[1]
    assert made.said == ["worker 1 was killed by SIGKILL; another takes its place"]
    assert (first.restarts, made.fleet.restarts, made.fleet.failed) == (1, 1, [])


def test_one_that_is_always_killed_is_given_up(fleet_of: Make) -> None:
    made = fleet_of(SUICIDAL, restarts=2)
    made.to_the_end()
    [worker] = made.fleet.workers
    assert (worker.code, worker.restarts) == (-signal.SIGKILL, 2)
    assert made.fleet.failed == [worker]
    assert made.said[-1] == "worker 1 was killed by SIGKILL, 3 times in a row; its place stays empty"


def test_deaths_after_work_are_not_in_a_row() -> None:
    worker = WorkerProcess(1, [], None)
    worker._since = -STEADY_SECONDS
    assert all(worker.may_restart(1, 0) for _ in range(5))
    worker._since = float("inf")
    assert all(worker.may_restart(1, 1) for _ in range(5))
    assert [worker.may_restart(1, 0) for _ in range(2)] == [False, False]


def test_a_stop_lets_them_finish(fleet_of: Make) -> None:
    made = fleet_of(PATIENT, PATIENT)
    made.all_ready()
    made.fleet.stop()
    made.to_the_end()
    assert [worker.code for worker in made.fleet.workers] == [0, 0]
    assert all("leaving" in worker.log.read_text() for worker in made.fleet.workers if worker.log)
    assert (made.fleet.failed, made.said) == ([], [])


def test_the_second_stop_kills_and_nobody_is_replaced(fleet_of: Make) -> None:
    made = fleet_of(STUBBORN)
    made.all_ready()
    [worker] = made.fleet.workers
    assert worker.log is not None
    log = worker.log
    made.fleet.stop()
    made.until(lambda: "no" in log.read_text(), "the worker to refuse")
    assert worker.running
    made.fleet.stop()
    made.to_the_end()
    assert (worker.code, worker.restarts, made.fleet.failed) == (-signal.SIGKILL, 0, [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_us_stop_the_fleet_and_wake_who_waits(number: signal.Signals, fleet_of: Make) -> None:
    made = fleet_of(PATIENT)
    made.all_ready()
    before = signal.getsignal(number)
    with stop_on_signals(made.fleet):
        signal.raise_signal(number)
        made.fleet.wait(60)
        made.to_the_end()
    assert made.fleet.stopping == number
    assert made.fleet.workers[0].code == 0
    assert signal.getsignal(number) is before


def test_leaving_kills_what_still_runs(tmp_path: Path) -> None:
    made = Made(tmp_path, STUBBORN, STUBBORN)
    with made.fleet:
        made.fleet.start()
        made.all_ready()
        pids = [worker.pid for worker in made.fleet.workers]
    assert [gone(pid) for pid in pids] == [True, True]
    assert [worker.code for worker in made.fleet.workers] == [-signal.SIGKILL] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_workers_die_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    code = f"""
    import sys
    from pathlib import Path
    from gossamer.fleet import Fleet
    with Fleet([{run(STUBBORN)!r}] * 2, [Path("1.log"), Path("2.log")], print) as fleet:
        fleet.start()
        print(*(worker.pid for worker in fleet.workers), flush=True)
        while True:
            fleet.wait(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as supervisor:
        assert supervisor.stdout is not None
        pids = [int(word) for word in supervisor.stdout.readline().split()]
        logs = [tmp_path / "1.log", tmp_path / "2.log"]
        wait_until(lambda: all(log.exists() and READY in log.read_text() for log in logs), "both to be ready", 60)
        supervisor.kill()
    wait_until(lambda: all(gone(pid) for pid in pids), "the workers to die")


def test_environment_and_directory_are_given_on(tmp_path: Path) -> None:
    code = "import os; print(os.environ['WORD'], os.getcwd())"
    log = tmp_path / "log"
    place = tmp_path / "place"
    place.mkdir()
    with Fleet([run(code)], [log], print, environ={**os.environ, "WORD": "yes"}, directory=place) as fleet:
        fleet.start()
        while fleet.running:
            fleet.wait(1)
    assert log.read_text() == f"yes {place}\n"
    assert fleet.workers[0].last_output() == f"yes {place}"


def test_one_of_a_kind_is_not_called_many() -> None:
    assert list(watch.figures(Progress(hosts=1, items=1, dead=1), 0)) == [
        "queued",
        "in progress",
        "host",
        "of them blocked",
        "item",
        "dead letter",
    ]
    assert {"hosts": 2, "items": 0, "dead letters": 3}.items() <= watch.figures(Progress(hosts=2, dead=3), 0).items()


def test_an_account_is_a_groups_own() -> None:
    lanes = [
        LaneCounts("g.a", 3, 1, 2, 9, 4, 10, 5, 6, 1, 2, 0, ""),
        LaneCounts("g.b", 1, 0, 0, 9, 1, 20, 0, 0, 0, 0, 0, ""),
        LaneCounts("g.c.x", 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ""),
    ]
    group = GroupCounts("g", 7, 8, 30, 40, 35, 1, 0, 0, 0, "", "done", {})
    counts = Counts(0.0, "", "all of it", lanes, [group], {}, {})
    now = progress_of(counts, "g", hosts=2)
    by_lane = LaneTotals("g.a", 11, 1, 5, 2), LaneTotals("g.b", 20, 0, 0, 0)
    by_group = (GroupTotals("g", 30, 40),)
    assert now == Progress(7, 4, 1, 2, 2, 31, 1, 5, 2, 1, 40, "all of it", True, 0, by_lane, by_group)
    assert now.open == 7
    assert now.since(Progress()) == now
    then = progress_of(
        counts._replace(lanes=[lanes[0]._replace(done=9), lanes[1]], groups=[group._replace(items=38)]), "g"
    )
    assert now.since(then) == now._replace(pages=1, items=2, failed=0, replaced=0, expired=0)
    # Lane b was dropped, and lane a and then all of the group were made anew since.
    dropped = progress_of(counts._replace(lanes=lanes[:1], groups=[group._replace(pages=33)]), "g")
    assert dropped.since(now)[5:11] == (3, 0, 0, 0, 1, 0)
    anew = progress_of(
        counts._replace(lanes=[lanes[0]._replace(done=3)], groups=[group._replace(pages=4, items=5)]), "g"
    )
    assert anew.since(now)[5:11] == (4, 1, 5, 2, 1, 5)
    assert Progress().since(now) == Progress()
    assert progress_of(counts, "other") == Progress()


def test_the_account_of_several_groups_says_which_part_of_them_is_paused() -> None:
    def told(*reasons: str) -> str:
        groups = [GroupCounts(f"g{n}", 0, 0, 0, 0, 0, 0, 0, 0, 0, why, "", {}) for n, why in enumerate(reasons)]
        return progress_of(Counts(0.0, "", "", [], groups, {}, {}), [group.group for group in groups]).paused

    assert told("", "") == ""
    assert told("sale day", "sale day") == "sale day"
    assert told("sale day", "") == "1 of 2: sale day"
    assert told("sale day", "broken", "", "broken") == "3 of 4: sale day, broken"
