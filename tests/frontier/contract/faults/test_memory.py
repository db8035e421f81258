"""Guarantee 8 at a server's memory limit: what frees memory is always possible, and what is queued can be crawled down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from gossamer.errors import MemoryLimitReached
from gossamer.frontier.client import FunctionClient
from gossamer.frontier.producer import Producer
from gossamer.frontier.seen.memory import ValkeyMemory
from gossamer.model import (
    Ending,
    Feedback,
    GroupPolicy,
    HostPolicy,
    HostVerdict,
    LanePolicy,
    Lease,
    SeenKind,
    SeenPolicy,
    Settlement,
    StartState,
)
from gossamer.settings import load
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.crawl import ADDED, FULL, SETTLED, Worker, names
from gossamer.testing.servers import Server

Opened = Callable[..., Crawl]
DRAIN_LEASES = 8
DRAIN_WAIT = 60


@pytest.fixture(params=["valkey", "redis"])
def small(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server with a memory limit."""
    with Server(request.param).start({"maxmemory": "48mb", "maxmemory-policy": "noeviction"}) as server:
        yield server


def near(small: Server, crawl: Crawl) -> None:
    """Memory of others beside ours, up to 97 % of the limit."""
    limit = int(small.info("memory")["maxmemory"])
    number = 0
    while int(small.info("memory")["used_memory"]) < 0.965 * limit:
        small.call("SET", f"ballast {number}", b"x" * 200_000)
        number += 1
    crawl.advance(1)


def limited(small: Server, crawl: Crawl, maxmemory: str) -> None:
    """Another limit, and the time after which the functions look at it."""
    small.call("CONFIG", "SET", "maxmemory", maxmemory)
    crawl.advance(1)


def beyond(small: Server, crawl: Crawl) -> None:
    limited(small, crawl, "1mb")


class TestNearTheLimit:
    """From 95 % on producers are refused and a few requests at a time are leased."""

    def test_producers_stop_and_the_rest_works(self, opened: Opened, small: Server) -> None:
        crawl: Crawl = opened(small.url)
        crawl.define()
        crawl.add(*(f"r{n}" for n in range(20)))
        worker = crawl.worker()
        one, two, three, four = worker.lease(4)
        near(small, crawl)
        assert crawl.add("more") == [FULL]
        assert crawl.frontier.seen("g.a", [crawl.request("more").fingerprint]) == [False]
        assert worker.exchange(add=crawl.requests(["more"])).added == [FULL]
        children = crawl.requests(["child"])
        answer = worker.exchange(settle=[Settlement(one, add=children, items=[b"item"])])
        assert (answer.settled, answer.children) == ([SETTLED], [[ADDED]])
        assert worker.settle(two, ending=Ending.FAILED) == [SETTLED]
        assert worker.release(three) == [True]
        assert None not in crawl.frontier.renew(worker.token, [four])
        assert crawl.items() == [b"item"]
        crawl.balanced()

    def test_a_few_requests_are_out_at_a_time_whoever_asks(self, opened: Opened, small: Server) -> None:
        crawl: Crawl = opened(small.url)
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        crawl.add(*(f"r{n}" for n in range(30)))
        near(small, crawl)
        one, two = crawl.worker(), crawl.worker()
        leases = one.lease(5)
        rest = two.exchange(want=10)
        assert (len(leases), len(rest.leases)) == (5, DRAIN_LEASES - 5)
        assert rest.hints.ready_in is not None
        answer = two.exchange(want=1)
        assert (answer.leases, answer.hints.paused) == ([], "memory")
        assert len(one.exchange(settle=[Settlement(lease) for lease in leases], want=30).leases) == 5
        limited(small, crawl, "96mb")
        assert len(two.lease(30)) == 30 - DRAIN_LEASES - 5


