"""What may happen to the server of a live crawl; `chaos_crawls.py` lets it happen and asks the site what came of it.

Each trouble is a context manager that starts servers and gives their address and the blow to strike.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.crawls.fleet import LEASE_SECONDS, Fleet
from bench.crawls.native import NativeFleet
from bench.crawls.project import WorkerProcess
from tests.support.auditor.remains import remains

from gossamer.frontier.connection.router import slot_of
from gossamer.frontier.server import keys
from gossamer.testing import clock
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.process import free_port, hold_port, wait_until
from gossamer.testing.servers import Cluster, SentinelPair, Server
from gossamer.testing.servers.single import Fsync

CRAWL = "troubled"
PARTITIONS = 3
"""Of a crawl of the kinds `part` and `apart`."""
PATIENCE = 240.0
JUMP = 3_600.0
ALERT, CALM = 1_000, 30_000
"""Milliseconds that sentinels let a primary be silent: when it was killed, and at all other times."""


@dataclass
class Crawl:
    """What is under way."""

    fleet: Fleet | NativeFleet
    workers: list[WorkerProcess]
    choice: random.Random
    excused: bool | None = None
    """Whether the workers may have ended before the blow, and could not know of it; None: whether they have after it."""

    @property
    def over(self) -> bool:
        return not any(worker.running for worker in self.workers)

    def reach(self, pages: float) -> None:
        """Wait until the site was asked for so many pages, or the crawl is over."""
        site, every = self.fleet.site, self.fleet.shape.pages
        wait_until(
            lambda: site.pages() >= min(pages, every) or self.over, f"{pages:.0f} pages to be asked for", PATIENCE
        )

    def some(self) -> None:
        """Let the workers do some of the pages."""
        every = self.fleet.shape.pages
        self.reach(self.fleet.site.pages() + self.choice.uniform(0.02, 0.3) * every)

    def replace(self) -> None:
        """One worker dies at once, another comes."""
        if living := [worker for worker in self.workers if worker.running]:
            victim = self.choice.choice(living)
            victim.kill()
            self.workers.remove(victim)
        self.workers += self.fleet.start()


Strike = Callable[[Crawl], None]
Trouble = Callable[[], AbstractContextManager[tuple[str, Strike]]]


def log_file(server: Server) -> Path:
    """Where the server appends to now."""
    folder = server.directory / "appendonlydir"
    manifest = (folder / "appendonly.aof.manifest").read_text().splitlines()
    return folder / next(line.split()[1] for line in reversed(manifest) if line.endswith("type i"))


def forget(server: Server, crawl: Crawl, *, kill: bool) -> None:
    """What the server writes in the meantime it will not have written."""
    path = log_file(server)
    kept = path.stat().st_size
    crawl.some()
    server.kill() if kill else server.stop()
    os.truncate(path, min(kept, path.stat().st_size))
    server.restart()


@contextmanager
def cut() -> Iterator[tuple[str, Strike]]:
    """A power cut: killed, the end of its append-only file lost, started again on the same port."""
    with Server("valkey").start(fsync="everysec") as server:
        yield server.url, lambda crawl: forget(server, crawl, kill=True)


@contextmanager
def backup() -> Iterator[tuple[str, Strike]]:
    """A restored backup: stopped in good order, started with the data of some moments ago."""
    with Server("valkey").start(fsync="everysec") as server:
        yield server.url, lambda crawl: forget(server, crawl, kill=False)


@contextmanager
def node() -> Iterator[tuple[str, Strike]]:
    """A power cut of the cluster's node that holds all of the crawl."""
    with Cluster(3, node_timeout=10_000).start(fsync="everysec") as cluster:

        def strike(crawl: Crawl) -> None:
            forget(cluster.master_of(keys.base(CRAWL, 0)), crawl, kill=True)
            cluster.wait_ok()

        yield cluster.url, strike


def parts(fsync: Fsync, strike: Callable[[Server, Crawl], None]) -> Iterator[tuple[str, Strike]]:
    """A crawl that lies on all nodes of a cluster, of which one is struck."""
    with Cluster(3, node_timeout=10_000).start(fsync=fsync) as cluster:

        def one(crawl: Crawl) -> None:
            strike(cluster.master_of(keys.base(CRAWL, crawl.choice.randrange(PARTITIONS))), crawl)
            cluster.wait_ok()

        yield cluster.url, one


