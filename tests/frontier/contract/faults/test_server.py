"""What happens to the server: restarts, failovers, full memory, missing functions, foreign bytes, other versions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from gossamer.errors import (
    FrontierUnavailable,
    FunctionsTooNew,
    MemoryLimitReached,
    SchemaTooNew,
    SchemaTooOld,
    UnknownCrawl,
)
from gossamer.frontier.connection import connect, router
from gossamer.frontier.server import keys
from gossamer.frontier.server import library as server_library
from gossamer.model import (
    Ending,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    SeenKind,
    SeenPolicy,
    Settlement,
    StartState,
)
from gossamer.settings import load
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, LOST, SETTLED, names
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.process import free_port, hold_port, wait_until
from gossamer.testing.servers import Cluster, SentinelPair, Server

CLIENTS = pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "async"])


class Scene:
    """A crawl with something of everything in it, and what must be found there afterwards."""

    def __init__(self, crawl: Crawl) -> None:
        self.crawl = crawl
        self.source = f"{crawl.frontier.crawl}:tasks"
        self.hosts = crawl.spread(6)
        rolling = SeenPolicy(SeenKind.ROLLING, window=10_000)
        crawl.define(
            {"a": LanePolicy(weight=2), "b": LanePolicy(seen=rolling), "c": LanePolicy()},
            GroupPolicy(start=True, tasks=(self.source,), max_pages=1000),
        )
        self.worker = crawl.worker()
        crawl.frontier.start("g", self.worker.token)
        crawl.frontier.add([crawl.request(f"a{n}", host) for n, host in enumerate(self.hosts)])
        crawl.frontier.add([crawl.request("later", self.hosts[0], delay=300)])
        crawl.frontier.add([crawl.request("b", self.hosts[1], "g.b")])
        crawl.frontier.add([crawl.request("paused", self.hosts[2], "g.c")])
        crawl.frontier.pause(lane="g.c", reason="for now")
        self.until = crawl.frontier.block(self.hosts[3], 500, "by hand")
        crawl.frontier.set_host(self.hosts[4], HostPolicy(delay=40))
        crawl.command(("RPUSH", self.source, "task 1", "task 2"), self.source)
        [self.task] = crawl.frontier.lease_tasks(self.worker.token, self.source, 1)
        leases = self.worker.lease(20)
        self.done, self.failed, *self.held = leases
        self.worker.exchange(settle=[Settlement(self.done, items=[b"item"])])
        self.worker.settle(self.failed, ending=Ending.FAILED, reason="broken")

    def check(self) -> None:
        crawl, worker = self.crawl, self.worker
        assert self.crawl.frontier.hosts([self.hosts[3]])[0].blocked_until == self.until
        assert crawl.frontier.hosts([self.hosts[4]])[0].delay == 40
        assert crawl.frontier.seen("g.a", [crawl.request("a0").fingerprint]) == [True]
        assert crawl.add("b", lane="g.b", host=self.hosts[1]) == [DUPLICATE]
        assert crawl.items() == [b"item"]
        assert [letter.reason for letter in crawl.frontier.dead_letters("g")] == ["broken"]
        assert crawl.frontier.start("g", crawl.worker().token)[0] is StartState.BUSY
        assert crawl.worker().lease(20) == []
        crawl.balanced()
        assert worker.settle(self.done) == [LOST]
        assert worker.settle(*self.held[1:]) == [SETTLED] * (len(self.held) - 1)
        assert crawl.frontier.settle_tasks(worker.token, self.source, done=[self.task]) == [True]
        assert crawl.frontier.started("g", worker.token)
        crawl.expire(self.source)
        assert names(crawl.worker().lease(20)) == names(self.held[:1])
        crawl.advance(500)
        rest = crawl.worker().lease(20)
        assert {"later"} < set(names(rest))
        crawl.frontier.resume(lane="g.c")
        assert names(crawl.worker().lease(20)) == ["paused"]
        assert [task.data for task in crawl.frontier.lease_tasks(crawl.worker().token, self.source, 5)] == [b"task 2"]
        crawl.balanced()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class TestRestart:
    """Guarantee 11: everything survives a restart."""

    @CLIENTS
    @pytest.mark.parametrize("kind", ["valkey", "redis"])
    def test_everything_is_still_there(self, opened: Callable[..., Crawl], kind: Any, asynchronous: bool) -> None:
        with Server(kind).start(fsync="always") as server:
            scene = Scene(opened(server.url, asynchronous=asynchronous))
            server.kill()
            server.restart()
            scene.check()

    def test_the_embedded_server_keeps_everything(self, opened: Callable[..., Crawl], tmp_path: Any) -> None:
        more = {"GOSSAMER_DATA_DIR": str(tmp_path), "GOSSAMER_FSYNC": "always", "GOSSAMER_GRACE_SECONDS": 0}
        scene = Scene(opened("embedded:", **more))
        crawl = scene.crawl
        pid = crawl.command(("INFO", "server"), "any").decode().split("process_id:")[1].split()[0]
        crawl.frontier.close()  # type: ignore[attr-defined]
        wait_until(lambda: not alive(int(pid)), "the embedded server to stop")
        scene.crawl = opened("embedded:", **more)
        scene.worker.frontier = scene.crawl.frontier
        assert pid != scene.crawl.command(("INFO", "server"), "any").decode().split("process_id:")[1].split()[0]
        scene.check()

    def test_a_cluster_keeps_everything(self, opened: Callable[..., Crawl]) -> None:
        with Cluster(3).start(fsync="always") as nodes:
            scene = Scene(opened(nodes.url, GOSSAMER_PARTITIONS=3))
            for node in nodes.nodes:
                node.kill()
            for node in nodes.nodes:
                node.restart()
            nodes.wait_ok()
            scene.check()


@pytest.fixture
def _old_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the sentinels have said once is not asked again without need."""
    monkeypatch.setattr(router, "LOOK_SECONDS", 1e9)


