"""What the mutations found untested: each of these fails under a mutation that the suite let pass (scripts/mutations.toml)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import ormsgpack
import pytest

from gossamer.frontier.seen.memory import ValkeyMemory
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.counts import ReadVerbs
from gossamer.model import AddOutcome, HostPolicy, LanePolicy, Order, SeenPolicy, Settlement, Token, fingerprint
from gossamer.settings import load
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, FULL, SETTLED, names
from gossamer.testing.servers import Server

Opened = Callable[..., Crawl]


class TestPoisonHoles:
    """Guarantee 5."""

    def test_a_suspect_goes_to_a_worker_only_when_it_holds_nothing(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("poison")
        for _ in range(crawl.strikes - 1):
            worker = crawl.worker()
            worker.sent(worker.one())
            crawl.expire()
        dying, busy = crawl.worker(), crawl.worker()
        poison = dying.one()
        dying.sent(poison)
        crawl.advance(crawl.lease_seconds - 10)
        crawl.add("other", "more")
        held = busy.one()
        assert names([held]) == ["other"]
        crawl.advance(20)
        # It ran out now: this worker is emptied first, and takes nothing else.
        assert busy.lease(5) == []
        assert busy.settle(held) == [SETTLED]
        [lease] = busy.lease(5)
        assert (lease.payload, lease.alone) == (b"poison", True)

    @pytest.mark.parametrize("order", list(Order), ids=lambda order: order.value)
    def test_garbage_in_a_queue_becomes_a_dead_letter(self, crawl: Crawl, order: Order) -> None:
        crawl.define({"a": LanePolicy(order=order)})
        crawl.add("one", "two")
        [key] = _keys(crawl, keys.queue_pattern(crawl.frontier.crawl, 0, "queue"))
        garbage = [b"\x00", b"\x01short", b"\xff" * 40, b"\x01" * 40, b""]
        for junk in garbage:
            crawl.command(("RPUSH", key, junk), key)
        leases = crawl.worker().lease(20)
        assert sorted(names(leases)) == ["one", "two"]
        letters = crawl.frontier.dead_letters("g")
        assert [letter.reason for letter in letters] == ["garbage"] * len(garbage)
        assert crawl.frontier.hosts([crawl.host])[0].in_flight == 2


def _keys(crawl: Crawl, pattern: str) -> list[str]:
    cursor, found = "0", list[str]()
    while True:
        after, page = crawl.command(
            ("SCAN", cursor, "MATCH", pattern, "COUNT", 100_000), keys.base(crawl.frontier.crawl, 0)
        )
        found += [key.decode() for key in page]
        cursor = after.decode()
        if cursor == "0":
            return found


class TestOrderHoles:
    """Guarantee 6."""

    def test_a_lower_tier_goes_first_for_a_worker_that_names_its_groups(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(tier=5), "b": LanePolicy(tier=-1), "c": LanePolicy(tier=0)})
        for lane in "abc":
            crawl.frontier.add([crawl.request(f"{lane}{n}", lane=f"g.{lane}") for n in range(5)])
        worker = crawl.worker("g")
        assert [name[0] for name in crawl.finish(worker)] == ["b"] * 5 + ["c"] * 5 + ["a"] * 5


class TestBoundedHoles:
    """Guarantee 8."""

    def test_what_was_delayed_earlier_takes_room(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(max_queued=2)})
        assert crawl.add("1", delay=60) == [ADDED]
        assert crawl.add("2", "3") == [ADDED, FULL]


class TestFullServer:
    """Guarantee 8, when the server has no memory left: what is out is settled first."""

    def test_leasing_and_producers_stop_and_settling_goes_on(self, opened: Opened) -> None:
        with Server() as server:
            crawl = opened(server.url)
            crawl.define()
            crawl.add("1", "2", "3", "4")
            worker = crawl.worker()
            one, two = worker.lease(2)
            self.fill(crawl)
            answer = worker.exchange(want=1)
            assert (answer.leases, answer.hints.paused) == ([], "memory")
            outcomes, _, room = crawl.frontier.add(crawl.requests(["5"]))
            assert (outcomes, room) == ([FULL], 0)
            settlement = Settlement(one, add=crawl.requests(["child"]), items=[b"item"])
            answer = worker.exchange(settle=[settlement])
            assert (answer.settled, answer.children) == ([SETTLED], [[ADDED]])
            assert worker.release(two) == [True]
            self.lift(crawl)
            assert crawl.items() == [b"item"]
            assert sorted(names(worker.lease(9))) == ["2", "3", "4", "child"]
            assert crawl.add("5") == [AddOutcome.ADDED]

    def fill(self, crawl: Crawl) -> None:
        """From now on the server has more in memory than it may. It is looked at from time to time."""
        crawl.advance(1)
        crawl.command(("CONFIG", "SET", "maxmemory", "1mb"), keys.base(crawl.frontier.crawl, 0))

    def lift(self, crawl: Crawl) -> None:
        crawl.command(("CONFIG", "SET", "maxmemory", "0"), keys.base(crawl.frontier.crawl, 0))
        crawl.advance(1)


class TestDrainedHoles:
    """Guarantee 9."""

    def test_a_change_between_the_sweeps_is_not_drained(self) -> None:
        """All partitions empty when they were asked, and yet a request went from one to the other behind the sweep."""
        for changed, expected in ((7, True), (8, False)):
            talk = ReadVerbs("c", 2).drained("g")
            asks = next(talk)
            answers = [ormsgpack.packb([0, 7, ""]) for _ in asks]
            talk.send(answers)
            with pytest.raises(StopIteration) as stop:
                talk.send([answers[0], ormsgpack.packb([0, changed, ""])])
            assert stop.value.value.drained is expected


class TestTimeHoles:
    """Guarantee 10."""

    def test_leases_count_in_the_time_of_the_server(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("1")
        crawl.advance(100_000)
        answer = crawl.worker().exchange(want=crawl.frontier.partitions)
        [lease] = answer.leases
        assert abs(lease.deadline - answer.hints.now - crawl.lease_seconds) < 30
        assert 0 < lease.send_by - answer.hints.now < crawl.lease_seconds

    def test_the_time_of_tasks_never_goes_back(self, crawl: Crawl) -> None:
        source = f"{crawl.frontier.crawl}:tasks"
        crawl.command(("RPUSH", source, "one"), source)
        first, second = crawl.worker(), crawl.worker()
        assert len(crawl.frontier.lease_tasks(first.token, source, 1)) == 1
        crawl.expire(source)
        assert crawl.frontier.lease_tasks(second.token, source, 0) == []
        crawl.advance(-3600, source)
        assert len(crawl.frontier.lease_tasks(second.token.next(), source, 1)) == 1


class TestTokenHoles:
    """A repeated call."""

    def test_a_repeated_call_tells_no_lease_that_was_given_away(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("one")
        token = Token.fresh()
        assert len(crawl.frontier.exchange(token, want=crawl.frontier.partitions).leases) == 1
        crawl.expire()
        crawl.worker().one()
        assert crawl.frontier.exchange(token, want=crawl.frontier.partitions).leases == []


class TestSeenHoles:
    """Exact memories of more than a thousand buckets."""

    def test_what_lies_in_bucket_a_thousand_and_later_is_found(self, valkey_server: Server, crawl_name: str) -> None:
        settings = load({"GOSSAMER_URL": valkey_server.url})
        with ValkeyMemory.open(crawl_name, SeenPolicy(), settings) as memory:
            memory.mark([fingerprint("first")])
            state = keys.seen_base(crawl_name) + ":s0"
            assert valkey_server.call("HGET", state, "n") == "1"
            # As if 210,000 were known: the next ones are spread over 1,050 buckets, which go on being divided.
            valkey_server.call("HSET", state, "n", 210_000, "b", 1_050)
            many = [fingerprint(f"r{n}") for n in range(10_000)]
            assert all(memory.mark(many))
            assert valkey_server.call("HGET", state, "b") == "1100"
            assert all(memory.known(many))
            assert not any(memory.mark(many))
            assert all(memory.forget(many))
            assert not any(memory.known(many))


class TestRestart:
    """Guarantee 11."""

    @pytest.fixture
    def server(self) -> Iterator[Server]:
        with Server().start(fsync="always") as server:
            yield server

    def test_leases_delays_blocks_policies_and_seen_are_there_again(self, opened: Opened, server: Server) -> None:
        crawl = opened(server.url)
        blocked, slow, own, open_host = crawl.hosts(4)
        crawl.define({"a": LanePolicy(order=Order.LIFO, max_queued=50)})
        crawl.frontier.set_host(slow, HostPolicy(delay=1000))
        crawl.frontier.set_host(own, HostPolicy(concurrency=1))
        crawl.frontier.add([crawl.request(f"{host} {n}", host) for host in (blocked, slow, own) for n in (1, 2)])
        until = crawl.frontier.block(blocked, 5000, "by hand")
        crawl.add("later", host=open_host, delay=300)
        worker = crawl.worker()
        leases = worker.lease(9)
        held = {lease.host: lease for lease in leases}
        assert set(held) == {slow, own}
        before = crawl.frontier.counts()
        server.kill()
        server.restart()
        after = crawl.frontier.counts()
        assert (after.lanes, after.groups, after.lane_policies) == (before.lanes, before.groups, before.lane_policies)
        assert after.now >= before.now
        infos = {info.host: info for info in crawl.frontier.hosts([blocked, slow, own])}
        assert (infos[blocked].blocked_until, infos[blocked].reason) == (until, "by hand")
        assert (infos[slow].delay, infos[own].in_flight) == (1000, 1)
        assert crawl.worker().lease(9) == []
        assert crawl.add(f"{own} 1", host=own) == [DUPLICATE]
        assert worker.settle(held[slow]) == [SETTLED]
        crawl.advance(301)
        assert sorted((lease.payload, lease.attempt) for lease in crawl.worker().lease(9)) == [
            (held[own].payload, 2),
            (b"later", 1),
        ]

    def test_functions_that_a_server_lost_are_loaded_again(self, opened: Opened, server: Server) -> None:
        crawl = opened(server.url)
        crawl.define()
        crawl.add("one")
        crawl.command(("FUNCTION", "FLUSH"), keys.base(crawl.frontier.crawl, 0))
        assert crawl.finish() == ["one"]


class TestPartitionHoles:
    """A crawl of several partitions on one server."""

    def test_a_host_is_treated_politely_wherever_it_lives(self, opened: Opened, valkey_server: Server) -> None:
        crawl = opened(valkey_server.url, GOSSAMER_PARTITIONS=3)
        crawl.define()
        hosts = crawl.spread(6)
        for host in hosts:
            crawl.frontier.block(host, 1000)
        crawl.frontier.add([crawl.request(f"at {host}", host) for host in hosts])
        assert crawl.worker().lease(6) == []
        crawl.advance(1001)
        leases = crawl.worker().lease(6)
        assert sorted(lease.host for lease in leases) == sorted(hosts)
        assert {lease.host: lease.partition for lease in leases} == {host: keys.partition_of(host, 3) for host in hosts}

    def test_the_partition_of_a_host_never_changes(self) -> None:
        """These were computed once: another answer would leave the queues of running crawls behind."""
        hosts = ("example.com", "example.com:8080", "bücher.example", "[::1]:8080", "h1.example")
        assert [keys.partition_of(host, 1000) for host in hosts] == [465, 704, 545, 329, 6]
        assert [keys.partition_of(host, 1) for host in hosts] == [0] * 5
