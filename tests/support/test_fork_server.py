"""A program that is forked is as one that is started: environment, directory, search path, output, signals, exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support import fork_server
from tests.support.fork_server import Program
from tests.support.quick_commands import quick_commands
from tests.support.site import Site

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

SHOW = """
import atexit, json, os, sys, threading
from gossamer.scrapy.process import rounds

class Cycle:
    def __init__(self):
        self.own = self
    def __del__(self):
        print("freed")

cycle = Cycle()
atexit.register(print, "after all")
threading.Thread(target=lambda: (threading.main_thread().join(), print("meanwhile"))).start()
print(json.dumps({
    "arguments": sys.argv[1:], "name": __name__, "spec": __spec__.name, "directory": os.getcwd(),
    "environ": dict(os.environ), "path": sys.path[:2], "custom": hasattr(sys, "custom"), "session": os.getsid(0) == os.getpid(),
    "age": rounds.process_age(),
}))
print("to err", file=sys.stderr)
sys.exit("the end" if "fail" in sys.argv else 0)
"""


def test_it_is_as_a_program_that_is_started(tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "sitecustomize.py").write_text("import sys\nsys.custom = True\n")
    environ = {"ONLY": "this", "PYTHONPATH": str(tmp_path / "more")}
    done = fork_server.run("show", ["a", "b"], environ, tmp_path, 60)
    assert (done.returncode, done.stderr) == (0, "to err\n")
    line, *last = done.stdout.splitlines()
    said = json.loads(line)
    assert last == ["meanwhile", "after all", "freed"]
    assert said.pop("age") < 60
    path = said["environ"].pop("PYTHONPATH").split(os.pathsep)
    assert path[0] == str(tmp_path / "more")
    said["environ"].pop("LC_CTYPE", None)
    assert said == {
        "arguments": ["a", "b"], "name": "__main__", "spec": "show", "directory": str(tmp_path), "environ": {"ONLY": "this"},
        "path": [str(tmp_path), str(tmp_path / "more")], "custom": True, "session": True,
    }  # fmt: skip
    done = fork_server.run("show", ["fail"], {}, tmp_path, 60)
    assert (done.returncode, done.stderr) == (1, "to err\nthe end\n")
    assert json.loads(done.stdout.splitlines()[0])["custom"] is False


def test_it_writes_compiled_files_unless_told_not_to(tmp_path: Path) -> None:
    (tmp_path / "imports.py").write_text("import imported\n")
    (tmp_path / "imported.py").write_text("")
    assert fork_server.run("imports", [], {"PYTHONDONTWRITEBYTECODE": "1"}, tmp_path, 60).returncode == 0
    assert not (tmp_path / "__pycache__").exists()
    assert fork_server.run("imports", [], {}, tmp_path, 60).returncode == 0
    assert (tmp_path / "__pycache__").exists()


def test_a_failure_and_a_module_that_is_not_there_end_it_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("raise SystemExit(258)\n")
    assert fork_server.run("leaves", [], {}, tmp_path, 60).returncode == 2
    (tmp_path / "fails.py").write_text("raise ValueError('by itself')\n")
    done = fork_server.run("fails", [], {}, tmp_path, 60)
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: by itself\n")
    done = fork_server.run("fails", [], {}, tmp_path, 60, options=["-P"])
    assert done.returncode == 1
    assert "No module named fails" in done.stderr


def test_signals_reach_it_and_its_end_is_seen_by_everybody_who_waits(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    first = Program("waits", [], {}, tmp_path)
    second = Program("waits", [], {}, tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(0.05)
    wait_until(lambda: first.output() and second.output(), "both to be there")
    second.send_signal(signal.SIGINT)
    assert second.wait(60) == -signal.SIGINT or second.returncode == 1
    assert "KeyboardInterrupt" in second.communicate()[1]
    assert first.poll() is None
    first.kill()
    assert first.wait(60) == first.poll() == -signal.SIGKILL
    first.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        fork_server.run("waits", [], {}, tmp_path, 0.2)
    if sys.platform == "linux":
        assert not Path(f"/proc/{first.pid}").exists(), "nobody is left unreaped"


OTHER = """
import sys
from pathlib import Path
from tests.support.fork_server import Program

