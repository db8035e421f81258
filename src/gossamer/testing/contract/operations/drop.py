"""What operators take away: lanes and groups, with all that belongs to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, islice

import pytest

from gossamer.errors import GroupDropping, LaneKept, UnknownGroup, UnknownLane
from gossamer.frontier.server import keys
from gossamer.model import (
    AddOutcome,
    CounterChange,
    Ending,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    SeenKind,
    SeenPolicy,
    SeenScope,
    Settlement,
)
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, LOST, SETTLED, Crawl, Worker
from gossamer.testing.contract.guarantees.rollback import another_process, define_apart
from gossamer.testing.contract.guarantees.seen import EVERY


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
        crawl.add(*(f"r{n}" for n in range(10)))
        steps = crawl.frontier.drop_lane("g.a")
        next(steps)
        assert crawl.add("more") == [AddOutcome.CLOSED]
        assert crawl.worker().lease(1) == []
        assert sum(steps) == 10
        assert crawl.add("more") == [AddOutcome.UNKNOWN_LANE]

    def test_a_drop_that_was_interrupted_is_finished_by_the_next(self, crawl: Crawl) -> None:
        """Also where some partitions are through with it; only a lane that none has is unknown."""
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        last = crawl.frontier.partitions - 1
        [host] = crawl.hosts(1, last)
        crawl.add(*(f"r{n}" for n in range(4000)), host=host, lane="g.b")
        steps = crawl.frontier.drop_lane("g.b")
        dropped = sum(next(steps) for _ in range(5))
        assert 0 < dropped < 4000
        assert dropped + sum(crawl.frontier.drop_lane("g.b")) == 4000
        define_apart(crawl, "g", {"b": LanePolicy()}, [last])
        crawl.add("left", host=host, lane="g.b")
        assert sum(crawl.frontier.drop_lane("g.b")) == 1
        assert ([row.lane for row in crawl.frontier.counts().lanes], crawl.group().open) == (["g.a"], 0)
        with pytest.raises(UnknownLane, match=r"no lane 'g\.b'"):
            sum(crawl.frontier.drop_lane("g.b"))

    def test_who_defines_it_meanwhile_keeps_it(self, crawl: Crawl) -> None:
        """On all partitions, with what is added then; also when it was dropped again, and when servers start anew later."""
        partitions = crawl.frontier.partitions
        hosts = [crawl.hosts(1, p)[0] for p in range(partitions)]
        for taken, where in ((1, "everywhere"), (2, "somewhere"), (4, "everywhere"), (7, "somewhere")):
            group = f"g{taken}"
            lanes = {"a": LanePolicy(), "b": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND))}
            crawl.frontier.define(group, lanes)
            worker, lane = crawl.worker(group), f"{group}.b"
            crawl.frontier.add([crawl.request("old", hosts[-1], lane)])
            page = worker.one()
            steps = crawl.frontier.drop_lane(lane)
            list(islice(steps, taken))
            if where == "everywhere":
                crawl.frontier.define(group, lanes)
            else:  # Here before it was closed, there after it.
                define_apart(crawl, group, {"b": lanes["b"]}, [0])
            with pytest.raises(LaneKept, match="was defined again"):
                list(islice(steps, 20))
            new = [crawl.request(f"{n}", host, lane) for host in hosts for n in range(2)]
            assert crawl.frontier.add(new)[0] == [ADDED] * len(new)
            assert worker.settle(page) == [SETTLED]
            assert sum(crawl.frontier.drop_lane(lane)) == len(new)
            crawl.frontier.define(group, lanes)
            assert crawl.frontier.add(new)[0] == [ADDED] * len(new)
            for p in range(partitions):
                another_process(crawl, p)
            for _ in range(2):
                worker.exchange(everywhere=True)
            assert len(crawl.finish(worker)) == len(new)
            crawl.balanced(group)

    def test_it_goes_nowhere_before_it_is_empty_everywhere(self, crawl: Crawl) -> None:
        [host] = crawl.hosts(1, crawl.frontier.partitions - 1)
        crawl.add("leased", host=host)
        page = crawl.worker().one()
        steps = crawl.frontier.drop_lane("g.a")
        list(islice(steps, 12))
        assert {crawl.add("more", host=each)[0] for each in crawl.spread(6)} == {AddOutcome.CLOSED}
        crawl.worker().exchange()
        crawl.expire()
        assert (page.lane, sum(islice(steps, 20)), crawl.frontier.counts().lanes) == ("g.a", 1, [])

    def test_leased_ones_end_first(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("done", "retried", "later", "lost", "queued")
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
        dropped += sum(steps)
        assert (dropped, crawl.group().open) == (4, 0)

    def test_leases_that_ran_out_end_where_no_worker_calls(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.add("one", "two", "three")
        assert len(crawl.worker().lease(2)) == 2
        crawl.add("beside", lane="g.b")
        crawl.expire()
        steps = list(islice(crawl.frontier.drop_lane("g.a"), 50))
        assert (len(steps) < 50, sum(steps), crawl.group().open) == (True, 3, 1)
        assert len(crawl.worker().lease(1)) == 1
        crawl.expire()
        steps = list(islice(crawl.frontier.drop_group("g"), 50))
        assert (len(steps) < 50, sum(steps), crawl.frontier.counts().groups) == (True, 1, [])

    def test_each_step_is_bounded(self, crawl: Crawl) -> None:
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

    @EVERY
    def test_what_it_held_is_no_longer_seen(self, crawl: Crawl, policy: SeenPolicy) -> None:
        lanes = {"a": LanePolicy(seen=policy), "b": LanePolicy(seen=policy)}
        crawl.define(lanes)
        hosts = crawl.spread(4)
        queued = [crawl.request(f"{host} {n}", host) for host in hosts for n in range(5)]
        later = [crawl.request(f"later {host}", host, delay=500) for host in hosts]
        crawl.frontier.add(queued + later)
        worker = crawl.worker(lanes=["g.a"])
        done, retried, returned, *more = worker.lease(8)
        worker.settle(done)
        worker.settle(retried, ending=Ending.RETRY)
        worker.release(returned, *more)
        assert sum(crawl.frontier.drop_lane("g.a")) == len(queued) + len(later) - 1
        again = [one._replace(lane="g.b") for one in queued + later]
        expected = [DUPLICATE if one.payload == done.payload else ADDED for one in again]
        assert crawl.frontier.add(again)[0] == expected, "what was fetched is seen, what was dropped is not"
        assert crawl.frontier.add(again)[0] == [DUPLICATE] * len(again)
        crawl.define(lanes)
        assert crawl.frontier.add(queued + later)[0] == [DUPLICATE] * len(again), (
            "of a memory that lanes share, they use one"
        )

    def test_every_fingerprint_of_64_bits_is_forgotten_as_itself(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        edges = [0, 10**6, 10**9, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 10**6, 2**64 - 2**32]
        near = sorted({n % 2**64 for edge in edges for n in (edge - 1, edge, edge + 1, 7 * edge + 3)})
        requests = [crawl.request(f"{n}")._replace(fingerprint=n) for n in near]
        assert crawl.frontier.add(requests)[0] == [ADDED] * len(near)
        list(crawl.frontier.drop_lane("g.a"))
        assert crawl.frontier.seen("g.b", near) == [False] * len(near)

    @EVERY
    def test_a_memory_counts_what_is_left(self, crawl: Crawl, policy: SeenPolicy) -> None:
        crawl.define({"a": LanePolicy(seen=policy), "b": LanePolicy(seen=policy)})
        hosts = crawl.spread(60)
        crawl.frontier.add([crawl.request(f"r{n}", host, "g.b" if n % 3 else "g.a") for n, host in enumerate(hosts)])
        list(crawl.frontier.drop_lane("g.a"))
        [info] = crawl.frontier.seen_counts()
        assert info.known == 40

    def test_unfiltered_requests_forget_nothing(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.add("one", lane="g.b")
        crawl.add("one", dont_filter=True)
        list(crawl.frontier.drop_lane("g.a"))
        assert crawl.add("one", lane="g.b") == [DUPLICATE]

    def test_a_suspect_is_forgotten_too(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.add("kills")
        for _ in range(crawl.strikes):
            worker = crawl.worker()
            worker.exchange(sent=worker.lease(1))
            crawl.expire()
        crawl.worker().exchange()
        assert sum(crawl.frontier.drop_lane("g.a")) == 1
        assert crawl.add("kills", lane="g.b") == [ADDED]

    @EVERY
    def test_a_memory_that_no_other_lane_uses_goes_with_it(self, crawl: Crawl, policy: SeenPolicy) -> None:
        crawl.frontier.define("beside", {"a": LanePolicy(seen=policy)})
        crawl.add("one", "two", lane="beside.a")
        beside = set(memories(crawl))
        crawl.define({"a": LanePolicy(seen=policy), "b": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER))})
        crawl.frontier.add([crawl.request(f"{host}", host) for host in crawl.spread(30)])
        crawl.finish()
        list(crawl.frontier.drop_lane("g.a"))
        assert set(memories(crawl)) == beside
        assert [info.name.partition("|")[0] for info in crawl.frontier.seen_counts()] == ["beside"]
        crawl.define({"a": LanePolicy(seen=policy)})
        assert set(crawl.frontier.add([crawl.request(f"{host}", host) for host in crawl.spread(30)])[0]) == {ADDED}
        assert crawl.add("one", lane="beside.a") == [DUPLICATE]

    def test_a_replay_into_a_lane_of_its_name_is_seen(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        worker.settle(worker.one(), ending=Ending.FAILED, reason="broken")
        list(crawl.frontier.drop_lane("g.a"))
        crawl.define()
        [letter] = crawl.frontier.dead_letters("g")
        assert crawl.frontier.replay(letter.partition, [letter.id]) == 1
        assert crawl.add("one") == [DUPLICATE]

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
        counter = CounterChange(group, "kept", 1.0)
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

    def test_nothing_of_it_is_left(self, crawl: Crawl) -> None:
        held = self.fill(crawl, "zebra")
        assert len(self.left(crawl, "zebra")) > 8
        assert memories(crawl)
        assert sum(crawl.frontier.drop_group("zebra")) == held
        assert self.left(crawl, "zebra") == []
        assert memories(crawl) == []
        counts = crawl.frontier.counts()
        assert (counts.groups, counts.lanes) == ([], [])
        with pytest.raises(UnknownGroup):
            crawl.frontier.drained("zebra")

    def test_a_memory_that_none_of_its_lanes_uses_goes_too(self, crawl: Crawl) -> None:
        """As an import brings them, and as former versions left them."""
        crawl.frontier.define("zebra", {"a": LanePolicy()})
        base = keys.base(crawl.frontier.crawl, 0)
        crawl.command(("HSET", base + keys.SUFFIXES["seen_names"], "zebra|rolling:9s@forever", "999"), base)
        list(crawl.frontier.drop_group("zebra"))
        assert self.left(crawl, "zebra") == []

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

    def test_leased_requests_end_first(self, crawl: Crawl, worker: Worker) -> None:
        """And what their pages still send elsewhere goes with the group."""
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.add("page", "queued")
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
        for n in range(1100):
            crawl.frontier.bury("g", b"", reason="bad", key=str(n))
        steps = list(crawl.frontier.drop_group("g"))
        assert (sum(steps), max(steps)) == (1100, 1000)
        assert crawl.frontier.dead_letters("g") == []

    @pytest.mark.parametrize("taken", range(1, 9))
    def test_what_broke_off_is_finished_by_another_call(self, crawl: Crawl, taken: int) -> None:
        self.fill(crawl, "zebra")
        steps = crawl.frontier.drop_group("zebra")
        list(islice(steps, taken))
        with suppress(UnknownGroup):
            list(crawl.frontier.drop_group("zebra"))
        assert self.left(crawl, "zebra") == memories(crawl) == []
        list(steps)

    def test_nobody_makes_it_meanwhile(self, crawl: Crawl) -> None:
        """Not on the partitions either where it is gone already: it is made everywhere, or nowhere. Who makes it when all but the last
        remains are gone takes these away, and what is left of the drop leaves the new one alone."""
        last = crawl.frontier.partitions - 1
        elsewhere = next(name for n in count() if keys.home_of(name := f"x{n}", last + 1) == last)
        crawl.frontier.define(elsewhere, {"a": LanePolicy()})
        for n in range(2500):
            crawl.frontier.bury(elsewhere, b"", reason="bad", key=str(n))
        steps, refused, made = crawl.frontier.drop_group(elsewhere), 0, False
        for number, _ in enumerate(steps):
            assert number < 20, "the drop does not end"
            try:
                crawl.frontier.define(elsewhere, {"a": LanePolicy()}, GroupPolicy(start=True))
                made = True
            except GroupDropping:
                assert not made
                refused += 1
        assert (made, refused >= 1) == (True, True)
        everywhere = [crawl.request(f"on {host}", host, f"{elsewhere}.a") for host in crawl.spread(6)]
        assert set(crawl.frontier.add(everywhere)[0]) == {ADDED}
        assert (crawl.group(elsewhere).open, crawl.group(elsewhere).paused) == (7, "")

    def test_what_broke_off_may_be_kept(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        page = worker.one()
        steps = crawl.frontier.drop_group("g")
        next(steps)
        with pytest.raises(GroupDropping):
            crawl.define()
        crawl.frontier.resume(group="g")
        crawl.define()
        assert worker.settle(page) == [SETTLED]
        crawl.add("two")
        assert crawl.finish() == ["two"]

    def test_no_key_of_it_is_left_on_the_server(self, crawl: Crawl) -> None:
        """What stays belongs to the crawl, its hosts and its workers."""
        self.fill(crawl, "zebra")
        unfiltered = [crawl.request("x", host, "zebra.never", dont_filter=True) for host in crawl.spread(6)]
        crawl.frontier.add(unfiltered, key="szebra:1")
        crawl.frontier.put_cookies("zebra", {"session": b"1"}, most=10)
        born, _ = crawl.frontier.page_versions("zebra", [("h", "p")])
        crawl.frontier.put_page_versions("zebra", born, {("h", "p"): b"1"}, most=10)
        list(crawl.frontier.drop_group("zebra"))
        whole = {
            keys.SUFFIXES[n]
            for n in ("meta", "host_policy", "hosts", "wake", "workers", "worker_seen", "virtual", "dropped")
        }
        left = {key.partition("}")[2]: content for key, content in stored(crawl)}
        assert set(re.findall(rb"b'([^']*\|[^']*)'", left.pop(keys.SUFFIXES["counts"], b""))) == set()
        answers = {suffix for suffix in left if suffix.startswith(keys.SUFFIXES["answers"])}
        assert left.keys() - answers <= whole

    def test_the_next_of_its_name_takes_unfiltered_requests_under_the_same_keys(self, crawl: Crawl) -> None:
        """Its rounds begin at 0 again, and so do the keys of what its start yields."""
        seeds = [crawl.request(f"seed {n}", host, dont_filter=True) for n, host in enumerate(crawl.spread(6))]
        for _ in range(2):
            crawl.define()
            assert crawl.frontier.add(seeds, key="sg:0")[0] == [ADDED] * 6
            assert crawl.frontier.add(seeds, key="sg:0")[0] == [DUPLICATE] * 6
            assert crawl.frontier.bury("g", b"", reason="bad", key="start g 0")
            list(crawl.frontier.drop_group("g"))

    def test_what_is_open_in_the_crawl_goes_with_it(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(start=True))
        crawl.frontier.define("other", {"a": LanePolicy()}, GroupPolicy(start=True))
        assert crawl.worker().exchange(want=crawl.frontier.partitions).hints.open == 2
        list(crawl.frontier.drop_group("g"))
        assert crawl.worker().exchange(want=crawl.frontier.partitions).hints.open == 1
        list(crawl.frontier.drop_group("other"))
        assert crawl.worker().exchange(want=crawl.frontier.partitions).hints.open == 0

    def test_who_outlives_it_leaves_nothing_of_it(self, crawl: Crawl) -> None:
        crawl.frontier.define("zebra", {"a": LanePolicy()})
        crawl.frontier.add([crawl.request("page", lane="zebra.a")])
        worker = crawl.worker("zebra")
        page = worker.one()
        steps = crawl.frontier.drop_group("zebra")
        for _ in range(6):
            next(steps)
        crawl.expire()
        crawl.worker().exchange(want=crawl.frontier.partitions)
        list(steps)
        late = Settlement(page, add=[crawl.request("child", lane="zebra.a")], items=[b"item"])
        answer = worker.exchange(settle=[late], counters=[CounterChange("zebra", "n", 1.0)])
        assert answer.settled == [LOST]
        crawl.frontier.keep_items("zebra", "consumer", {0: ""})
        with pytest.raises(UnknownGroup):
            crawl.frontier.bury("zebra", b"bad task", reason="bad", key="t1")
        assert self.left(crawl, "zebra") == []

    def test_children_of_others_that_name_it_are_kept_with_their_page(self, crawl: Crawl) -> None:
        crawl.frontier.define("zebra", {"a": LanePolicy()})
        crawl.add("page")
        worker = crawl.worker("g")
        page = worker.one()
        list(crawl.frontier.drop_group("zebra"))
        children = [crawl.request(f"child {host}", host, "zebra.a") for host in crawl.spread(3)]
        answer = worker.exchange(settle=[Settlement(page, add=children)])
        assert answer.children == [[AddOutcome.UNKNOWN_LANE] * 3]
        letters = crawl.frontier.dead_letters("g")
        assert [(letter.lane, letter.reason) for letter in letters] == [("zebra.a", "unknown_lane")] * 3
        assert crawl.frontier.dead_letters("zebra") == []
        list(crawl.frontier.drop_group("g"))
        assert self.left(crawl, "zebra") == []

    def test_an_unknown_group_is_an_error(self, crawl: Crawl) -> None:
        crawl.define()
        with pytest.raises(UnknownGroup, match="unknown"):
            list(crawl.frontier.drop_group("unknown"))
        list(crawl.frontier.drop_group("g"))
        with pytest.raises(UnknownGroup):
            list(crawl.frontier.drop_group("g"))


def memories(crawl: Crawl) -> list[str]:
    """The keys that memories lie in."""
    return [key for key, _ in stored(crawl) if re.search("}" + keys.SUFFIXES["seen"] + "[0-9]", key)]


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
