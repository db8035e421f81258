"""Pages of lanes with records: when they are fetched again, and who moves them into the queue."""

from __future__ import annotations

import pytest

from gossamer.errors import NotLeader
from gossamer.model import (
    Ending,
    LanePolicy,
    Order,
    PageEvent,
    PageState,
    RecordPolicy,
    RevisitRules,
    Settlement,
    Token,
)
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, FULL, SETTLED, Crawl, Worker
from gossamer.testing.contract.guarantees.pages.recorded_lane import HOUR, HOURLY, fed, leads, page, recorded, visit


class TestRediscovery:
    """A link leads to a page that is known."""

    def test_failed_pages_are_fetched_again_now(self, crawl: Crawl) -> None:
        recorded(crawl)
        crawl.add("one")
        visit(crawl, "one", ending=Ending.FAILED)
        assert crawl.add("one") == [ADDED]
        assert page(crawl, "one").trail[-1][0] is PageEvent.SIGHTED
        assert visit(crawl, "one").state is PageState.FINISHED
        assert crawl.add("one") == [DUPLICATE]

    def test_finished_pages_after_their_time(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(finished=HOUR))
        crawl.add("seen early", "never seen")
        crawl.finish()
        crawl.advance(HOUR / 2)
        assert crawl.add("seen early") == [DUPLICATE]
        assert page(crawl, "seen early").due == page(crawl, "seen early").since + HOUR
        assert crawl.finish() == []
        crawl.advance(HOUR / 2)
        assert crawl.finish() == ["seen early"], "a link led to it, and its time has come"
        assert crawl.add("never seen") == [ADDED]

    def test_newer_rounds_fetch_finished_pages_once_each(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(newer=True))
        crawl.add("list")
        crawl.finish()
        assert crawl.add("list") == [DUPLICATE]
        for number in (1, 2):
            crawl.frontier.new_round("g", number)
            assert crawl.add("list", "list") == [ADDED, DUPLICATE]
            assert page(crawl, "list").version == number
            assert crawl.finish() == ["list"]
            assert crawl.add("list") == [DUPLICATE]

    def test_newer_rounds_fetch_gone_pages_once_each(self, crawl: Crawl) -> None:
        """As the page after the last one of a list, which is there when the list has grown."""
        recorded(crawl, RecordPolicy(newer=True))
        crawl.add("page 2")
        assert visit(crawl, "page 2", 404, 0).state is PageState.GONE
        assert crawl.add("page 2") == [DUPLICATE]
        crawl.frontier.new_round("g", 1)
        assert crawl.add("page 2", "page 2") == [ADDED, DUPLICATE]
        assert visit(crawl, "page 2").state is PageState.FINISHED

    def test_gone_pages_only_where_the_rules_say_so(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(gone=HOUR))
        crawl.add("one")
        gone = visit(crawl, "one", 404, 0)
        assert (gone.state, gone.misses, gone.due) == (PageState.GONE, 1, 0)
        crawl.advance(HOUR)
        assert crawl.add("one") == [ADDED]
        assert visit(crawl, "one").misses == 0