program = Program("waits", [], {}, Path(sys.argv[1]))
print(program.pid, flush=True)
input()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="programs start as always")
def test_processes_of_one_run_share_a_server_and_programs_die_with_whoever_started_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "waits.py").write_text("import time\ntime.sleep(600)\n")
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex
    environ = {**os.environ, "PYTHONPATH": str(fork_server.ROOT), "PYTEST_XDIST_TESTRUNUID": run}
    with ExitStack() as stack:
        tests, programs = [], []
        for _ in range(2):
            words = [sys.executable, "-c", OTHER, str(tmp_path)]
            process = subprocess.Popen(words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            tests.append(stack.enter_context(process))
            assert process.stdout
            programs.append(int(process.stdout.readline()))
        server = parent(programs[0])
        assert parent(programs[1]) == server
        tests[0].kill()
        wait_until(lambda: not lives(programs[0]), "the program to die with the process that started it")
        assert lives(programs[1])
        tests[1].kill()
        wait_until(lambda: not lives(programs[1]), "the other one, too")
        if "PYTEST_XDIST_TESTRUNUID" not in os.environ:
            wait_until(lambda: not lives(server), "the server to end with the last of them")


SITE = """
site: held
seeds: [{url}/held]
politeness: {{robots: ignore}}
layers: {{page: {{match: /}}}}
"""


def test_workers_of_a_crawl_are_its_children_and_die_with_it(
    tmp_path: Path, valkey_server: Server, crawl_name: str, site: Site
) -> None:
    (tmp_path / "site.yaml").write_text(SITE.format(url=site.url))
    (tmp_path / "more").mkdir()
    settings = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_DATA_DIR": str(tmp_path)}
    environ = {**os.environ, **settings, "PYTHONPATH": str(tmp_path / "more")}
    site.hold("/held")
    with ValkeyFrontier.open(load(settings, {})) as frontier:

        def workers() -> set[int]:
            return {int(worker.info["pid"]) for worker in frontier.workers() if "closed" not in worker.info}

        with Program("gossamer", ["crawl", "site.yaml", "-w", "2"], environ, tmp_path) as crawl:
            wait_until(lambda: len(workers()) == 2, "two workers")
            one, two = workers()
            assert {parent(one), parent(two)} == {crawl.pid}
            os.kill(one, signal.SIGKILL)
            [third] = wait_until(lambda: workers() - {one, two}, "another in place of the dead one", 60)
            assert parent(third) == crawl.pid
            crawl.kill()
            wait_until(lambda: not any(lives(pid) for pid in (two, third)), "its workers to die")
    assert "was killed" in crawl.communicate()[1], "its exit code was seen"


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_commands_of_a_shell_are_forked_and_end_as_they_would(tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = conf\n")
    (tmp_path / "conf.py").write_text("BOT_NAME = 'here'\nSPIDER_MODULES = ['spiders']\n")
    (tmp_path / "spiders.py").write_text("import time\nopen('begun', 'a').close()\ntime.sleep(600)\n")
    session = """
        gossamer nothing 2> said; echo $?
        scrapy settings --get BOT_NAME | tr a-z A-Z
        for how in TERM KILL; do
            rm -f begun; scrapy list 2> trace & until [ -e begun ]; do sleep 0.05; done
            kill -$how $!; wait $! 2> /dev/null; echo $?
        done
    """
    with quick_commands() as quick:
        path = os.pathsep.join([*quick, str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-c", session], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60
        )  # fmt: skip
    assert done.stdout.split() == ["2", "HERE", "143", "137"], done.stderr
    assert "No such command" in (tmp_path / "said").read_text()
