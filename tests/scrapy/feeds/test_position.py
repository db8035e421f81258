"""What is noted beside a feed's file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gossamer.model import RoundInfo
from gossamer.scrapy.feeds import position
from gossamer.scrapy.feeds.position import FeedPosition, owner_of, starts


def test_a_round_begins_by_the_clock_of_each_partitions_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position, "_ahead", lambda _, partition: (partition * 10.0, 0.002))
    monkeypatch.setattr("gossamer.frontier.server.keys.home_of", lambda _group, _partitions: 1)
    frontier: Any = SimpleNamespace(partitions=3)
    info = RoundInfo("g", 5, "running", 1000.0, None, None, "", "", 0, 0, 0, 0, False, "")
    assert starts(frontier, info) == {0: "989995-0", 1: "999995-0", 2: "1009995-0"}
    assert set(starts(frontier, info._replace(round=0)).values()) == {"0-0"}


def test_a_file_that_is_added_to_knows_every_groups_place(tmp_path: Path) -> None:
    file = tmp_path / "all.jl"
    a, b = FeedPosition(file, ("c", "a")), FeedPosition(file, ("c", "b"))
    assert a.mine() == {}
    a.write({"crawl": "c", "group": "a", "size": 10, "positions": {"0": "1-1"}, "others": {}})
    assert b.mine() == {}
    b.hold()
    assert owner_of(a.read()) == ("c", "b"), "who holds it is known before anything is noted"
    assert a.mine()["positions"] == {0: "1-1"}
    b.write({"crawl": "c", "group": "b", "size": 30, "positions": {"0": "7-1"}, "others": b.others()})
    mine = a.mine()
    assert (mine["size"], mine["positions"]) == (30, {0: "1-1"}), "what the other has added stays"
    a.write({**mine, "size": 40})
    assert b.mine()["positions"] == {0: "7-1"}
    assert list(b.others()) == ["c|a"]
