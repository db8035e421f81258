"""The courier alone, on a clock that stands still until it is moved: what it says, when, and how often."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.courier.simulation import CLOSE, LEASE, SEND, Sim, request

from gossamer.errors import FrontierUnavailable, SchemaTooNew
from gossamer.model import AddOutcome, Ending, Settlement, SettleOutcome
from gossamer.model.reply import OVERDUE


def test_one_exchange_is_under_way_at_a_time_and_says_all_there_was() -> None:
    sim = Sim()
    sim.begin(leases=3)
    leases = [sim.courier.take() for _ in range(3)]
    for number, lease in enumerate(leases):
        assert lease is not None
        sim.courier.settle(Settlement(lease), number)
        sim.link.pass_time(0.02)
    sim.link.pass_time(3.0)
    assert len(sim.link.calls) == 1
    first = sim.answer()
    sim.link.pass_time(3.0)
    second = sim.answer()
    said = [settlement.lease for call in (first, second) for settlement in call.named["settle"]]
    assert said == leases
    assert [page for page, _ in sim.callbacks.settled_pages] == [0, 1, 2]
    assert second.args[0].sequence == first.args[0].sequence + 1


def test_after_an_outage_the_same_call_is_made_again_and_then_what_came_meanwhile() -> None:
    sim = Sim()
    sim.begin(leases=2)
    one, two = sim.courier.take(), sim.courier.take()
    assert one is not None
    assert two is not None
    sim.courier.settle(Settlement(one), "one")
    sim.link.pass_time(1.0)
    lost = sim.outage()
    sim.courier.settle(Settlement(two), "two")
    sim.courier.add(request(7), "seven")
    for _ in range(5):
        sim.link.pass_time(30.0)
        again = sim.outage()
        assert again.args == lost.args
        assert again.named == lost.named
    sim.link.pass_time(30.0)
    sim.answer()
    sim.link.pass_time(1.0)
    after = sim.answer()
    assert [settlement.lease for settlement in after.named["settle"]] == [two]
    assert after.named["add"] == [request(7)]
    assert [page for page, _ in sim.callbacks.settled_pages] == ["one", "two"]
    assert not sim.courier.in_outage


def test_a_call_is_not_repeated_for_longer_than_its_answer_is_kept() -> None:
    """Repeated after that it would count twice: its pages are others' by then, and its requests are added by their keys."""
    sim = Sim()
    sim.begin(leases=1)
    one = sim.courier.take()
    assert one is not None
    sim.courier.settle(Settlement(one), "one")
    sim.courier.add(request(7, dont_filter=True), "seven")
    sim.link.pass_time(1.0)
    lost = sim.outage()
    began, last = sim.link.time, sim.link.time
    while True:
        sim.link.pass_time(16.0)
        again = sim.exchange()
        if again.args != lost.args:
            break
        last = sim.link.time
        sim.outage()
    assert 2900 < last - began < 3100
    assert again.args[0].sequence == lost.args[0].sequence + 1
    assert (again.named["settle"], again.named["add"]) == ([], [])
    assert sim.callbacks.settled_pages == [("one", SettleOutcome.LOST)]
    call = sim.pending("add")
    assert call is not None
    token = lost.args[0]
    assert (call.args, call.named) == (
        ([request(7, dont_filter=True)],),
        {"key": f"add {token.incarnation}:{token.sequence}"},
    )
    call.done(([AddOutcome.DUPLICATE], {}, None), None)
    assert sim.callbacks.added_tickets == [("seven", AddOutcome.DUPLICATE)]


def test_what_was_not_sent_in_time_is_given_back() -> None:
    sim = Sim()
    sim.begin(leases=2)
    assert sim.courier.take() is not None
    sim.link.pass_time(SEND + 0.1)
    assert sim.courier.take() is None
    released = sim.reply("release", [True])
    assert len(released.args[1]) == 1
    assert len(sim.courier.held) == 1


def test_long_work_is_renewed_until_it_is_overdue() -> None:
    sim = Sim(renew_max=30.0)
    sim.begin(leases=1)
    lease = sim.courier.take()
    assert lease is not None
    renewals = 0
    while not sim.callbacks.losses:
        sim.link.pass_time(1.0)
        if sim.pending("renew"):
            sim.reply("renew", [lease])
            renewals += 1
        if sim.pending():
            sim.answer()
    assert sim.callbacks.losses == [(lease, OVERDUE)]
    assert renewals >= 30.0 / LEASE
    sim.link.pass_time(1.0)
    said = [settlement for call in sim.link.asked if call.verb == "exchange" for settlement in call.named["settle"]]
    assert [(one.lease, one.ending, one.reason) for one in said] == [(lease, Ending.FAILED, OVERDUE)]
    # It comes to an end after all: too late, and said by nobody.
    sim.courier.settle(Settlement(lease), "late")
    if sim.pending():
        sim.answer()
    sim.link.pass_time(6.0)
    assert sim.exchange().named["settle"] == []


def test_a_lease_given_away_is_told_once_and_its_settlement_still_goes_out() -> None:
    sim = Sim()
    sim.begin(leases=1)
    lease = sim.courier.take()
    assert lease is not None
    for _ in range(5):
        sim.link.pass_time(LEASE / 4)
        if sim.pending("renew"):
            sim.reply("renew", [None])
        if sim.pending():
            sim.answer()
    assert [reason for _, reason in sim.callbacks.losses] == ["given away"]
    sim.courier.settle(Settlement(lease), "page")
    sim.link.pass_time(1.0)
    assert [settlement.lease for settlement in sim.exchange().named["settle"]] == [lease]