class TestBeyondTheLimit:
    """Where the server refuses every ordinary write."""

    def filled(self, small: Server, crawl: Crawl, n: int = 6) -> Worker:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()}, GroupPolicy(start=True))
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        crawl.add(*(f"r{n}" for n in range(n)))
        return crawl.worker()

    def test_settling_works(self, opened: Opened, small: Server) -> None:
        crawl: Crawl = opened(small.url)
        worker = self.filled(small, crawl)
        one, two, three = worker.lease(3)
        beyond(small, crawl)
        assert worker.exchange(want=1).hints.paused == "memory"
        assert worker.exchange(settle=[Settlement(one, items=[b"item"])]).settled == [SETTLED]
        assert worker.release(two) == [True]
        assert worker.settle(three, feedback=Feedback(HostVerdict.THROTTLED)) == [SETTLED]
        assert crawl.add("more") == [FULL]
        # Without them the next page would be fetched logged out, by whichever worker gets it.
        crawl.frontier.put_cookies("g", {"session": b"1"}, most=10)
        assert crawl.frontier.cookies("g")[1] == {"session": b"1"}
        crawl.frontier.pause(group="g")
        crawl.frontier.resume(group="g")
        limited(small, crawl, "48mb")
        crawl.frontier.block(crawl.host, 0)
        assert crawl.add("more") == [ADDED]
        assert len(worker.lease(8)) == 5

    def test_a_worker_that_starts_there_drains_what_is_queued(self, opened: Opened, small: Server) -> None:
        """One request at a time, whoever asks."""
        crawl: Crawl = opened(small.url)
        self.filled(small, crawl)
        beyond(small, crawl)
        again: Crawl = opened(small.url)
        again.define({"a": LanePolicy(), "b": LanePolicy(), "new": LanePolicy()}, GroupPolicy(start=True))
        again.frontier.set_crawl_delay("elsewhere.example", 1)
        worker = again.worker()
        assert again.frontier.start("g", worker.token)[0] is StartState.GRANTED
        assert again.frontier.started("g", worker.token)
        done = []
        for _ in range(6):
            [lease] = worker.exchange(want=5).leases
            other = again.worker().exchange(want=5)
            assert (other.leases, other.hints.paused) == ([], "memory")
            assert other.hints.ready_in is not None
            done += names([lease])
            assert worker.settle(lease) == [SETTLED]
        assert sorted(done) == [f"r{n}" for n in range(6)]
        assert again.frontier.drained("g").drained
        assert again.frontier.new_round("g", 1) == 1
        again.balanced()

    def test_pages_that_bring_more_than_they_free_slow_it_down(self, opened: Opened, small: Server) -> None:
        crawl: Crawl = opened(small.url)
        worker = self.filled(small, crawl, 40)
        beyond(small, crawl)
        pages = self.grow(crawl, worker, 40)
        assert 2 <= pages < 20
        answer = worker.exchange(want=1)
        assert (answer.leases, answer.hints.paused) == ([], "memory")
        crawl.advance(DRAIN_WAIT - 5)
        assert worker.exchange(want=1).leases == []
        crawl.advance(5)
        assert self.grow(crawl, worker, 40) == 1
        # Without what others of its pages brought it goes on.
        crawl.frontier.keep_items("g", "sql", {0: crawl.frontier.read_items("g", 0)[-1][0]})
        assert self.grow(crawl, worker, 2) == 2
        limited(small, crawl, "48mb")
        assert len(worker.lease(50)) == 40 - pages - 3

    def grow(self, crawl: Crawl, worker: Worker, most: int) -> int:
        """Pages with 200 kB each, while any are leased."""
        for number in range(most):
            leases = worker.exchange(want=1).leases
            if not leases:
                return number
            worker.exchange(settle=[Settlement(leases[0], items=[b"x" * 200_000])])
        return most

    def test_what_frees_memory_works(self, opened: Opened, small: Server) -> None:
        crawl: Crawl = opened(small.url)
        source = f"{crawl.frontier.crawl}:tasks"
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.frontier.define("other", {"a": LanePolicy(seen=SeenPolicy(SeenKind.EXACT))})
        crawl.add(*(f"r{n}" for n in range(20)))
        crawl.add("b1", "b2", lane="g.b")
        crawl.add("elsewhere", lane="other.a")
        crawl.frontier.put_document("site", "one", "text")
        crawl.command(("RPUSH", source, "task 1", "task 2"), source)
        worker = crawl.worker(lanes=["g.a"])
        tasks = crawl.frontier.lease_tasks(worker.token, source, 1)
        self.settled(worker, worker.lease(1), [b"item"])
        worker.settle(*worker.lease(1), ending=Ending.FAILED)
        beyond(small, crawl)
        assert crawl.frontier.keep_items("g", "sql", {0: crawl.frontier.read_items("g", 0)[-1][0]}) == 0
        [letter] = crawl.frontier.dead_letters("g")
        assert crawl.frontier.drop_dead(letter.partition, [letter.id]) == 1
        assert sum(crawl.frontier.drop_lane("g.b")) == 2
        assert crawl.frontier.forget("g.a", [crawl.request("r0").fingerprint]) == [True]
        assert sum(crawl.frontier.drop_group("other")) == 1
        crawl.frontier.drop_document("site", "one")
        assert crawl.frontier.settle_tasks(worker.token, source, done=tasks) == [True]
        crawl.frontier.forget_workers(0)
        crawl.frontier.scan(0, "begin", snapshot="s")
        assert crawl.frontier.scan(0, "leased").rows == []
        crawl.frontier.scan(0, "end", snapshot="s")
        crawl.balanced()

    def settled(self, worker: Worker, leases: Sequence[Lease], items: Sequence[bytes]) -> None:
        assert worker.exchange(settle=[Settlement(lease, items=items) for lease in leases]).settled == [SETTLED]

    def test_what_takes_memory_is_refused(self, opened: Opened, small: Server) -> None:
        crawl: Crawl = opened(small.url)
        source = f"{crawl.frontier.crawl}:tasks"
        self.filled(small, crawl)
        crawl.command(("RPUSH", source, "task 1", "task 2"), source)
        worker = crawl.worker()
        [task] = crawl.frontier.lease_tasks(worker.token, source, 1)
        beyond(small, crawl)
        with pytest.raises(MemoryLimitReached):
            crawl.frontier.put_document("site", "one", "text")
        with FunctionClient.connect(load({"GOSSAMER_URL": small.url}, environ={})) as client:
            with pytest.raises(MemoryLimitReached):
                Producer(client, source).push([b"task 3"])
            offer = Producer(client, source, max_waiting=9).offer([b"task 3"])
            assert (offer.outcomes, offer.waiting, offer.memory) == ("-", 1, True), "it would wait for memory"
        crawl.expire(source)
        other = crawl.worker()
        assert [t.data for t in crawl.frontier.lease_tasks(other.token, source, 5)] == [task.data]
        assert crawl.frontier.lease_tasks(other.token.next(), source, 5) == []

    def test_a_memory_on_its_own_can_be_emptied(self, opened: Opened, small: Server) -> None:
        crawl: Crawl = opened(small.url)
        memory = ValkeyMemory(crawl.frontier, crawl.frontier.crawl, SeenPolicy())  # type: ignore[arg-type]
        assert memory.mark([1, 2]) == [True, True]
        beyond(small, crawl)
        with pytest.raises(MemoryLimitReached):
            memory.mark([3])
        assert memory.known([1, 3]) == [True, False]
        assert memory.forget([1]) == [True]
        memory.clear()
        assert memory.count() == 0
