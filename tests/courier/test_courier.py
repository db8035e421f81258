"""When a courier calls, and what it says: on a clock that stands until it is moved, against answers that are made up here. What
the frontier makes of it is shown elsewhere, on real servers."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from gossamer.courier import Counters, Courier, CourierConfig, OmittedRequests
from gossamer.courier.exchange import REPEAT_SECONDS
from gossamer.courier.pace import EASY_SPACING, LINGER, SPACING
from gossamer.courier.starts import FULL_PAUSE
from gossamer.errors import FrontierUnavailable, SchemaTooNew
from gossamer.model import (
    AddOutcome,
    CounterOp,
    Ending,
    ExchangeReply,
    Feedback,
    Fetched,
    Hints,
    HostVerdict,
    Lease,
    PartitionState,
    Request,
    Selection,
    Sent,
    Settlement,
    SettleOutcome,
)

ADDED, FULL = AddOutcome.ADDED, AddOutcome.FULL


class Call:
    def __init__(
        self, verb: str, done: Callable[[Any, Any], None], args: tuple[Any, ...], told: dict[str, Any]
    ) -> None:
        self.verb, self.done, self.args, self.told = verb, done, args, told

    def __getitem__(self, name: str) -> Any:
        return self.told.get(name)


class Clock:
    """The link: a clock, timers, and calls that wait to be answered."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.calls: list[Call] = []
        self._timers: list[tuple[float, int, Callable[[], None] | None]] = []
        self._numbers = count()
        self._cancelled: set[int] = set()

    def open(self, done: Any) -> None: ...

    def close(self) -> None: ...

    def now(self) -> float:
        return self.time

    def call(self, verb: Any, done: Callable[[Any, Any], None], /, *args: Any, **told: Any) -> None:
        self.calls.append(Call(verb.__name__, done, args, told))

    def later(self, seconds: float, do: Callable[[], None]) -> Any:
        number = next(self._numbers)
        heapq.heappush(self._timers, (self.time + seconds, number, do))
        cancelled = self._cancelled

        class Timer:
            def cancel(self) -> None:
                cancelled.add(number)

        return Timer()

    def pass_(self, seconds: float) -> None:
        end = self.time + seconds
        while self._timers and self._timers[0][0] <= end:
            at, number, do = heapq.heappop(self._timers)
            self.time = max(self.time, at)
            if number not in self._cancelled and do is not None:
                do()
        self.time = end

    def take(self, verb: str = "exchange") -> Call:
        """The one call that waits."""
        [call] = self.calls
        assert call.verb == verb
        self.calls.clear()
        return call


class Desk:
    def __init__(self) -> None:
        self.free = 8
        self.woken = 0
        self.answers: list[Any] = []
        self.losses: list[tuple[int, str]] = []
        self.errors: list[BaseException] = []
        self.backs = 0

    def room(self) -> int:
        return self.free

    def arrived(self) -> None:
        self.woken += 1

    def settled(self, page: Any, outcome: SettleOutcome, children: Sequence[AddOutcome]) -> None:
        self.answers.append((page, outcome, list(children)))

    def added(self, ticket: Any, outcome: AddOutcome, reason: str) -> None:
        self.answers.append((ticket, outcome, reason))

    def lost(self, lease: Lease, reason: str) -> None:
        self.losses.append((lease.id, reason))

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)

    def rolled_back(self) -> None:
        self.backs += 1


class World:
    """A courier with its link and desk, and answers for its calls."""

    def __init__(self, **plan: Any) -> None:
        self.clock, self.callbacks, self.pending_counters = Clock(), Desk(), Counters("g")
        chosen = {"most": 8, "ahead": 4, "lease_seconds": 60.0, **plan}
        self.courier = Courier(
            self.clock, self.callbacks, CourierConfig("g", Selection(("g",)), **chosen), self.pending_counters
        )
        self.courier.begin()

    def lease(self, number: int, send_seconds: float = 5.0) -> Lease:
        now = self.server
        return Lease(0, number, "i", f"n{number}", "g.a", "h", 0, number, b"", 1, False, now + 60, now + send_seconds)

    @property
    def server(self) -> float:
        return self.clock.time + 500_000

    def answer(
        self,
        call: Call,
        *leases: Lease,
        added: Sequence[AddOutcome] | None = None,
        ready: float | None = None,
        open: int = 9,
        states: dict[int, PartitionState] | None = None,
    ) -> None:
        settle, add = call["settle"] or [], call["add"] or []
        outcomes = list(added) if added is not None else [ADDED] * len(add)
        children = [[ADDED] * len(settlement.add) for settlement in settle]
        hints = Hints(ready, open, "", "1", self.server, None)
        settled = [SettleOutcome.SETTLED] * len(settle)
        call.done(ExchangeReply(list(leases), settled, outcomes, children, {}, hints, states or {}), None)

    def stock(self, *numbers: int) -> list[Lease]:
        """Answer the call that waits with these leases, and take them all."""
        leases = [self.lease(number) for number in numbers]
        self.clock.pass_(SPACING)
        self.answer(self.clock.take(), *leases)
        taken = [self.courier.take() for _ in leases]
        assert taken == leases
        return leases


