"""Guarantee 6: priority, then FIFO or LIFO exactly; hosts by turns; tiers strictly; shares by weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from gossamer.model import GroupPolicy, HostPolicy, LanePolicy, Lease, Order
from gossamer.testing.contract.crawl import Crawl, Worker, names


def run(crawl: Crawl, pages: int, want: int = 1, worker: Worker | None = None) -> list[Lease]:
    """So many leases in their order, `want` at a time, each settled before the next call."""
    worker, seen = worker or crawl.worker(), list[Lease]()
    while len(seen) < pages:
        leases = worker.lease(min(want, pages - len(seen)))
        assert leases, "nothing is ready"
        worker.settle(*leases)
        seen += leases
    return seen


def shares(leases: Sequence[Lease]) -> dict[str, float]:
    return {lane: n / len(leases) for lane, n in Counter(lease.lane for lease in leases).items()}


class TestOrder:
    """Order inside a lane."""

    def test_fifo_is_exact(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(order=Order.FIFO)})
        crawl.add(*(f"{n}" for n in range(50)))
        crawl.add(*(f"{n}" for n in range(50, 60)))
        assert crawl.finish() == [f"{n}" for n in range(60)]

    def test_lifo_is_exact(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(order=Order.LIFO)})
        crawl.add(*(f"{n}" for n in range(50)))
        crawl.add(*(f"{n}" for n in range(50, 60)))
        assert crawl.finish() == [f"{n}" for n in reversed(range(60))]

    @pytest.mark.parametrize("order", list(Order), ids=lambda order: order.value)
    @pytest.mark.parametrize("want", [1, 3, 7])
    def test_priority_goes_first(self, crawl: Crawl, order: Order, want: int) -> None:
        crawl.define({"a": LanePolicy(order=order)})
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        given = [(n * 7) % 5 - 2 for n in range(40)]
        crawl.frontier.add([crawl.request(f"{n}", priority=p) for n, p in enumerate(given)])
        turn = 1 if order is Order.FIFO else -1
        expected = sorted(range(40), key=lambda n: (-given[n], turn * n))
        assert names(run(crawl, 40, want)) == [f"{n}" for n in expected]

    def test_more_than_a_call_holds_keep_their_order(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        worker.exchange(add=crawl.requests([f"{n}" for n in range(2200)]))
        assert names(worker.lease(2200)) == [f"{n}" for n in range(2200)]

    def test_a_higher_priority_overtakes_what_is_queued(self, crawl: Crawl) -> None:
        crawl.add("low 1", "low 2")
        assert crawl.finish(most=1) == ["low 1"]
        crawl.add("high", priority=1)
        assert crawl.finish() == ["high", "low 2"]

    @pytest.mark.parametrize("want", [1, 2, 3, 5, 8])
    def test_hosts_of_equal_priority_take_turns(self, crawl: Crawl, want: int) -> None:
        hosts = crawl.hosts(4)
        for host in hosts:
            crawl.add(*(f"{host} {n}" for n in range(30)), host=host)
        order = [lease.host for lease in run(crawl, 120, want)]
        for start in range(0, 120, 4):
            assert sorted(order[start : start + 4]) == sorted(hosts), f"turn at {start}"

    @pytest.mark.parametrize("want", [3, 5])
    def test_two_hosts_share_evenly_whatever_is_wanted(self, crawl: Crawl, want: int) -> None:
        hosts = crawl.hosts(2)
        for host in hosts:
            crawl.add(*(f"{host} {n}" for n in range(60)), host=host)
        taken = Counter(lease.host for lease in run(crawl, 60, want))
        assert max(taken.values()) - min(taken.values()) <= 1

    def test_a_large_host_holds_no_small_one_up(self, crawl: Crawl) -> None:
        large, small = crawl.hosts(2)
        crawl.add(*(f"large {n}" for n in range(500)), host=large)
        crawl.add("small", host=small)
        assert "small" in names(run(crawl, 2))

    def test_the_head_priority_decides_between_hosts(self, crawl: Crawl) -> None:
        one, two = crawl.hosts(2)
        crawl.add("one", host=one)
        crawl.add("two", host=two, priority=1)
        crawl.add("one too", host=one, priority=2)
        assert crawl.finish() == ["one too", "two", "one"]


class TestLanes:
    """Order between lanes, and who is served which."""

    def test_a_lower_tier_goes_strictly_first(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(tier=5), "b": LanePolicy(tier=-1, weight=0.001), "c": LanePolicy(tier=0)})
        for lane in "abc":
            crawl.frontier.add([crawl.request(f"{lane}{n}", lane=f"g.{lane}") for n in range(20)])
        assert [lease.lane[-1] for lease in run(crawl, 60, 3)] == ["b"] * 20 + ["c"] * 20 + ["a"] * 20

    @pytest.mark.parametrize("want", [3, 32])
    def test_shares_follow_the_weights_within_five_percent(self, crawl: Crawl, want: int) -> None:
        weights = {"a": 1.0, "b": 2.0, "c": 7.0}
        crawl.define({lane: LanePolicy(weight=weight) for lane, weight in weights.items()})
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        for lane in weights:
            crawl.frontier.add([crawl.request(f"{lane}{n}", lane=f"g.{lane}") for n in range(600)])
        found = shares(run(crawl, 400, want))
        for lane, weight in weights.items():
            assert abs(found[f"g.{lane}"] - weight / 10) <= 0.05 * weight / 10 + 1 / 400

    @pytest.mark.parametrize("chosen", [True, False], ids=["chosen lanes", "all lanes"])
    def test_weights_count_on_a_host_that_takes_one_at_a_time(self, crawl: Crawl, chosen: bool) -> None:
        """However many a worker wants: the slot is that lane's whose turn it is."""
        weights = {"a": 1.0, "b": 2.0, "c": 5.0}
        crawl.define({lane: LanePolicy(weight=weight) for lane, weight in weights.items()})
        crawl.frontier.set_host("", HostPolicy(concurrency=1))
        for lane in weights:
            crawl.frontier.add([crawl.request(f"{lane}{n}", lane=f"g.{lane}") for n in range(100)])
        worker = crawl.worker("g") if chosen else crawl.worker()
        leases: list[Lease] = []
        for _ in range(80):
            [lease] = worker.lease(32)
            leases.append(lease)
            worker.settle(lease)
        found = shares(leases)
        for lane, weight in weights.items():
            assert found[f"g.{lane}"] == pytest.approx(weight / 8, abs=0.03)

    def test_tiers_of_one_group_do_not_decide_over_another(self, crawl: Crawl) -> None:
        crawl.define({"list": LanePolicy(tier=0), "deep": LanePolicy(tier=-3)})
        crawl.frontier.define("flat", {"a": LanePolicy(tier=0)})
        one, two = crawl.hosts(2)
        crawl.add(*(f"deep {n}" for n in range(60)), host=one, lane="g.deep")
        crawl.add(*(f"list {n}" for n in range(60)), host=one, lane="g.list")
        crawl.add(*(f"flat {n}" for n in range(60)), host=two, lane="flat.a")
        first = run(crawl, 40)
        assert Counter(lease.lane for lease in first) == {"g.deep": 20, "flat.a": 20}
        rest = [lease.lane for lease in run(crawl, 140, 4)]
        assert "g.list" not in rest[: rest.index("g.deep") + 40], "inside a group tiers are strict"

    @pytest.mark.parametrize("chosen", [True, False], ids=["chosen groups", "all groups"])
    def test_many_groups_on_one_host_share_it_evenly(self, crawl: Crawl, chosen: bool) -> None:
        groups = [f"s{n}" for n in range(30)]
        for number, group in enumerate(groups):
            crawl.frontier.define(group, {"a": LanePolicy(tier=-number, weight=1 + number)})
            crawl.add(*(f"{group} {n}" for n in range(6)), lane=f"{group}.a")
        crawl.frontier.set_host("", HostPolicy(concurrency=2))
        worker = crawl.worker(*groups) if chosen else crawl.worker()
        found = Counter(lease.lane for lease in run(crawl, 90, 2, worker))
        assert set(found.values()) == {3}, found

    def test_weights_of_groups_count_between_groups(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(weight=3))
        crawl.frontier.define("other", {"a": LanePolicy(weight=9)})
        for group in ("g", "other"):
            crawl.frontier.add([crawl.request(f"{group}{n}", lane=f"{group}.a") for n in range(400)])
        assert shares(run(crawl, 400, 4))["g.a"] == pytest.approx(0.75, rel=0.05)

    def test_a_lane_that_returns_gets_no_windfall(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.frontier.add([crawl.request(f"a{n}", lane="g.a") for n in range(600)])
        crawl.frontier.add([crawl.request("b first", lane="g.b")])
        run(crawl, 400, 4)
        crawl.frontier.add([crawl.request(f"b{n}", lane="g.b") for n in range(100)])
        found = shares(run(crawl, 100, 4))
        assert found["g.b"] == pytest.approx(0.5, abs=0.05)

    def test_a_lane_that_was_always_idle_gets_no_windfall(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy()})
        crawl.frontier.add([crawl.request(f"a{n}", lane="g.a") for n in range(400)])
        run(crawl, 300, 5)
        crawl.define({"b": LanePolicy()})
        crawl.frontier.add([crawl.request(f"b{n}", lane="g.b") for n in range(100)])
        assert shares(run(crawl, 100, 5))["g.b"] == pytest.approx(0.5, abs=0.06)

    def test_a_lane_whose_hosts_must_wait_leaves_its_share_to_others(self, crawl: Crawl, worker: Worker) -> None:
        slow, fast = crawl.hosts(2)
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.frontier.set_host(slow, HostPolicy(delay=1000))
        crawl.frontier.add([crawl.request(f"a{n}", slow) for n in range(10)])
        crawl.frontier.add([crawl.request(f"b{n}", fast, "g.b") for n in range(10)])
        leases = worker.lease(9)
        assert Counter(lease.lane for lease in leases) == {"g.a": 1, "g.b": 8}

    def test_a_worker_serves_the_groups_it_names(self, crawl: Crawl) -> None:
        crawl.frontier.define("other", {"a": LanePolicy()})
        crawl.frontier.add([crawl.request(group, lane=f"{group}.a") for group in ("g", "other")])
        assert names(crawl.worker("other").lease(5)) == ["other"]
        assert names(crawl.worker("g", "other").lease(5)) == ["g"]

    def test_a_worker_serves_the_lanes_it_names(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy(), "c": LanePolicy()})
        crawl.frontier.add([crawl.request(lane, lane=f"g.{lane}") for lane in "abc"])
        assert sorted(names(crawl.worker(lanes=["g.a", "g.c"]).lease(5))) == ["a", "c"]
        assert names(crawl.worker(lanes=["g.unknown"]).lease(5)) == []
        assert names(crawl.worker("unknown").lease(5)) == []

    def test_a_stage_serves_its_own_lanes(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy(stage="render"), "c": LanePolicy(stage="render")})
        crawl.frontier.add([crawl.request(lane, lane=f"g.{lane}") for lane in "abc"])
        assert names(crawl.worker().lease(5)) == ["a"]
        assert names(crawl.worker(lanes=["g.a", "g.b"], stage="render").lease(5)) == ["b"]
        assert names(crawl.worker(stage="render").lease(5)) == ["c"]

    def test_a_group_is_served_over_all_stages_unless_narrowed(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy(stage="render")})
        crawl.frontier.add([crawl.request(lane, lane=f"g.{lane}") for lane in "ab"])
        assert names(crawl.worker("g", stage="render").lease(5)) == ["b"]
        assert names(crawl.worker("g").lease(5)) == ["a"]

    def test_a_lane_moves_to_another_tier_and_stage_with_its_work(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.frontier.add([crawl.request(lane, lane=f"g.{lane}") for lane in "ab"])
        crawl.define({"b": LanePolicy(tier=-3)})
        assert crawl.finish(most=1) == ["b"]
        crawl.define({"a": LanePolicy(stage="render")})
        assert crawl.finish() == []
        assert crawl.finish(crawl.worker(stage="render")) == ["a"]

    def test_changing_the_order_keeps_the_work(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(order=Order.FIFO)})
        crawl.add("1", "2", "3")
        crawl.define({"a": LanePolicy(order=Order.LIFO)})
        assert crawl.finish() == ["3", "2", "1"]