class TestFailover:
    """A sentinel pair that fails over in the middle: what had reached the replica goes on there."""

    @CLIENTS
    @pytest.mark.parametrize("kill", [True, False], ids=["killed", "asked"])
    def test_a_crawl_goes_on(self, opened: Callable[..., Crawl], asynchronous: bool, kill: bool) -> None:
        with SentinelPair() as pair:
            scene = Scene(opened(pair.url, asynchronous=asynchronous))
            pair.wait_ok()
            pair.failover(kill=kill)
            scene.check()

    @CLIENTS
    @pytest.mark.usefixtures("_old_word")
    def test_a_primary_that_was_replaced_ends_no_crawl(self, opened: Callable[..., Crawl], asynchronous: bool) -> None:
        with SentinelPair() as pair, hold_port(free_port()) as nobody:
            crawl: Crawl = opened(pair.url, asynchronous=asynchronous)
            crawl.define()
            crawl.add("a")
            pair.wait_ok()
            pair.replica.call("REPLICAOF", "127.0.0.1", nobody.getsockname()[1])
            worker = crawl.worker()
            worker.exchange(settle=[Settlement(worker.one())])
            assert crawl.frontier.drained("g").drained
            # Until the sentinels make it a replica, some seconds later, the old primary answers as before.
            pair.failover(kill=False)
            assert crawl.frontier.drained("g").open == 1

    @CLIENTS
    @pytest.mark.usefixtures("_old_word")
    def test_a_reader_of_items_passes_over_none_of_the_present_primary(
        self, opened: Callable[..., Crawl], asynchronous: bool
    ) -> None:
        with SentinelPair() as pair:
            crawl: Crawl = opened(pair.url, asynchronous=asynchronous)
            crawl.define()
            crawl.add("0", "1", "2")
            worker = crawl.worker()
            first, *pages = worker.lease(3)
            worker.settle(first, items=[b"before"])
            [(position, _)] = crawl.frontier.read_items("g", 0)
            pair.wait_ok()
            pair.failover(kill=False)
            # The one is told to the new primary, the other still to the old one, later.
            late, there = worker.token, opened(pair.url)
            there.frontier.exchange(late, settle=[Settlement(pages[0], items=[b"there"])])
            worker.settle(pages[1], items=[b"here"])
            found = crawl.frontier.read_items("g", 0, position)
            assert [data for _, data in found] == [b"there"]

    def test_pages_go_on_through_a_failover(self, opened: Callable[..., Crawl]) -> None:
        with SentinelPair() as pair:
            crawl: Crawl = opened(pair.url)
            crawl.define()
            crawl.add("0")
            worker, done = crawl.worker(), list[str]()
            for number in range(1, 31):
                page = worker.one()
                if number == 15:
                    pair.wait_ok()
                    pair.failover()
                child = crawl.request(f"{number}")
                answer = worker.exchange(settle=[Settlement(page, add=[child], items=[page.payload])])
                assert answer.settled == [SETTLED]
                done += names([page])
            assert done == [f"{n}" for n in range(30)]
            assert crawl.items() == [name.encode() for name in done]
            crawl.balanced()


