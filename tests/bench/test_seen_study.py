"""The study of memories runs, and its figures are those of the forum."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import seen_study

from gossamer.model import SeenKind, SeenPolicy


def test_each_kind_forgets_what_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = {
        "exact": SeenPolicy(),
        "rolling": SeenPolicy(SeenKind.ROLLING, window_rounds=2),
        "hits": SeenPolicy(SeenKind.HITS, window_rounds=2),
    }
    monkeypatch.setattr(seen_study, "POLICIES", policies)
    monkeypatch.setattr(seen_study, "COUNTED", {"found twice": 2, "found ten thousand times": 10_000})
    seen_study.main(["--days", "0.3", "--charts", str(tmp_path), "--json", str(tmp_path / "all.json")])
    exact, rolling, hits, twice, never = json.loads((tmp_path / "all.json").read_text())
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(policies) + 2
    assert {path.name for path in tmp_path.glob("*.svg")} == {"seen-memory.svg", "seen-refetches.svg"}
    assert exact["shown"] == exact["fetched"] == rolling["shown"] == hits["shown"]
    assert exact["samples"][-1][1] == exact["shown"]
    # What the lists show all the time is forgotten by one of them only.
    assert (exact["refetched"], exact["relisted"], hits["relisted"]) == (0, 0, 0)
    assert rolling["relisted"] > 0
    assert hits["samples"][-1][1] < exact["samples"][-1][1]
    # Found twice it is forgotten, so that a post that stays on the lists is fetched in every second round; one that does not, stays.
    assert twice["relisted"] > rolling["relisted"]
    assert hits["samples"][-1][1] < twice["samples"][-1][1] < exact["samples"][-1][1]
    assert never["samples"][-1][1] == exact["samples"][-1][1]
    assert never["samples"][-1][2] > exact["samples"][-1][2]
    assert never["refetched"] == 0
    assert [one["missed"] for one in (exact, rolling, hits, twice, never)] == [0] * 5
