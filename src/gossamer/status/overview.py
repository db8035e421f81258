"""A crawl at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gossamer.errors import UnknownGroup
from gossamer.frontier import inspection
from gossamer.frontier.server.info import ServerInfo
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupCounts, LaneCounts, WorkerInfo
from gossamer.model.reply import Counts, HostInfo, SeenInfo
from gossamer.settings import Settings
from gossamer.status.pools import ServedLanes
from gossamer.status.tasks import TaskCounts, task_counts, task_queues

SILENT_SECONDS = 30.0
"""A worker calls every five seconds even if it has nothing to do, and every fifteen while it waits for the server."""
QUIET_SECONDS = 16.0
"""A living worker is never silent for this long, unless it cannot reach the server: then its requests come back when its leases run out."""
MEMORY_FULL = 0.95
"""The share of its limit at which a server counts as full; as in prelude.lua."""
WORKERS_READ = 1000
HOSTS_SHOWN = 10
HOSTS_READ = 500
"""How many waiting hosts of a partition to read, to find the blocked ones."""


CONNECT_SECONDS = 2.0
CALL_SECONDS = 5.0


class Overview(NamedTuple):
    """A crawl at a glance. `paused` is why nothing is leased anywhere, "" if leasing is open. `workers` are those that called
    last, `workers_count` how many are listed in all. `memory` says that a server is near its limit, "" if none is. `tasks` only has
    groups that producers feed; `blocked` the hosts that are blocked longest, `blocked_count` how many are (see `blocked_hosts`).
    `unserved_groups` and `unserved_lanes` (in which pages wait) are those that no living worker takes pages of, and why."""

    crawl: str
    partitions: int
    now: float
    paused: str
    servers: tuple[ServerInfo, ...]
    groups: list[GroupCounts]
    lanes: list[LaneCounts]
    workers: list[WorkerInfo]
    memories: list[SeenInfo]
    tasks: list[TaskCounts]
    blocked: list[HostInfo]
    blocked_count: int
    workers_count: int = 0
    lease_seconds: float = 60.0
    memory: str = ""
    unserved_groups: Mapping[str, str] = MappingProxyType({})
    unserved_lanes: Mapping[str, str] = MappingProxyType({})

    @property
    def present(self) -> list[WorkerInfo]:
        """The workers that are alive, or hold something that has yet to run out."""
        return [worker for worker in self.workers if self.alive(worker) or worker.held]

    @property
    def stranded(self) -> str:
        """What is held by workers that fell silent, and when it is back; "" if nothing is."""
        silent = [x for x in self.workers if x.held and not x.closed and self.now - x.seen >= QUIET_SECONDS]
        if not silent:
            return ""
        held, last = sum(worker.held for worker in silent), max(worker.seen for worker in silent)
        who = "a worker" if len(silent) == 1 else f"{len(silent):,} workers"
        back = max(0.0, last + self.lease_seconds - self.now)
        return f"{held:,} held by {who} silent for {self.now - last:.0f} s, back in {back:.0f} s"

    def alive(self, worker: WorkerInfo) -> bool:
        return is_alive(worker, self.now)


def is_alive(worker: WorkerInfo, now: float) -> bool:
    """Whether a worker called lately and has not ended."""
    return now - worker.seen < SILENT_SECONDS and not worker.closed


def hasty(settings: Settings) -> Settings:
    """The settings for commands that watch: they report an outage at once instead of waiting for its end. Prometheus gives a
    scrape up after ten seconds."""
    given = {
        "GOSSAMER_OUTAGE_SECONDS": 0.0,
        "GOSSAMER_CONNECT_SECONDS": min(CONNECT_SECONDS, settings["GOSSAMER_CONNECT_SECONDS"]),
        "GOSSAMER_CALL_SECONDS": min(CALL_SECONDS, settings["GOSSAMER_CALL_SECONDS"]),
    }
    return Settings({**settings.values, **given}, settings.sources)


def overview(frontier: ValkeyFrontier, group: str = "", hosts: int = HOSTS_SHOWN) -> Overview:
    """The crawl now, or with `group` only that group, its lanes and its memories; `UnknownGroup` if there is none.
    `hosts` is how many of the blocked hosts are named."""
    counts = counts_of(frontier, group)
    prefix = f"{group}|"
    memories = [each for each in frontier.seen_counts() if not group or each.name.startswith(prefix)]
    blocked = blocked_hosts(frontier)
    servers, workers = frontier.connection.server_infos(), frontier.workers(WORKERS_READ)
    served = ServedLanes(worker for worker in workers if is_alive(worker, counts.now))
    return Overview(
        frontier.crawl,
        frontier.partitions,
        counts.now,
        counts.paused,
        servers,
        counts.groups,
        counts.lanes,
        workers,
        memories,
        task_counts(task_queues(frontier, counts)),
        blocked[:hosts],
        len(blocked),
        frontier.workers_count() if len(workers) >= WORKERS_READ else len(workers),
        inspection.lease_seconds(frontier),
        memory_trouble(servers),
        {row.group: why for row in counts.groups if (why := served.obstacle(row.group))},
        served.unserved_lanes(counts),
    )


def memory_trouble(servers: Sequence[ServerInfo]) -> str:
    """That a server has reached its memory limit, "" if none has: near it the frontier takes nothing new but what its pages lead
    to, and hands out little at a time."""
    for server in servers:
        if server.memory_max and server.memory_used >= MEMORY_FULL * server.memory_max:
            share = server.memory_used / server.memory_max
            return f"{share:.0%} of the limit of {server.node} is used; {server.more_memory}, or wait until workers have freed some"
    return ""


def blocked_hosts(frontier: ValkeyFrontier) -> list[HostInfo]:
    """The hosts that are blocked, longest from now first. A host with requests in flight is listed when they have ended, and of
    each partition only the `HOSTS_READ` that wait longest are read."""
    waiting = frontier.hosts(inspection.waiting_hosts(frontier, HOSTS_READ))
    blocked = [host for host in waiting if host.blocked_until > host.now]
    return sorted(blocked, key=lambda host: (-host.blocked_until, host.host))


def counts_of(frontier: ValkeyFrontier, group: str = "") -> Counts:
    """The numbers alone."""
    counts = frontier.counts(group)
    if group and not counts.groups:
        raise UnknownGroup(f"there is no group {group!r} in crawl {frontier.crawl!r}; `gossamer status` lists them.")
    return counts


def hosts(frontier: ValkeyFrontier, names: Sequence[str]) -> list[HostInfo]:
    """What is known of these hosts, in the order asked. A host at rest is listed as such, whether it ever had work or not."""
    found = {host.host: host for host in frontier.hosts(names)}
    return [found[name] for name in names]


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
            {**worker_json(worker, view.now), "groups": len(worker.groups), "alive": view.alive(worker)}
            for worker in view.workers
        ],
        "memories": [memory._asdict() for memory in view.memories],
        "tasks": [each._asdict() for each in view.tasks],
        "blocked": [host._asdict() for host in view.blocked],
        "blocked_count": view.blocked_count,
        "workers_count": view.workers_count,
        "memory": view.memory,
        "unserved_lanes": dict(view.unserved_lanes),
    }


def worker_json(worker: WorkerInfo, now: float) -> dict[str, Any]:
    return {
        **worker._asdict(),
        "name": worker.name,
        "groups": worker.groups,
        "info": {name: value for name, value in worker.info.items() if name != "groups"},
        "silent": round(max(0.0, now - worker.seen), 3),
    }


def server_json(server: ServerInfo) -> dict[str, Any]:
    return {name: getattr(server, name) for name in ServerInfo.__dataclass_fields__}
