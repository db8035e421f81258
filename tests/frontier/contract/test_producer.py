"""Producers: no more tasks wait than may, whoever pushes; a unique task is pushed once per key; how fast tasks are done is known."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from gossamer.errors import PolicyError
from gossamer.frontier.client import FunctionCalls, FunctionClient
from gossamer.frontier.producer import Producer
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy, Token
from gossamer.settings import load
from gossamer.status.tasks import task_queues
from gossamer.testing import clock
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.servers import Cluster, Server

KINDS = pytest.mark.parametrize("kind", ["list", "set", "zset"])


@pytest.fixture
def key(crawl_name: str) -> str:
    return f"{crawl_name}:tasks"


def tasks(*numbers: int) -> list[bytes]:
    return [b"http://h/%d" % number for number in numbers]


def take(frontier: ValkeyFrontier, key: str, want: int = 10, *, settle: bool = True) -> list[bytes]:
    token = Token.fresh()
    found = frontier.lease_tasks(token, key, want)
    if settle and found:
        frontier.settle_tasks(token, key, done=found)
    return [task.data for task in found]


class TestRoom:
    """No more wait than may."""

    @KINDS
    def test_the_first_find_room_and_the_rest_is_told(self, frontier: ValkeyFrontier, key: str, kind: Any) -> None:
        producer = Producer(frontier, key, kind, max_waiting=3)
        offer = producer.offer(tasks(1, 2, 3, 4, 5))
        assert (offer.outcomes, offer.waiting, offer.room) == ("nnn--", 3, 0)
        again = producer.offer(tasks(1, 6))
        assert again.outcomes == ("--" if kind == "list" else "w-")
        assert take(frontier, key, 1)
        done = producer.push(tasks(7, 8), wait=False)
        assert (done.new, done.left) == (1, tasks(8))
        assert producer.state().waiting == 3
        assert Producer(frontier, key).push(tasks(9)).new == 1, "without a limit"
        assert producer.state().room == 0

    @pytest.mark.parametrize("answered", [True, False])
    def test_what_an_interrupted_call_pushed_is_asked_for(
        self, frontier: ValkeyFrontier, key: str, monkeypatch: pytest.MonkeyPatch, answered: bool
    ) -> None:
        """Ctrl-C before the call reached the server, or after: its tasks are pushed once, and counted once."""
        ask = FunctionClient.ask

        def interrupted(function_client: FunctionClient, calls: Any) -> list[Any]:
            if answered:
                ask(function_client, calls)
            raise KeyboardInterrupt

        producer = Producer(frontier, key, max_waiting=3)
        producer.offer(tasks(1))
        with monkeypatch.context() as context:
            context.setattr(FunctionClient, "ask", interrupted)
            with pytest.raises(KeyboardInterrupt):
                producer.push(tasks(2, 3, 4, 5))
        assert (producer.pushed.new, producer.doubtful) == (1, 4)
        producer.resolve()
        producer.resolve()
        assert (producer.pushed.new, producer.doubtful) == (3, 0)
        assert take(frontier, key) == tasks(1, 2, 3)

    def test_a_call_that_the_server_has_forgotten_is_not_made_again(
        self, frontier: ValkeyFrontier, key: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ask = FunctionClient.ask

        def interrupted(function_client: FunctionClient, calls: Any) -> list[Any]:
            ask(function_client, calls)
            raise KeyboardInterrupt

        producer = Producer(frontier, key)
        with monkeypatch.context() as context:
            context.setattr(FunctionClient, "ask", interrupted)
            with pytest.raises(KeyboardInterrupt):
                producer.push(tasks(1, 2))
        # As five minutes later.
        for answer in frontier.connection.execute("KEYS", f"{keys.task_keys(key)[3]}*", key=key):
            frontier.connection.execute("DEL", answer, key=key)
        now = time.monotonic() + 300
        monkeypatch.setattr(time, "monotonic", lambda: now)
        producer.resolve()
        monkeypatch.undo()
        assert (producer.pushed.new, producer.doubtful, producer.waiting()) == (0, 2, 2)

    def test_a_call_that_filled_the_server_is_not_made_twice(self, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its answer was lost, and when it was made again there was no memory left: its tasks counted as not pushed, and were pushed twice."""
        asked = FunctionCalls.ask

        def unanswered(calls: FunctionCalls, made: Any) -> Any:
            yield from asked(calls, made)
            server.call("CONFIG", "SET", "maxmemory", "1mb")
            monkeypatch.undo()
            return (yield from asked(calls, made))

        with Server().start() as server, Producer.connect(key, server.url, max_waiting=5) as producer:
            monkeypatch.setattr(FunctionCalls, "ask", unanswered)
            assert producer.offer(tasks(1, 2)).outcomes == "nn"
            offer = producer.offer(tasks(3))
            assert (offer.outcomes, offer.memory, offer.waiting) == ("-", True, 2)

    @pytest.mark.parametrize("where", ["server", "cluster"])
    def test_many_producers_together_never_pass_it(
        self, frontier: ValkeyFrontier, cluster: Cluster, key: str, where: str
    ) -> None:
        settings = load(
            {"GOSSAMER_URL": frontier.connection.address.safe if where == "server" else cluster.url}, environ={}
        )
        most = 25
        seen: list[int] = []
        got: list[bytes] = []

        def produce(first: int) -> None:
            with FunctionClient.connect(settings) as client:
                Producer(client, key, max_waiting=most).push(tasks(*range(first, first + 60)))

        threads = [threading.Thread(target=produce, args=(first,)) for first in (100, 200, 300, 400)]
        with FunctionClient.connect(settings) as client:
            execute = client.connection.execute
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                seen.append(int(execute("LLEN", key, key=key)))
                got += execute("LPOP", key, 7, key=key) or []
            got += execute("LPOP", key, most, key=key) or []
        assert max(seen) <= most
        assert sorted(got) == sorted(tasks(*(first + n for first in (100, 200, 300, 400) for n in range(60))))

    def test_a_lost_answer_doubles_nothing_and_is_the_same(
        self, frontier: ValkeyFrontier, fault_proxy: FaultProxy, key: str
    ) -> None:
        with FunctionClient.connect(load({"GOSSAMER_URL": fault_proxy.url}, environ={})) as client:
            producer = Producer(client, key, max_waiting=2, unique=0)
            fault_proxy.lose_replies(1, match=b"gossamer_1_push_tasks")
            assert producer.offer(tasks(1, 2, 3)).outcomes == "nn-"
        assert fault_proxy.counters.lost == 1
        assert take(frontier, key) == tasks(1, 2)

    def test_a_limit_of_nothing_is_refused(self, frontier: ValkeyFrontier, key: str) -> None:
        for wrong in ({"max_waiting": 0}, {"unique": -1.0}, {"unique": float("nan")}):
            with pytest.raises(PolicyError):
                Producer(frontier, key, **wrong)