class TestFixedAddress:
    """One address behind which the primary changes, as with managed servers and virtual addresses: connections that are open stay
    with the server that is a replica now."""

    @CLIENTS
    def test_a_planned_failover_is_followed(self, opened: Callable[..., Crawl], asynchronous: bool) -> None:
        with Server() as first, Server() as second, FaultProxy(first.port) as address:
            second.call("REPLICAOF", "127.0.0.1", first.port)
            scene = Scene(opened(address.url, asynchronous=asynchronous))
            wait_until(lambda: _in_step(first, second), "the replica to be in step")
            second.call("REPLICAOF", "NO", "ONE")
            first.call("REPLICAOF", "127.0.0.1", second.port)
            address.target_port = second.port
            scene.check()

    @CLIENTS
    def test_until_there_is_a_primary_it_is_away(self, opened: Callable[..., Crawl], asynchronous: bool) -> None:
        with Server() as server:
            crawl = opened(server.url, asynchronous=asynchronous, GOSSAMER_OUTAGE_SECONDS=0.1)
            crawl.define()
            server.call("REPLICAOF", "127.0.0.1", 1)
            with pytest.raises(FrontierUnavailable, match="replica") as away:
                crawl.add("a")
            assert not away.value.maybe_executed
            server.call("REPLICAOF", "NO", "ONE")
            assert crawl.add("a") == [ADDED]


def _in_step(primary: Server, replica: Server) -> bool:
    offset = primary.info("replication")["master_repl_offset"]
    known = replica.info("replication")
    return known["master_link_status"] == "up" and int(known["slave_repl_offset"]) >= int(offset)


class TestGarbage:
    """Guarantee 5: foreign bytes in a queue become dead letters, never a crash."""

    GARBAGE = (
        b"",
        b"\x00",
        b"\x00short",
        b"\x01" + b"x" * 5,
        b"\x01" + b"\xff" * 40,
        b"\x02unknown",
        b"{}",
        b"\xff" * 300,
    )

    def plant(self, crawl: Crawl) -> None:
        """Garbage around a good request, in its list."""
        crawl.add(*(f"r{n}" for n in range(4)), "good", *(f"r{n}" for n in range(4, len(self.GARBAGE))))
        pattern = keys.queue_pattern(crawl.frontier.crawl, 0, "queue")
        _, [key] = crawl.command(
            ("SCAN", "0", "MATCH", pattern, "COUNT", 10_000_000), keys.base(crawl.frontier.crawl, 0)
        )
        for number, garbage in enumerate(self.GARBAGE):
            crawl.command(("LSET", key, number + (number >= 4), garbage), key.decode())

    @pytest.mark.parametrize("want", [1, 3, 20])
    def test_it_becomes_dead_letters(self, crawl: Crawl, want: int) -> None:
        crawl.define()
        self.plant(crawl)
        worker = crawl.worker()
        leases = worker.lease(want)
        assert names(leases) == ["good"]
        worker.settle(*leases)
        assert worker.lease(want) == []
        letters = crawl.frontier.dead_letters("g")
        assert [letter.reason for letter in letters] == ["garbage"] * len(self.GARBAGE)
        assert crawl.frontier.replay(0, [letter.id for letter in letters]) == 0
        for letter in letters:
            crawl.frontier.dead_letter(letter.partition, letter.id)
        assert crawl.frontier.hosts([crawl.host])[0].in_flight == 0
        assert crawl.frontier.drained("g").drained


