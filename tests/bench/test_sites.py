"""The benchmark of site files runs, and its files are right. No speed is asserted."""

from __future__ import annotations

import json

import pytest
from bench import sites


def test_the_benchmark_reads_what_it_writes_and_measures_both(capsys: pytest.CaptureFixture[str]) -> None:
    sites.main(["--files", "3", "--runs", "2", "--urls", "500", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["files"] == 3
    assert len(found["command"]) == len(found["processor"]) == 2
    assert all(cost > 0 for cost in found["urls"].values())
    sites.main(["--files", "1", "--runs", "1", "--urls", "50"])
    assert "gossamer site check of 1 files" in capsys.readouterr().out
