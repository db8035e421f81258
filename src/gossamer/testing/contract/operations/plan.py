"""What planners decide by."""

from __future__ import annotations

import pytest

from gossamer.errors import NotLeader
from gossamer.model import AddOutcome, GroupPolicy, GroupState, LanePolicy, LaneState, Settlement, StartState, Token
from gossamer.testing.contract.crawl import ADDED, Crawl, names


class TestPlanState:
    """One read tells of all groups what planners need, and nothing that has changed is missed."""

    def test_it_tells_the_round_and_what_waits(self, crawl: Crawl) -> None:
        frontier = crawl.frontier
        assert frontier.plan_state().groups == {}
        crawl.define({"a": LanePolicy(), "b": LanePolicy()}, GroupPolicy(start=True))
        frontier.define("other", {})
        before = frontier.plan_state(lanes=True)
        assert before.time_of(before.groups["g"]) == before.clocks[before.groups["g"].home]
        assert before.groups["other"]._replace(home=0) == GroupState(
            "other", False, 0, "none", "", 0, 0, None, None, None, False, "", ()
        )
        lanes = (LaneState("g.a", 0, 0, 0), LaneState("g.b", 0, 0, 0))
        assert before.groups["g"]._replace(home=0) == GroupState(
            "g", True, 0, "owed", "", 1, 0, None, None, None, False, "", lanes
        )
        worker = crawl.worker()
        assert frontier.start("g", worker.token)[0] is StartState.GRANTED
        hosts = crawl.spread(6)
        frontier.add([crawl.request(host, host) for host in hosts])
        frontier.add([crawl.request(f"later {host}", host, "g.b", delay=60) for host in hosts[:2]])
        assert self.group(crawl).start == "leased"
        frontier.started("g", worker.token)
        leases = worker.lease(6)
        state = self.group(crawl)
        assert (state.start, state.open, state.leased, state.ended) == ("done", 8, 6, None)
        assert state.began is not None
        assert state.lanes == (LaneState("g.a", 0, 0, 6), LaneState("g.b", 0, 2, 0))
        worker.settle(*leases)
        crawl.advance(61)
        worker.settle(*worker.lease(2))
        assert self.group(crawl).open == 0
        token = Token.fresh()
        frontier.end_round("g", token)
        ended = self.group(crawl)
        assert (ended.ended is None, ended.closed) == (False, None)
        frontier.ended("g", token)
        assert self.group(crawl).closed is not None
        frontier.round_note("g", 0, {"late": True})
        assert self.group(crawl).late
        frontier.new_round("g", 1, trigger="schedule")
        after = self.group(crawl)
        assert (after.round, after.start, after.ended, after.late, after.trigger) == (
            1,
            "owed",
            None,
            False,
            "schedule",
        )
        frontier.pause(group="g", reason="by hand")
        assert self.group(crawl).paused == "by hand"
        frontier.resume(group="g")
        assert self.group(crawl).paused == ""
        assert frontier.plan_state().now > before.now
        list(frontier.drop_group("other"))
        assert set(frontier.plan_state().groups) == {"g"}

    def group(self, crawl: Crawl) -> GroupState:
        """The same, with lanes and without."""
        with_lanes = crawl.frontier.plan_state(lanes=True).groups["g"]
        assert crawl.frontier.plan_state().groups["g"] == with_lanes._replace(lanes=())
        return with_lanes

    def test_it_tells_who_leads_and_that_a_document_changed(self, crawl: Crawl) -> None:
        frontier, token = crawl.frontier, Token.fresh()
        assert not frontier.plan_state().leader.present
        led = frontier.lead(token, "one", 4)
        leader = frontier.plan_state().leader
        assert (leader.present, leader.name, leader.term) == (True, "one", led.term)
        crawl.advance(5)
        assert not frontier.plan_state().leader.present
        version = frontier.plan_state().documents
        frontier.put_document("site", "s", "text")
        assert frontier.plan_state().documents > version

    def test_a_full_group_is_full_where_nothing_is_left_to_lease(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_pages=crawl.frontier.partitions))
        hosts = crawl.spread(2 * crawl.frontier.partitions)
        crawl.frontier.add([crawl.request(f"{host} {n}", host) for n in (1, 2) for host in hosts])
        assert self.group(crawl).paused == ""
        worker = crawl.worker()
        worker.settle(*worker.lease(4 * crawl.frontier.partitions))
        assert self.group(crawl).paused == "pages_full"

    def test_a_round_that_is_seeded_again_is_not_cut_short(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(start=True))
        frontier, token = crawl.frontier, Token.fresh()
        frontier.start("g", token)
        frontier.started("g", token)
        crawl.add("one")
        frontier.new_round("g", 1, again=True)
        frontier.new_round("g", 2)
        assert [(info.round, info.state) for info in frontier.rounds("g")] == [
            (2, "running"),
            (1, "cut short"),
            (0, "seeded again"),
        ]
        assert crawl.lane().queued == 1

    def test_what_is_left_of_a_round_is_dropped_for_the_next_one(self, crawl: Crawl) -> None:
        frontier = crawl.frontier
        crawl.define({"a": LanePolicy(), "b": LanePolicy()}, GroupPolicy(start=True))
        frontier.define("other", {"a": LanePolicy()})
        token, worker, hosts = Token.fresh(), crawl.worker("g"), crawl.spread(4)
        frontier.start("g", token)
        frontier.started("g", token)
        frontier.add([crawl.request(f"{host} {n}", host) for host in hosts for n in range(3)])
        frontier.add([crawl.request("later", hosts[1], "g.b", delay=60), crawl.request("kept", hosts[0], "other.a")])
        frontier.pause(lane="g.b", reason="by hand")
        [lease] = worker.lease(1)
        assert frontier.drop_round("g", 1) == (True, 0), "of another round"
        assert self.dropped(crawl) == 12
        assert not frontier.drop_round("g", 0)[0], "a page is in progress"
        add = [crawl.request("child", hosts[2]), crawl.request("child", hosts[2], "other.a")]
        assert worker.exchange(settle=[Settlement(lease, add=add)]).children == [[AddOutcome.CLOSED, AddOutcome.ADDED]]
        self.dropped(crawl)
        assert frontier.drop_round("g", 0) == (True, 0)
        assert frontier.new_round("g", 1) == 1
        assert frontier.drop_round("g", 0) == (True, 0), "late, and without any effect"
        assert crawl.group().open == 1, "its start"
        host = next(host for host in hosts if host != lease.host)
        assert crawl.add(f"{host} 0", f"{host} 1", host=host) == [ADDED, ADDED], "they are not seen"
        assert [row.paused for row in frontier.counts("g").lanes] == ["", "by hand"]
        assert sorted(names(worker.lease(9))) == [f"{host} 0", f"{host} 1"]
        assert crawl.lane("other.a").queued == 2
        assert [info.state for info in frontier.rounds("g")] == ["running", "cut short"]

    def dropped(self, crawl: Crawl) -> int:
        """How many go until there is nothing that waits."""
        dropped = 0
        for _ in range(100):
            over, number = crawl.frontier.drop_round("g", 0)
            dropped += number
            if over or not any(lane.queued + lane.delayed for lane in self.group(crawl).lanes):
                return dropped
        raise AssertionError("it goes on")

    def test_lanes_that_nobody_goes_on_emptying_open_again(self, crawl: Crawl) -> None:
        """Whoever empties them for the next round may die between two steps, or be told not to."""
        frontier, hosts = crawl.frontier, crawl.spread(3)
        crawl.define({"a": LanePolicy(), "b": LanePolicy()}, GroupPolicy(start=True))
        frontier.pause(lane="g.b", reason="by hand")

        def outcomes(name: str) -> set[AddOutcome]:
            return set(frontier.add([crawl.request(f"{name} {host}", host) for host in hosts])[0])

        for seconds in (5, 9, 9):
            frontier.drop_round("g", 0)
            crawl.advance(seconds)
            assert outcomes(f"after {seconds}") == {AddOutcome.CLOSED}, "each step keeps them closed"
        crawl.advance(2)
        assert outcomes("later") == {ADDED}
        assert [row.paused for row in frontier.counts("g").lanes] == ["", "by hand"], "as they were"
        assert sorted(crawl.finish()) == sorted(f"later {host}" for host in hosts)
        term = frontier.lead(Token.fresh(), "one", 60).term
        frontier.drop_round("g", 0, term=term)
        crawl.advance(100)
        assert outcomes("a leader") == {AddOutcome.CLOSED}, "one that leads for a minute may look seldom"
        crawl.advance(21)
        assert outcomes("a leader") == {ADDED}
        frontier.drop_round("g", 0)
        assert frontier.new_round("g", 1) == 1
        crawl.advance(60)
        assert outcomes("next round") == {ADDED}

    def test_a_former_leader_drops_nothing(self, crawl: Crawl) -> None:
        frontier = crawl.frontier
        crawl.add("one")
        former = frontier.lead(Token.fresh(), "one", 4).term
        crawl.advance(5)
        with pytest.raises(NotLeader):
            frontier.drop_round("g", 0, term=former)
        assert crawl.finish() == ["one"]