class TestUnique:
    """A unique task is pushed once per key: while it waits or a worker has it, or for a time."""

    @pytest.fixture
    def producer(self, frontier: ValkeyFrontier, key: str) -> Producer:
        # The key of these is what comes before the blank.
        return Producer(frontier, key, unique=0, key_of=lambda task: task.split()[0].decode())

    def test_while_it_waits_and_while_a_worker_has_it(
        self, frontier: ValkeyFrontier, producer: Producer, key: str
    ) -> None:
        assert producer.offer([b"a 1", b"b 1", b"a 2"]).outcomes == "nnw"
        token = Token.fresh()
        [leased] = frontier.lease_tasks(token, key, 1)
        assert producer.offer([b"a 3", b"b 3"]).outcomes == "rw"
        frontier.settle_tasks(token, key, release=[leased])
        assert producer.offer([b"a 4"]).outcomes == "r"
        [leased] = frontier.lease_tasks(token.next(), key, 1)
        frontier.settle_tasks(token, key, done=[leased])
        assert producer.offer([b"a 5", b"b 5"]).outcomes == "nw"
        assert take(frontier, key) == [b"b 1", b"a 5"]

    def test_for_a_time(self, frontier: ValkeyFrontier, key: str) -> None:
        producer = Producer(frontier, key, unique=600.0)
        assert producer.offer(tasks(1, 2)).outcomes == "nn"
        take(frontier, key, 1)
        assert producer.offer(tasks(1, 2)).outcomes == "rw"
        clock.advance(frontier, 601, tasks=(key,))
        assert producer.offer(tasks(1, 2)).outcomes == "nw", "what waits still is not doubled"
        take(frontier, key)
        assert producer.offer(tasks(1, 2)).outcomes == "rn"

    def test_known_ones_take_no_room(self, frontier: ValkeyFrontier, key: str) -> None:
        producer = Producer(frontier, key, unique=0, max_waiting=2)
        assert producer.offer(tasks(1, 2)).outcomes == "nn"
        assert producer.offer(tasks(3, 1, 2)).outcomes == "-ww"

    def test_what_others_took_or_deleted_is_not_known_for_ever(
        self, frontier: ValkeyFrontier, producer: Producer, key: str
    ) -> None:
        assert producer.offer([b"a 1", b"b 1"]).outcomes == "nn"
        frontier.connection.execute("DEL", key, key=key)
        assert producer.offer([b"a 2", b"b 2", b"b 3"]).outcomes == "nnw"
        assert take(frontier, key) == [b"a 2", b"b 2"]

    def test_nothing_is_left_of_them(self, frontier: ValkeyFrontier, producer: Producer, key: str) -> None:
        producer.offer([b"%d x" % number for number in range(50)])
        take(frontier, key, 50)
        left = [k.decode() for k in frontier.connection.execute("KEYS", "*", key=key) if key in k.decode()]
        assert [k for k in left if k.endswith((":w", ":u", ":h", ":x"))] == []


