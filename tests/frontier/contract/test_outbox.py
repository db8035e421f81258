"""What pages owe beyond the call that settles them, with workers that die before any of their calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from gossamer.frontier.call import Verb
from gossamer.frontier.server import keys
from gossamer.frontier.server.library import function
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.verbs.work import outbox, part
from gossamer.model import ExchangeReply, GroupPolicy, HostPolicy, LanePolicy, Lease, Request, Settlement
from gossamer.testing.contract import Crawl, Worker
from gossamer.testing.contract.crawl import ADDED, LOST, SETTLED, names
from gossamer.testing.contract.earlier_state import another_process, go_back, picture
from gossamer.testing.contract.guarantees.lists import data, pushed
from gossamer.testing.servers import Cluster, Server

Opened = Callable[..., Crawl]


def frontier_of(crawl: Crawl) -> ValkeyFrontier:
    assert isinstance(crawl.frontier, ValkeyFrontier)
    return crawl.frontier


def carried(
    frontier: ValkeyFrontier, verb: Verb[ExchangeReply], rounds: int, *, twice: bool = False
) -> ExchangeReply | None:
    """Carry a conversation through so many rounds of questions, then let its worker die; None if it was not at its end. With
    `twice` each question is asked again, as if the answer had been lost."""
    try:
        asks = next(verb)
        for _ in range(rounds):
            answers = frontier.ask(asks)
            asks = verb.send(frontier.ask(asks) if twice else answers)
    except StopIteration as stop:
        answer: ExchangeReply = stop.value
        return answer
    verb.close()
    return None


def owed(crawl: Crawl) -> list[str]:
    """What of the outbox is on the server."""
    found = []
    for partition in range(crawl.frontier.partitions):
        base = keys.base(crawl.frontier.crawl, partition)
        pattern = base + keys.SUFFIXES["outbox"] + "*"
        found += crawl.command(("SCAN", "0", "MATCH", pattern, "COUNT", 100_000), base)[1]
        found += crawl.command(("ZRANGE", base + keys.SUFFIXES["outbox_due"], 0, -1), base)
        number = crawl.command(("HGET", base + keys.SUFFIXES["meta"], "ob"), base)
        assert int(number or 0) == crawl.command(("ZCARD", base + keys.SUFFIXES["outbox_due"]), base)
    return found


@pytest.fixture(params=["cluster", "partitions", "many"])
def place(request: pytest.FixtureRequest) -> str:
    """Where children and data for lists do not go with their page: another node, another partition, too many for one call."""
    return str(request.param)


@pytest.fixture
def crawl(place: str, request: pytest.FixtureRequest, opened: Opened) -> Crawl:
    if place == "cluster":
        cluster: Cluster = request.getfixturevalue("cluster")
        crawl = opened(cluster.url, GOSSAMER_PARTITIONS=3)
    else:
        server: Server = request.getfixturevalue("valkey_server")
        crawl = opened(server.url, GOSSAMER_PARTITIONS=4 if place == "partitions" else 1)
    crawl.define({"a": LanePolicy(), "b": LanePolicy()})
    crawl.frontier.set_host("", HostPolicy(concurrency=0))
    return crawl


def children(crawl: Crawl, name: str) -> list[Request]:
    """More than one call holds where there is one partition; half of them unfiltered, some alike."""
    total = 12 if crawl.frontier.partitions > 1 else 2100
    hosts = crawl.spread(6)
    unfiltered = [crawl.request(f"{name} alike", hosts[n % 6], "g.b", dont_filter=True) for n in range(total // 2)]
    return [*unfiltered, *(crawl.request(f"{name} {n}", hosts[n % 6], "g.b") for n in range(total // 2))]


def attempt(crawl: Crawl, name: str, number: int) -> dict[str, Any]:
    """All that a page may bring."""
    brought = data(crawl, *(f"{name} {n}" for n in range(3)), name=f"list {number}")
    return {"add": children(crawl, name), "push": brought, "items": [f"{name} {n}".encode() for n in range(3)]}


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_wherever_a_worker_dies_one_attempt_counts_and_all_of_it(
    crawl: Crawl, twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page changes between two attempts. What arrives is what the attempt found that was settled, each once."""
    monkeypatch.setattr(part, "CALL_ITEMS", 2)
    frontier, ended = frontier_of(crawl), False
    for rounds in count():
        crawl.frontier.add([crawl.request(f"page {rounds}", lane="g.a")])
        first, second = crawl.worker(lanes=["g.a"]), crawl.worker(lanes=["g.a"])
        page = first.one()
        told = attempt(crawl, f"first {rounds}", rounds)
        verb = frontier.verbs.work.exchange(first.token, settle=[Settlement(page, **told)])
        answer = carried(frontier, verb, rounds, twice=twice)
        crawl.expire()
        [*again] = second.lease(1)
        for lease in again:
            told = attempt(crawl, f"second {rounds}", rounds)
            assert second.settle(lease, **told) == [SETTLED]
        second.exchange(want=frontier.partitions)
        first.token = first.token.next()
        late = first.exchange(settle=[Settlement(page, **attempt(crawl, f"late {rounds}", rounds))])
        assert late.settled == [LOST]
        finder = crawl.worker(lanes=["g.b"])
        leases = finder.lease(5000)
        assert Counter(names(leases)) == Counter(child.payload.decode() for child in told["add"]), (
            f"died before round {rounds}"
        )
        assert pushed(crawl, f"list {rounds}") == [datum for _, datum in told["push"]]
        assert crawl.items()[-3:] == list(told["items"])
        assert len(crawl.items()) == 3 * (rounds + 1)
        _settle(finder, leases)
        assert (crawl.group().open, owed(crawl)) == (0, [])
        if answer is not None:
            ended = True
            break
    assert ended
    assert rounds >= 4


