"""What operators do: define, pause, resume, drop, drain."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gossamer.errors import InvalidRequest, PolicyError, UnknownGroup, UnknownLane
from gossamer.frontier.server import keys
from gossamer.model import GroupPolicy, HostPolicy, LanePolicy, Selection, Token
from gossamer.testing.contract.crawl import ADDED, SETTLED, Crawl, Worker, names


class TestPause:
    """Nothing is leased from what is paused; the rest goes on, and workers are told why."""

    @pytest.mark.parametrize("scope", [{}, {"group": "g"}, {"lane": "g.a"}], ids=["crawl", "group", "lane"])
    @pytest.mark.parametrize("groups", [(), ("g",)], ids=["all", "by group"])
    def test_a_pause_is_told_until_it_ends(self, crawl: Crawl, scope: dict[str, str], groups: tuple[str, ...]) -> None:
        crawl.add("1", "2")
        worker = crawl.worker(*groups)
        held = worker.one()
        crawl.frontier.pause(**scope, reason="for the night")
        assert [worker.paused() for _ in range(3)] == ["for the night"] * 3
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


class TestWorkers:
    """Who works, and who is asked to stop."""

    def test_workers_are_known_by_what_they_tell(self, crawl: Crawl) -> None:
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

    def test_what_a_worker_holds_is_counted_down_again(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("1", "2", "3", "4")
        one, two, _, _ = worker.lease(4)
        worker.settle(one)
        worker.release(two)
        assert crawl.frontier.workers()[0].held == 2
        crawl.expire()
        crawl.worker().exchange()
        assert {info.held for info in crawl.frontier.workers()} == {0}

    def test_a_draining_worker_takes_nothing_more(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("1", "2")
        held = worker.one()
        crawl.frontier.drain_worker(worker.token.incarnation)
        assert worker.paused() == "draining"
        assert worker.settle(held) == [SETTLED]
        assert crawl.frontier.workers()[0].draining
        assert len(crawl.worker().lease(1)) == 1
        crawl.frontier.drain_worker(worker.token.incarnation, False)
        assert worker.paused() == ""

    def test_silent_workers_that_hold_nothing_are_forgotten(self, crawl: Crawl) -> None:
        crawl.add("1")
        silent, holder, present = crawl.worker(), crawl.worker(), crawl.worker()
        silent.exchange(info={"name": "silent"})
        holder.lease(1)
        crawl.advance(50)
        present.exchange(want=crawl.frontier.partitions)
        crawl.frontier.forget_workers(40)
        known = {info.incarnation for info in crawl.frontier.workers()}
        assert known == {holder.token.incarnation, present.token.incarnation}

    def test_a_worker_that_ended_is_not_listed(self, crawl: Crawl) -> None:
        crawl.add("1")
        ended, holder = crawl.worker(), crawl.worker()
        ended.exchange(want=crawl.frontier.partitions, info={"name": "ended"}, selection=Selection(stage="none"))
        crawl.frontier.drain_worker(ended.token.incarnation)
        held = holder.one()
        for worker in (ended, holder, ended):
            crawl.frontier.leave(worker.token.incarnation)
        assert [info.incarnation for info in crawl.frontier.workers()] == [holder.token.incarnation]
        holder.settle(held)
        crawl.frontier.leave(holder.token.incarnation)
        assert (crawl.frontier.workers(), crawl.frontier.workers_count()) == ([], 0)
        # Should it call again after all, it is one like any other.
        ended.exchange()
        assert [(info.info, info.draining) for info in crawl.frontier.workers()] == [({}, False)]

    def test_workers_that_went_without_a_word_are_struck_by_those_who_come(self, crawl: Crawl) -> None:
        crawl.add("1")
        holder = crawl.worker()
        holder.one()
        gone = [crawl.worker() for _ in range(40)]
        for worker in gone:
            worker.exchange(want=crawl.frontier.partitions, selection=Selection(stage="none"))
        crawl.advance(3599)
        crawl.worker().exchange(info={"name": "early"})
        assert crawl.frontier.workers_count() == 42
        crawl.advance(3)
        counts = []
        for number in range(5):
            crawl.worker().exchange(want=crawl.frontier.partitions, info={"name": f"{number}"})
            counts.append(crawl.frontier.workers_count())
        # A bounded number at a time. The lease of the one that held something was taken back on the way.
        assert counts[0] >= 42 + 1 - 16
        assert counts[-1] <= 7
        assert not {worker.token.incarnation for worker in gone} & {w.incarnation for w in crawl.frontier.workers()}

    def test_workers_are_listed_a_page_at_a_time(self, crawl: Crawl) -> None:
        crawl.define()
        tokens = [Token.fresh() for _ in range(1203)]
        for number, token in enumerate(tokens):
            if number % 100 == 0:
                crawl.advance(1)
            crawl.frontier.exchange(token, info={"n": f"{number}"})
        listed = crawl.frontier.workers()
        assert {worker.incarnation for worker in listed} == {token.incarnation for token in tokens}
        assert len(listed) == crawl.frontier.workers_count() == 1203
        newest = crawl.frontier.workers(600)
        assert [worker.seen for worker in newest] == [worker.seen for worker in listed[-600:]]
        struck = 0
        crawl.advance(60)
        while more := crawl.frontier.forget_workers(30):
            assert more <= 500
            struck += more
        assert (struck, crawl.frontier.workers()) == (1203, [])


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

    def test_a_clock_that_jumped_and_went_back_stops_nothing(self, crawl: Crawl) -> None:
        crawl.add("1", "2")
        crawl.advance(86400)
        assert names(crawl.worker().lease(1)) == ["1"]
        crawl.advance(-86400)
        assert names(crawl.worker().lease(1)) == ["2"]
        before = crawl.worker().exchange().hints.now
        crawl.advance(2 * crawl.lease_seconds)
        assert crawl.worker().exchange().hints.now - before > 1.5 * crawl.lease_seconds
        assert sorted(names(crawl.worker().lease(2))) == ["1", "2"]

    def test_time_that_is_ahead_is_caught_up_with(self, crawl: Crawl) -> None:
        crawl.define()
        base = keys.base(crawl.frontier.crawl, 0)

        def ahead(move: float) -> float:
            crawl.advance(move)
            crawl.worker().exchange()
            return float(crawl.command(("HGET", f"{base}:m", "ahead"), base)) / 1000

        assert ahead(3600) == 0
        assert 3590 < ahead(-3600) <= 3600
        assert 1000 < ahead(20_000) < 2000
        assert ahead(20_000) == 0

    def test_deadlines_count_in_server_time(self, crawl: Crawl) -> None:
        crawl.add("1")
        before = crawl.worker().exchange().hints.now
        answer = crawl.worker().exchange(want=crawl.frontier.partitions)
        [lease] = answer.leases
        assert before <= round(lease.deadline - crawl.lease_seconds, 3) <= answer.hints.now
