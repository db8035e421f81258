"""Many groups on few hosts, policies of chance, workers that ask for more than there is: nobody is forgotten.

At every lease it is known who could have been served instead:
who had a request ready for a host that its group's and the host's own limits allowed. A group that could, and was passed over more
than a bounded number of times, was starved; so was a worker that asked and got nothing as long. Hosts never have more in flight than
they allow, and a call costs about as many commands however many groups, workers and hosts there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.frontier.contract.machine.ground import FACTOR

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, HostPolicy, LanePolicy, Lease, Request, Settlement, Token
from gossamer.settings import load
from gossamer.testing.servers import Server

HOSTS = 3
MANY = 1_000


@dataclass(frozen=True)
class Group:
    """One group: how many requests may be in flight to a host for it (0: no limit), and how it is weighed."""

    concurrency: int
    weight: float
    hosts: tuple[int, ...]
    pages: int


@dataclass
class Share:
    """What one group got and missed."""

    served: int = 0
    passed_over: int = 0
    worst: int = 0
    flying: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)


groups = st.builds(
    Group,
    st.sampled_from((0, 1, 1, 2, 4)),
    st.sampled_from((1.0, 1.0, 3.0)),
    st.sets(st.integers(0, HOSTS - 1), min_size=1, max_size=HOSTS).map(lambda hosts: tuple(sorted(hosts))),
    st.sampled_from((5, 60)),
)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server("valkey") as running:
        yield running


def open_crawl(server: Server, limit: int) -> ValkeyFrontier:
    server.call("FLUSHALL")
    given = {"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": "shares", "GOSSAMER_LEASE_SECONDS": 36_000}
    return ValkeyFrontier.open(load(given, environ={}), host=HostPolicy(concurrency=limit))


class Fleet:
    """Workers that lease and settle by turns, and the book of who was served."""

    def __init__(self, frontier: ValkeyFrontier, chosen: list[Group], limit: int, workers: int) -> None:
        self.frontier, self.limit = frontier, limit
        self.groups = {f"g{number}": group for number, group in enumerate(chosen)}
        self.shares = {name: Share() for name in self.groups}
        self.tokens = [Token.fresh() for _ in range(workers)]
        self.held: list[list[Lease]] = [[] for _ in range(workers)]
        self.flying: Counter[str] = Counter()
        self.hungry: Counter[int] = Counter()
        number = 0
        for name, group in self.groups.items():
            policy = GroupPolicy(concurrency=group.concurrency)
            frontier.define(name, {"all": LanePolicy(weight=group.weight)}, policy)
            requests = []
            for host in group.hosts:
                for _ in range(group.pages):
                    number += 1
                    requests.append(Request(number, f"host{host}", f"{name}.all", b"page"))
                self.shares[name].waiting[f"host{host}"] = group.pages
            frontier.add(requests)

    def could(self, name: str, host: str) -> bool:
        """Whether the group might have been given a lease for the host now."""
        group, share = self.groups[name], self.shares[name]
        return (
            share.waiting[host] > 0
            and (self.limit == 0 or self.flying[host] < self.limit)
            and (group.concurrency == 0 or share.flying[host] < group.concurrency)
        )

    def turn(self, worker: int, want: int, settle: int) -> int:
        """One exchange: some of what the worker holds is done, and it asks for more."""
        done, self.held[worker] = self.held[worker][:settle], self.held[worker][settle:]
        for lease in done:
            self.flying[lease.host] -= 1
            self.shares[lease.lane.rpartition(".")[0]].flying[lease.host] -= 1
        answer = self.frontier.exchange(self.tokens[worker], settle=[Settlement(lease) for lease in done], want=want)
        self.tokens[worker] = self.tokens[worker].next()
        for lease in answer.leases:
            self.book(lease)
        self.held[worker] += answer.leases
        if answer.leases:
            self.hungry[worker] = 0
            for other, held in enumerate(self.held):
                self.hungry[other] += not held
        return len(answer.leases)

    @property
    def left(self) -> int:
        return sum(share.waiting.total() for share in self.shares.values())

    def book(self, lease: Lease) -> None:
        name = lease.lane.rpartition(".")[0]
        for other, share in self.shares.items():
            if other != name and self.could(other, lease.host):
                share.passed_over += 1
                share.worst = max(share.worst, share.passed_over)
        share = self.shares[name]
        share.passed_over = 0
        share.served += 1
        share.waiting[lease.host] -= 1
        share.flying[lease.host] += 1
        self.flying[lease.host] += 1
        assert not self.limit or self.flying[lease.host] <= self.limit, (
            f"{self.flying[lease.host]} in flight to {lease.host}"
        )
        most = self.groups[name].concurrency
        assert not most or share.flying[lease.host] <= most, (
            f"{share.flying[lease.host]} of {name} in flight to {lease.host}"
        )


EXAMPLES = settings(
    max_examples=8 * FACTOR,
    derandomize=FACTOR == 1,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink) if FACTOR > 1 else (Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(300 * FACTOR)
@EXAMPLES
@given(
    chosen=st.lists(groups, min_size=2, max_size=12),
    limit=st.sampled_from((1, 2, 8)),
    want=st.sampled_from((1, 2, 16)),
    kept=st.integers(0, 2),
)
def test_no_group_is_starved(server: Server, chosen: list[Group], limit: int, want: int, kept: int) -> None:
    """Workers keep some of what they hold for later, so that groups always have something in flight."""
    with open_crawl(server, limit) as frontier:
        fleet = Fleet(frontier, chosen, limit, workers=2)
        while fleet.left:
            got = sum(fleet.turn(worker, want, max(1, len(held) - kept)) for worker, held in enumerate(fleet.held))
            assert got or any(fleet.held), f"{fleet.left} requests are left that nobody gets"
            bound = 20 + 10 * len(chosen)
            for name, share in fleet.shares.items():
                assert share.worst <= bound, f"{name} was passed over {share.worst} times, served {share.served} times"


@pytest.mark.timeout(300 * FACTOR)
@EXAMPLES
@given(workers=st.integers(2, 3), spare=st.integers(0, 6), groups=st.integers(1, 3), want=st.sampled_from((1, 4, 16)))
def test_no_worker_is_starved(server: Server, workers: int, spare: int, groups: int, want: int) -> None:
    """One worker could take every slot that comes free, since it says in one call what is done and asks for more. The slots are
    enough for two each."""
    limit = 2 * workers + spare
    with open_crawl(server, limit) as frontier:
        fleet = Fleet(frontier, [Group(0, 1.0, (0,), 120)] * groups, limit, workers)
        while fleet.left > limit * workers:
            for worker in range(workers):
                fleet.turn(worker, want, 1)
                assert fleet.hungry[worker] <= 30, (
                    f"worker {worker} of {workers} asked in vain while others got 30 times"
                )


class Cost(NamedTuple):
    """Of some calls: commands of all, those inside functions included, and microseconds of the server for the cheapest."""

    commands: int
    least: int


def spent(server: Server) -> Cost:
    rows = {name: dict(pair.split("=") for pair in row.split(",")) for name, row in server.info("commandstats").items()}
    return Cost(sum(int(row["calls"]) for row in rows.values()), int(rows.get("cmdstat_fcall", {"usec": 0})["usec"]))


def cost(server: Server, kind: str, number: int) -> Cost:
    """Of ten calls, five of which find something, when there are so many of a kind."""
    with open_crawl(server, 2) as frontier:
        frontier.define("main", {"all": LanePolicy()})
        if kind in ("groups", "held groups", "idle groups"):
            for place in range(number):
                limit = 1 if kind == "held groups" else 0
                frontier.define(f"g{place}", {"all": LanePolicy()}, GroupPolicy(concurrency=limit))
            if kind != "idle groups":
                requests = [Request(10**6 + 2 * n + k, "busy", f"g{n}.all", b"") for n in range(number) for k in (0, 1)]
                frontier.add(requests)
                frontier.exchange(Token.fresh(), want=2 if kind == "groups" else number)
        elif kind == "workers":
            for _ in range(number):
                frontier.exchange(Token.fresh(), want=1)
        elif kind == "hosts":
            frontier.add([Request(10**6 + n, f"host{n}", "main.all", b"") for n in range(number)])
            for place in range(number):
                frontier.block(f"host{place}", 36_000)
            token = Token.fresh()
            for _ in range(number // 64 + 2):  # whoever is met once is parked
                frontier.exchange(token, want=1)
                token = token.next()
        frontier.add([Request(n, "own", "main.all", b"") for n in range(5)])
        token, held = Token.fresh(), list[Lease]()
        for _ in range(40):
            # What cannot be served is put aside where it is met, some in each call.
            token = token.next()
            frontier.release(token, frontier.exchange(token, want=1).leases)
        total, least = 0, 10**9
        for _ in range(10):
            token = token.next()
            before = spent(server)
            answer = frontier.exchange(token, settle=[Settlement(lease) for lease in held], want=1)
            after = spent(server)
            total, least = total + after.commands - before.commands, min(least, after.least - before.least)
            held = [lease for lease in answer.leases if lease.host == "own"]
        return Cost(total, least)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["groups", "held groups", "idle groups", "workers", "hosts"])
def test_a_call_costs_as_much_however_many_there_are(server: Server, kind: str) -> None:
    few, many = cost(server, kind, 8), cost(server, kind, MANY)
    assert many.commands <= few.commands + 100, f"{few} beside 8 {kind}, {many} beside {MANY}"
    # Commands may be few and long. The cheapest of ten calls is hardly one that the machine had no time for.
    assert many.least <= 4 * few.least + 400, f"{few} beside 8 {kind}, {many} beside {MANY}"
