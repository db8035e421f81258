"""Workers that name many groups: a call neither says nor asks more for it, and serves what it would if each name were said."""

from __future__ import annotations

import random
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from gossamer.frontier.verbs.work.exchange import NAMES_TOLD
from gossamer.model import Ending, GroupPolicy, HostPolicy, LanePolicy, Lease, Request, Selection, Settlement, Token
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.crawl import SETTLED
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

FEW, MANY = NAMES_TOLD + 6, 16 * NAMES_TOLD


def groups(crawl: Crawl, number: int, pages: int, policy: GroupPolicy | None = None) -> tuple[str, ...]:
    names = tuple(f"s{n}" for n in range(number))
    for name in names:
        crawl.frontier.define(name, {"a": LanePolicy()}, policy)
    crawl.frontier.add([crawl.request(f"{name} {n}", lane=f"{name}.a") for n in range(pages) for name in names])
    return names


def group_of(lease: Lease) -> str:
    return lease.lane.partition(".")[0]


def open_in(crawl: Crawl, names: tuple[str, ...]) -> int:
    return sum(row.open for row in crawl.frontier.counts().groups if row.group in names)


class TestManyNames:
    def test_only_what_is_named_is_served_and_counted(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        names = groups(crawl, FEW + 10, 2)
        worker = crawl.worker(*names[:FEW])
        for want in (FEW, FEW):
            leases = worker.lease(want)
            assert {group_of(lease) for lease in leases} == set(names[:FEW]), "one turn each"
            worker.settle(*leases)
            # Another policy: what the server knew of the names is gone.
            crawl.frontier.define("other", {f"l{want}": LanePolicy()})
        answer = worker.exchange(want=4 * crawl.frontier.partitions)
        assert (answer.leases, answer.hints.open) == ([], 0)
        assert open_in(crawl, names) == 20

    def test_lanes_of_one_stage(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        for n in range(FEW):
            crawl.frontier.define(
                f"s{n}", {"a": LanePolicy(), "b": LanePolicy(stage="late"), "c": LanePolicy(stage="late")}
            )
            for lane in "abc":
                crawl.add(f"{n} {lane}", lane=f"s{n}.{lane}")
        selection = Selection(groups=("s0",), lanes=tuple(f"s{n}.b" for n in range(FEW)), stage="late")
        token = Token.fresh()
        leases = crawl.frontier.exchange(token, want=10 * FEW, selection=selection).leases
        assert sorted(lease.lane for lease in leases) == sorted([f"s{n}.b" for n in range(FEW)] + ["s0.c"])

    def test_they_share_a_host_by_their_weights_and_one_that_returns_gets_no_windfall(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=2))
        names = groups(crawl, FEW, 6)
        crawl.frontier.define("heavy", {"a": LanePolicy(), "b": LanePolicy(tier=-1)}, GroupPolicy(weight=3))
        crawl.add(*(f"heavy {n}" for n in range(40)), lane="heavy.a")
        worker = crawl.worker(*names, "heavy")

        def served(pages: int) -> Counter[str]:
            held: list[Lease] = []
            got: Counter[str] = Counter()
            while got.total() < pages:
                held = worker.exchange(
                    settle=[Settlement(lease) for lease in held], want=2 * crawl.frontier.partitions
                ).leases
                assert held
                got.update(group_of(lease) for lease in held)
            worker.settle(*held)
            return got

        rounds = served(2 * (FEW + 3))
        assert all(1 <= rounds[name] <= 3 for name in names), rounds
        assert 5 <= rounds["heavy"] <= 7
        crawl.add(*(f"late {n}" for n in range(10)), lane="heavy.b")
        crawl.frontier.define("idle", {"a": LanePolicy()})
        crawl.add(*(f"idle {n}" for n in range(10)), lane="idle.a")
        worker = crawl.worker(*names, "heavy", "idle")
        later = served(FEW + 4)
        assert later["idle"] <= 3, "it has not saved up turns"
        assert 2 <= later["heavy"] <= 5


class History:
    """Three workers with selections of their own, and whatever else changes what is open."""

    def __init__(self, crawl: Crawl, seed: int) -> None:
        self.crawl, self.frontier, self.chance = crawl, crawl.frontier, random.Random(seed)
        self.frontier.set_host("", HostPolicy(concurrency=0))
        self.names = groups(crawl, FEW + 8, 2)
        chosen = self.names[:FEW], self.names[8:], self.names[3:5]
        self.selections = [Selection(groups=names) for names in chosen]
        self.tokens = [Token.fresh() for _ in chosen]
        self.held: list[list[Lease]] = [[] for _ in chosen]

    def call(self, who: int, want: int = 0, settle: Sequence[Settlement] = ()) -> None:
        answer = self.frontier.exchange(self.tokens[who], want=want, settle=settle, selection=self.selections[who])
        self.tokens[who] = self.tokens[who].next()
        self.held[who] += answer.leases
        assert answer.hints.open == open_in(self.crawl, self.selections[who].groups)

    def lease(self, who: int) -> None:
        self.call(who, want=self.chance.randrange(4))

    def settle(self, who: int) -> None:
        ending = self.chance.choice([Ending.DONE, Ending.RETRY, Ending.FAILED])
        done, self.held[who] = self.held[who][:3], self.held[who][3:]
        add = [self.request(self.names)] if ending is Ending.DONE else []
        self.call(who, settle=[Settlement(lease, ending, add=add) for lease in done])

    def drop(self, _: int) -> None:
        name = self.chance.choice(self.names)
        list(self.frontier.drop_group(name))
        if self.chance.random() < 0.5:
            self.frontier.define(name, {"a": LanePolicy()})

    def add(self, _: int) -> None:
        self.frontier.add([self.request([row.group for row in self.frontier.counts().groups])])

    def change(self, _: int) -> None:
        self.frontier.define("policy", {"a": LanePolicy(weight=self.chance.randrange(1, 9))})

    def replay(self, _: int) -> None:
        for letter in self.frontier.dead_letters(self.chance.choice(self.names)):
            self.frontier.replay(letter.partition, [letter.id])

    def request(self, names: Sequence[str]) -> Request:
        return self.crawl.request(f"{self.chance.random()}", lane=f"{self.chance.choice(names)}.a")

    def step(self) -> None:
        steps = [*[self.lease, self.settle] * 4, self.drop, self.add, self.add, self.change, self.replay]
        self.chance.choice(steps)(self.chance.randrange(3))
        for who in range(3):
            self.call(who)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_open_is_told_exactly_whatever_happens(
    opened: Callable[..., Crawl], crawl_name: str, seed: int
) -> None:
    """The sums are kept between calls: policies change, groups go and come, the server is killed and goes back to an older state."""
    with Server("valkey").start(fsync="always") as server:
        history = History(opened(server.url, crawl_name), seed)
        for number in range(40):
            if number == 20:
                server.kill()
                server.restart()
            history.step()


def is_copied(replica: Server) -> bool:
    return "master_link_status:up" in str(replica.call("INFO", "replication"))


def test_another_process_may_have_written_in_between(opened: Callable[..., Crawl], crawl_name: str) -> None:
    """The sums of a primary that was replaced are not those of when it is the primary again."""
    with Server("valkey").start() as first, Server("valkey").start() as second:
        history = History(opened(first.url, crawl_name), 0)
        history.step()
        for primary, replica in ((first, second), (second, first)):
            replica.call("REPLICAOF", "127.0.0.1", str(primary.port))
            wait_until(partial(is_copied, replica), "a copy")
            assert primary.call("WAIT", "1", "10000") == 1
            replica.call("REPLICAOF", "NO", "ONE")
            there = opened(replica.url, crawl_name)
            there.frontier.add([there.request(f"new {replica.port}", lane=f"{history.names[3]}.a")])
        for who in range(3):
            history.call(who)


def said(server: Server, do: Callable[[], object]) -> int:
    """How many bytes are said to the server and inside its functions, by a monitor."""
    with socket.create_connection(("127.0.0.1", server.port)) as monitor:
        monitor.sendall(b"MONITOR\r\n")
        heard = b""
        while not heard.endswith(b"+OK\r\n"):
            heard += monitor.recv(65536)
        do()
        server.call("ECHO", "that-is-all")
        heard = b""
        while b"that-is-all" not in heard:
            heard += monitor.recv(1 << 20)
    return len(heard)


def test_a_call_says_and_asks_as_much_however_many_groups_it_names(
    valkey_server: Server, opened: Callable[..., Crawl], crawl_name: str
) -> None:
    def cost(number: int) -> int:
        crawl = opened(valkey_server.url, f"{crawl_name}-{number}")
        crawl.frontier.set_host("", HostPolicy(concurrency=2))
        names = groups(crawl, number, 3)
        worker = crawl.worker(*names)
        held = worker.lease(2)

        def page() -> None:
            nonlocal held
            done = held.pop(0)
            answer = worker.exchange(settle=[Settlement(done)], want=4)
            assert answer.settled == [SETTLED]
            held += answer.leases
            assert held, "the host's slots are used"

        for _ in range(number):
            page()  # every group was met, and waits for the host

        def pages() -> None:
            for _ in range(10):
                page()

        return said(valkey_server, pages)

    few, many = cost(FEW), cost(MANY)
    assert many < 1.3 * few, f"{few} bytes for {FEW} groups, {many} for {MANY}"
