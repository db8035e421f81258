"""What docs/evidence/questions.md says about attacks through the queue is so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def rows(text: str) -> list[list[str]]:
    lines = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines]


@pytest.mark.timeout(240)
def test_queue_data_runs_in_scrapy_redis_and_not_here() -> None:
    done = subprocess.run(
        [sys.executable, "bench/questions.py", "attack"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=220,
        check=True,
    )
    page = rows((ROOT / "docs" / "evidence" / "questions.md").read_text("utf-8"))
    found = rows(done.stdout)[2:]
    assert len(found) > 5
    assert [row for row in found if row not in page] == []
    assert {row[2] for row in found if row[0] == "Gossamer"} == {"no"}
