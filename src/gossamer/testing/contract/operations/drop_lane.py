"""Lanes that operators drop, with all that belongs to them."""

from __future__ import annotations

from itertools import islice

import pytest

from gossamer.errors import LaneKept, UnknownLane
from gossamer.model import AddOutcome, Ending, HostPolicy, LanePolicy, SeenPolicy, SeenScope
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, SETTLED, Crawl, Worker
from gossamer.testing.contract.earlier_state import another_process, define_apart
from gossamer.testing.contract.guarantees.seen import EVERY
from gossamer.testing.contract.operations.stored_keys import memories


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
