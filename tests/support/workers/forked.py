"""The fleets of `bench` and of `make chaos` with workers that start by fork: tests kill and count them and measure nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from bench.crawls.project import WorkerProcess
from tests.support import fork_server

from gossamer.testing.process import Process


def forked(words: Sequence[str], environ: Mapping[str, str], directory: Path, log: Path) -> Process:
    module, *arguments = words
    return fork_server.start(module, arguments, environ={**os.environ, **environ}, directory=directory, stdout=log)


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerProcess, "launch", staticmethod(forked))
