"""The study of planning runs, and its small month is like the large one: the limit holds, and what waited is caught up with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import plan_study
from bench.planning.model import Sample
from bench.planning.real_run import compared, modelled

SITES, DAYS = 30, 5.0


def test_a_small_month(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--sites", str(SITES), "--workers", "8", "--days", str(DAYS), "--pages", "150"]
    plan_study.main([*words, "--charts", str(tmp_path), "--json", str(tmp_path / "all.json")])
    outcomes, (daily, often, adaptive) = json.loads((tmp_path / "all.json").read_text())
    assert len(list(tmp_path.glob("plan-*.svg"))) == 5
    assert "| reseed |" in capsys.readouterr().out
    limit, burst = 250 * SITES, (DAYS / 3 * 86400, DAYS / 3 * 86400 * 1.2)
    for one in outcomes:
        samples = [Sample(*row) for row in one["samples"]]
        assert max(sample.queued for sample in samples) <= limit
        most = max(samples, key=lambda sample: sample.waiting)
        assert burst[0] < most.at <= burst[1] + 86400, "what the burst brought is found within a day"
        assert most.waiting > limit
        assert samples[-1].waiting < most.waiting / 20, "it is caught up with"
        assert samples[-1].fetched >= 0.95 * samples[-1].appeared
        assert one["never"] == 0, "nobody starves"
    assert adaptive["out_of_date"] < daily["out_of_date"]
    assert adaptive["useful"] > often["useful"], "it comes when there is something to see"
    assert adaptive["earliest"] >= 3600 - 1


def test_the_model_is_compared_with_what_was_seen() -> None:
    model = modelled(40.0)
    samples = model.samples
    assert max(sample.queued for sample in samples) <= 160
    assert max(sample.waiting for sample in samples) > 160
    assert [line for line in compared(model, model) if line.startswith("| ")][2:] == [
        line for line in compared(model, model) if "+0.0%" in line
    ]
    double = [sample._replace(waiting=2 * sample.waiting) for sample in samples]
    assert any("+100.0%" in line for line in compared(model, model._replace(samples=double)))
