"""Page records: what is known of a page, and how long it is kept."""

from __future__ import annotations

import pytest

from gossamer.errors import PolicyError, UnknownLane
from gossamer.frontier.verbs.control.control import ControlVerbs
from gossamer.model import (
    Ending,
    LanePolicy,
    PageEvent,
    PageState,
    PageVisit,
    RecordPolicy,
    RevisitRules,
    Settlement,
    fingerprint,
)
from gossamer.model.plan.page_record import YEARS
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, FULL, SETTLED, Crawl, Worker, names
from gossamer.testing.contract.guarantees.pages.recorded_lane import HOUR, HOURLY, fed, leads, page, recorded, visit


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

    def test_a_page_that_leads_back_to_itself_is_new(self, crawl: Crawl, worker: Worker) -> None:
        """As one that a redirect in a session led to, which is asked for as any other once it has come: it was taken for visited."""
        recorded(crawl)
        crawl.add("one", dont_filter=True)
        [lease] = worker.lease(1)
        answer = worker.exchange(settle=[Settlement(lease, Ending.REPLACED, [crawl.request("one")])])
        assert answer.children == [[ADDED]]
        visit(crawl, "one")
        crawl.add("one", dont_filter=True)
        [lease] = worker.lease(1)
        before = page(crawl, "one")
        answer = worker.exchange(settle=[Settlement(lease, Ending.REPLACED, [crawl.request("one")])])
        assert (answer.children, page(crawl, "one")) == ([[DUPLICATE]], before)

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

    @pytest.mark.parametrize("led", [False, True])
    def test_a_page_is_new_after_its_time_also_where_nothing_else_is(self, crawl: Crawl, led: bool) -> None:
        """As on a list that stays the same: what is too old goes when something is added, and nothing is."""
        recorded(crawl, RecordPolicy(max_age=HOUR))
        crawl.add("one", "gone")
        visit(crawl, "one")
        visit(crawl, "gone", 404)
        crawl.advance(HOUR - 60)
        assert crawl.add("one", "gone") == [DUPLICATE] * 2
        crawl.advance(61)
        if led:
            leads(crawl)
        assert crawl.add("one", "gone", "one") == [ADDED, ADDED, DUPLICATE]
        found = page(crawl, "one")
        assert (found.status, found.last, [event for event, _ in found.trail]) == (0, 0, [PageEvent.FOUND])
        crawl.balanced()

    def test_what_is_visited_again_is_not_new_for_its_age(self, crawl: Crawl) -> None:
        recorded(crawl, RecordPolicy(RevisitRules(3 * HOUR), max_age=HOUR))
        crawl.add("one")
        visit(crawl, "one")
        crawl.advance(HOUR + 1)
        assert crawl.add("one") == [DUPLICATE]
        recorded(crawl, RecordPolicy(finished=3 * HOUR, max_age=HOUR))
        assert crawl.add("one") == [DUPLICATE]
        assert crawl.add("one") == [DUPLICATE], "it is to be fetched when its time has come"

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

    def test_what_was_queued_before_and_is_found_again_waits_until_it_is_fed(self, crawl: Crawl) -> None:
        """It was counted as one that waits for good, and its round did not end."""
        crawl.define()
        crawl.add("one")
        recorded(crawl, HOURLY)
        leads(crawl)
        assert crawl.add("one") == [ADDED], "the memory begins empty"
        visit(crawl, "one")
        assert (page(crawl, "one").state, crawl.lane().found) == (PageState.FOUND, 1)
        crawl.balanced()
        assert fed(crawl, 1) == 1
        assert crawl.finish() == ["one"]
        assert (crawl.lane().found, crawl.frontier.drained("g").open) == (0, 0)

    def test_a_page_that_somebody_asked_for_goes_ahead_once(self, crawl: Crawl) -> None:
        recorded(crawl, HOURLY)
        for name, priority in (("usual", 7), ("asked for", 2**31 - 1)):
            crawl.frontier.add([crawl.request(name)._replace(dont_filter=True, priority=priority)])
            assert crawl.finish() == [name]
        assert [page(crawl, name).priority for name in ("usual", "asked for")] == [7, 0]

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

    def test_what_waits_goes_with_a_round_that_is_replaced_meanwhile(
        self, crawl: Crawl, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        recorded(crawl, HOURLY)
        leads(crawl)
        crawl.add(*(f"found {n}" for n in range(20)))
        with monkeypatch.context() as broken:
            broken.setattr(ControlVerbs, "purge", lambda self, partitions: iter(()))
            crawl.define()
        while not crawl.frontier.drop_round("g", 0)[0]:
            pass
        crawl.frontier.define("other", {"a": LanePolicy()})  # Whoever defines something finishes what another left.
        assert (crawl.lane().found, crawl.frontier.drained("g").open) == (0, 0), "the round is over"

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
        assert (page(crawl, "one").due, page(crawl, "one").interval) == (0, 0), (
            "nobody is told of a visit that does not come"
        )
        crawl.advance(HOUR)
        assert crawl.finish() == []
        assert (page(crawl, "one").due, page(crawl, "one").interval) == (0, 0)
        assert crawl.add("one") == [DUPLICATE]

    def test_visits_that_are_to_come_sooner_do(self, crawl: Crawl) -> None:
        week = 7 * 24 * HOUR
        recorded(crawl, RecordPolicy(RevisitRules(week)))
        crawl.add("one", "two")
        visit(crawl, "one")
        visit(crawl, "two")
        recorded(crawl, HOURLY)
        assert page(crawl, "one").due == page(crawl, "one").since + HOUR
        assert page(crawl, "one").interval == HOUR
        recorded(crawl, RecordPolicy(RevisitRules(week)))
        assert page(crawl, "one").due == page(crawl, "one").since + HOUR, "what was due sooner stays so, once"
        crawl.advance(HOUR)
        assert sorted(crawl.finish()) == ["one", "two"]
        assert page(crawl, "one").interval == week
        recorded(crawl, RecordPolicy(RevisitRules(HOUR, min=HOUR / 2, max=2 * HOUR, adaptive=True)))
        assert page(crawl, "one").due == page(crawl, "one").since + 2 * HOUR
        crawl.balanced()

    @pytest.mark.parametrize("adaptive", [False, True])
    def test_visits_that_were_put_off_for_good_begin_anew(self, crawl: Crawl, worker: Worker, adaptive: bool) -> None:
        """As of a layer that was gone from its file for a while: also pages that failed then."""
        recorded(crawl, RecordPolicy(RevisitRules(YEARS, YEARS, YEARS)))
        crawl.add("one", "two")
        for lease in worker.lease(2):
            failed = lease.payload == b"two"
            worker.settle(lease, ending=Ending.FAILED if failed else Ending.DONE, visit=PageVisit(200, 1))
        recorded(crawl, RecordPolicy(RevisitRules(HOUR, adaptive=adaptive)))
        for name in ("one", "two"):
            assert (page(crawl, name).due, page(crawl, name).interval) == (page(crawl, name).since + HOUR, HOUR)
        crawl.advance(HOUR)
        assert sorted(crawl.finish()) == ["one", "two"]

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
