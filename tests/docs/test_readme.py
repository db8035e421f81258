"""The README is short, its sites run as they stand and print what it shows, and its figures are those of the evidence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.tutorial import follow

import gossamer

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
EVIDENCE = (ROOT / "docs" / "evidence" / "performance.md").read_text("utf-8")
PORT = "8102"
VARIES = {"gossamer crawl": re.compile(r"(?<=in )[\d.]+ s, [\d,]+(?= pages/s)")}
"""What is another number each time: how long a crawl took."""
ORDER = [
    "Install", "A Scrapy project in one line", "A site in YAML", "A site in Python", "What it promises", "Compared", "Read on",
]  # fmt: skip


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def cells(line: str) -> list[str]:
    return [cell.strip().strip("*") for cell in line.strip("|").split("|")]


def test_it_is_short_and_in_order() -> None:
    assert len(README.split()) <= 900
    assert [line for line in README.splitlines() if len(line) > 100] == []
    assert re.findall(r"^## (.*)$", README, re.MULTILINE) == ORDER


@pytest.mark.timeout(450)
def test_the_sites_give_what_it_shows(tmp_path: Path) -> None:
    page = tmp_path / "sites.md"
    page.write_text(section("A site in YAML") + section("A site in Python"), "utf-8")
    follow(page, PORT, tmp_path, VARIES)


def test_its_figures_are_those_of_the_evidence() -> None:
    measured = {
        (row[1], row[2], row[3], row[5], row[6])
        for row in (
            cells(line) for line in EVIDENCE.split("## The native engine")[1].splitlines() if line.startswith("| 1 |")
        )
    }
    rows = [cells(line) for line in section("Compared").splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 6
    assert {tuple(cell.removesuffix(" ms") for cell in row) for row in rows} == measured
    for who, pages in (("**Gossamer**", 343), ("Scrapy", 128), ("scrapy-redis", 76)):
        assert f"\n| 1 | {who} | {pages} |" in EVIDENCE
        assert str(pages) in section("Compared")
    lost = (ROOT / "docs" / "evidence" / "questions.md").read_text("utf-8")
    assert "\n| chain | scrapy-redis | 66 | 66 | 134 |" in lost
    assert "\n| chain | Gossamer | 66 | 200 | 0 |" in lost


def test_the_wheel_has_its_version() -> None:
    assert f"gossamer-{gossamer.__version__}-py3-none-any.whl" in README


def test_every_command_it_names_is_one_that_is_tested() -> None:
    """`make` by its targets, the one line of a Scrapy project by the tutorial, programs of the bench by their files."""
    shell = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL)).splitlines()
    makefile = (ROOT / "Makefile").read_text("utf-8")
    tutorial = (ROOT / "docs" / "tutorial" / "from-one-process-to-a-fleet.md").read_text("utf-8")
    for line in shell:
        match line.split():
            case ["pip", "install", ".", *_]:
                assert 'requires-python = ">=3.11"' in (ROOT / "pyproject.toml").read_text("utf-8")
                assert "Python 3.11 or later" in section("Install")
            case ["make", target, *_]:
                assert re.search(rf"^{target}: ", makefile, re.MULTILINE)
            case _:
                assert f"\n$ {line}\n" in tutorial
    programs = re.findall(r"`python\s+(bench/\w+\.py)", README)
    assert len(programs) == 3
    assert [program for program in programs if not (ROOT / program).exists()] == []
