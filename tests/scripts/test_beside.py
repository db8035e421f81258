"""A check that runs beside the tests cannot fail unseen."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gossamer.testing.process import wait_until

SCRIPT = Path(__file__).parents[2] / "scripts" / "beside.sh"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("check", "command", "code"), [(0, 0, 0), (3, 0, 1), (0, 5, 5), (3, 5, 5)])
def test_either_fails_the_whole_and_both_show_what_they_wrote(check: int, command: int, code: int) -> None:
    done = run("types", "sh", "-c", f"echo checked; exit {check}", "--", "sh", "-c", f"echo tested; exit {command}")
    assert done.stdout == "tested\nchecked\n"
    assert done.returncode == code
    assert ("error: types failed" in done.stderr) == bool(check)


def test_the_check_ends_with_the_command_that_is_stopped(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    check = ["sh", "-c", f"echo $$ > {file}; exec sleep 600"]
    command = f"until [ -s {file} ]; do sleep 0.05; done; kill -TERM $PPID"
    done = run("types", *check, "--", "sh", "-c", command)
    assert done.returncode in (-15, 143)
    pid = int(file.read_text())
    wait_until(lambda: not lives(pid), "the check to end")


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_words_that_are_missing_are_asked_for() -> None:
    for words in ([], ["types"], ["types", "true"], ["types", "--", "true"], ["types", "true", "--"]):
        done = run(*words)
        assert (done.returncode, done.stderr.startswith("usage:")) == (2, True)
