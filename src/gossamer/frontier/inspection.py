"""What tools read of a crawl or put into it beside the contract: status, feeds, imports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def restore_entry(frontier: ValkeyFrontier, snapshot: str, number: int, entry: Sequence[Any]) -> None:
    """Restore one entry of a snapshot on every partition; `number` is its line, and a line is restored once."""
    rows = [([[number, *entry]], [b""])] * frontier.partitions
    frontier.run(frontier.verbs.snapshot.restore(snapshot, number, rows))


def restore_tasks(
    frontier: ValkeyFrontier, snapshot: str, source: str, tasks: Sequence[list[Any]], data: Sequence[bytes]
) -> int:
    """Put tasks back to their producer's key, each line of a snapshot once. Return how many."""
    return frontier.run(frontier.verbs.snapshot.restore_tasks(snapshot, source, tasks, data))


def _each_partition(frontier: ValkeyFrontier, suffix: str, name: str, command: str, *words: Any) -> list[Any]:
    bases = (keys.base(frontier.crawl, partition) for partition in range(frontier.partitions))
    found = (base + keys.SUFFIXES[suffix] + name for base in bases)
    return [frontier.connection.execute(command, key, *words, key=key) for key in found]