def request(number: int, **more: Any) -> Request:
    return Request(number, "h", "g.a", **more)


class TestAsking:
    def test_it_asks_for_what_the_engine_can_send_and_a_little_more(self) -> None:
        world = World()
        world.clock.pass_(SPACING)
        assert world.clock.take()["want"] == 12

    def test_nothing_is_asked_for_by_an_engine_without_room(self) -> None:
        world = World()
        world.callbacks.free = 0
        world.clock.pass_(4)
        assert world.clock.calls == []

    def test_it_is_heard_of_now_and_then_all_the_same(self) -> None:
        world = World()
        world.callbacks.free = 0
        world.clock.pass_(5.1)
        assert world.clock.take()["want"] == 0

    def test_one_call_at_a_time(self) -> None:
        world = World()
        world.clock.pass_(30)
        assert len(world.clock.calls) == 1

    def test_where_there_was_nothing_it_waits_longer_each_time_but_never_long(self) -> None:
        world = World()
        world.clock.pass_(SPACING)
        waits = []
        for _ in range(12):
            world.answer(world.clock.take())
            began = world.clock.time
            while not world.clock.calls:
                world.clock.pass_(0.01)
            waits.append(world.clock.time - began)
        assert waits[0] < 0.1
        assert waits[-1] == pytest.approx(1.0, abs=0.25)

    def test_it_asks_again_when_something_is_said_to_become_ready(self) -> None:
        world = World()
        for _ in range(8):
            world.clock.pass_(2)
            world.answer(world.clock.take(), ready=0.02)
        world.clock.pass_(0.04)
        assert len(world.clock.calls) == 1

    def test_leases_wake_the_engine_and_lie_in_order(self) -> None:
        world = World()
        world.stock(1, 2, 3)
        assert world.callbacks.woken == 1
        assert world.courier.take() is None

    def test_leases_of_hosts_with_a_delay_go_first_and_in_their_order(self) -> None:
        world = World()
        world.clock.pass_(SPACING)
        leases = [world.lease(number)._replace(paced=number > 2) for number in (1, 2, 3, 4)]
        world.answer(world.clock.take(), *leases)
        assert [taken.id for _ in leases if (taken := world.courier.take())] == [3, 4, 1, 2]


