"""What a contract test holds: a crawl of its own on some frontier, and workers that speak to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from typing import Any

from gossamer.frontier.contract import Frontier
from gossamer.frontier.server import keys
from gossamer.model import (
    AddOutcome,
    ExchangeReply,
    Fetched,
    GroupCounts,
    GroupPolicy,
    LaneCounts,
    LanePolicy,
    Lease,
    Request,
    Selection,
    Settlement,
    SettleOutcome,
    Token,
    fingerprint,
)

CALLS_MAX = 2000


class Worker:
    """One worker with its token. `lease` asks again for as long as it is told that more is ready."""

    def __init__(self, frontier: Frontier, selection: Selection | None = None) -> None:
        self.frontier, self.selection = frontier, selection
        self.token = Token.fresh()

    def exchange(self, **told: Any) -> ExchangeReply:
        if self.selection is not None:
            told.setdefault("selection", self.selection)
        answer = self.frontier.exchange(self.token, **told)
        self.token = self.token.next()
        return answer

    def lease(self, want: int = 1) -> list[Lease]:
        leases: list[Lease] = []
        for _ in range(CALLS_MAX):
            answer = self.exchange(want=want - len(leases))
            leases += answer.leases
            if len(leases) >= want or answer.hints.ready_in != 0:
                return leases
        raise AssertionError("told again and again that something is ready, and given nothing")

    def one(self) -> Lease:
        [lease] = self.lease(1)
        return lease

    def paused(self) -> str:
        """Why nothing is leased now; "" if it is for no reason."""
        answer = self.exchange(want=self.frontier.partitions)
        assert answer.leases == []
        return answer.hints.paused

    def send(self, want: int = 1) -> list[Lease]:
        """Lease and report as sent at once."""
        leases = self.lease(want)
        self.sent(*leases)
        return leases

    def settle(self, *leases: Lease, **how: Any) -> list[SettleOutcome]:
        return self.exchange(settle=[Settlement(lease, **how) for lease in leases]).settled

    def sent(self, *leases: Lease) -> None:
        self.exchange(sent=leases)

    def fetched(self, *leases: Lease) -> None:
        self.exchange(fetched=[Fetched(lease) for lease in leases])

    def release(self, *leases: Lease) -> list[bool]:
        return self.frontier.release(self.token, leases)


@dataclass
class Crawl:
    """A crawl that is new and empty, of partitions as the frontier has them. Unless `define` says otherwise, the first request
    makes the group `g` with the lane `a`.

    `move` lets seconds pass, also in the books of task keys; `command` says a plain command to the server that holds a
    key (the last argument), as an outside producer would; `lease_seconds` and `strikes` are those of the frontier.
    """

    frontier: Frontier
    move: Callable[[float, tuple[str, ...]], None]
    command: Callable[[tuple[str | int | bytes, ...], str], Any]
    lease_seconds: float = 60.0
    strikes: int = 3

    def __post_init__(self) -> None:
        self._defined = False

    def advance(self, seconds: float, *tasks: str) -> None:
        self.move(seconds, tasks)

    def expire(self, *tasks: str) -> None:
        """Let every lease run out."""
        self.move(self.lease_seconds + 1, tasks)

    def worker(self, *groups: str, lanes: Iterable[str] = (), stage: str | None = None) -> Worker:
        chosen = Selection(groups, tuple(lanes), stage)
        return Worker(self.frontier, None if chosen == Selection() else chosen)

    def define(self, lanes: Mapping[str, LanePolicy] | None = None, policy: GroupPolicy | None = None) -> None:
        """Group `g` with these lanes, or with one called `a`."""
        self._defined = True
        self.frontier.define("g", {"a": LanePolicy()} if lanes is None else lanes, policy)

    def hosts(self, n: int, partition: int = 0) -> list[str]:
        """Host names of one partition."""
        return list(_hosts(n, partition, self.frontier.partitions))

    def spread(self, n: int) -> list[str]:
        """Host names over the partitions by turns."""
        partitions = self.frontier.partitions
        columns = [self.hosts(-(-n // partitions), p) for p in range(partitions)]
        return [name for row in zip(*columns, strict=True) for name in row][:n]

    @property
    def host(self) -> str:
        return self.hosts(1)[0]

    def request(self, name: str, host: str = "", lane: str = "g.a", **more: Any) -> Request:
        """A request called `name`: its payload, and with the host what it is known by."""
        if not self._defined and lane == "g.a":
            self.define()
        return Request(fingerprint(name), host or self.host, lane, name.encode(), **more)

    def requests(self, names: Iterable[str], host: str = "", lane: str = "g.a", **more: Any) -> list[Request]:
        host = host or self.host
        return [self.request(name, host, lane, **more) for name in names]

    def add(self, *names: str, host: str = "", lane: str = "g.a", **more: Any) -> list[AddOutcome]:
        return self.frontier.add(self.requests(names, host, lane, **more))[0]

    def lane(self, name: str = "g.a") -> LaneCounts:
        return next(row for row in self.frontier.counts().lanes if row.lane == name)

    def group(self, name: str = "g") -> GroupCounts:
        return next(row for row in self.frontier.counts().groups if row.group == name)

    def items(self, group: str = "g") -> list[bytes]:
        partitions = range(self.frontier.partitions)
        return [data for p in partitions for _, data in self.frontier.read_items(group, p, limit=10_000)]

    def balanced(self, group: str = "g") -> None:
        """What is open is exactly what is queued, delayed, leased, found and owed: nothing was lost or counted twice."""
        rows = [row for row in self.frontier.counts(group).lanes if row.lane.rpartition(".")[0] == group]
        owed = self.group(group).start in ("owed", "leased")
        assert self.group(group).open == sum(row.queued + row.delayed + row.leased + row.found for row in rows) + owed

    def finish(self, worker: Worker | None = None, most: int = 10_000) -> list[str]:
        """Lease and settle whatever is ready, one after the other; the names in their order."""
        worker, done = worker or self.worker(), list[str]()
        while len(done) < most and (leases := worker.lease(1)):
            done += names(leases)
            assert worker.settle(*leases) == [SettleOutcome.SETTLED]
        return done


@cache
def _hosts(n: int, partition: int, partitions: int) -> tuple[str, ...]:
    """The first names that lie there. Requests are made by thousands, most without a host of their own."""
    every = (f"h{number}.example" for number in count(1))
    return tuple(islice((name for name in every if keys.partition_of(name, partitions) == partition), n))


def names(leases: Iterable[Lease]) -> list[str]:
    return [lease.payload.decode() for lease in leases]


ADDED, DUPLICATE, FULL, INVALID = AddOutcome.ADDED, AddOutcome.DUPLICATE, AddOutcome.FULL, AddOutcome.INVALID
SETTLED, LOST = SettleOutcome.SETTLED, SettleOutcome.LOST
