"""What tools read of a crawl or put into it beside the contract: status, checks, feeds, imports."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from gossamer.frontier.connection import Connection
from gossamer.frontier.connection.router import slot_of
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier


def lease_seconds(frontier: ValkeyFrontier) -> float:
    return frontier.verbs.work.lease_ms / 1000


def waiting_hosts(frontier: ValkeyFrontier, most: int) -> list[str]:
    """The hosts that wait longest, `most` of each partition."""
    # By place, not by time: this machine's clock is not the server's.
    found = _each_partition(frontier, "wake", "", "ZRANGE", 0, most - 1, "REV")
    return [name.decode("utf-8", "replace") for names in found for name in names]


def hosts_count(frontier: ValkeyFrontier) -> int:
    """How many hosts have requests in flight or must wait."""
    return sum(_each_partition(frontier, "hosts", "", "HLEN"))


def dead_before(frontier: ValkeyFrontier, group: str, at: float) -> int:
    """How many dead letters of a group died before a server time."""
    return sum(_each_partition(frontier, "dead_order", group, "ZCOUNT", "-inf", f"({at * 1000:.0f}"))


def clock(frontier: ValkeyFrontier, partition: int) -> float:
    """The time of a partition's server."""
    seconds, micros = frontier.connection.execute("TIME", key=keys.base(frontier.crawl, partition))
    return int(seconds) + int(micros) / 1e6


def is_server(frontier: ValkeyFrontier, run_id: str, database: int) -> bool:
    """Whether the crawl is in this database of the server process `run_id`."""
    told = bytes(frontier.connection.execute("INFO", "server"))
    return f"run_id:{run_id}".encode() in told and database == frontier.connection.address.db


def seconds_ahead(connection: Connection, crawl: str, partition: int) -> float:
    """By how much the last time of a partition is after its server's clock. Tests move a partition's time by `off`."""
    meta = keys.partition_meta(crawl, partition)
    last, off = connection.execute("HMGET", meta, "t", "off", key=meta)
    seconds, micros = connection.execute("TIME", key=meta)
    return (int(last or 0) - int(off or 0)) / 1000 - int(seconds) - int(micros) / 1e6


def partition_owner(connection: Connection, crawl: str, partition: int) -> str:
    """The primary of a cluster that has a partition."""
    slot = slot_of(keys.base(crawl, partition))
    for first, last, owner, *_ in connection.execute("CLUSTER", "SLOTS"):
        if first <= slot <= last:
            return f"{owner[0]!r}:{owner[1]}"
    return "nobody"


class RestoreTarget:
    """Where a tool puts entries of a snapshot of its own making, and the state of the servers that has all of them."""

    def __init__(self, frontier: ValkeyFrontier) -> None:
        self._frontier, self._verbs = frontier, frontier.verbs.snapshot
        self._name, self._number = secrets.token_hex(8), 0
        _, self._epochs = frontier.run(self._verbs.restored(self._name))
        self._runs: dict[str, str] = {}

    def entry(self, entry: Sequence[Any]) -> None:
        """Restore one entry on every partition."""
        self._number += 1
        rows = [([[self._number, *entry]], [b""])] * self._frontier.partitions
        self._frontier.run(self._verbs.restore(self._name, self._number, rows))

    def tasks(self, name: str, source: str, tasks: Sequence[list[Any]], data: Sequence[bytes]) -> None:
        """Put tasks back to their producer's key, each line of the snapshot `name` once."""
        verb = self._verbs.restore_tasks(name, source, tasks, data, self._runs.get(source, ""))
        _, self._runs[source] = self._frontier.run(verb)

    def check(self) -> None:
        """SnapshotError if a server was restarted or replaced since this was made: it may have lost what had been put there."""
        self._frontier.run(self._verbs.restore(self._name, 0, [([], [])] * self._frontier.partitions, self._epochs))
        for source in self._runs:
            self.tasks("", source, [], [])


def _each_partition(frontier: ValkeyFrontier, suffix: str, name: str, command: str, *words: Any) -> list[Any]:
    bases = (keys.base(frontier.crawl, partition) for partition in range(frontier.partitions))
    found = (base + keys.SUFFIXES[suffix] + name for base in bases)
    return [frontier.connection.execute(command, key, *words, key=key) for key in found]