class TestRevisits:
    """Pages that fall due by themselves."""

    def test_a_page_goes_out_again_when_it_is_due_and_not_before(self, crawl: Crawl, worker: Worker) -> None:
        recorded(crawl, HOURLY)
        crawl.add("one")
        assert visit(crawl, "one").interval == HOUR
        assert crawl.frontier.drained("g").drained
        crawl.advance(HOUR - 60)
        answer = worker.exchange(want=crawl.frontier.partitions)
        assert answer.leases == []
        assert answer.hints.ready_in is not None
        assert 0 < answer.hints.ready_in <= 60
        crawl.advance(60)
        again = visit(crawl, "one", 304, 0)
        assert [event for event, _ in again.trail][-2:] == [PageEvent.DUE, PageEvent.UNCHANGED]
        assert crawl.finish() == []
        crawl.balanced()

    def test_a_lease_says_whether_it_is_another_visit(self, crawl: Crawl, worker: Worker) -> None:
        recorded(crawl, HOURLY)
        crawl.add("one")
        crawl.add("two", dont_filter=True)
        for again in (False, True):
            leases = worker.lease(2)
            assert [lease.visit for lease in leases] == [again, again]
            worker.exchange(settle=[Settlement(lease, Ending.RETRY) for lease in leases])
            leases = worker.lease(2)
            assert [lease.visit for lease in leases] == [again, again], "also when it is tried again"
            worker.exchange(settle=[Settlement(lease) for lease in leases])
            crawl.advance(HOUR)

    def test_a_record_keeps_the_last_events(self, crawl: Crawl) -> None:
        recorded(crawl, HOURLY)
        crawl.add("one")
        for signature in range(1, 7):
            last = visit(crawl, "one", signature=signature)
            crawl.advance(HOUR)
        assert [event for event, _ in last.trail] == [PageEvent.DUE, PageEvent.CHANGED] * 4
        assert (last.changes, last.host, last.payload) == (5, crawl.host, b"one")
        assert last.trail[-1][1] == int(last.last)

    def test_a_due_page_is_of_the_round_that_moves_it(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(RevisitRules(HOUR), newer=True))
        crawl.add("one")
        visit(crawl, "one")
        crawl.frontier.new_round("g", 1)
        crawl.advance(HOUR)
        assert visit(crawl, "one").version == 1
        assert crawl.add("one") == [DUPLICATE], "this round has it"

    def test_adaptive_visits_follow_the_changes(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(RevisitRules(HOUR, min=1200, max=2 * HOUR, adaptive=True)))
        crawl.add("one")
        intervals = []
        for status, signature in ((200, 1), (200, 1), (304, 0), (200, 2), (200, 3), (200, 4), (200, 4)):
            intervals.append(visit(crawl, "one", status, signature).interval)
            crawl.advance(intervals[-1])
        assert intervals == [3600, 5400, 7200, 3600, 1800, 1200, 1800]
        assert page(crawl, "one").changes == 3

    def test_what_has_not_changed_is_visited_less_often_though_nothing_was_read(self, crawl: Crawl) -> None:
        """As where its record was removed, and the server remembers what was sent before."""
        recorded(crawl, RecordPolicy(RevisitRules(HOUR, max=2 * HOUR, adaptive=True)))
        crawl.add("one")
        intervals = []
        for status, signature in ((304, 0), (304, 0), (200, 1), (200, 1)):
            intervals.append(visit(crawl, "one", status, signature).interval)
            crawl.advance(intervals[-1])
        assert intervals == [3600, 5400, 3600, 5400]

    def test_a_page_that_is_read_is_there_whatever_its_status(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(RevisitRules(HOUR, gone=1)))
        crawl.add("one")
        read = visit(crawl, "one", 404, 1)
        assert (read.state, read.status, read.misses, read.interval) == (PageState.FINISHED, 404, 0, HOUR)
        crawl.advance(HOUR)
        assert visit(crawl, "one", 404, 0).state is PageState.GONE

    def test_a_page_that_is_missing_again_and_again_is_gone(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(RevisitRules(HOUR, gone=2)))
        crawl.add("one", "two")
        visit(crawl, "one")
        crawl.advance(1)
        visit(crawl, "two", 410, 0)
        crawl.advance(HOUR)
        missing = visit(crawl, "one", 404, 0)
        assert (missing.state, missing.misses, missing.due) == (PageState.FINISHED, 1, missing.last + HOUR)
        gone = visit(crawl, "two", 404, 0)
        assert (gone.state, gone.misses, gone.due) == (PageState.GONE, 2, 0)
        crawl.advance(HOUR)
        assert visit(crawl, "one").misses == 0
        assert crawl.finish() == []

    def test_a_page_that_fails_is_visited_later_each_time(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(RevisitRules(HOUR, max=3 * HOUR)))
        crawl.add("one")
        waits = []
        for _ in range(3):
            failed = visit(crawl, "one", 500, 0, Ending.FAILED)
            waits.append(failed.due - failed.last)
            crawl.advance(waits[-1])
        assert waits == [2 * HOUR, 3 * HOUR, 3 * HOUR]
        assert visit(crawl, "one").interval == HOUR

    def test_a_redirect_counts_as_a_visit(self, crawl: Crawl, worker: Worker) -> None:
        recorded(crawl, HOURLY)
        crawl.add("one")
        target = crawl.request("target")
        assert worker.settle(worker.one(), ending=Ending.REPLACED, add=[target]) == [SETTLED]
        assert page(crawl, "one").due == page(crawl, "one").last + HOUR
        assert crawl.finish() == ["target"]
        crawl.advance(HOUR)
        assert sorted(crawl.finish()) == ["one", "target"]

    def test_many_due_pages_go_out_in_their_order_in_bounded_steps(self, crawl: Crawl) -> None:
        recorded(crawl, HOURLY)
        order = [f"page {n}" for n in range(150)]
        for name in order:
            crawl.add(name)
            visit(crawl, name)
            crawl.advance(1)
        crawl.advance(HOUR)
        assert crawl.finish() == order
        crawl.balanced()

    def test_what_is_due_waits_for_room(self, crawl: Crawl, worker: Worker) -> None:
        recorded(crawl, HOURLY, LanePolicy(max_queued=3))
        for n in range(2):
            crawl.add(*(f"{n}{m}" for m in range(3)))
            crawl.finish()
        crawl.advance(HOUR)
        worker.exchange(want=crawl.frontier.partitions)
        assert crawl.lane().queued + crawl.lane().leased == 3
        crawl.expire()
        done = []
        for _ in range(20):
            done += crawl.finish()
            crawl.advance(2)
        assert sorted(done) == ["00", "01", "02", "10", "11", "12"]


