"""Many hosts, many priorities, many suspects: what is bounded per call must still come out exact."""

from __future__ import annotations

from collections import Counter

from gossamer.frontier.server import keys
from gossamer.model import Ending, GroupPolicy, HostPolicy, LanePolicy, Lease, Settlement
from gossamer.testing.contract.crawl import Crawl, Worker, names


def drain(worker: Worker, calls: int = 20) -> list[Lease]:
    """What a worker gets in so many calls of a hundred."""
    leases: list[Lease] = []
    for _ in range(calls):
        leases += worker.lease(100)
    return leases


def run_out(worker: Worker, most: int) -> list[Lease]:
    """Leases one after the other, each settled before the next."""
    seen: list[Lease] = []
    while len(seen) < most and (leases := worker.lease(1)):
        worker.settle(*leases)
        seen += leases
    return seen


class TestCrowd:
    """Guarantees 5, 6 and 8, with more of everything than one call looks at."""

    def test_hosts_that_wake_together_give_their_best_first(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(delay=10, concurrency=8))
        hosts = crawl.hosts(100)
        crawl.frontier.add([crawl.request(f"first {h}", h, priority=20) for h in hosts])
        crawl.frontier.add([crawl.request(f"high {h}", h, priority=10) for h in hosts])
        worker.settle(*drain(worker))
        crawl.frontier.add([crawl.request(f"low {h}", h, priority=5) for h in hosts])
        crawl.advance(11)
        assert Counter(name.split()[0] for name in names(drain(worker))) == {"high": 100}

    def test_many_priorities_of_a_slow_host_come_in_their_order(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host(crawl.host, HostPolicy(delay=10, concurrency=1))
        crawl.frontier.add([crawl.request(str(n), priority=n) for n in range(200)])
        got: list[str] = []
        for _ in range(5):
            leases = drain(worker, 3)
            got += names(leases)
            worker.settle(*leases)
            crawl.advance(11)
        crawl.add("urgent", priority=1000)
        got += names(drain(worker, 3))
        assert got == ["199", "198", "197", "196", "195", "urgent"]
        crawl.balanced()

    def test_a_lower_priority_goes_on_when_the_higher_is_empty(self, crawl: Crawl) -> None:
        crawl.frontier.set_host(crawl.host, HostPolicy(concurrency=1))
        crawl.frontier.add([crawl.request(str(n), priority=n) for n in range(5)])
        assert crawl.finish() == ["4", "3", "2", "1", "0"]

    def test_a_worker_that_fills_a_host_leaves_slots_to_another_that_asks(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=8))
        crawl.add(*(f"{n}" for n in range(400)))
        want = 8 * crawl.frontier.partitions
        first, second = crawl.worker(), crawl.worker()
        held = {first: first.exchange(want=want).leases, second: []}
        done: Counter[Worker] = Counter()
        for _ in range(40):
            for worker in (first, second):
                gone, held[worker] = held[worker][:2], held[worker][2:]
                done[worker] += len(gone)
                held[worker] += worker.exchange(settle=[Settlement(lease) for lease in gone], want=want).leases
                assert sum(map(len, held.values())) <= 8
        assert min(done.values()) >= 60, done
        assert len(held[first]) + len(held[second]) == 8, "no slot is left unused"

    def test_a_slot_kept_for_a_worker_that_is_gone_is_not_lost(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=4))
        crawl.add(*(f"{n}" for n in range(20)))
        first = crawl.worker()
        held = first.lease(4)
        assert crawl.worker().lease(4) == [], "it asks once and never again"
        first.settle(*held[:2])
        assert len(first.lease(4)) < 2
        crawl.advance(5)
        first.lease(4)
        [info] = crawl.frontier.hosts([crawl.host])
        assert info.in_flight == 4

    def test_a_group_that_nobody_serves_keeps_no_slot_from_others(self, crawl: Crawl) -> None:
        groups = [f"idle{n}" for n in range(20)]
        for group in groups:
            crawl.frontier.define(group, {"a": LanePolicy()})
            crawl.add(f"{group} 1", lane=f"{group}.a")
        crawl.add(*(f"{n}" for n in range(20)))
        crawl.frontier.set_host("", HostPolicy(concurrency=1))
        # All of them come to wait for the host.
        everybody = crawl.worker()
        lease = everybody.one()
        everybody.exchange(want=30 * crawl.frontier.partitions)
        everybody.settle(lease)
        crawl.advance(5)
        assert len(run_out(crawl.worker("g"), 15)) == 15

    def test_suspects_nobody_serves_hold_up_no_other(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "elsewhere": LanePolicy(stage="elsewhere", tier=-1)})
        hosts = crawl.hosts(51)
        for n in range(50):
            crawl.add(f"foreign {n}", host=hosts[n], lane="g.elsewhere")
        crawl.add("ours", host=hosts[50])
        for _ in range(crawl.strikes):
            # What was leased first is tried first: ours comes last.
            for lane, n in (("g.elsewhere", 50), ("g.a", 1)):
                worker = crawl.worker(lanes=(lane,))
                leases = worker.lease(n)
                assert len(leases) == n
                worker.sent(*leases)
            crawl.expire()
        worker = crawl.worker(lanes=("g.a",))
        for _ in range(10):
            answer = worker.exchange(want=5)
            if answer.leases:
                break
            assert answer.hints.ready_in is not None
            crawl.advance(answer.hints.ready_in)
        assert [(lease.payload, lease.alone) for lease in answer.leases] == [(b"ours", True)]

    def test_a_worker_reserved_for_a_suspect_that_leaves_holds_nobody_up(self, crawl: Crawl) -> None:
        crawl.add("poison")
        for _ in range(crawl.strikes):
            worker = crawl.worker()
            worker.sent(worker.one())
            crawl.advance(crawl.lease_seconds - 1)
            crawl.advance(2)
        other = crawl.hosts(2)[1]
        crawl.add("held", host=other, lane="g.a")
        first = crawl.worker()
        held = first.lease(1)
        if names(held) == ["poison"]:
            first.release(*held)
        second = crawl.worker()
        waited = second.exchange(want=1)
        assert waited.leases or waited.hints.ready_in is not None

    def test_garbage_leaves_a_narrow_lane_open(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define({"a": LanePolicy(max_leased=1)})
        crawl.add("good")
        place = keys.partition_of(crawl.host, crawl.frontier.partitions)
        base = keys.base(crawl.frontier.crawl, place)
        crawl.command(("LPUSH", f"{base}:q:1:0:{crawl.host}", b"\xffjunk"), base)
        assert [name for _ in range(3) for name in names(worker.lease(1))] == ["good"]

    def test_a_lane_defined_anew_while_it_is_dropped_is_open(self, crawl: Crawl) -> None:
        crawl.add("old")
        next(crawl.frontier.drop_lane("g.a"))
        crawl.define()
        crawl.add("new")
        assert "new" in crawl.finish()

    def test_a_start_wanted_again_is_of_the_present_round(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(start=True))
        token = crawl.worker().token
        crawl.frontier.start("g", token)
        crawl.frontier.started("g", token)
        crawl.frontier.new_round("g", 1)
        crawl.define(policy=GroupPolicy(start=False))
        crawl.define(policy=GroupPolicy(start=True))
        assert crawl.frontier.start("g", token)[1] == 1

    def test_alone_means_alone_over_all_partitions(self, crawl: Crawl) -> None:
        spread = crawl.spread(6)
        crawl.add("poison", host=spread[0])
        crawl.add("innocent", host=spread[1])
        for _ in range(crawl.strikes):
            worker = crawl.worker()
            leases = [lease for _ in range(3) for lease in worker.lease(6)]
            worker.sent(*leases)
            crawl.expire()
        worker = crawl.worker()
        held = [lease for _ in range(3) for lease in worker.lease(6)]
        assert [lease.alone for lease in held] == [True]
        worker.settle(*held)
        assert len([lease for _ in range(3) for lease in worker.lease(6)]) == 1
        assert crawl.frontier.dead_letters("g") == []

    def test_a_worker_that_holds_other_partitions_is_emptied_first(self, crawl: Crawl, worker: Worker) -> None:
        spread = crawl.spread(6)
        crawl.add("poison", host=spread[0])
        for _ in range(crawl.strikes):
            dying = crawl.worker()
            dying.sent(*[lease for _ in range(3) for lease in dying.lease(6)])
            crawl.expire()
        crawl.add("other", host=spread[1])
        held = worker.lease(6) or worker.lease(6)
        assert len(held) == 1
        first = held[0]
        assert worker.lease(6) == []
        worker.settle(first, ending=Ending.DONE)
        later = [lease for _ in range(4) for lease in worker.lease(6)]
        assert {first.payload, *(lease.payload for lease in later)} == {b"poison", b"other"}


def served(crawl: Crawl, workers: list[Worker], turns: int = 30) -> Counter[str]:
    """Pages of each lane, by workers that call by turns: each settles all that it holds and asks for more in one call."""
    held: dict[Worker, list[Lease]] = {worker: [] for worker in workers}
    done: Counter[str] = Counter()
    for _ in range(turns):
        for worker in workers:
            gone = held[worker]
            done.update(lease.lane for lease in gone)
            held[worker] = worker.exchange(settle=[Settlement(lease) for lease in gone], want=8).leases
            crawl.advance(0.01)
    for worker, leases in held.items():
        worker.settle(*leases)
    return done


class TestSharedHost:
    """Guarantee 6 where workers that serve different things meet on one host: whoever frees slots does not keep them all."""

    def test_groups_with_workers_of_their_own(self, crawl: Crawl) -> None:
        for group in ("one", "two"):
            crawl.frontier.define(group, {"a": LanePolicy()})
            crawl.add(*(f"{group} {n}" for n in range(300)), lane=f"{group}.a")
        crawl.frontier.set_host("", HostPolicy(concurrency=4))
        done = served(crawl, [crawl.worker("one"), crawl.worker("two")])
        assert 25 <= max(done.values()) <= 2 * min(done["one.a"], done["two.a"]), done

    def test_stages_with_workers_of_their_own(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy(stage="second")})
        for lane in ("g.a", "g.b"):
            crawl.add(*(f"{lane} {n}" for n in range(300)), lane=lane)
        for slots in (1, 4):
            crawl.frontier.set_host("", HostPolicy(concurrency=slots))
            done = served(crawl, [crawl.worker("g", stage=""), crawl.worker("g", stage="second")])
            assert min(done["g.a"], done["g.b"]) >= 8 * slots, done

    def test_lanes_with_workers_of_their_own(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        for lane in ("g.a", "g.b"):
            crawl.add(*(f"{lane} {n}" for n in range(300)), lane=lane)
        for slots in (1, 4):
            crawl.frontier.set_host("", HostPolicy(concurrency=slots))
            done = served(crawl, [crawl.worker(lanes=["g.a"]), crawl.worker(lanes=["g.b"])])
            assert min(done["g.a"], done["g.b"]) >= 8 * slots, done

    def test_the_past_of_one_stage_is_no_debt_to_another(self, crawl: Crawl) -> None:
        crawl.frontier.define("late", {"a": LanePolicy(stage="second")})
        first, second = crawl.worker(stage=""), crawl.worker(stage="second")
        crawl.add(*(f"{n}" for n in range(200)), host=crawl.hosts(2)[1])
        while leases := first.lease(100):
            first.settle(*leases)
        crawl.frontier.set_host("", HostPolicy(concurrency=1))
        for lane in ("g.a", "late.a"):
            crawl.add(*(f"{lane} {n}" for n in range(100)), lane=lane)
        done = served(crawl, [first, second])
        assert min(done["g.a"], done["late.a"]) >= 8, done

    def test_a_lane_that_comes_to_another_stage_while_it_waits(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=1))
        crawl.add("1", "2")
        worker = crawl.worker("g")
        held = worker.one()
        assert worker.lease(1) == []
        crawl.define({"a": LanePolicy(stage="second")})
        worker.settle(held)
        crawl.advance(2)
        assert names(crawl.worker(stage="second").lease(1)) == ["2"]

    def test_what_nobody_came_for_is_anybodys_after_a_while(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.frontier.set_host("", HostPolicy(concurrency=4))
        for lane in ("g.a", "g.b"):
            crawl.add(*(f"{lane} {n}" for n in range(100)), lane=lane)
        first, second = crawl.worker(lanes=["g.a"]), crawl.worker(lanes=["g.b"])
        held = first.lease(4)
        assert second.lease(1) == []
        left = first.exchange(settle=[Settlement(lease) for lease in held], want=4).leases
        assert len(left) < 4
        crawl.advance(3)
        assert len(left) + len(first.lease(4 - len(left))) == 4
        crawl.balanced()
