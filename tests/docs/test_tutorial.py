"""The tutorials are followed from top to bottom, every command of them, and print what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.tutorial import agrees, follow

from gossamer.demo import check

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"
PAGE = TUTORIAL / "from-one-process-to-a-fleet.md"
PORT = "8000"
VARIES = {
    "gossamer top --count 1 | cat": re.compile(r"[\d.,]*\d( (Ki)?B/s)?"),
    "gossamer status | grep ^reader.main | cut -f1,5,8,9": re.compile(r"\d+$"),
}
"""What is another number each time: how far the crawl is when somebody looks, and how many leases the dead worker held."""


@pytest.mark.timeout(450)
def test_from_one_process_to_a_fleet(tmp_path: Path) -> None:
    follow(PAGE, PORT, tmp_path, VARIES)


def test_the_frontier_from_python(tmp_path: Path) -> None:
    follow(TUTORIAL / "frontier-from-python.md", PORT, tmp_path, {})


@pytest.mark.parametrize(("command", "word"), [("gossamer", "--version"), ("scrapy", "version")])
def test_the_commands_are_installed_as_they_are_typed(command: str, word: str) -> None:
    """The tutorials are followed with a quicker way to start the same."""
    script = Path(sys.executable).with_name(command)
    done = subprocess.run([script, word], capture_output=True, text=True, timeout=100, check=True)
    assert re.fullmatch(rf"{command} [\d.]+\S*\n", done.stdout, re.IGNORECASE)


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


def test_the_first_crawl_shows_what_the_demo_prints() -> None:
    shown = (TUTORIAL / "first-crawl.md").read_text("utf-8").split("   checked ")[1].split("```")[0]
    labels = re.findall(r"^(?:✓| )  (\S.*?)  ", shown, re.MULTILINE)
    source = Path(check.__file__).read_text("utf-8")
    assert labels == re.findall(r'(?:_same|_equal|DemoCheck)\(\s*"([^"]+)"', source)
