"""What operators do: define, pause, resume, drop, drain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

import pytest

from gossamer.errors import InvalidRequest, PolicyError, UnknownGroup, UnknownLane
from gossamer.frontier import keys
from gossamer.model import (
    AddOutcome,
    Counter,
    Ending,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    SeenKind,
    SeenPolicy,
    SeenScope,
    Settlement,
)
from gossamer.testing.contract.crawl import ADDED, SETTLED, Crawl, Worker, names


def paused(crawl: Crawl, worker: Worker) -> str:
    answer = worker.exchange(want=crawl.frontier.partitions)
    assert answer.leases == []
    return answer.hints.paused


class TestPause:
    """Nothing is leased from what is paused; the rest goes on, and workers are told why."""

    @pytest.mark.parametrize("scope", [{}, {"group": "g"}, {"lane": "g.a"}], ids=["crawl", "group", "lane"])
    @pytest.mark.parametrize("groups", [(), ("g",)], ids=["all", "by group"])
    def test_a_pause_is_told_until_it_ends(self, crawl: Crawl, scope: dict[str, str], groups: tuple[str, ...]) -> None:
        crawl.define()
        crawl.add("1", "2")
        worker = crawl.worker(*groups)
        held = worker.one()
        crawl.frontier.pause(**scope, reason="for the night")
        assert [paused(crawl, worker) for _ in range(3)] == ["for the night"] * 3
        assert worker.settle(held) == [SETTLED]
        assert crawl.add("3") == [ADDED]
        crawl.frontier.resume(**scope)
        assert names(worker.lease(5)) == ["2", "3"]
        assert worker.exchange().hints.paused == ""

    def test_what_is_beside_goes_on(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.frontier.define("other", {"a": LanePolicy()})
        crawl.frontier.add([crawl.request(lane, lane=lane) for lane in ("g.a", "g.b", "other.a")])
        crawl.frontier.pause(lane="g.a")
        crawl.frontier.pause(group="other")
        assert crawl.finish() == ["g.b"]
        assert {row.lane: row.paused for row in crawl.frontier.counts().lanes}["g.a"] == "paused"
        crawl.frontier.resume(group="other")
        assert crawl.finish() == ["other.a"]

    def test_a_pause_outlives_a_new_definition(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("1")
        crawl.frontier.pause(group="g")
        crawl.frontier.pause(lane="g.a")
        crawl.define({"a": LanePolicy(weight=3)}, GroupPolicy(max_pages=5))
        assert crawl.worker().lease(1) == []
        crawl.frontier.resume(group="g")
        assert crawl.worker().lease(1) == []
        crawl.frontier.resume(lane="g.a")
        assert len(crawl.worker().lease(1)) == 1

    def test_pausing_what_does_not_exist_is_an_error(self, crawl: Crawl) -> None:
        crawl.define()
        for verb in (crawl.frontier.pause, crawl.frontier.resume):
            with pytest.raises(UnknownGroup):
                verb(group="unknown")
            with pytest.raises(UnknownLane):
                verb(lane="g.unknown")
            with pytest.raises(PolicyError, match="one thing"):
                verb(group="g", host="h")
            with pytest.raises(InvalidRequest):
                verb(host="no host")

    def test_reclaimed_work_of_a_paused_lane_is_kept(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("1")
        crawl.worker().one()
        crawl.frontier.pause(lane="g.a")
        crawl.expire()
        assert crawl.worker().lease(1) == []
        crawl.frontier.resume(lane="g.a")
        assert names(crawl.worker().lease(1)) == ["1"]


class TestPolicies:
    """Policies and the version workers watch."""

    def test_the_version_changes_with_every_policy(self, crawl: Crawl) -> None:
        crawl.define()
        seen = []

        def version() -> None:
            seen.append(crawl.worker().exchange(want=crawl.frontier.partitions).hints.config_version)

        version()
        changes: list[Callable[[], None]] = [
            lambda: crawl.define({"a": LanePolicy(weight=2)}),
            lambda: crawl.define({"b": LanePolicy()}),
            lambda: crawl.define({}, GroupPolicy(max_pages=3)),
            lambda: crawl.frontier.set_host("", HostPolicy(delay=1)),
            lambda: crawl.frontier.pause(lane="g.a"),
            lambda: crawl.frontier.resume(lane="g.a"),
        ]
        for change in changes:
            change()
            version()
        assert len(set(seen)) == len(seen)

    def test_the_same_definition_changes_nothing(self, crawl: Crawl) -> None:
        crawl.define()
        before = crawl.frontier.counts().config_version
        crawl.define()
        crawl.define({})
        assert crawl.frontier.counts().config_version == before

    def test_lanes_not_named_stay(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()}, GroupPolicy(max_pages=9))
        crawl.define({"c": LanePolicy()})
        counts = crawl.frontier.counts("g")
        assert [row.lane for row in counts.lanes] == ["g.a", "g.b", "g.c"]
        assert counts.group_policies["g"]["max_pages"] == 9

    def test_bad_names_are_refused(self, crawl: Crawl) -> None:
        for name in ("", "a b", "a.b", "é", "x" * 101, "a\n", "-a", "\ud800"):
            with pytest.raises(PolicyError):
                crawl.define({name: LanePolicy()})
        for name in ("", "a b", "é", "x" * 101, "a\n", "|", "\ud800"):
            with pytest.raises(PolicyError):
                crawl.frontier.define(name, {"a": LanePolicy()})

    def test_a_group_name_may_hold_dots(self, crawl: Crawl) -> None:
        crawl.frontier.define("shop.example.com", {"a": LanePolicy()})
        crawl.add("1", lane="shop.example.com.a")
        assert crawl.worker("shop.example.com").one().lane == "shop.example.com.a"
        assert crawl.frontier.drained("shop.example.com").open == 1


class TestDropLane:
    """A dropped lane is emptied in bounded steps and taken away."""

    def test_queued_parked_delayed_and_returned_requests_go(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        hosts = crawl.spread(6)
        crawl.frontier.set_host(hosts[1], HostPolicy(concurrency=1))
        crawl.frontier.block(hosts[2], 1000)
        requests = [crawl.request(f"{host} {n}", host, priority=n % 3) for host in hosts for n in range(5)]
        requests += [crawl.request(f"later {host}", host, delay=50) for host in hosts]
        crawl.frontier.add(requests)
        crawl.add("kept", lane="g.b", host=hosts[1])
        worker = crawl.worker(lanes=["g.a"])
        leases = worker.lease(20)
        worker.settle(leases[0], ending=Ending.RETRY, delay=20)
        worker.release(*leases[1:])
        assert sum(crawl.frontier.drop_lane("g.a")) == len(requests)
        assert crawl.group().open == 1
        assert [row.lane for row in crawl.frontier.counts().lanes] == ["g.b"]
        crawl.advance(1001)
        assert crawl.finish() == ["kept"]

    def test_nothing_can_be_added_meanwhile(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add(*(f"r{n}" for n in range(10)))
        steps = crawl.frontier.drop_lane("g.a")
        next(steps)
        assert crawl.add("more") == [AddOutcome.CLOSED]
        assert crawl.worker().lease(1) == []
        assert sum(steps) == 10
        assert crawl.add("more") == [AddOutcome.UNKNOWN_LANE]

    def test_leased_ones_end_first(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("done", "retried", "later", "lost", "queued")
        worker = crawl.worker()
        done, retried, later, _ = worker.lease(4)
        steps, dropped = crawl.frontier.drop_lane("g.a"), 0
        for _ in range(12):
            dropped += next(steps)
        assert dropped == 1
        assert worker.settle(done) == [SETTLED]
        worker.settle(retried, ending=Ending.RETRY)
        worker.settle(later, ending=Ending.RETRY, delay=500)
        for _ in range(12):
            dropped += next(steps)
        assert (dropped, crawl.group().open) == (3, 1)
        crawl.expire()
        crawl.worker().exchange()
        for count in steps:
            dropped += count
        assert (dropped, crawl.group().open) == (4, 0)

    def test_each_step_is_bounded(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add(*(f"r{n}" for n in range(7000)))
        steps = list(crawl.frontier.drop_lane("g.a"))
        assert sum(steps) == 7000
        assert max(steps) <= 2100

    def test_a_lane_of_that_name_begins_anew(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER))})
        crawl.add("one")
        list(crawl.frontier.drop_lane("g.a"))
        crawl.define({"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER))})
        assert crawl.lane().queued == 0
        crawl.add("one")
        assert crawl.finish() == ["one"]

    def test_an_unknown_lane_is_an_error(self, crawl: Crawl) -> None:
        crawl.define()
        with pytest.raises(UnknownLane):
            list(crawl.frontier.drop_lane("g.unknown"))


class TestDropGroup:
    """A dropped group leaves nothing behind; what is beside it stays."""

    KINDS = (SeenPolicy(), SeenPolicy(SeenKind.BLOOM, capacity=1000), SeenPolicy(SeenKind.ROLLING, window=1000))
    LANES = {f"l{n}": LanePolicy(seen=seen) for n, seen in enumerate(KINDS)} | {
        "round": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND)),
        "never": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER)),
    }
    POLICY = GroupPolicy(start=True, max_items=1)

    def fill(self, crawl: Crawl, group: str) -> int:
        """A group with something of everything on each partition; how many requests and dead letters it holds."""
        frontier, hosts = crawl.frontier, crawl.spread(6)
        frontier.define(group, self.LANES, self.POLICY)
        lanes = [f"{group}.{lane}" for lane in self.LANES]
        requests = [crawl.request(f"{lane} {host}", host, lane) for lane in lanes for host in hosts]
        requests += [crawl.request(f"{lane} later", host, lane, delay=900) for lane in lanes for host in hosts[:3]]
        added = frontier.add(requests)[0].count(ADDED)
        frontier.forget(lanes[1], [requests[0].fingerprint])
        worker = crawl.worker(group)
        leases = worker.lease(12)
        for lease in leases[:6]:
            worker.settle(lease, ending=Ending.FAILED, reason="broken")
        counter = Counter(group, "kept", 1.0)
        worker.exchange(settle=[Settlement(leases[6], items=[b"item"])], counters=[counter])
        worker.release(*leases[7:])
        for partition in range(frontier.partitions):
            frontier.keep_items(group, "consumer", {partition: ""})
        frontier.bury(group, b"bad task", reason="bad", key=f"bad {len(group)}")
        frontier.start(group, worker.token)
        frontier.new_round(group, 1)
        return added  # one was done, and one buried from outside

    def left(self, crawl: Crawl, group: str) -> list[str]:
        """Where the crawl still names the group."""
        found = []
        for key, content in stored(crawl):
            if group in key.removeprefix("gossamer:{" + crawl.frontier.crawl) or group.encode() in content:
                found.append(key)
        return found

    def memories(self, crawl: Crawl) -> list[str]:
        """The keys that memories lie in."""
        return [key for key, _ in stored(crawl) if re.search("}" + keys.SUFFIXES["seen"] + "[0-9]", key)]

    def test_nothing_of_it_is_left(self, crawl: Crawl) -> None:
        held = self.fill(crawl, "zebra")
        assert len(self.left(crawl, "zebra")) > 8
        assert self.memories(crawl)
        assert sum(crawl.frontier.drop_group("zebra")) == held
        assert self.left(crawl, "zebra") == []
        assert self.memories(crawl) == []
        counts = crawl.frontier.counts()
        assert (counts.groups, counts.lanes) == ([], [])
        with pytest.raises(UnknownGroup):
            crawl.frontier.drained("zebra")

    def test_what_is_beside_it_stays(self, crawl: Crawl) -> None:
        """Also where one name begins with the other."""
        self.fill(crawl, "zebra")
        self.fill(crawl, "zebra.two")
        memories = [info for info in crawl.frontier.seen_counts() if info.name.startswith("zebra.two|")]
        row, lanes = crawl.group("zebra.two"), crawl.frontier.counts("zebra.two").lanes
        letters, items = crawl.frontier.dead_letters("zebra.two"), crawl.items("zebra.two")
        list(crawl.frontier.drop_group("zebra"))
        assert crawl.frontier.counts().groups == [row]
        assert crawl.frontier.counts().lanes == lanes
        assert crawl.frontier.seen_counts() == memories
        assert crawl.frontier.dead_letters("zebra.two") == letters
        assert crawl.items("zebra.two") == items == [b"item"]
        crawl.balanced("zebra.two")

    def test_a_group_of_that_name_begins_anew(self, crawl: Crawl) -> None:
        self.fill(crawl, "zebra")
        list(crawl.frontier.drop_group("zebra"))
        crawl.frontier.define("zebra", self.LANES, self.POLICY)
        row = crawl.group("zebra")
        assert (row.open, row.round, row.pages, row.items, row.dead, row.start) == (1, 0, 0, 0, 0, "owed")
        assert (row.paused, dict(row.counters)) == ("", {})
        lanes = [f"zebra.{lane}" for lane in self.LANES]
        again = [crawl.request(f"{lane} {host}", host, lane) for lane in lanes for host in crawl.spread(6)]
        assert set(crawl.frontier.add(again)[0]) == {ADDED}
        assert sorted(crawl.finish()) == sorted(request.payload.decode() for request in again)

    def test_leased_requests_end_first(self, crawl: Crawl) -> None:
        """And what their pages still send elsewhere goes with the group."""
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.add("page", "queued")
        worker = crawl.worker()
        page = worker.one()
        steps, dropped = crawl.frontier.drop_group("g"), 0
        for _ in range(12):
            dropped += next(steps)
        assert (dropped, crawl.group().open, crawl.group().paused) == (1, 1, "dropped")
        assert crawl.worker().lease(1) == []
        children = [crawl.request(f"child {host}", host, "g.b") for host in crawl.spread(3)]
        assert worker.exchange(settle=[Settlement(page, add=children)]).settled == [SETTLED]
        list(steps)
        assert self.left(crawl, "g.b") == []
        assert crawl.frontier.counts().groups == []

    def test_each_step_is_bounded(self, crawl: Crawl) -> None:
        crawl.define()
        for n in range(2500):
            crawl.frontier.bury("g", b"", reason="bad", key=str(n))
        steps = list(crawl.frontier.drop_group("g"))
        assert (sum(steps), max(steps)) == (2500, 1000)
        assert crawl.frontier.dead_letters("g") == []

    @pytest.mark.parametrize("taken", range(1, 9))
    def test_what_broke_off_is_finished_by_another_call(self, crawl: Crawl, taken: int) -> None:
        self.fill(crawl, "zebra")
        steps = crawl.frontier.drop_group("zebra")
        list(islice(steps, taken))
        with suppress(UnknownGroup):
            list(crawl.frontier.drop_group("zebra"))
        assert self.left(crawl, "zebra") == self.memories(crawl) == []
        list(steps)

    def test_an_unknown_group_is_an_error(self, crawl: Crawl) -> None:
        crawl.define()
        with pytest.raises(UnknownGroup, match="unknown"):
            list(crawl.frontier.drop_group("unknown"))
        list(crawl.frontier.drop_group("g"))
        with pytest.raises(UnknownGroup):
            list(crawl.frontier.drop_group("g"))


READS: dict[str, Callable[[str], tuple[str | int | bytes, ...]]] = {
    "string": lambda key: ("GET", key),
    "hash": lambda key: ("HGETALL", key),
    "list": lambda key: ("LRANGE", key, 0, -1),
    "set": lambda key: ("SMEMBERS", key),
    "zset": lambda key: ("ZRANGE", key, 0, -1),
    "stream": lambda key: ("XRANGE", key, "-", "+"),
}


def stored(crawl: Crawl) -> Iterator[tuple[str, bytes]]:
    """Every key of the crawl, and all that is in it as one text."""
    for partition in range(crawl.frontier.partitions):
        base, cursor = keys.base(crawl.frontier.crawl, partition), b"0"
        while True:
            cursor, page = crawl.command(("SCAN", cursor, "MATCH", base + "*", "COUNT", 10_000), base)
            for key in (raw.decode() for raw in page):
                kind = crawl.command(("TYPE", key), key)
                content = crawl.command(READS[kind.decode() if isinstance(kind, bytes) else kind](key), key)
                yield key, repr(content).encode()
            if cursor == b"0":
                break


class TestWorkers:
    """Who works, and who is asked to stop."""

    def test_workers_are_known_by_what_they_tell(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("1", "2")
        first, second = crawl.worker(), crawl.worker()
        first.exchange(info={"host": "machine-1", "name": "été"})
        crawl.advance(5)
        second.exchange(info={"host": "machine-2"})
        second.lease(2)
        one, two = crawl.frontier.workers()
        assert (one.incarnation, dict(one.info)) == (first.token.incarnation, {"host": "machine-1", "name": "été"})
        assert (two.incarnation, two.held, two.draining) == (second.token.incarnation, 2, False)
        assert two.seen > one.seen

    def test_what_a_worker_holds_is_counted_down_again(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("1", "2", "3", "4")
        worker = crawl.worker()
        one, two, _, _ = worker.lease(4)
        worker.settle(one)
        worker.release(two)
        assert crawl.frontier.workers()[0].held == 2
        crawl.expire()
        crawl.worker().exchange()
        assert {info.held for info in crawl.frontier.workers()} == {0}

    def test_a_draining_worker_takes_nothing_more(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("1", "2")
        worker = crawl.worker()
        held = worker.one()
        crawl.frontier.drain_worker(worker.token.incarnation)
        assert paused(crawl, worker) == "draining"
        assert worker.settle(held) == [SETTLED]
        assert crawl.frontier.workers()[0].draining
        assert len(crawl.worker().lease(1)) == 1
        crawl.frontier.drain_worker(worker.token.incarnation, False)
        assert paused(crawl, worker) == ""

    def test_silent_workers_that_hold_nothing_are_forgotten(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("1")
        silent, holder, present = crawl.worker(), crawl.worker(), crawl.worker()
        silent.exchange(info={"name": "silent"})
        holder.lease(1)
        crawl.advance(50)
        present.exchange(want=crawl.frontier.partitions)
        crawl.frontier.forget_workers(40)
        known = {info.incarnation for info in crawl.frontier.workers()}
        assert known == {holder.token.incarnation, present.token.incarnation}


class TestServerTime:
    """Guarantee 10: only the server's time counts, and it never goes back."""

    def now(self, crawl: Crawl) -> float:
        return crawl.worker().exchange(want=crawl.frontier.partitions).hints.now

    def test_time_moves_with_the_server(self, crawl: Crawl) -> None:
        crawl.define()
        before = self.now(crawl)
        crawl.advance(500)
        assert 500 <= self.now(crawl) - before < 600

    def test_time_never_goes_back(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("1")
        until = crawl.frontier.block(crawl.host, 100)
        crawl.advance(50)
        before = self.now(crawl)
        crawl.advance(-3600)
        assert self.now(crawl) >= before
        assert crawl.frontier.hosts([crawl.host])[0].blocked_until == until
        assert crawl.worker().lease(1) == []
        assert self.now(crawl) >= before
        assert crawl.frontier.counts().now >= before

    def test_deadlines_count_in_server_time(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("1")
        answer = crawl.worker().exchange(want=crawl.frontier.partitions)
        [lease] = answer.leases
        assert lease.deadline == pytest.approx(answer.hints.now + crawl.lease_seconds, abs=0.01)
