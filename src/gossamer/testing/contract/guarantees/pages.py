"""Lanes that keep page records: what is known of a page, when it is fetched again, and who moves it into the queue."""

from __future__ import annotations

import pytest

from gossamer.errors import NotLeader, PolicyError, UnknownLane
from gossamer.model import (
    Ending,
    LanePolicy,
    Leader,
    Order,
    PageEvent,
    PageInfo,
    PageState,
    PageVisit,
    RecordPolicy,
    RequestPlace,
    RevisitRules,
    Settlement,
    Token,
    fingerprint,
)
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, FULL, SETTLED, Crawl, Worker, names

HOUR = 3600.0
HOURLY = RecordPolicy(revisit=RevisitRules(HOUR))


def recorded(crawl: Crawl, policy: RecordPolicy | None = None, lane: LanePolicy | None = None) -> None:
    """Lane `a` keeps records."""
    usual = lane or LanePolicy()
    crawl.define(
        {
            "a": LanePolicy(usual.order, max_queued=usual.max_queued, records=policy or RecordPolicy()),
            "plain": LanePolicy(),
        }
    )


def page(crawl: Crawl, name: str) -> PageInfo:
    [found] = crawl.frontier.page_records("g.a", [fingerprint(name)])
    assert found is not None, f"no record of {name}"
    return found


def visit(crawl: Crawl, name: str, status: int = 200, signature: int = 1, ending: Ending = Ending.DONE) -> PageInfo:
    """The page is the next one to go out; its record after the visit."""
    worker = crawl.worker()
    lease = worker.one()
    assert lease.payload == name.encode()
    assert worker.settle(lease, ending=ending, visit=PageVisit(status, signature)) == [SETTLED]
    return page(crawl, name)


def leads(crawl: Crawl, *lanes: str) -> Leader:
    """Somebody leads for a minute, and feeds."""
    leader = crawl.frontier.lead(Token.fresh(), "planner", 60.0)
    assert leader.granted
    fed(crawl, 0, term=leader.term)
    return leader


def fed(crawl: Crawl, most: int, limit: int | None = None, term: int = 0) -> int:
    """How many pages of lane `a` were moved, on all partitions."""
    partitions = range(crawl.frontier.partitions)
    return sum(crawl.frontier.feed(p, [("g.a", most, limit)], term=term)[0].moved for p in partitions)