def _settle(worker: Worker, leases: Sequence[Lease]) -> None:
    for first in range(0, len(leases), 500):
        assert set(worker.settle(*leases[first : first + 500])) == {SETTLED}


def test_what_is_owed_keeps_its_group_open(crawl: Crawl) -> None:
    frontier = frontier_of(crawl)
    crawl.add("page")
    worker = crawl.worker()
    told: dict[str, Any] = {"settle": [Settlement(worker.one(), add=children(crawl, "c"))]}
    ends = next(n for n in count(1) if _settled_after(crawl, worker, told, n))
    assert ends >= 1
    other = crawl.worker()
    _settle(other, other.lease(5000))
    assert (crawl.group().open, sum(row.queued + row.leased for row in frontier.counts().lanes)) == (1, 0)
    assert not frontier.drained("g").drained
    crawl.expire()
    other.exchange(want=0)
    _settle(other, other.lease(5000))
    assert frontier.drained("g").drained


def _settled_after(crawl: Crawl, worker: Worker, told: dict[str, Any], rounds: int) -> bool:
    frontier = frontier_of(crawl)
    assert carried(frontier, frontier.verbs.work.exchange(worker.token, **told), rounds) is None
    return crawl.lane().done == 1


def test_a_group_that_is_dropped_takes_what_it_owes_along(crawl: Crawl) -> None:
    """And what its pages owe to another group arrives there."""
    frontier = frontier_of(crawl)
    crawl.frontier.define("other", {"b": LanePolicy()}, GroupPolicy())
    crawl.add("page")
    worker = crawl.worker()
    hosts = crawl.spread(6)
    mine = children(crawl, "mine")
    theirs = [crawl.request(f"theirs {n}", host, "other.b") for n, host in enumerate(hosts)]
    told: dict[str, Any] = {"settle": [Settlement(worker.one(), add=[*mine, *theirs])]}
    next(n for n in count(1) if _settled_after(crawl, worker, told, n))
    assert owed(crawl)
    list(frontier.drop_group("g"))
    assert owed(crawl) == []
    assert [row.group for row in frontier.counts().groups] == ["other"]
    assert crawl.group("other").open == 6
    assert Counter(names(crawl.worker().lease(100))) == Counter(f"theirs {n}" for n in range(6))


