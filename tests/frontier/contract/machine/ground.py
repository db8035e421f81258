"""Where random calls are made, by whom, and what the server must have afterwards.

Durations are whole numbers of UNIT, so long that the real time which passes in an example does not count.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter as Tally
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.support.auditor.state import PartitionPicture
from tests.support.model.partition import Partition

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    ExchangeReply,
    Fetched,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Lease,
    Order,
    Request,
    SeenPolicy,
    SeenScope,
    Selection,
    Settlement,
    Task,
    Token,
)
from gossamer.settings import load
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.servers import Server

FACTOR = int(os.environ.get("MACHINE_FACTOR", "1"))
UNIT = 1000.0
LEASE = 3 * UNIT
SEND = UNIT
HOSTS = ("x", "y", "z")
DEFAULT_HOST = HostPolicy(concurrency=2, block_base=UNIT, block_max=4 * UNIT)
DROPPED = "fleeting"
"""The group that is dropped and made again; its name occurs in no other."""
ROUND = SeenPolicy(scope=SeenScope.ROUND)
NEVER = SeenPolicy(scope=SeenScope.NEVER)
LANES: dict[str, dict[str, LanePolicy]] = {
    "g": {
        "fifo": LanePolicy(max_queued=6),
        "lifo": LanePolicy(order=Order.LIFO, weight=3.0),
        "late": LanePolicy(tier=1, max_leased=2, seen=ROUND),
    },
    "h": {"only": LanePolicy(seen=NEVER)},
    DROPPED: {"some": LanePolicy(), "more": LanePolicy(seen=ROUND)},
}
GROUPS = {
    "g": GroupPolicy(start=True, tasks=("{machine}:tasks",)),
    "h": GroupPolicy(max_queued=8, delay=UNIT, concurrency=1, max_items=4, max_dead=2),
    DROPPED: GroupPolicy(start=True),
}
NAMES = [f"{group}.{lane}" for group, lanes in LANES.items() for lane in lanes]
TASKS = GROUPS["g"].tasks[0]
SELECTIONS = (None, None, Selection(groups=("g",)), Selection(groups=("h",), lanes=("g.lifo",)))


@dataclass
class Ground:
    """Where examples run: one after the other, each on emptied servers."""

    servers: list[Server]
    url: str
    partitions: int = 1
    proxy: FaultProxy | None = None
    library: str | None = None
    strikes: int = 2

    @property
    def goes_back(self) -> bool:
        """Whether the log of its one server may be cut."""
        return len(self.servers) == 1 and self.proxy is not None

    def open(self, crawl: str = "") -> ValkeyFrontier:
        """A new crawl, or a second look at it that no fault disturbs."""
        if not crawl:
            for server in self.servers:
                server.call("FLUSHALL")
        given = {
            "GOSSAMER_URL": self.servers[0].url if crawl and self.proxy else self.url,
            "GOSSAMER_CRAWL": crawl or f"machine-{uuid.uuid4().hex[:8]}",
            "GOSSAMER_PARTITIONS": self.partitions,
            "GOSSAMER_LEASE_SECONDS": LEASE,
            "GOSSAMER_SEND_SECONDS": SEND,
            "GOSSAMER_POISON_STRIKES": self.strikes,
        }
        return ValkeyFrontier.open(load(given, environ={}), host=DEFAULT_HOST, library=self.library)


class HeldTask(NamedTuple):
    """A task in the book: who holds it until when, how often it was leased, how many died of it, whether it is tried alone (1) or
    poison (2)."""

    data: bytes
    holder: str
    until: float
    attempts: int
    taken: str
    deaths: int = 0
    state: int = 0


@dataclass
class Worker:
    token: Token = field(default_factory=Token.fresh)
    leases: list[Lease] = field(default_factory=list)
    old: list[Lease] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    last: tuple[dict[str, Any], ExchangeReply] | None = None

    @property
    def name(self) -> str:
        return self.token.incarnation

    def next(self) -> Token:
        self.token = self.token.next()
        return self.token


def told(value: Any) -> str:
    """Calls and answers in few words, for the report of a failure."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {told(one)}" for name, one in value.items() if one)
    if isinstance(value, list):
        return f"[{'; '.join(told(one) for one in value)}]"
    if isinstance(value, Lease):
        return f"#{value.id} {value.lane}@{value.host} p{value.priority} {value.payload!r}{' alone' if value.alone else ''}"
    if isinstance(value, Request):
        kind = "+" if value.dont_filter else f"f{value.fingerprint}"
        return f"{value.lane}@{value.host} p{value.priority} {kind} {value.payload!r} in {value.delay / UNIT:g}"
    if isinstance(value, Settlement):
        return f"#{value.lease.id} {value.ending.value} {value.delay / UNIT:g} {value.feedback} {told(list(value.add))} {value.items}"
    if isinstance(value, Fetched):
        return f"#{value.lease.id} {value.feedback}"
    return str(value)


def same_state(part: Partition, picture: PartitionPicture, now: float) -> None:
    """The server has exactly what the model has, where it has it."""
    for mine, theirs in ((part.front, picture.fronts), (part.queue, picture.queues)):
        assert {spot: [job.request.payload for job in jobs] for spot, jobs in mine.items() if jobs} == {
            tuple(place): [record.payload for record in records] for place, records in theirs.items()
        }
    assert [job.request.payload for _, job in part.delayed] == [row.record.payload for row in picture.delayed]
    assert [(job.request.payload, job.strikes, job.attempts) for job in part.suspects] == [
        (row.record.payload, row.record.strikes, row.record.attempts) for row in picture.suspects
    ]
    expected = {
        number: (held.host, held.worker, held.nonce, held.alone, held.mark)
        + ((held.job.request.lane, held.job.request.payload, held.job.attempts, held.job.strikes) if held.job else ())
        for number, held in part.held.items()
    }
    assert expected == {
        number: (row.host, row.incarnation, row.nonce, row.alone, row.mark)
        + ((row.lane, row.record.payload, row.record.attempts, row.record.strikes) if row.lane else ())
        for number, row in picture.leases.items()
    }
    assert Tally(
        (group, reason, job.spot, job.attempts, job.request.payload) for group, reason, job in part.dead
    ) == Tally(
        (row.group, row.reason, (row.lane, row.priority, row.host), row.attempts, row.record.payload)
        for row in picture.dead.values()
    )
    for host, row in picture.hosts.items():
        assert row.in_flight == part.in_flight(host), f"in flight at {host}"
        assert (row.blocked_until > now) == (part.hosts[host].blocked > part.now), f"block of {host}"
    for group in part.groups:
        assert part.items[group] == [item for _, item in picture.items.get(group, [])]
    memories = {
        f"{group}|{spec}" + (f"|{number}" if number >= 0 else ""): known
        for (group, spec, number), known in part.seen.items()
        if number in (-1, part.rounds.get(group, 0))
    }
    for name in memories.keys() | picture.seen.keys():
        assert memories.get(name, set()) == picture.seen.get(name, set()), f"memory {name}"
