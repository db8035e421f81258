"""The command line as tests use it: in this process, against a crawl of the test's own."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command import Command, Said

from gossamer.cli import main
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.servers import Server


@pytest.fixture
def command(
    valkey_server: Server,
    crawl_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Commands for that crawl, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("GOSSAMER_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GOSSAMER_URL", valkey_server.url)
    monkeypatch.setenv("GOSSAMER_CRAWL", crawl_name)

    def run(*words: object, code: int = 0, given: str | bytes = "") -> Said:
        data = given.encode() if isinstance(given, str) else given
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        capsys.readouterr()
        ended = main([str(word) for word in words])
        said = Said(*capsys.readouterr())
        assert ended == code, f"{said.out}{said.err}"
        return said

    return run


@pytest.fixture
def frontier(valkey_server: Server, crawl_name: str) -> Iterator[ValkeyFrontier]:
    """That crawl, made with two partitions."""
    given = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_PARTITIONS": 2}
    with ValkeyFrontier.open(load(given, {})) as opened:
        yield opened