def test_what_came_ahead_of_a_page_that_was_never_settled_is_dropped(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "CALL_REQUESTS", 1)
    frontier = frontier_of(crawl)
    crawl.add("page")
    worker = crawl.worker()
    told: dict[str, Any] = {"settle": [Settlement(worker.one(), add=children(crawl, "c"))]}
    assert carried(frontier, frontier.verbs.work.exchange(worker.token, **told), 2) is None
    assert owed(crawl)
    crawl.worker().exchange(want=frontier.partitions)
    assert owed(crawl), "its page may still be settled"
    crawl.expire()
    [again] = crawl.worker().lease(1)
    assert again.payload == b"page"
    crawl.expire()
    crawl.worker().exchange(want=0)
    for _ in range(frontier.partitions):
        crawl.worker().exchange(want=frontier.partitions)
    assert owed(crawl) == []


def test_who_delivers_for_another_at_any_later_time_doubles_nothing(crawl: Crawl) -> None:
    """It reads what is owed, sleeps, and delivers when the page's own worker is long through."""
    frontier = frontier_of(crawl)
    crawl.add("page")
    worker = crawl.worker()
    told: dict[str, Any] = {"settle": [Settlement(worker.one(), add=children(crawl, "c"))]}
    next(n for n in count(1) if _settled_after(crawl, worker, told, n))
    crawl.expire()
    slow = frontier.verbs.work.exchange(crawl.worker().token, want=frontier.partitions)
    asks = next(slow)
    while asks[0].command[1] != function("add"):
        asks = slow.send(frontier.ask(asks))
    assert frontier.exchange(worker.token, **told).settled == [SETTLED]
    frontier.exchange(worker.token.next(), settle=[], want=0, counters=[])
    crawl.worker().exchange(want=frontier.partitions)
    before = crawl.frontier.counts().lanes
    for partition in range(frontier.partitions):
        # As if the time had passed that answers are kept for after all is said.
        base = keys.base(frontier.crawl, partition)
        for key in crawl.command(("SCAN", "0", "MATCH", base + ":an:*", "COUNT", 100_000), base)[1]:
            if 0 <= crawl.command(("PTTL", key), base) <= 3_600_000:
                crawl.command(("DEL", key), base)
    frontier.ask(asks)
    slow.close()
    assert crawl.frontier.counts().lanes == before


def test_who_delivers_for_another_keeps_what_a_partition_may_forget(crawl: Crawl) -> None:
    """A worker dies with its children owed, another delivers them, and then the partition that took them goes back."""
    partitions, frontier = crawl.frontier.partitions, frontier_of(crawl)
    for lost in range(1, partitions):
        crawl.frontier.add([crawl.request(f"page {lost}", lane="g.a")])
        first, second = crawl.worker(lanes=["g.a"]), crawl.worker("g")
        second.exchange(everywhere=True)
        [host] = crawl.hosts(1, lost)
        twins = [crawl.request(f"twin {lost}", host, "g.b", dont_filter=True)] * 2
        found = [crawl.request(f"child {lost}", host, "g.b"), *twins]
        page = first.one()
        verb = frontier.verbs.work.exchange(first.token, settle=[Settlement(page, add=found)])
        assert carried(frontier, verb, 1) is None
        earlier = picture(crawl, lost)
        crawl.expire()
        second.exchange(everywhere=True)
        go_back(crawl, earlier, lost)
        another_process(crawl, lost)
        second.exchange(everywhere=True)
        assert sorted(crawl.finish(second)) == [f"child {lost}", f"twin {lost}", f"twin {lost}"]
        assert (crawl.group().open, owed(crawl)) == (0, [])


def test_deliveries_are_not_remembered_for_long(crawl: Crawl) -> None:
    crawl.add("page", lane="g.a")
    worker = crawl.worker(lanes=["g.a"])
    assert set(worker.exchange(settle=[Settlement(worker.one(), add=children(crawl, "c"))]).children[0]) >= {ADDED}
    worker.exchange(want=crawl.frontier.partitions)
    for partition in range(crawl.frontier.partitions):
        base = keys.base(crawl.frontier.crawl, partition)
        for key in crawl.command(("SCAN", "0", "MATCH", base + ":an:*", "COUNT", 100_000), base)[1]:
            assert 0 < crawl.command(("PTTL", key), base) <= 3_600_000
