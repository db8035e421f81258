"""The tutorial on sites is followed from top to bottom, every command of it, and prints what it says."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from tests.ops.test_tutorial import free_port
from tests.ops.tour import File, Step, agrees, play, steps

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial" / "first-site.md"
PORT = "8102"
VARIES = {
    "gossamer crawl shop.yaml": re.compile(r"(?<=in )[\d.]+ s, [\d,]+(?= pages/s)"),
    "gossamer site try": re.compile(r"\d+\.\d+(?= m?s\b)"),
}
"""What is another number each time: how long something took."""


@pytest.mark.timeout(450)
def test_from_an_empty_file_to_a_scheduled_site(tmp_path: Path) -> None:
    port = free_port()
    session: list[Step | File] = []
    for step in steps(PAGE.read_text("utf-8")):
        if isinstance(step, File):
            session.append(File(step.path, step.text.replace(PORT, port)))
        else:
            session.append(Step(step.command.replace(PORT, port), [line.replace(PORT, port) for line in step.printed]))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GOSSAMER_", "SCRAPY_"))}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    printed = play(session, tmp_path, environ, 400)
    for number, step in enumerate(session):
        if isinstance(step, Step):
            said = step.printed
            for command, varies in VARIES.items():
                if step.command.startswith(command):
                    said = [varies.sub("…", line) for line in said]
            assert agrees(said, printed[number]), (step.command, said, printed[number])


def test_the_readme_shows_a_site_and_an_output_of_the_tutorial() -> None:
    readme, tutorial = (ROOT / "README.md").read_text("utf-8"), PAGE.read_text("utf-8")
    [(site, shown)] = re.findall(r"```yaml\n(.*?)```\n\n```console\n(.*?)```", readme, re.DOTALL)
    assert f"```yaml\n{site}```" in tutorial
    assert f"```console\n{shown}```" in tutorial
