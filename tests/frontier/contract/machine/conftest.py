"""Here all workers that name something name it by its digest, as those do that name much."""

from __future__ import annotations

import pytest

from gossamer.frontier.verbs.work import exchange


@pytest.fixture(autouse=True)
def named_by_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "NAMES_TOLD", 0)