def test_the_pace_tells_in_what_time_tasks_are_done(frontier: ValkeyFrontier, key: str) -> None:
    frontier.define("news", {"a": LanePolicy()}, GroupPolicy(tasks=(key,)))
    producer = Producer(frontier, key)

    def drain() -> float | None:
        return task_queues(frontier, frontier.counts())[0].drain_seconds

    assert drain() == 0
    producer.push(tasks(*range(100)))
    assert drain() is None, "nobody takes them"
    take(frontier, key, 0)
    for _ in range(4):
        clock.advance(frontier, 10, tasks=(key,))
        take(frontier, key, 10)
    # 40 in the 30 s since the first were taken.
    assert drain() == pytest.approx(45, rel=0.1)
    clock.advance(frontier, 500, tasks=(key,))
    assert drain() == pytest.approx(60 * 530 / 40, rel=0.1), "it slows down while nothing is done"
    clock.advance(frontier, 86_400, tasks=(key,))
    assert drain() is None, "nobody has taken any for a day"
    take(frontier, key, 0)
    assert drain() is None
    take(frontier, key, 10)
    clock.advance(frontier, 10, tasks=(key,))
    assert drain() == pytest.approx(50, rel=0.2), "nor does that day count"
    take(frontier, key, 50)
    assert drain() == 0
    producer.push(tasks(*range(20)))
    clock.advance(frontier, 10_000, tasks=(key,))
    take(frontier, key, 10)
    clock.advance(frontier, 10, tasks=(key,))
    assert drain() == pytest.approx(10, rel=0.2), "the pause before does not count"


def test_a_slow_pace_is_one(frontier: ValkeyFrontier, key: str) -> None:
    """A worker whose queue is full has the same tasks for long: it takes some, and then those take long, too."""
    frontier.define("news", {"a": LanePolicy()}, GroupPolicy(tasks=(key,)))
    Producer(frontier, key).push(tasks(*range(40)))
    token = Token.fresh()
    for _ in range(3):
        held = frontier.lease_tasks(token, key, 10)
        clock.advance(frontier, 2000, tasks=(key,))
        frontier.settle_tasks(token, key, done=held)
        token = token.next()
    frontier.lease_tasks(token, key, 10)
    clock.advance(frontier, 1999, tasks=(key,))
    [queue] = task_queues(frontier, frontier.counts())
    assert queue.drain_seconds is not None
    assert 1000 < queue.drain_seconds < 8000