class TestPageRecords:
    """A lane with records knows every page exactly, and never queues one twice."""

    def test_a_page_is_new_once_and_its_record_says_what_became_of_it(self, crawl: Crawl) -> None:
        recorded(crawl)
        assert crawl.add("one", "two", "one", priority=7) == [ADDED, ADDED, DUPLICATE]
        assert crawl.frontier.seen("g.a", [fingerprint("one"), fingerprint("other")]) == [True, False]
        found = page(crawl, "one")
        assert (found.state, found.host, found.priority, found.payload) == (PageState.SCHEDULED, crawl.host, 7, b"one")
        assert (found.last, found.due, found.interval, found.version) == (0, 0, 0, 0)
        crawl.advance(5)
        after = visit(crawl, "one", 203, 2**64 - 9)
        assert (after.state, after.status, after.signature, after.changes) == (PageState.FINISHED, 203, 2**64 - 9, 0)
        assert after.first == found.first
        assert after.last == after.since >= found.first + 5
        assert [event for event, _ in after.trail] == [PageEvent.FOUND, PageEvent.READ]
        assert crawl.add("one", "two") == [DUPLICATE, DUPLICATE]
        row = crawl.lane()
        assert (row.added, row.duplicates, row.queued, row.found, row.pages, row.next_due) == (2, 3, 1, 0, 2, 0)
        crawl.balanced()
        assert crawl.frontier.page_records("g.a", [5]) == [None]
        assert crawl.frontier.page_records("g.plain", [fingerprint("one")]) == [None]
        with pytest.raises(UnknownLane):
            crawl.frontier.page_records("g.no", [5])

    def test_pages_of_one_call_are_recorded_each_with_its_own(self, crawl: Crawl, worker: Worker) -> None:
        recorded(crawl)
        crawl.add("one", "silent", "two")
        told = {b"one": PageVisit(200, 11), b"silent": None, b"two": PageVisit(204, 22)}
        leases = worker.lease(3)
        worker.exchange(settle=[Settlement(lease, visit=told[lease.payload]) for lease in leases])
        found = [(one.status, one.signature) for one in (page(crawl, name) for name in ("one", "silent", "two"))]
        assert found == [(200, 11), (0, 0), (204, 22)]
        crawl.add("one", "one", dont_filter=True)
        leases = worker.lease(2)
        worker.exchange(settle=[Settlement(lease, visit=PageVisit(200, 12 + n)) for n, lease in enumerate(leases)])
        assert page(crawl, "one").changes == 2, "one visit after the other"

    def test_pages_are_listed_by_state(self, crawl: Crawl) -> None:
        recorded(crawl)
        hosts = crawl.spread(90)
        every = {f"page {n}" for n in range(90)}
        assert crawl.frontier.add([crawl.request(f"page {n}", host) for n, host in enumerate(hosts)])[0] == [ADDED] * 90
        worker = crawl.worker()
        done = worker.lease(20)
        worker.settle(*done)
        listed: dict[PageState | None, set[str]] = {}
        for state in (None, PageState.FINISHED, PageState.SCHEDULED, PageState.GONE):
            listed[state] = set()
            for partition in range(crawl.frontier.partitions):
                cursor = "0"
                while cursor:
                    cursor, rows = crawl.frontier.scan_page_records("g.a", partition, cursor, 10, state)
                    listed[state] |= {row.payload.decode() for row in rows}
        assert listed == {
            None: every,
            PageState.FINISHED: set(names(done)),
            PageState.SCHEDULED: every - set(names(done)),
            PageState.GONE: set(),
        }

    def test_unfiltered_requests_are_all_kept_and_recorded_when_they_are_settled(self, crawl: Crawl) -> None:
        recorded(crawl, HOURLY)
        assert crawl.add("same", "same", dont_filter=True) == [ADDED, ADDED]
        assert crawl.frontier.add(crawl.requests(["same"], dont_filter=True), key="k")[0] == [ADDED]
        assert crawl.frontier.add(crawl.requests(["same"], dont_filter=True), key="k")[0] == [DUPLICATE]
        assert crawl.frontier.page_records("g.a", [fingerprint("same")]) == [None]
        assert crawl.finish() == ["same"] * 3
        assert crawl.add("same") == [DUPLICATE]
        crawl.advance(HOUR)
        assert crawl.finish() == ["same"]

    def test_an_unfiltered_visit_counts_for_a_page_that_does_not_wait(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(RevisitRules(HOUR, gone=1)))
        crawl.add("one")
        crawl.add("one", dont_filter=True, priority=9)
        assert visit(crawl, "one").state is PageState.SCHEDULED, "the other request stands for it"
        assert visit(crawl, "one").signature == 1
        crawl.add("one", dont_filter=True)
        assert visit(crawl, "one", signature=2).changes == 1
        crawl.add("one", dont_filter=True)
        assert visit(crawl, "one", 404, 0).due == 0
        crawl.advance(HOUR)
        assert crawl.finish() == []

    def test_what_is_refused_leaves_no_record(self, crawl: Crawl) -> None:
        recorded(crawl, lane=LanePolicy(max_queued=2))
        assert crawl.add("1", "2", "3") == [ADDED, ADDED, FULL]
        assert crawl.frontier.page_records("g.a", [fingerprint("3")]) == [None]
        crawl.finish()
        assert crawl.add("3", "1") == [ADDED, DUPLICATE]

    def test_a_page_stays_scheduled_until_it_is_settled(self, crawl: Crawl, worker: Worker) -> None:
        recorded(crawl)
        crawl.add("one")
        lease = worker.one()
        assert crawl.add("one") == [DUPLICATE]
        crawl.expire()
        assert visit(crawl, "one", ending=Ending.RETRY).state is PageState.SCHEDULED
        assert worker.settle(lease) != [SETTLED]
        assert page(crawl, "one").state is PageState.SCHEDULED
        failed = visit(crawl, "one", ending=Ending.FAILED)
        assert (failed.state, failed.due) == (PageState.FAILED, 0)
        crawl.balanced()

    def test_poison_fails_its_page(self, crawl: Crawl) -> None:
        recorded(crawl)
        crawl.add("poison")
        for _ in range(crawl.strikes + 1):
            crawl.worker().send()
            crawl.expire()
        crawl.worker().exchange()
        assert page(crawl, "poison").state is PageState.FAILED
        crawl.balanced()

    def test_a_dead_letter_that_is_replayed_is_scheduled_once(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(failed=HOUR))
        crawl.add("one")
        visit(crawl, "one", ending=Ending.FAILED)
        [letter] = crawl.frontier.dead_letters("g")
        assert crawl.frontier.replay(letter.partition, [letter.id]) == 1
        assert page(crawl, "one").state is PageState.SCHEDULED
        assert crawl.add("one") == [DUPLICATE]
        visit(crawl, "one", ending=Ending.FAILED)
        [letter] = crawl.frontier.dead_letters("g")
        crawl.advance(HOUR)
        assert crawl.add("one") == [ADDED]
        assert crawl.frontier.replay(letter.partition, [letter.id]) == 1, "it is queued already"
        assert crawl.lane().queued == 1
        crawl.balanced()

    def test_a_forgotten_page_is_new_again_unless_it_waits(self, crawl: Crawl) -> None:
        recorded(crawl, HOURLY)
        crawl.add("one", "two")
        visit(crawl, "one")
        numbers = [fingerprint(name) for name in ("one", "two", "three")]
        assert crawl.frontier.forget("g.a", numbers) == [True, True, False]
        assert crawl.add("one", "two") == [ADDED, DUPLICATE]
        assert crawl.finish() == ["two", "one"]
        crawl.advance(HOUR)
        assert sorted(crawl.finish()) == ["one", "two"]

    def test_lanes_without_records_have_their_memory(self, crawl: Crawl) -> None:
        recorded(crawl)
        assert [crawl.add("one", lane=lane)[0] for lane in ("g.a", "g.plain", "g.plain")] == [ADDED, ADDED, DUPLICATE]
        assert crawl.lane("g.plain").pages == 0

    def test_records_are_bounded_by_count_and_age(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(max_pages=20, max_age=HOUR))
        crawl.add(*(f"old {n}" for n in range(20)))
        crawl.finish()
        crawl.advance(60)
        crawl.add(*(f"new {n}" for n in range(12)))
        assert crawl.lane().pages == 20
        assert crawl.frontier.seen("g.a", [fingerprint(f"new {n}") for n in range(12)]) == [True] * 12
        crawl.add(*(f"more {n}" for n in range(30)))
        assert crawl.lane().pages == 42, "what is queued is not forgotten"
        crawl.finish()
        crawl.advance(HOUR + 1)
        crawl.add("last")
        assert crawl.lane().pages < 20
        crawl.finish()

    def test_pages_that_wait_for_their_time_stay_where_there_are_too_many(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(max_pages=2))
        leads(crawl)
        wanted = [f"page {n}" for n in range(5)]
        crawl.frontier.add([crawl.request(name, delay=60) for name in wanted])
        # The leader is gone by then: workers go on.
        crawl.advance(61)
        assert sorted(names(crawl.worker().lease(9))) == wanted

    def test_the_furthest_visits_go_first_where_there_are_too_many(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(RevisitRules(HOUR), max_pages=2))
        for name in ("one", "two", "three"):
            crawl.add(name)
            visit(crawl, name)
            crawl.advance(10)
        numbers = [fingerprint(name) for name in ("one", "two", "three")]
        assert crawl.frontier.seen("g.a", numbers) == [True, False, True], "a link brings it back"

    @pytest.mark.parametrize(
        "policy",
        [
            {"finished": -1.0},
            {"max_age": float("nan")},
            {"max_pages": -1},
            {"revisit": RevisitRules(0.0)},
            {"revisit": RevisitRules(60.0, gone=0)},
            {"revisit": RevisitRules(60.0, min=20.0, max=10.0)},
        ],
    )
    def test_bad_rules_are_refused(self, policy: dict[str, float]) -> None:
        with pytest.raises(PolicyError):
            RecordPolicy(**policy)  # type: ignore[arg-type]


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

    def test_a_page_that_is_missing_again_and_again_is_gone(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(RevisitRules(HOUR, gone=2)))
        crawl.add("one", "two")
        visit(crawl, "one")
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