def code_of(server: Server) -> list[object]:
    """What a server says of its one library, the code included."""
    reply = server.call("FUNCTION", "LIST", "WITHCODE")
    assert isinstance(reply, list)
    [library] = reply
    assert isinstance(library, list)
    return list(library)


class TestVersions:
    """Stores and functions of other versions."""

    def tampered(self, crawl: Crawl, number: int) -> None:
        base = keys.base(crawl.frontier.crawl, 0)
        crawl.command(("HSET", base + keys.SUFFIXES["meta"], "schema", number), base)

    @CLIENTS
    def test_a_newer_store_is_not_touched(
        self, opened: Callable[..., Crawl], valkey_server: Server, asynchronous: bool
    ) -> None:
        crawl: Crawl = opened(valkey_server.url)
        self.tampered(crawl, server_library.SCHEMA + 1)
        with pytest.raises(SchemaTooNew, match="Upgrade"):
            opened(valkey_server.url, asynchronous=asynchronous)

    @CLIENTS
    def test_an_older_store_is_not_touched(
        self, opened: Callable[..., Crawl], valkey_server: Server, asynchronous: bool
    ) -> None:
        crawl: Crawl = opened(valkey_server.url)
        self.tampered(crawl, server_library.SCHEMA - 1)
        with pytest.raises(SchemaTooOld, match="Export"):
            opened(valkey_server.url, asynchronous=asynchronous)

    def test_the_partitions_of_a_crawl_are_fixed_when_it_is_made(
        self, opened: Callable[..., Crawl], valkey_server: Server
    ) -> None:
        crawl: Crawl = opened(valkey_server.url, GOSSAMER_PARTITIONS=4)
        again: Crawl = opened(valkey_server.url, GOSSAMER_PARTITIONS=2)
        assert (crawl.frontier.partitions, again.frontier.partitions) == (4, 4)

    def test_a_crawl_that_was_lost_is_named(self, opened: Callable[..., Crawl]) -> None:
        with Server() as server:
            crawl: Crawl = opened(server.url)
            server.call("FLUSHALL")
            with pytest.raises(UnknownCrawl):
                crawl.worker().exchange(want=1)

    @CLIENTS
    def test_missing_functions_are_loaded_again(self, opened: Callable[..., Crawl], asynchronous: bool) -> None:
        with Server() as server:
            crawl: Crawl = opened(server.url, asynchronous=asynchronous)
            crawl.define()
            crawl.add("1")
            server.call("FUNCTION", "FLUSH")
            assert names(crawl.worker().lease(1)) == ["1"]
            server.call("FUNCTION", "FLUSH")
            assert crawl.add("2") == [ADDED]

    @CLIENTS
    def test_missing_functions_are_loaded_though_the_server_goes_away_meanwhile(
        self, opened: Callable[..., Crawl], asynchronous: bool
    ) -> None:
        with Server() as server, FaultProxy(server.port) as proxy:
            crawl: Crawl = opened(proxy.url, asynchronous=asynchronous)
            crawl.define()
            server.call("FUNCTION", "FLUSH")
            proxy.lose_replies(2, match=b"FUNCTION")
            assert crawl.add("1") == [ADDED]
            assert proxy.counters.lost == 2

    def test_missing_functions_of_one_node_are_loaded_again(self, opened: Callable[..., Crawl]) -> None:
        with Cluster(3) as nodes:
            crawl: Crawl = opened(nodes.url, GOSSAMER_PARTITIONS=3)
            crawl.define()
            nodes.nodes[1].call("FUNCTION", "FLUSH")
            crawl.frontier.add([crawl.request(f"r{n}", host) for n, host in enumerate(crawl.spread(9))])
            assert len(crawl.worker().lease(9)) == 9

    @CLIENTS
    def test_an_older_library_never_replaces_a_newer(self, opened: Callable[..., Crawl], asynchronous: bool) -> None:
        newer = server_library.changed_library({}, revision=server_library.REVISION + 5)
        with Server() as server:
            server.call("FUNCTION", "LOAD", newer)
            crawl: Crawl = opened(server.url, asynchronous=asynchronous)
            crawl.define()
            assert newer in code_of(server)

    @CLIENTS
    def test_a_reply_of_newer_functions_that_cannot_be_read_is_named(
        self, opened: Callable[..., Crawl], asynchronous: bool
    ) -> None:
        drop = server_library.source("drop").replace("return pack({done and", "return pack({'more', done and")
        with Server() as server:
            server.call("FUNCTION", "LOAD", server_library.changed_library({"drop": drop}, server_library.REVISION + 5))
            crawl: Crawl = opened(server.url, asynchronous=asynchronous)
            crawl.define()
            crawl.add("1")
            with pytest.raises(
                FunctionsTooNew, match=rf"revision {server_library.REVISION + 5}, this .* Upgrade this one"
            ):
                sum(crawl.frontier.drop_lane("g.a"))

    def test_a_newer_library_of_one_node_goes_to_all(self, opened: Callable[..., Crawl]) -> None:
        newer = server_library.changed_library({}, revision=server_library.REVISION + 5)
        with Cluster(3) as nodes:
            nodes.nodes[2].call("FUNCTION", "LOAD", newer)
            opened(nodes.url, GOSSAMER_PARTITIONS=3)
            for node in nodes.nodes:
                assert newer in code_of(node)

    def test_an_older_library_is_replaced(self, opened: Callable[..., Crawl]) -> None:
        older = server_library.changed_library({}, revision=server_library.REVISION - 1)
        with Server() as server:
            server.call("FUNCTION", "LOAD", older)
            opened(server.url)
            assert server_library.library() in code_of(server)

    @pytest.mark.parametrize("kind", ["valkey", "redis"])
    @pytest.mark.parametrize("there", [None, 1], ids=["none there", "an older one there"])
    def test_a_newer_library_that_comes_in_between_stays(self, kind: Any, there: int | None) -> None:
        """Between an older worker's look and its load, and at any other moment."""
        newer = server_library.changed_library({}, revision=server_library.REVISION + 5)
        for moment in range(4):
            with Server(kind) as server, connect(load({"GOSSAMER_URL": server.url}, environ={})) as connection:
                if there:
                    server.call("FUNCTION", "LOAD", server_library.changed_library({}, revision=there))
                talk = connection.commands.function_install(server_library.library())
                ours, other = 0, False
                try:
                    step = next(talk)
                    while True:
                        if ours == moment:
                            other = True
                            connection.function_install(newer)
                        ours += 1
                        assert isinstance(step, list)
                        step = talk.send(connection._pool.transmit(step))
                except StopIteration:
                    pass
                assert other or moment > 2
                if not other:
                    connection.function_install(newer)
                assert newer in code_of(server)

    @pytest.mark.parametrize("kind", ["valkey", "redis"])
    def test_of_two_texts_of_one_revision_one_stays(self, opened: Callable[..., Crawl], kind: Any) -> None:
        texts = [
            server_library.changed_library({"clock": server_library.source("clock") + f"-- {n}\n"}, revision=9)
            for n in range(3)
        ]
        with Server(kind) as server, connect(load({"GOSSAMER_URL": server.url}, environ={})) as connection:
            for text in texts:
                connection.function_install(text)
            stays = max(texts, key=server_library.name_of)
            for text in texts:
                connection.function_install(text)
                assert stays in code_of(server)

    @pytest.mark.parametrize("kind", ["valkey", "redis"])
    def test_a_server_without_memory_keeps_the_functions_it_has(self, opened: Callable[..., Crawl], kind: Any) -> None:
        older = server_library.changed_library({}, revision=1)
        with Server(kind) as server:
            server.call("FUNCTION", "LOAD", older)
            server.call("CONFIG", "SET", "maxmemory", "1mb")
            with pytest.raises(MemoryLimitReached):
                opened(server.url)
            assert older in code_of(server)
            server.call("CONFIG", "SET", "maxmemory", "0")
            opened(server.url)
            assert server_library.library() in code_of(server)

    def test_the_library_of_before_names_had_revisions_is_replaced(self, opened: Callable[..., Crawl]) -> None:
        before = server_library.library().replace(
            f"name={server_library.name_of(server_library.library())}", f"name={server_library.LIBRARY}"
        )
        with Server() as server:
            server.call("FUNCTION", "LOAD", before)
            opened(server.url)
            assert server_library.library() in code_of(server)