@contextmanager
def moved() -> Iterator[tuple[str, Strike]]:
    """The cluster moves the crawl to another node key by key, as resharding tools do, while its workers go on calling."""
    with Cluster(3, node_timeout=10_000).start() as cluster:

        def strike(crawl: Crawl) -> None:
            base = keys.base(CRAWL, 0)
            source, slot = cluster.master_of(base), slot_of(base)
            target = crawl.choice.choice([node for node in cluster.nodes if node is not source])
            names = {node: str(node.call("CLUSTER", "MYID")) for node in (source, target)}
            target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source])
            source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target])
            while isinstance(found := source.call("CLUSTER", "GETKEYSINSLOT", slot, 100), list) and found:
                for key in found:
                    source.call("MIGRATE", "127.0.0.1", target.port, str(key), 0, 60_000, timeout=60)
            for node in (target, source, *cluster.nodes):
                node.call("CLUSTER", "SETSLOT", slot, "NODE", names[target])
            cluster.wait_ok()

        yield cluster.url, strike


@contextmanager
def part() -> Iterator[tuple[str, Strike]]:
    """One of several partitions is killed and started again; it has lost nothing, since it wrote every call to disk."""

    def strike(server: Server, _: Crawl) -> None:
        server.kill()
        server.restart()

    yield from parts("always", strike)


@contextmanager
def apart() -> Iterator[tuple[str, Strike]]:
    """A power cut of one of several partitions: the others know what it has forgotten."""
    yield from parts("everysec", lambda server, crawl: forget(server, crawl, kill=True))


def failed_over(*, kill: bool, lag: bool, to_the_end: bool = False) -> Iterator[tuple[str, Strike]]:
    """The sentinels make the replica the primary: because the primary was killed, or because they are asked. With `lag` the replica
    had heard nothing for some moments. With `to_the_end` the old primary lives until it was asked for every page."""
    with SentinelPair(down_after=CALM).start() as servers, hold_port(free_port()) as nobody:

        def strike(crawl: Crawl) -> None:
            servers.wait_ok()
            if lag:
                # Nobody listens there: the replica hears nothing more, whatever lies in the buffers of a connection.
                servers.replica.call("REPLICAOF", "127.0.0.1", nobody.getsockname()[1])
                crawl.some()
            # Only now: a loaded machine would fail over by itself, also when the workers have ended and nobody can go on.
            servers.tolerate(ALERT if kill else CALM)
            servers.failover(kill=kill)
            servers.tolerate(CALM)
            if to_the_end:
                every = crawl.fleet.shape.pages
                crawl.excused = crawl.fleet.site.pages() >= every
                crawl.reach(every)
            servers.restore()

        yield servers.url, strike


@contextmanager
def lagging() -> Iterator[tuple[str, Strike]]:
    """The primary dies; a replica takes over that had heard nothing from it for some moments."""
    yield from failed_over(kill=True, lag=True)


@contextmanager
def planned() -> Iterator[tuple[str, Strike]]:
    """SENTINEL FAILOVER: for a second or two the old primary goes on taking what the new one will not have."""
    yield from failed_over(kill=False, lag=False)


@contextmanager
def replaced() -> Iterator[tuple[str, Strike]]:
    """SENTINEL FAILOVER to a replica that had heard nothing for some moments: the crawl comes to its end on the old primary."""
    yield from failed_over(kill=False, lag=True, to_the_end=True)


@contextmanager
def readonly() -> Iterator[tuple[str, Strike]]:
    """A failover in good order behind a fixed address: connections stay open to what is a replica now."""
    with ExitStack() as stack:
        first = stack.enter_context(Server("valkey").start())
        second = stack.enter_context(Server("valkey").start({"replicaof": f"127.0.0.1 {first.port}"}))
        proxy = stack.enter_context(FaultProxy(first.port))
        pair = [first, second]

        def in_step() -> bool:
            primary, replica = (server.info("replication") for server in pair)
            return (
                replica.get("master_link_status") == "up"
                and "state=online" in primary.get("slave0", "")
                and int(replica["slave_repl_offset"]) >= int(primary["master_repl_offset"])
            )

        def strike(_: Crawl) -> None:
            old, new = pair
            wait_until(in_step, "the replica to be in step", 60)
            old.call("CLIENT", "PAUSE", 60_000, "WRITE")
            wait_until(in_step, "the replica to be in step", 60)
            new.call("REPLICAOF", "NO", "ONE")
            proxy.target_port = new.port
            old.call("REPLICAOF", "127.0.0.1", new.port)
            old.call("CLIENT", "UNPAUSE")
            pair.reverse()

        yield proxy.url, strike


