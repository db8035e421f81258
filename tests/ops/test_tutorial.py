"""The tutorial is followed from top to bottom, every command of it, and prints what it says."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from pathlib import Path

import pytest
from tests.ops.tour import File, Step, agrees, play, steps

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "from-one-process-to-a-fleet.md"
PORT = "8000"
VARIES = {
    "gossamer top --count 1 | cat": re.compile(r"\d+"),
    "gossamer status | grep ^reader.main | cut -f1,5,8,9": re.compile(r"\d+$"),
}
"""What is another number each time: how far the crawl is when somebody looks, and how many leases the dead worker held."""


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@pytest.mark.timeout(450)
def test_from_one_process_to_a_fleet(tmp_path: Path) -> None:
    port = free_port()
    session: list[Step | File] = []
    for step in steps(PAGE.read_text("utf-8")):
        if isinstance(step, File):
            session.append(File(step.path, step.text.replace(PORT, port)))
        else:
            session.append(Step(step.command.replace(PORT, port), [line.replace(PORT, port) for line in step.printed]))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GOSSAMER_", "SCRAPY_"))}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    assert shutil.which("scrapy", path=environ["PATH"]), "scrapy is not beside this Python"
    printed = play(session, tmp_path, environ, 400)
    for number, step in enumerate(session):
        if isinstance(step, Step):
            varies = VARIES.get(step.command)
            said = [varies.sub("…", line) for line in step.printed] if varies else step.printed
            assert agrees(said, printed[number]), (step.command, said, printed[number])


@pytest.mark.parametrize(
    ("said", "printed", "expected"),
    [
        (["a  1"], ["a 1"], True),
        (["a  1"], ["a 2"], False),
        (["a …"], ["a 2"], True),
        (["lane  done"], ["LANE\tDONE\t"], True),
        ([], ["a"], False),
        (["a", "…", "z"], ["a", "b", "c", "z"], True),
        (["a", "…", "z"], ["a", "b"], False),
    ],
)
def test_what_a_page_says_is_compared(said: list[str], printed: list[str], expected: bool) -> None:
    assert agrees(said, printed) is expected


def test_the_readme_shows_what_the_tutorial_printed() -> None:
    readme = (PAGE.parents[2] / "README.md").read_text("utf-8")
    [shown] = re.findall(r"```console\n(\$ scrapy crawl reader.*?)```", readme, re.DOTALL)
    tutorial = PAGE.read_text("utf-8")
    assert [line for line in shown.splitlines() if f"{line}\n" not in tutorial] == []
