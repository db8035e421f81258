"""The short form of `make chaos`: the server is killed under load and must remember."""

from __future__ import annotations

import pytest
from scripts.chaos.server import Mode, campaign


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["always", "everysec"])
def test_a_killed_server_remembers(mode: Mode) -> None:
    result = campaign(mode, rounds=4, clients=2, seed=7)
    assert result.rounds == 4
    assert result.calls > 0
    assert result.settled > 0
    assert (result.cut_bytes > 0) == (mode == "everysec")
    assert mode == "everysec" or result.undone == 0
