"""What docs/evidence/questions.md says about attacks through the queue and through links is so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def rows(text: str) -> list[list[str]]:
    lines = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines]


def asked(question: str) -> list[list[str]]:
    """The tables' rows that the question prints; all of them have to be in the page."""
    done = subprocess.run(
        [sys.executable, "bench/questions.py", question],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
    )
    page = rows((ROOT / "docs" / "evidence" / "questions.md").read_text("utf-8"))
    found = [row for row in rows(done.stdout) if not any(cell.startswith("--") for cell in row)]
    assert [row for row in found if row not in page] == []
    return found


@pytest.mark.timeout(300)
def test_queue_data_runs_in_scrapy_redis_and_not_here() -> None:
    found = asked("attack")[1:]
    assert len(found) > 5
    assert {row[2] for row in found if row[0] == "Gossamer"} == {"no"}


@pytest.mark.timeout(300)
def test_links_of_a_page_run_nowhere_and_none_is_lost_here() -> None:
    found = asked("injection")
    links = [row for row in found if len(row) == 4][1:]
    assert len(links) == 18
    assert [row for row in links if "lost" in f"{row[2]} {row[3]}"] == []
    ends = [row for row in found if len(row) == 6][1:]
    assert [row[2:4] + row[5:] for row in ends] == [["0", "0", "no"]] * 3
