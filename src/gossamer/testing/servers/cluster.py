"""A real cluster, put together with the CLUSTER commands themselves."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from math import inf
from typing import Self

from gossamer.closeable import Closeable
from gossamer.testing.process import wait_until
from gossamer.testing.resp import ReplyError
from gossamer.testing.servers.single import Config, Fsync, Kind, Server

SLOTS = 16_384


class Cluster(Closeable):
    """`masters` servers that share the slots evenly, each with `replicas` replicas.

    `nodes` lists the masters first, then the replicas in the same order, as they were at the start; a node is an
    ordinary `Server` and may be killed, paused and restarted as such. `node_timeout` (milliseconds) is how long a
    silent node is tolerated: too small and a loaded machine fails over by itself.
    """

    def __init__(self, masters: int = 3, replicas: int = 0, kind: Kind = "valkey", *, node_timeout: int = 2000) -> None:
        if masters < 1 or replicas < 0:
            raise ValueError("a cluster needs at least one master, and no negative number of replicas")
        self.masters = masters
        self.replicas = replicas
        self.node_timeout = node_timeout
        self.nodes = [Server(kind) for _ in range(masters * (1 + replicas))]

    def start(self, config: Config | None = None, *, fsync: Fsync | None = None) -> Self:
        """Start all nodes and wait until every one of them says that the cluster is whole."""
        settings: Config = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": self.node_timeout,
            "cluster-announce-ip": "127.0.0.1",
            "cluster-replica-validity-factor": 0,
            **(config or {}),
        }
        try:
            for node in self.nodes:
                node.start(settings, fsync=fsync)
            self._join()
        except BaseException:
            self.close()
            raise
        return self

    def _join(self) -> None:
        for number, node in enumerate(self.nodes):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < self.masters:
                first, last = SLOTS * number // self.masters, SLOTS * (number + 1) // self.masters - 1
                node.call("CLUSTER", "ADDSLOTSRANGE", first, last)
            # Everybody is introduced to everybody: gossip would get there too, some seconds later.
            for other in self.nodes[:number]:
                node.call("CLUSTER", "MEET", "127.0.0.1", other.port, other.bus_port)
        wait_until(self._all_met, "the nodes of the cluster to meet")
        for number, node in enumerate(self.nodes[self.masters :]):
            master = str(self.nodes[number % self.masters].call("CLUSTER", "MYID"))
            wait_until(partial(_replicate, node, master), "a replica to accept its master")
        self.wait_ok()

    def _all_met(self) -> bool:
        for node in self.nodes:
            lines = str(node.call("CLUSTER", "NODES")).splitlines()
            if len(lines) != len(self.nodes) or any("handshake" in line or "noaddr" in line for line in lines):
                return False
        return True

    def wait_ok(self, seconds: float = 60.0) -> None:
        """Return when every running node sees all slots served and every running replica is in step with its master."""
        wait_until(self._ok, "the cluster to be ok on every node", seconds)

    def _ok(self) -> bool:
        running = [node for node in self.nodes if node.running]
        ports = {node.port for node in running}
        for node in running:
            try:
                state = str(node.call("CLUSTER", "INFO"))
                replication = node.info("replication")
                links = _links(node)
            except (OSError, ReplyError):
                return False
            if "cluster_state:ok" not in state or f"cluster_slots_ok:{SLOTS}" not in state:
                return False
            if replication["role"] == "slave" and replication["master_link_status"] != "up":
                return False
            # A node just back from the dead believes what it knew before; the others must see it, too.
            if not all(links.get(port, False) for port in ports):
                return False
        return True

    @property
    def url(self) -> str:
        """`redis+cluster://` with the addresses of all nodes."""
        return "redis+cluster://" + ",".join(node.address for node in self.nodes)

    def master_of(self, key: str) -> Server:
        """The running node that serves the slot of `key` now."""
        slot = next(node for node in self.nodes if node.running).call("CLUSTER", "KEYSLOT", key)
        for node in self.nodes:
            if node.running and any(
                isinstance(entry, list)
                and int(str(entry[0])) <= int(str(slot)) <= int(str(entry[1]))
                and _port(entry) == node.port
                for entry in _slots(node)
            ):
                return node
        raise LookupError(f"no running node serves slot {slot}")

    def failover(self, master: Server, *, kill: bool = True, seconds: float = 60.0) -> Server:
        """Let a replica of `master` take its place and return it once the cluster is ok again.

        With `kill` the master dies (and may be restarted later: it comes back as a replica); without, the two
        change places in good order and no write is lost.
        """
        name = str(master.call("CLUSTER", "MYID"))
        heirs = [node for node in self.nodes if node.running and node is not master and _follows(node, name)]
        if not heirs:
            raise LookupError("this node has no running replica")
        if kill:
            master.kill()
        asked = -inf

        def new_master() -> Server | None:
            nonlocal asked
            # An attempt may fail for want of votes. The server gives it up after five seconds; nobody repeats it.
            if not kill and time.monotonic() - asked > 6:
                with suppress(ReplyError):
                    heirs[0].call("CLUSTER", "FAILOVER")
                asked = time.monotonic()
            return next((node for node in heirs if node.info("replication")["role"] == "master"), None)

        heir = wait_until(new_master, "a replica to take over", seconds)
        assert heir is not None
        self.wait_ok(seconds)
        return heir

    def close(self) -> None:
        """End all nodes and remove their directories."""
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        return self if self.nodes[0].running else self.start()


def _replicate(node: Server, master: str) -> bool:
    try:
        node.call("CLUSTER", "REPLICATE", master)
    except ReplyError:
        return False  # The node has not heard of that master yet.
    return True


def _follows(node: Server, master: str) -> bool:
    myself = next(line for line in str(node.call("CLUSTER", "NODES")).splitlines() if "myself" in line)
    return myself.split()[3] == master


def _links(node: Server) -> dict[int, bool]:
    """For each port, whether `node` is connected to the node there and thinks it healthy."""
    links = {}
    for line in str(node.call("CLUSTER", "NODES")).splitlines():
        fields = line.split()
        port = int(fields[1].partition("@")[0].rpartition(":")[2])
        links[port] = "fail" not in fields[2] and fields[7] == "connected"
    return links


def _slots(node: Server) -> list[object]:
    reply = node.call("CLUSTER", "SLOTS")
    assert isinstance(reply, list)
    return list(reply)


def _port(entry: list[object]) -> int:
    master = entry[2]
    assert isinstance(master, list)
    return int(str(master[1]))
