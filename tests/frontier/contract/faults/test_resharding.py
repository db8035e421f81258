"""A cluster that moves the slots of a crawl, while its workers go on calling."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from gossamer.errors import FrontierUnavailable
from gossamer.frontier.connection.router import slot_of
from gossamer.frontier.server import keys
from gossamer.model import Settlement
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.crawl import ADDED, SETTLED, names
from gossamer.testing.servers import Cluster, Server

Opened = Callable[..., Crawl]


class Move:
    """The slot of a crawl's first partition on its way to another node, key by key, as any resharding tool does it."""

    def __init__(self, nodes: Cluster, crawl: str) -> None:
        self.nodes, self.slot = nodes, str(slot_of(keys.base(crawl, 0)))
        self.source = next(node for node in nodes.nodes if self.keys(node))
        self.target = next(node for node in nodes.nodes if node is not self.source)
        self.ids = {node: str(node.call("CLUSTER", "MYID")) for node in (self.source, self.target)}

    def keys(self, node: Server) -> list[Any]:
        found = node.call("CLUSTER", "GETKEYSINSLOT", self.slot, 10_000)
        assert isinstance(found, list)
        return found

    def begin(self) -> None:
        self.target.call("CLUSTER", "SETSLOT", self.slot, "IMPORTING", self.ids[self.source])
        self.source.call("CLUSTER", "SETSLOT", self.slot, "MIGRATING", self.ids[self.target])

    def carry(self, most: int) -> None:
        for key in self.keys(self.source)[:most]:
            assert self.source.call("MIGRATE", "127.0.0.1", self.target.port, key, 0, 5000) == "OK"

    def end(self) -> None:
        for node in (self.target, self.source, *self.nodes.nodes):
            node.call("CLUSTER", "SETSLOT", self.slot, "NODE", self.ids[self.target])


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_no_call_sees_a_slot_that_is_on_its_way(opened: Opened, kind: Any) -> None:
    """Whoever calls meanwhile waits and has changed nothing: what is there is whole afterwards, whether the crawl was
    paused or not."""
    with Cluster(3, kind=kind) as nodes:
        crawl: Crawl = opened(nodes.url, GOSSAMER_OUTAGE_SECONDS=0.2)
        name, source = crawl.frontier.crawl, f"{{{crawl.frontier.crawl}/0}}:tasks"
        crawl.define()
        crawl.add("1", "2", "3", "4")
        crawl.command(("RPUSH", source, "task"), source)
        worker = crawl.worker()
        one, two = worker.lease(2)
        move = Move(nodes, name)
        move.begin()
        for most in (0, 3, 2, 10_000):
            move.carry(most)
            for attempt in (
                lambda: worker.frontier.exchange(worker.token, settle=[Settlement(one, items=[b"item"])], want=1),
                lambda: worker.frontier.renew(worker.token, [two]),
                lambda: crawl.add("5"),
                lambda: crawl.define(),
                lambda: crawl.frontier.counts(),
                lambda: crawl.frontier.lease_tasks(worker.token, source, 1),
                lambda: opened(nodes.url, name, GOSSAMER_OUTAGE_SECONDS=0.2),
            ):
                with pytest.raises(FrontierUnavailable, match="being moved"):
                    attempt()
        move.end()
        answer = worker.exchange(settle=[Settlement(one, items=[b"item"], add=crawl.requests(["child"]))])
        assert (answer.settled, answer.children, crawl.items()) == ([SETTLED], [[ADDED]], [b"item"])
        assert worker.settle(two) == [SETTLED]
        assert crawl.add("5") == [ADDED]
        assert sorted(names(worker.lease(9))) == ["3", "4", "5", "child"]
        assert [task.data for task in crawl.frontier.lease_tasks(worker.token, source, 1)] == [b"task"]
        assert move.keys(move.source) == []
        crawl.balanced()


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_a_call_that_waits_is_answered_when_the_slot_has_arrived(opened: Opened, kind: Any) -> None:
    with Cluster(3, kind=kind) as nodes:
        crawl: Crawl = opened(nodes.url, GOSSAMER_OUTAGE_SECONDS=60)
        crawl.define()
        crawl.add("1")
        worker = crawl.worker()
        lease = worker.one()
        move = Move(nodes, crawl.frontier.crawl)
        move.begin()
        move.carry(2)
        settled: list[Any] = []
        waiting = threading.Thread(target=lambda: settled.extend(worker.settle(lease)))
        waiting.start()
        move.carry(10_000)
        assert settled == []
        move.end()
        waiting.join(60)
        assert settled == [SETTLED]
        assert crawl.frontier.drained("g").drained