class TestFeed:
    """While a planner feeds the queues, found and due pages wait for it."""

    def test_found_pages_wait_and_are_open(self, crawl: Crawl) -> None:
        recorded(crawl)
        leads(crawl)
        assert crawl.add("one", "two", "three", "one") == [ADDED, ADDED, ADDED, DUPLICATE]
        assert page(crawl, "one").state is PageState.FOUND
        assert crawl.finish() == []
        row = crawl.lane()
        assert (row.found, row.queued, crawl.group().open) == (3, 0, 3)
        assert not crawl.frontier.drained("g").drained
        crawl.balanced()
        assert fed(crawl, 2) == 2
        assert (crawl.lane().found, crawl.lane().queued) == (1, 2)
        crawl.balanced()
        assert crawl.finish() == ["one", "two"]
        assert fed(crawl, 9, limit=0) == 0
        assert fed(crawl, 9, limit=1) == 1
        assert crawl.finish() == ["three"]
        assert crawl.frontier.drained("g").drained

    def test_the_limit_is_never_passed(self, crawl: Crawl) -> None:
        recorded(crawl, lane=LanePolicy(max_queued=5))
        leads(crawl)
        assert crawl.add(*"abcdefgh") == [ADDED] * 5 + [FULL] * 3, "found pages take room of producers"
        assert fed(crawl, 9, limit=3) == 3
        assert fed(crawl, 9, limit=3) == 0
        assert fed(crawl, 9, limit=4) == 1
        assert fed(crawl, 9) == 1

    def test_a_lane_without_room_still_says_what_is_due(self, crawl: Crawl) -> None:
        recorded(crawl, HOURLY, LanePolicy(max_queued=1))
        for name in ("one", "two"):
            crawl.add(name)
            crawl.finish()
        crawl.advance(HOUR)
        leads(crawl)
        assert fed(crawl, 9) == 1
        rows = [row for p in range(crawl.frontier.partitions) for row in crawl.frontier.due_lanes(p) if row.due]
        assert [(row.lane, row.due, row.queued) for row in rows] == [("g.a", 1, 1)]
        assert crawl.frontier.feed(0, [("g.a", 0, 7, 5)]) == [(0, 5, 7)], "it gets none, so nobody looks"

    def test_workers_hear_when_the_next_page_is_due(self, crawl: Crawl, worker: Worker) -> None:
        recorded(crawl, HOURLY)
        for name in ("one", "two"):
            crawl.add(name)
            crawl.finish()
            crawl.advance(600)
        crawl.advance(HOUR - 1200)
        leads(crawl)
        assert fed(crawl, 9) == 1
        assert crawl.finish() == ["one"]
        ready_in = worker.exchange(want=crawl.frontier.partitions).hints.ready_in
        assert ready_in is not None
        assert ready_in > 500, "not when the planner's lead runs out, which moves nothing that is not due"

    def test_lifo_lanes_take_the_newest(self, crawl: Crawl) -> None:
        recorded(crawl, lane=LanePolicy(Order.LIFO))
        leads(crawl)
        crawl.add("one", "two")
        crawl.advance(1)
        crawl.add("three")
        assert fed(crawl, 2) == 2
        assert sorted(crawl.finish()) == ["three", "two"]

    def test_without_a_leader_workers_go_on(self, crawl: Crawl, worker: Worker) -> None:
        recorded(crawl, HOURLY)
        leads(crawl)
        crawl.add("one")
        assert crawl.add("two", dont_filter=True) == [ADDED]
        assert crawl.finish() == ["two"], "unfiltered requests do not wait"
        answer = worker.exchange(want=crawl.frontier.partitions)
        assert answer.hints.ready_in is not None
        assert 0 < answer.hints.ready_in <= 60
        crawl.advance(61)
        assert crawl.finish() == ["one"]
        crawl.advance(HOUR)
        assert sorted(crawl.finish()) == ["one", "two"]

    def test_a_leader_that_does_not_feed_keeps_nobody_waiting(self, crawl: Crawl) -> None:
        recorded(crawl, HOURLY)
        assert crawl.frontier.lead(Token.fresh(), "planner", 2 * HOUR).granted
        crawl.add("one")
        assert crawl.finish() == ["one"]
        crawl.advance(HOUR)
        assert crawl.finish() == ["one"]

    def test_a_former_leader_feeds_nothing(self, crawl: Crawl) -> None:
        recorded(crawl)
        first = leads(crawl)
        crawl.add("one")
        crawl.advance(61)
        second = leads(crawl)
        with pytest.raises(NotLeader):
            crawl.frontier.feed(0, [("g.a", 1, None)], term=first.term)
        assert fed(crawl, 1, term=second.term) == 1

    def test_delayed_requests_wait_their_time(self, crawl: Crawl) -> None:
        recorded(crawl)
        leads(crawl)
        crawl.add("one", delay=30)
        assert fed(crawl, 1) == 0
        crawl.advance(31)
        assert fed(crawl, 1) == 1
        assert crawl.finish() == ["one"]

    def test_children_wait_too(self, crawl: Crawl, worker: Worker) -> None:
        recorded(crawl)
        crawl.add("parent", lane="g.plain")
        leads(crawl)
        hosts = crawl.spread(6)
        children = [crawl.request(f"child {n}", host) for n, host in enumerate(hosts)]
        assert worker.settle(worker.one(), add=children) == [SETTLED]
        assert crawl.lane().found == 6
        assert fed(crawl, 9) == 6
        assert sorted(crawl.finish()) == [f"child {n}" for n in range(6)]

    def test_lanes_without_records_have_nothing_to_feed(self, crawl: Crawl) -> None:
        recorded(crawl)
        assert crawl.frontier.feed(0, [("g.plain", 9, None), ("g.none", 9, None)]) == [(0, 0, 0), (0, 0, 0)]