class TestRecordsChange:
    """Records are switched on and off, and lanes that have them are dropped."""

    def test_what_was_queued_before_has_a_record_after_its_visit(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("one", "two")
        recorded(crawl, HOURLY)
        visit(crawl, "one")
        assert crawl.add("one") == [DUPLICATE]
        assert crawl.finish() == ["two"]
        crawl.advance(HOUR)
        assert sorted(crawl.finish()) == ["one", "two"]

    def test_without_records_waiting_pages_are_queued(self, crawl: Crawl) -> None:
        recorded(crawl, HOURLY)
        crawl.add("finished", "queued")
        assert crawl.finish(most=1) == ["finished"]
        leads(crawl)
        crawl.add(*(f"found {n}" for n in range(700)))
        crawl.define()
        assert (crawl.lane().found, crawl.lane().pages, crawl.lane().queued) == (0, 0, 701)
        crawl.balanced()
        left = crawl.command(("KEYS", "*:p[gdf]*"), f"gossamer:{{{crawl.frontier.crawl}/0}}")
        assert not [key for key in left if crawl.frontier.crawl.encode() + b"/" in key]
        assert crawl.add("finished") == [ADDED], "the memory begins empty"
        assert len(crawl.finish()) == 702

    def test_visits_begin_and_end_with_the_policy(self, crawl: Crawl) -> None:
        recorded(crawl)
        crawl.add("one", "two")
        visit(crawl, "one")
        visit(crawl, "two", 404, 0)
        crawl.advance(HOUR / 2)
        recorded(crawl, HOURLY)
        assert page(crawl, "one").due == page(crawl, "one").since + HOUR
        assert page(crawl, "two").due == 0, "it is gone"
        crawl.advance(HOUR / 2)
        assert crawl.finish() == ["one"]
        recorded(crawl)
        crawl.advance(HOUR)
        assert crawl.finish() == []
        assert (page(crawl, "one").due, page(crawl, "one").interval) == (0, 0)
        assert crawl.add("one") == [DUPLICATE]

    def test_a_link_counts_where_visits_have_ended(self, crawl: Crawl, worker: Worker) -> None:
        for after in (2 * HOUR, HOUR / 2):
            recorded(crawl, HOURLY)
            crawl.add("one", "two", "three")
            for lease in worker.lease(3):
                failed = lease.payload == b"three"
                worker.settle(lease, ending=Ending.FAILED if failed else Ending.DONE, visit=PageVisit(200, 1))
            recorded(crawl, RecordPolicy(finished=after))
            assert crawl.add("one") == [DUPLICATE]
            crawl.advance(after - 10)
            assert worker.lease(3) == [], "before its time"
            crawl.advance(20)
            [lease] = worker.lease(3)
            assert lease.payload == b"one"
            worker.settle(lease)
            crawl.advance(4 * HOUR)
            assert worker.lease(3) == [], "nothing leads to these"
            crawl.frontier.forget("g.a", [fingerprint(name) for name in ("one", "two", "three")])

    def test_a_dropped_lane_takes_its_records_along(self, crawl: Crawl) -> None:
        recorded(crawl, HOURLY)
        crawl.add("finished", "queued")
        crawl.finish(most=1)
        leads(crawl)
        crawl.add("found")
        dropped = sum(crawl.frontier.drop_lane("g.a"))
        assert dropped == 2
        assert crawl.group().open == 0
        recorded(crawl)
        assert crawl.frontier.page_records("g.a", [fingerprint("finished"), fingerprint("found")]) == [None, None]
        crawl.balanced()

    def test_a_dropped_group_leaves_no_records(self, crawl: Crawl) -> None:
        recorded(crawl, HOURLY)
        leads(crawl)
        crawl.add("one", "two")
        assert sum(crawl.frontier.drop_group("g")) == 2
        left = crawl.command(("KEYS", "*:p[grdf]*"), f"gossamer:{{{crawl.frontier.crawl}/0}}")
        assert not [key for key in left if crawl.frontier.crawl.encode() + b"/" in key]


class TestLocate:
    """Where a request is."""

    def test_a_request_is_found_wherever_it_is(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define({"a": LanePolicy(), "last": LanePolicy(Order.LIFO, tier=1)})
        crawl.add("one", "two", "three")
        crawl.add("first", priority=5)
        crawl.add("four", "five", "six", lane="g.last")
        crawl.add("late", delay=60)

        def where(name: str, lane: str = "g.a", **how: float) -> RequestPlace:
            return crawl.frontier.locate(lane, crawl.host, fingerprint(name), **how)  # type: ignore[arg-type]

        found = [where(name) for name in ("first", "one", "three")]
        assert [(one.state, one.priority, one.ahead) for one in found] == [
            ("queued", 5, 0),
            ("queued", 0, 1),
            ("queued", 0, 3),
        ]
        assert [where(name, "g.last").ahead for name in ("four", "six")] == [2, 0]
        assert (where("late").state, where("late").queued) == ("delayed", 4)
        assert (where("none").state, where("none").whole) == ("", True)
        assert (where("three", look=2).state, where("three", look=2).whole) == ("", False)
        lease = worker.one()
        assert (where("first").state, where("first").worker) == ("leased", worker.token.incarnation)
        worker.settle(lease, ending=Ending.FAILED)
        [letter] = crawl.frontier.dead_letters("g")
        assert [where("first", dead_since=since).letter for since in (-1, int(letter.at))] == [letter.id] * 2
        assert [where("first", dead_since=letter.at + 60).letter, where("one", dead_since=-1).letter] == [0, 0]
        assert where("first").letter == 0, "nobody asked for it"
        with pytest.raises(UnknownLane):
            where("one", "g.none")

    def test_a_request_that_comes_back_is_found(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define({"a": LanePolicy()})
        crawl.add("one", "two")
        worker.send()
        crawl.expire()
        worker.exchange()
        place = crawl.frontier.locate("g.a", crawl.host, fingerprint("one"))
        assert (place.state, place.ahead) == ("queued", 0)
