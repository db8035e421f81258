"""Guarantee 1: a request leaves the frontier only when it is settled."""

from __future__ import annotations

from typing import TypeVar

import pytest

from gossamer.frontier.call import Verb
from gossamer.frontier.verbs.counts import ReadVerbs
from gossamer.model import Ending, GroupPolicy, HostPolicy, LanePolicy, Order, Settlement, StartState
from gossamer.testing.contract.crawl import ADDED, LOST, SETTLED, Crawl, Worker, names

UNLIMITED = HostPolicy(concurrency=0)
T = TypeVar("T")
ORDERS = pytest.mark.parametrize("order", list(Order), ids=lambda order: order.value)


def looked(answer: T) -> Verb[T]:
    """A look at the server that was taken before."""
    yield from ()
    return answer


class TestNothingLost:
    """Nothing lost: settled, expired, released or retried, a request is always somewhere."""

    def test_a_settled_request_is_gone(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        assert worker.settle(worker.one()) == [SETTLED]
        assert worker.lease(5) == []
        crawl.expire()
        assert worker.lease(5) == []
        assert (crawl.lane().done, crawl.group().open) == (1, 0)

    def test_a_leased_request_is_nobody_elses(self, crawl: Crawl) -> None:
        crawl.add("one")
        first, second = crawl.worker(), crawl.worker()
        first.one()
        assert second.lease(5) == []
        assert (crawl.lane().leased, crawl.group().open) == (1, 1)

    def test_an_expired_lease_goes_out_again_once(self, crawl: Crawl) -> None:
        crawl.add("one")
        first, second, third = crawl.worker(), crawl.worker(), crawl.worker()
        old = first.one()
        crawl.expire()
        [new] = second.lease(5)
        assert third.lease(5) == []
        assert (names([new]), new.attempt, new.id) == (["one"], 2, old.id)
        assert second.settle(new) == [SETTLED]
        assert crawl.group().open == 0
        assert crawl.lane().expired == 1

    def test_what_ran_out_but_was_not_given_away_is_still_its_workers(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        lease = worker.one()
        crawl.expire()
        assert worker.settle(lease) == [SETTLED]
        assert crawl.group().open == 0

    def test_renewing_keeps_a_lease(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        lease = worker.one()
        for _ in range(3):
            crawl.advance(crawl.lease_seconds - 10)
            [renewed] = crawl.frontier.renew(worker.token, [lease])
            assert renewed is not None
            assert renewed.deadline > lease.deadline
        assert crawl.worker().lease(5) == []
        assert worker.settle(lease) == [SETTLED]

    def test_what_a_worker_that_is_gone_holds_goes_out_again_at_once(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(start=True))
        spread = crawl.spread(4)
        for number, host in enumerate(spread):
            crawl.add(f"{number}", host=host)
        dead, other = crawl.worker(), crawl.worker()
        assert crawl.frontier.start("g", dead.token)[0] is StartState.GRANTED
        held = dead.lease(4)
        crawl.advance(9)
        now, silent = crawl.frontier.silent_workers(8, 100)
        assert [(worker.incarnation, worker.held) for worker in silent] == [(dead.token.incarnation, 4)]
        assert 8 < now - silent[0].seen < 20
        assert crawl.frontier.silent_workers(30, 100)[1] == crawl.frontier.silent_workers(2, 5)[1] == []
        assert other.lease(4) == []
        assert crawl.frontier.start("g", other.token)[0] is StartState.BUSY
        assert crawl.frontier.gone(dead.token.incarnation, 8, ["other", "g"]) == 4 + 1
        again = other.lease(4)
        assert sorted(names(again)) == ["0", "1", "2", "3"]
        assert {lease.attempt for lease in again} == {2}
        assert crawl.frontier.start("g", other.token)[0] is StartState.GRANTED
        assert set(dead.settle(*held)) == {LOST}
        assert set(other.settle(*again)) == {SETTLED}

    def test_a_worker_whose_process_was_seen_to_die_is_gone_whenever_it_called(self, crawl: Crawl) -> None:
        """What it held goes out once, and each request that was sent counts as lost once."""
        crawl.define(policy=GroupPolicy(start=True))
        hosts = crawl.spread(4)
        for host in hosts:
            crawl.add(host, host=host)
        dead, other = crawl.worker(), crawl.worker()
        assert crawl.frontier.start("g", dead.token)[0] is StartState.GRANTED
        held = dead.lease(4)
        assert crawl.frontier.gone(dead.token.incarnation, 0.0, ["g"]) == 4 + 1
        assert crawl.frontier.gone(dead.token.incarnation, 0.0, ["g"]) == 0
        again = other.lease(8)
        assert sorted(names(again)) == sorted(hosts)
        assert {lease.attempt for lease in again} == {2}
        assert set(dead.settle(*held)) == {LOST}
        assert crawl.frontier.start("g", other.token)[0] is StartState.GRANTED
        assert [worker.held for worker in crawl.frontier.workers() if worker.incarnation == dead.token.incarnation] == [
            0
        ]

    def test_slots_of_a_worker_that_is_gone_are_free_at_once(self, crawl: Crawl) -> None:
        crawl.frontier.set_host(crawl.host, HostPolicy(concurrency=2))
        crawl.add("1", "2", "3")
        dead, alive, other = crawl.worker(), crawl.worker(), crawl.worker()
        dead.one()
        kept = alive.one()
        assert other.lease(5) == []
        crawl.frontier.gone(dead.token.incarnation, 0.0)
        assert names(other.lease(5)) == ["1"], "the slot of the living one stays its own"
        assert alive.settle(kept) == [SETTLED]
        assert names(other.lease(5)) == ["3"]

    def test_how_much_a_worker_has_settled_is_known(self, crawl: Crawl) -> None:
        for host in crawl.spread(6):
            crawl.add(host, host=host)
        worker, other = crawl.worker(), crawl.worker()
        held = worker.lease(4)
        other.lease(2)
        worker.settle(*held[:2])
        worker.settle(held[2], ending=Ending.FAILED)
        crawl.frontier.release(worker.token, held[3:])
        settled = {each.incarnation: each.settled for each in crawl.frontier.workers()}
        assert settled == {worker.token.incarnation: 3, other.token.incarnation: 0}

    def test_one_of_all_workers_has_its_turn_to_look(self, crawl: Crawl) -> None:
        assert [crawl.frontier.turn_to_look(5) for _ in range(3)] == [True, False, False]
        crawl.advance(6)
        assert [crawl.frontier.turn_to_look(5) for _ in range(2)] == [True, False]

    def test_a_worker_that_has_called_lately_is_not_gone(self, crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> None:
        crawl.add("one")
        worker, other = crawl.worker(), crawl.worker()
        lease = worker.one()
        crawl.advance(9)
        before = crawl.frontier.silent_workers(8, 100)
        assert [info.incarnation for info in before[1]] == [worker.token.incarnation]
        assert crawl.frontier.renew(worker.token, [lease]) != [None]
        assert crawl.frontier.gone(worker.token.incarnation, 8) == 0
        # Somebody may have looked before it called: the server decides.
        monkeypatch.setattr(ReadVerbs, "named_workers", lambda *_: looked(before))
        assert crawl.frontier.gone(worker.token.incarnation, 8) == 0
        assert other.lease(5) == []
        assert worker.settle(lease) == [SETTLED]

    def test_a_worker_that_has_called_one_partition_is_gone_in_none(self, crawl: Crawl) -> None:
        for host in crawl.spread(2):
            crawl.add(host, host=host)
        worker, other = crawl.worker(), crawl.worker()
        held = worker.lease(2)
        crawl.advance(9)
        assert crawl.frontier.renew(worker.token, held[1:]) != [None]
        assert crawl.frontier.gone(worker.token.incarnation, 8) == 0
        assert other.lease(5) == []
        assert worker.settle(*held) == [SETTLED, SETTLED]

    def test_of_others_nothing_is_taken_when_one_is_gone(self, crawl: Crawl) -> None:
        crawl.add("one", "two")
        dead, quiet = crawl.worker(), crawl.worker()
        dead.one(), quiet.one()
        crawl.advance(9)
        assert crawl.frontier.gone(dead.token.incarnation, 8) == 1
        assert names(crawl.worker().lease(5)) == ["one"]

    def test_renewing_a_lost_lease_says_so(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one", "two")
        one, two = worker.lease(2)
        worker.settle(two)
        assert crawl.frontier.renew(worker.token, [one, two])[1] is None
        crawl.expire()
        crawl.worker().lease(5)
        assert crawl.frontier.renew(worker.token, [one]) == [None]
        assert crawl.frontier.renew(worker.token, []) == []

    @ORDERS
    def test_reclaimed_requests_go_ahead_of_others(self, crawl: Crawl, order: Order) -> None:
        crawl.define({"a": LanePolicy(order=order)})
        crawl.add("one", "two")
        taken = names(crawl.worker().lease(2))
        crawl.add("three", "four")
        crawl.expire()
        rest = ["three", "four"] if order is Order.FIFO else ["four", "three"]
        assert crawl.finish() == taken + rest

    @ORDERS
    def test_released_requests_go_ahead_of_others(self, crawl: Crawl, worker: Worker, order: Order) -> None:
        crawl.define({"a": LanePolicy(order=order)})
        crawl.add("one", "two", "three", "four")
        leases = worker.lease(2)
        assert worker.release(*leases) == [True, True]
        again = crawl.worker().lease(2)
        assert names(again) == names(leases)
        assert [lease.attempt for lease in again] == [1, 1]
        crawl.balanced()

    def test_a_priority_above_goes_before_what_came_back(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        worker.release(worker.one())
        crawl.add("urgent", priority=5)
        assert crawl.finish() == ["urgent", "one"]

    def test_releasing_twice_is_harmless(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        lease = worker.one()
        assert worker.release(lease) == [True]
        assert worker.release(lease) == [False]
        assert worker.release(lease, lease) == [False, False]
        assert worker.release() == []
        assert crawl.finish() == ["one"]

    def test_reclaim_is_bounded_per_call_and_says_that_more_is_ready(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", UNLIMITED)
        crawl.add(*(f"r{n}" for n in range(300)))
        crawl.worker().lease(300)
        crawl.expire()
        answer = worker.exchange()
        assert 0 < crawl.lane().expired < 300
        assert answer.leases == []
        assert sorted(crawl.finish(worker)) == sorted(f"r{n}" for n in range(300))
        assert (crawl.lane().expired, crawl.group().open) == (300, 0)

    def test_a_retry_waits_its_delay(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        assert worker.settle(worker.one(), ending=Ending.RETRY, delay=30) == [SETTLED]
        answer = worker.exchange(want=1)
        assert answer.leases == []
        assert answer.hints.ready_in is not None
        assert 29 < answer.hints.ready_in <= 30
        assert (crawl.lane().delayed, crawl.lane().retried, crawl.group().open) == (1, 1, 1)
        crawl.advance(30)
        assert worker.one().attempt == 2

    def test_a_retry_keeps_its_priority_or_takes_the_new_one(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one", "two", priority=3)
        one, two = worker.lease(2)
        worker.settle(one, ending=Ending.RETRY, priority=-7)
        worker.settle(two, ending=Ending.RETRY)
        crawl.add("between")
        leases = worker.lease(3)
        assert names(leases) == ["two", "between", "one"]
        assert [lease.priority for lease in leases] == [3, 0, -7]

    def test_a_request_may_be_retried_again_and_again(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        for attempt in range(1, 8):
            lease = worker.one()
            assert (lease.attempt, lease.payload) == (attempt, b"one")
            worker.settle(lease, ending=Ending.RETRY, delay=attempt % 2)
            crawl.advance(1)
        crawl.balanced()

    def test_a_delayed_request_comes_when_it_is_due(self, crawl: Crawl, worker: Worker) -> None:
        assert crawl.add("later", delay=90) == [ADDED]
        crawl.add("sooner", delay=30)
        assert worker.lease(2) == []
        crawl.advance(30)
        assert crawl.finish(worker) == ["sooner"]
        crawl.advance(60)
        assert crawl.finish(worker) == ["later"]

    def test_equal_delayed_requests_are_all_kept(self, crawl: Crawl) -> None:
        crawl.add("same", "same", "same", delay=30, dont_filter=True)
        crawl.advance(30)
        assert crawl.finish() == ["same"] * 3

    def test_settling_a_mix_ends_each_as_asked(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("done", "replaced", "retry", "failed", "kept")
        leases = worker.lease(5)
        endings = [Ending.DONE, Ending.REPLACED, Ending.RETRY, Ending.FAILED]
        settle = [Settlement(lease, ending) for lease, ending in zip(leases, endings, strict=False)]
        assert worker.exchange(settle=settle).settled == [SETTLED] * 4
        row = crawl.lane()
        assert (row.done, row.replaced, row.retried, row.failed, row.queued, row.leased) == (1, 1, 1, 1, 1, 1)
        crawl.balanced()

    def test_settling_one_lease_twice_in_a_call_counts_once(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        lease = worker.one()
        assert worker.settle(lease, lease, items=[b"item"]) == [SETTLED, LOST]
        assert (crawl.lane().done, crawl.group().open, crawl.items()) == (1, 0, [b"item"])

    def test_thousands_are_leased_renewed_released_and_settled_at_once(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define(policy=GroupPolicy())
        crawl.frontier.set_host("", UNLIMITED)
        crawl.add(*(f"r{n}" for n in range(9000)))
        leases = worker.lease(9000)
        assert len(leases) == 9000
        assert None not in crawl.frontier.renew(worker.token, leases)
        assert all(worker.release(*leases))
        leases = worker.lease(9000)
        assert names(leases) == [f"r{n}" for n in range(9000)]
        worker.sent(*leases)
        assert worker.settle(*leases) == [SETTLED] * 9000
        assert crawl.group().open == 0
