"""Who counts as gone, judged by real connections."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gossamer.courier.stalls import BACK_SECONDS, GoneWorkers
from gossamer.frontier.connection import connect
from gossamer.frontier.connection.presence import presence
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request, Token, WorkerInfo
from gossamer.settings import load
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

LEAST = 2.5


def courier() -> Any:
    """What is asked of the courier of the worker that judges."""
    plan = SimpleNamespace(gone_seconds=LEAST, lease_seconds=600.0)
    return SimpleNamespace(plan=plan, token=Token.fresh(), awaits={})


class Scene:
    """One worker that judges, others that hold a request each."""

    def __init__(self, server: Server, crawl: str) -> None:
        self.settings = load({"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": crawl, "GOSSAMER_LEASE_SECONDS": 600}, {})
        self.frontier = ValkeyFrontier.open(self.settings)
        self.frontier.define("g", {"a": LanePolicy()})
        self.log: list[Callable[[], None]] = []
        self.gone_workers = GoneWorkers(courier(), self.log.append)

    def worker(self, name: str) -> str:
        """One whose connection is closed; answers its incarnation."""
        with connect(self.settings) as connection:
            there = presence(connection, self.frontier.crawl)
        number = there.partition(":")[2]
        wait_until(
            lambda: not self.frontier.connection.execute("CLIENT", "LIST", "ID", number).strip(), "it to be closed"
        )
        token = Token.fresh()
        self.frontier.add([Request(hash(name) % 2**60, name, "g.a", b"")])
        assert self.frontier.exchange(token, want=1, info={"connection": there}).leases
        return token.incarnation

    def judge(self, silent: float, connected: float) -> frozenset[str]:
        """After everybody was silent for so long."""
        workers = [worker._replace(seen=0.0) for worker in self.frontier.workers()]
        return self.gone_workers.judge(self.frontier, silent, workers, connected)

    def held(self) -> list[WorkerInfo]:
        return [worker for worker in self.frontier.workers() if worker.held]


@pytest.fixture
def scene(valkey_server: Server, crawl_name: str) -> Scene:
    return Scene(valkey_server, crawl_name)


def test_one_that_is_back_itself_judges_by_what_has_happened_since(scene: Scene) -> None:
    """Connections that break together come back one after the other."""
    dead = scene.worker("h")
    assert scene.judge(silent=8.0, connected=7.0) == frozenset()
    assert scene.judge(silent=8.0, connected=9.0) == {dead}
    assert scene.judge(silent=300.0, connected=BACK_SECONDS - 1) == frozenset()
    assert scene.judge(silent=300.0, connected=BACK_SECONDS) == {dead}


def test_many_are_judged_by_one_question(scene: Scene) -> None:
    dead = {scene.worker(f"h{number}") for number in range(20)}
    calls = scene.frontier.connection.execute("INFO", "commandstats").count(b"cmdstat_client|list")
    before = _lists(scene)
    assert scene.judge(silent=60.0, connected=60.0) == dead
    assert (_lists(scene) - before, calls) == (1, 1)


def test_who_lives_has_called_and_loses_nothing(scene: Scene) -> None:
    """The server decides, whatever was known when it was asked."""
    scene.worker("h")
    assert scene.judge(silent=60.0, connected=60.0)
    assert scene.log == [], "it has called just now"
    token = Token.fresh()
    assert scene.frontier.exchange(token, want=1).leases == []
    assert len(scene.held()) == 1


def _lists(scene: Scene) -> int:
    stats = scene.frontier.connection.execute("INFO", "commandstats").decode()
    line = next(line for line in stats.splitlines() if line.startswith("cmdstat_client|list:"))
    return int(line.partition("calls=")[2].partition(",")[0])
