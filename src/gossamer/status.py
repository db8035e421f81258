"""The read model for people: what a crawl is doing now.

Two kinds of reads, told apart by name. Plain names cost O(lanes + groups + workers) whatever is queued and may be asked every
second. Names that begin with `scan_` page through what grows with the crawl; they are iterators, so that whoever reads
decides how far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gossamer.errors import UnknownGroup
from gossamer.frontier.reading import Counts, HostInfo, SeenInfo
from gossamer.frontier.serverinfo import ServerInfo
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import DeadLetter, GroupCounts, LaneCounts, WorkerInfo


class Overview(NamedTuple):
    """A crawl at a glance. `paused` is why nothing is leased anywhere, "" if leasing is open."""

    crawl: str
    partitions: int
    now: float
    paused: str
    servers: tuple[ServerInfo, ...]
    groups: list[GroupCounts]
    lanes: list[LaneCounts]
    workers: list[WorkerInfo]
    memories: list[SeenInfo]


def overview(frontier: ValkeyFrontier, group: str = "") -> Overview:
    """The crawl now, or with `group` only that group, its lanes and its memories; `UnknownGroup` if there is none."""
    counts = counted(frontier, group)
    prefix = f"{group}|"
    memories = [each for each in frontier.seen_counts() if not group or each.name.startswith(prefix)]
    return Overview(
        frontier.crawl,
        frontier.partitions,
        counts.now,
        counts.paused,
        frontier.connection.server_infos(),
        counts.groups,
        counts.lanes,
        frontier.workers(),
        memories,
    )


def counted(frontier: ValkeyFrontier, group: str = "") -> Counts:
    """The numbers alone."""
    counts = frontier.counts(group)
    if group and not counts.groups:
        raise UnknownGroup(f"there is no group {group!r} in crawl {frontier.crawl!r}; `gossamer status` lists them.")
    return counts


def hosts(frontier: ValkeyFrontier, names: Sequence[str]) -> list[HostInfo]:
    """What is known of these hosts, in the order asked. A host at rest is told as such, whether it ever had work or not."""
    found = {host.host: host for host in frontier.hosts(names)}
    return [found[name] for name in names]


def scan_dead(frontier: ValkeyFrontier, group: str, page: int = 100) -> Iterator[DeadLetter]:
    """Dead letters without payloads, roughly oldest first."""
    after = 0
    while letters := frontier.dead_letters(group, after, page):
        yield from letters
        after += page


def as_json(view: Overview) -> dict[str, Any]:
    """The overview in the types that JSON knows."""
    return {
        "crawl": view.crawl,
        "partitions": view.partitions,
        "now": view.now,
        "paused": view.paused,
        "servers": [server_json(server) for server in view.servers],
        "groups": [{**group._asdict(), "counters": dict(group.counters)} for group in view.groups],
        "lanes": [lane._asdict() for lane in view.lanes],
        "workers": [
            {**worker._asdict(), "info": dict(worker.info), "silent": round(max(0.0, view.now - worker.seen), 3)}
            for worker in view.workers
        ],
        "memories": [memory._asdict() for memory in view.memories],
    }


def server_json(server: ServerInfo) -> dict[str, Any]:
    return {name: getattr(server, name) for name in ServerInfo.__dataclass_fields__}