def test_requests_without_room_are_offered_again_in_their_order() -> None:
    sim = Sim()
    sim.begin()
    for number in range(4):
        sim.courier.add(request(number), number)
    sim.link.pass_time(0.5)
    sim.answer(added=[AddOutcome.ADDED, AddOutcome.FULL, AddOutcome.FULL, AddOutcome.DUPLICATE])
    sim.courier.add(request(9), 9)
    assert sim.courier.waiting == 3
    sim.link.pass_time(2.0)
    while not sim.exchange().named["add"]:
        sim.answer()
        sim.link.pass_time(2.0)
    assert [one.fingerprint for one in sim.answer().named["add"]] == [1, 2, 9]
    assert sim.callbacks.added_tickets == [
        (0, AddOutcome.ADDED), (3, AddOutcome.DUPLICATE), (1, AddOutcome.ADDED), (2, AddOutcome.ADDED), (9, AddOutcome.ADDED)
    ]  # fmt: skip


def test_the_last_word_gives_back_what_was_not_sent_and_says_the_rest() -> None:
    sim = Sim()
    sim.begin(leases=3)
    lease = sim.courier.take()
    assert lease is not None
    sim.courier.settle(Settlement(lease), "page")
    sim.finish()
    released = sim.reply("release", [True, True])
    assert len(released.args[1]) == 2
    sim.link.pass_time(0.5)
    assert sim.finished == 0
    last = sim.answer(leases=[sim.lease()])
    assert last.named["want"] == 0
    # A lease that was on its way all the same goes back too.
    sim.reply("release", [True])
    sim.link.pass_time(0.5)
    while sim.pending():
        sim.answer()
        sim.link.pass_time(0.5)
    assert sim.finished == 1
    sim.link.pass_time(60.0)
    assert sim.finished == 1
    assert sim.link.calls == []


def test_an_end_in_an_outage_comes_in_time() -> None:
    sim = Sim()
    sim.begin(leases=1)
    lease = sim.courier.take()
    assert lease is not None
    sim.courier.settle(Settlement(lease), "page")
    sim.link.pass_time(1.0)
    sim.outage()
    sim.finish()
    for _ in range(10):
        sim.link.pass_time(CLOSE / 10)
        if sim.pending():
            sim.outage()
    sim.link.pass_time(0.1)
    assert sim.finished == 1
    sim.link.pass_time(60.0)
    assert sim.pending() is None, "it says nothing any more"


def test_an_end_with_requests_that_find_no_room_is_not_a_storm() -> None:
    sim = Sim()
    sim.begin()
    sim.courier.add(request(1), 1)
    sim.link.pass_time(0.5)
    sim.answer(added=[AddOutcome.FULL])
    sim.finish()
    before = len(sim.link.asked)
    while not sim.finished:
        sim.link.pass_time(0.05)
        if sim.pending():
            sim.answer(added=[AddOutcome.FULL] * len(sim.exchange().named["add"]))
    assert len(sim.link.asked) - before <= 2 * CLOSE


def test_a_refusal_ends_it_and_is_told() -> None:
    sim = Sim()
    sim.begin(leases=1)
    sim.link.pass_time(6.0)
    sim.reply("exchange", None, SchemaTooNew())
    assert [type(error) for error in sim.callbacks.errors] == [SchemaTooNew]
    sim.finish()
    assert sim.finished == 1
    sim.link.pass_time(60.0)
    assert sim.pending() is None


STEP = st.sampled_from(["take", "settle", "settle", "add", "answer", "answer", "outage", "time", "long", "full"])


@settings(max_examples=150, deadline=None)
@given(st.lists(STEP, max_size=60))
def test_whatever_happens_each_thing_is_said_once(steps: list[str]) -> None:
    sim = Sim()
    sim.begin(leases=4)
    taken, settled, tickets = [], [], 0

    def answer(outcome: AddOutcome = AddOutcome.ADDED) -> None:
        call = sim.pending()
        if call is not None:
            leases = [sim.lease() for _ in range(min(2, call.named["want"]))]
            sim.answer(leases, [outcome] * len(call.named["add"]))

    for step in steps:
        for verb in ("renew", "release"):
            while (call := sim.pending(verb)) is not None:
                sim.reply(verb, [*call.args[1]] if verb == "renew" else [True] * len(call.args[1]))
        if step == "take" and (lease := sim.courier.take()) is not None:
            taken.append(lease)
        elif step == "settle" and taken:
            settled.append(taken.pop(0))
            sim.courier.settle(Settlement(settled[-1]), settled[-1])
        elif step == "add":
            sim.courier.add(request(1000 + tickets), tickets)
            tickets += 1
        elif step == "outage" and sim.pending():
            sim.reply("exchange", None, FrontierUnavailable("away"))
        elif step in ("answer", "full"):
            answer(AddOutcome.FULL if step == "full" else AddOutcome.ADDED)
        sim.link.pass_time({"time": 0.3, "long": 4.0}.get(step, 0.01))
    for _ in range(100):
        sim.link.pass_time(1.0)
        answer()
    sim.finish()
    while not sim.finished:
        sim.link.pass_time(0.1)
        answer()
        while (call := sim.pending("release")) is not None:
            sim.reply("release", [True] * len(call.args[1]))
    assert sorted(ticket for ticket, _ in sim.callbacks.added_tickets) == list(range(tickets))
    pages = [page for page, _ in sim.callbacks.settled_pages if page is not None]
    assert pages == settled
    sequences = [call.args[0].sequence for call in sim.link.asked if call.verb == "exchange"]
    assert sequences == sorted(sequences)
