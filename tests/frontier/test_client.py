"""How many files a call passes on its way to the socket."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, GeneratorType
from typing import Any

import pytest

from gossamer.frontier.connection.pool import Pool
from gossamer.frontier.connection.router import Entries, RoundTrip
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request
from gossamer.settings import load
from gossamer.testing.servers import Server

LAYERS = {"valkey.py", "add.py", "client.py", "router.py", "pool.py"}
FUNCTIONS = 3
"""That wait for the round trip: the method, `drive` and `transmit`."""


def waiting(frame: FrameType | None) -> list[FrameType]:
    """The functions that wait for this one, up to the test, and the generators that they run."""
    frames: list[FrameType] = []
    while frame is not None and frame.f_code.co_filename != __file__:
        frames.append(frame)
        frame = frame.f_back
    return frames


def generators(values: Sequence[Any]) -> list[FrameType]:
    """The generators among these, those they wait for, and those they run."""
    found: list[FrameType] = []
    for value in values:
        while isinstance(value, GeneratorType) and value.gi_frame is not None:
            found += [value.gi_frame, *generators(list(value.gi_frame.f_locals.values()))]
            value = value.gi_yieldfrom
    return found


def test_a_call_passes_five_files(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: set[str] = set()
    depths: list[int] = []
    transmit = Pool.transmit

    def spy(self: Pool, round_trips: Sequence[RoundTrip]) -> list[Entries]:
        stack = waiting(sys._getframe(1))
        depths.append(len(stack) + 1)
        conversations = generators([value for frame in stack for value in frame.f_locals.values()])
        passed.update(Path(frame.f_code.co_filename).name for frame in (*stack, *conversations))
        return transmit(self, round_trips)

    with Server("valkey") as server, ValkeyFrontier.open(load({"GOSSAMER_URL": server.url}, environ={})) as frontier:
        frontier.define("g", {"page": LanePolicy()})
        monkeypatch.setattr(Pool, "transmit", spy)
        frontier.add([Request(1, "host", "g.page", b"")])
        monkeypatch.undo()
    assert passed == LAYERS
    assert depths == [FUNCTIONS]