class TestSaying:
    def test_pages_that_end_together_are_settled_together(self) -> None:
        world = World()
        leases = world.stock(1, 2, 3)
        for lease in leases:
            world.courier.settle(Settlement(lease), f"page {lease.id}")
        world.clock.pass_(SPACING)
        call = world.clock.take()
        assert [settlement.lease for settlement in call["settle"]] == leases
        world.answer(call)
        assert [page for page, _, _ in world.callbacks.answers] == ["page 1", "page 2", "page 3"]
        assert len(world.courier.held) == 0

    def test_an_engine_with_enough_to_do_lets_settlements_wait_for_company(self) -> None:
        world = World()
        [lease] = world.stock(1)
        world.callbacks.free = 0
        world.courier.settle(Settlement(lease), None)
        world.clock.pass_(LINGER - 0.01)
        assert world.clock.calls == []
        world.clock.pass_(0.02)
        assert len(world.clock.take()["settle"]) == 1

    def test_an_engine_with_some_in_its_inbox_is_asked_for_less_often(self) -> None:
        world = World()
        leases = [world.lease(number) for number in range(2)]
        world.clock.pass_(SPACING)
        world.answer(world.clock.take(), *leases)
        taken = world.courier.take()
        assert taken is not None
        world.courier.settle(Settlement(taken), None)
        world.clock.pass_(EASY_SPACING - 0.005)
        assert world.clock.calls == []
        world.clock.pass_(0.01)
        assert world.clock.calls

    def test_what_is_settled_need_not_be_called_sent_or_fetched(self) -> None:
        world = World()
        first, second, third = world.stock(1, 2, 3)
        feedback = Feedback(HostVerdict.THROTTLED, 0.5, 9.0)
        world.courier.fetched(Fetched(first, feedback))
        world.courier.fetched(Fetched(second))
        world.courier.settle(Settlement(first), None)
        world.clock.pass_(SPACING)
        call = world.clock.take()
        assert [settlement.feedback for settlement in call["settle"]] == [feedback]
        assert [arrival.lease for arrival in call["fetched"]] == [second]
        assert [one.lease for one in call["sent"]] == [third]

    def test_what_came_first_without_its_page_is_said_first(self) -> None:
        world = World()
        [lease] = world.stock(1)
        world.clock.pass_(1.2)
        call = world.clock.take()
        assert [one.lease for one in call["sent"]] == [lease]
        world.answer(call)
        world.courier.fetched(Fetched(lease))
        world.clock.pass_(SPACING)
        assert [arrival.lease for arrival in world.clock.take()["fetched"]] == [lease]

    def test_counters_ride_along_and_soon_go_alone(self) -> None:
        world = World()
        world.callbacks.free = 0
        world.pending_counters.add("a", 2)
        world.pending_counters.add("a", 3)
        world.courier.counted()
        world.clock.pass_(2.1)
        assert [(c.name, c.value, c.op) for c in world.clock.take()["counters"]] == [("a", 5, CounterOp.ADD)]

    def test_requests_without_a_page_are_added_and_answered_for(self) -> None:
        world = World()
        world.courier.add(request(1), "first")
        world.courier.add(request(2), "second")
        world.clock.pass_(SPACING)
        call = world.clock.take()
        assert call["add"] == [request(1), request(2)]
        world.answer(call, added=[ADDED, AddOutcome.DUPLICATE])
        assert world.callbacks.answers == [("first", ADDED, ""), ("second", AddOutcome.DUPLICATE, "")]

    def test_what_found_no_room_is_offered_again_before_the_rest(self) -> None:
        world = World()
        for number in (1, 2):
            world.courier.add(request(number), number)
        world.clock.pass_(SPACING)
        world.answer(world.clock.take(), added=[ADDED, FULL])
        world.courier.add(request(3), 3)
        world.clock.pass_(0.5)
        assert all(call["add"] == [] for call in world.clock.calls)
        for call in list(world.clock.calls):
            world.clock.calls.clear()
            world.answer(call)
        world.clock.pass_(0.6)
        while not world.clock.calls[-1]["add"]:
            world.answer(world.clock.take())
            world.clock.pass_(0.6)
        assert world.clock.take()["add"] == [request(2), request(3)]


class TestKnowing:
    def test_a_child_is_known_only_when_the_frontier_has_answered(self) -> None:
        world = World()
        [lease] = world.stock(1)
        world.courier.settle(Settlement(lease, add=[request(7), request(8, dont_filter=True)]), None)
        world.clock.pass_(SPACING)
        call = world.clock.take()
        assert not world.courier.known.has("g.a", 7)
        world.answer(call)
        assert world.courier.known.has("g.a", 7)
        assert not world.courier.known.has("g.b", 7)
        assert not world.courier.known.has("g.a", 8)


class TestTrouble:
    def test_a_call_without_an_answer_is_made_again_word_for_word(self) -> None:
        world = World()
        [lease] = world.stock(1)
        world.courier.settle(Settlement(lease, items=[b"item"]), "page")
        world.clock.pass_(SPACING)
        first = world.clock.take()
        first.done(None, FrontierUnavailable("gone"))
        assert world.courier.in_outage
        world.courier.add(request(5), "later")
        world.clock.pass_(20)
        again = world.clock.take()
        assert (again.args, again.told) == (first.args, first.told)
        world.answer(again)
        assert not world.courier.in_outage
        world.clock.pass_(SPACING)
        assert world.clock.take().args[0] == first.args[0].next()

    def test_what_a_call_that_was_given_up_said_is_said_again(self) -> None:
        world = World(info={"name": "w"})
        world.courier.add(request(5), "one")
        world.courier.add(request(6), "two")
        world.clock.pass_(SPACING)
        first = world.clock.take()
        assert first["info"] == {"name": "w"}
        first.done(None, FrontierUnavailable("gone"))
        world.clock.time += REPEAT_SECONDS + 1
        world.clock.pass_(20)
        keyed = next(call for call in world.clock.calls if call.verb == "add")
        assert keyed["key"] == f"add {first.args[0].incarnation}:{first.args[0].sequence}"
        world.clock.calls.remove(keyed)
        fresh = world.clock.take()
        assert fresh["info"] == {"name": "w"}
        world.answer(fresh)
        keyed.done(([ADDED, FULL], {}, 0), None)
        assert world.callbacks.answers == [("one", ADDED, "")]
        world.clock.pass_(FULL_PAUSE)
        world.answer(world.clock.take())
        world.clock.pass_(FULL_PAUSE)
        assert world.clock.take()["add"] == [request(6)], "what found no room is offered again"

    def test_a_worker_that_is_refused_stops(self) -> None:
        world = World()
        world.clock.pass_(SPACING)
        world.clock.take().done(None, SchemaTooNew("newer"))
        assert [type(error) for error in world.callbacks.errors] == [SchemaTooNew]
        world.clock.pass_(60)
        assert world.clock.calls == []
        ended: list[bool] = []
        world.courier.finish(lambda: ended.append(True))
        assert ended == [True]