@contextmanager
def full() -> Iterator[tuple[str, Strike]]:
    """The memory limit is reached, a worker dies and another comes meanwhile, and the limit is raised."""
    with Server("valkey") as server:

        def strike(crawl: Crawl) -> None:
            server.call("CONFIG", "SET", "maxmemory", int(int(server.info("memory")["used_memory"]) * 0.9))
            crawl.replace()
            with crawl.fleet.frontier() as frontier:
                known = len(frontier.workers())
                wait_until(
                    lambda: len(frontier.workers()) > known or not crawl.workers[-1].running, "the worker to join", 60
                )
            time.sleep(crawl.choice.uniform(0.0, 1.0))
            server.call("CONFIG", "SET", "maxmemory", 0)

        yield server.url, strike


@contextmanager
def clocks() -> Iterator[tuple[str, Strike]]:
    """The server's clock is an hour ahead for a moment, and a worker dies afterwards."""
    with Server("valkey") as server:

        def strike(crawl: Crawl) -> None:
            with crawl.fleet.frontier() as frontier:
                clock.advance(frontier, JUMP)
                crawl.some()
                clock.advance(frontier, -JUMP)
            crawl.replace()

        yield server.url, strike


@contextmanager
def frozen() -> Iterator[tuple[str, Strike]]:
    """A worker stands still for longer than its leases last, and goes on as if nothing had happened."""
    with Server("valkey") as server:

        def strike(crawl: Crawl) -> None:
            if living := [worker for worker in crawl.workers if worker.running]:
                victim = crawl.choice.choice(living)
                victim.freeze()
                time.sleep(LEASE_SECONDS * crawl.choice.uniform(1.0, 2.0))
                victim.signal(signal.SIGCONT)

        yield server.url, strike


def drop(crawl: Crawl) -> int:
    """Drop the group, of which nothing may be left; answers how many requests it had."""
    with crawl.fleet.frontier() as frontier:
        dropping = sum(frontier.drop_group(crawl.fleet.group))
        left = remains(frontier, crawl.fleet.group)
    assert not left, f"a dropped group left {left[:10]}"
    return dropping


def crawl_again(crawl: Crawl) -> None:
    crawl.fleet.site.reset()
    crawl.workers[:] = crawl.fleet.start(2)


@contextmanager
def dropped() -> Iterator[tuple[str, Strike]]:
    """The group is dropped when its crawl is over, and crawled again."""
    with Server("valkey") as server:

        def strike(crawl: Crawl) -> None:
            crawl.fleet.wait(crawl.workers, PATIENCE)
            had = drop(crawl)
            assert had == 0, f"a drained group had {had} requests"
            crawl_again(crawl)

        yield server.url, strike


@contextmanager
def emptied() -> Iterator[tuple[str, Strike]]:
    """The group is dropped in the middle of its crawl, under its workers, and crawled again when they have ended."""
    with Server("valkey") as server:

        def strike(crawl: Crawl) -> None:
            drop(crawl)
            for worker in crawl.workers:
                # Nothing is left to do, or the spider's group is gone: an error, whose log says so.
                code = worker.wait(PATIENCE)
                assert code == 0 or "group" in worker.log, f"{worker.name} ended with {code}: {worker.log[-4000:]}"
            with crawl.fleet.frontier() as frontier:
                # That they asked in vain is known for some seconds more.
                wait_until(
                    lambda: not remains(frontier, crawl.fleet.group), "nothing to be left of a dropped group", 20
                )
            crawl_again(crawl)

        yield server.url, strike


TROUBLES: dict[str, Trouble] = {
    "cut": cut,
    "backup": backup,
    "node": node,
    "moved": moved,
    "part": part,
    "apart": apart,
    "lagging": lagging,
    "planned": planned,
    "replaced": replaced,
    "readonly": readonly,
    "full": full,
    "clock": clocks,
    "frozen": frozen,
    "dropped": dropped,
    "emptied": emptied,
}