class TestHolding:
    def test_what_was_not_sent_in_time_is_given_back(self) -> None:
        world = World()
        world.clock.pass_(SPACING)
        late, fresh = world.lease(1, send_seconds=1.0), world.lease(2, send_seconds=5.0)
        world.answer(world.clock.take(), late, fresh)
        world.clock.pass_(2)
        world.clock.calls.clear()
        assert world.courier.take() == fresh
        assert world.clock.take("release").args[1] == [late]

    def test_what_was_taken_for_nothing_is_given_back_and_not_called_sent(self) -> None:
        world = World()
        first, second = world.stock(1, 2)
        world.courier.give_back(first)
        # Its host may have been asked for robots.txt in its place.
        assert world.clock.take("release").args[1] == [Sent(first)]
        world.courier.give_back(first)
        assert not world.clock.calls, "it was not ours any more"
        world.clock.pass_(6.0)
        assert [one.lease for one in world.clock.take()["sent"]] == [second]

    def test_the_send_window_counts_from_the_first_call_when_its_answer_was_lost(self) -> None:
        world = World()
        world.clock.pass_(SPACING)
        granted = world.lease(1)
        at = world.server
        world.clock.take().done(None, FrontierUnavailable("gone"))
        world.clock.pass_(20)
        repeated = world.clock.take()
        hints = Hints(None, 9, "", "1", at, None)
        repeated.done(ExchangeReply([granted], [], [], [], {}, hints), None)
        assert world.courier.take() is None, "others may have been sent there meanwhile"
        assert world.clock.calls[0].verb == "release"
        assert world.clock.calls[0].args[1] == [granted]

    def test_clocks_of_servers_need_not_agree(self) -> None:
        world = World()
        world.clock.pass_(SPACING)
        behind = world.lease(1)._replace(deadline=60.0, send_by=5.0)
        world.answer(world.clock.take(), behind)
        assert world.courier.take() == behind

    def test_when_it_was_sent_is_told_soon_where_a_host_waits_for_it(self) -> None:
        world = World()
        world.clock.pass_(SPACING)
        slow, quick = world.lease(1)._replace(paced=True), world.lease(2)
        world.callbacks.free = 2
        world.answer(world.clock.take(), quick, slow)
        assert world.courier.take() == slow, "its host waits for it"
        world.callbacks.free = 0
        world.clock.pass_(LINGER)
        call = world.clock.take()
        assert [(one.lease, round(one.age, 3)) for one in call["sent"]] == [(slow, LINGER)]

    def test_when_it_was_sent_is_told_also_with_its_page(self) -> None:
        world = World()
        world.clock.pass_(SPACING)
        slow = world.lease(1)._replace(paced=True)
        world.answer(world.clock.take(), slow)
        assert world.courier.take() == slow
        world.clock.pass_(0.02)
        world.courier.settle(Settlement(slow), None)
        world.clock.pass_(LINGER)
        call = world.clock.calls[-1]
        assert [one.lease for one in call["sent"]] == [slow]

    def test_slow_pages_are_renewed_and_what_was_given_away_is_told(self) -> None:
        world = World()
        first, second = world.stock(1, 2)
        world.callbacks.free = 0
        renewals: list[Call] = []
        while not renewals:
            world.clock.pass_(5)
            renewals = [call for call in world.clock.calls if call.verb == "renew"]
            for call in [call for call in world.clock.calls if call.verb == "exchange"]:
                world.clock.calls.remove(call)
                world.answer(call)
        assert renewals[0].args[1] == [first, second]
        renewals[0].done([first, None], None)
        assert world.callbacks.losses == [(2, "given away")]
        world.courier.settle(Settlement(second), "late")
        world.clock.calls.clear()
        world.clock.pass_(LINGER + 0.01)
        assert [settlement.lease for settlement in world.clock.take()["settle"]] == [second]

    def test_a_page_without_end_is_given_up(self) -> None:
        world = World(renew_max=100.0)
        [lease] = world.stock(1)
        world.callbacks.free = 0
        for _ in range(40):
            world.clock.pass_(5)
            for call in list(world.clock.calls):
                world.clock.calls.remove(call)
                if call.verb == "renew":
                    call.done(call.args[1], None)
                elif call["settle"]:
                    [settlement] = call["settle"]
                    assert (settlement.ending, settlement.reason) == (Ending.FAILED, "overdue")
                    assert world.callbacks.losses == [(1, "overdue")]
                    world.courier.settle(Settlement(lease), "too late")
                    assert world.courier.waiting == 1
                    return
                else:
                    world.answer(call)
        raise AssertionError("it was never given up")


class TestEnding:
    def test_the_inbox_is_given_back_and_the_last_pages_are_said(self) -> None:
        world = World()
        world.clock.pass_(SPACING)
        leases = [world.lease(number) for number in range(3)]
        world.answer(world.clock.take(), *leases)
        taken = world.courier.take()
        assert taken is not None
        world.courier.settle(Settlement(taken), None)
        ended: list[bool] = []
        world.courier.finish(lambda: ended.append(True))
        assert world.clock.take("release").args[1] == leases[1:]
        world.clock.pass_(LINGER)
        call = world.clock.take()
        assert (call["want"], len(call["settle"])) == (0, 1)
        assert not ended
        world.answer(call)
        world.clock.pass_(SPACING)
        assert not ended, "the release is not answered for yet"

    def test_it_does_not_wait_for_ever(self) -> None:
        world = World(close_seconds=7.0)
        [lease] = world.stock(1)
        world.courier.settle(Settlement(lease), None)
        ended: list[bool] = []
        world.courier.finish(lambda: ended.append(True))
        world.clock.pass_(6.9)
        assert not ended
        world.clock.pass_(0.2)
        assert ended == [True]


class TestWhatItKnows:
    """What the frontier is known to know is known for as long as the state lasts that said so."""

    def learned(self, world: World) -> Lease:
        """The courier has heard of request 7 from a state, and holds another page."""
        first, second = world.stock(1, 2)
        world.courier.settle(Settlement(first, add=[request(7)]), "first")
        world.clock.pass_(LINGER)
        world.answer(world.clock.take(), states={0: PartitionState("e", 5)})
        assert world.courier.known.has("g.a", 7)
        return second

    def settled(self, world: World, lease: Lease, edition: int) -> Call:
        world.courier.settle(Settlement(lease, withheld=OmittedRequests(edition, lambda: [request(7)])), "second")
        world.clock.pass_(LINGER)
        return world.clock.take()

    def test_a_page_says_which_state_it_relies_on(self) -> None:
        world = World()
        lease = self.learned(world)
        call = self.settled(world, lease, world.courier.known.edition)
        [settlement] = call["settle"]
        assert call["relies"] == {0: PartitionState("e", 5)}
        assert (settlement.add, settlement.withheld()) == ((), [request(7)])

    def test_a_later_state_of_the_same_epoch_changes_nothing(self) -> None:
        world = World()
        call = self.settled(world, self.learned(world), world.courier.known.edition)
        world.answer(call, states={0: PartitionState("e", 6)})
        assert world.courier.known.has("g.a", 7)
        assert world.callbacks.backs == 0

    @pytest.mark.parametrize("state", [PartitionState("f", 9), PartitionState("e", 4)])
    def test_another_epoch_or_an_earlier_change_ends_all_that_was_known(self, state: PartitionState) -> None:
        world = World()
        call = self.settled(world, self.learned(world), world.courier.known.edition)
        world.answer(call, states={0: state})
        assert not world.courier.known.has("g.a", 7)
        assert world.callbacks.backs == 1

    def test_what_was_withheld_before_that_is_said_after_it(self) -> None:
        world = World()
        lease = self.learned(world)
        edition = world.courier.known.edition
        world.clock.pass_(2)
        world.answer(world.clock.take(), states={0: PartitionState("f", 1)})
        [settlement] = self.settled(world, lease, edition)["settle"]
        assert (settlement.add, settlement.withheld) == ([request(7)], None)

    def test_nothing_is_known_after_an_outage(self) -> None:
        world = World()
        self.learned(world)
        world.clock.pass_(2)
        world.clock.take().done(None, FrontierUnavailable())
        assert not world.courier.known.has("g.a", 7)
