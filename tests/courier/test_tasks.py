"""Tasks and starts on their way into the frontier, with an outage or a full lane at every step."""

from __future__ import annotations

from typing import Any

import pytest
from tests.courier.simulation import LEASE, SimLink, request

from gossamer.courier import RequestAdder, TaskIntake
from gossamer.errors import BadTask, FrontierUnavailable, PermissionDenied
from gossamer.frontier import codec
from gossamer.model import AddOutcome, Request, Task

AWAY = FrontierUnavailable("away")
STEPS = ["lease_tasks", "add", "bury", "settle_tasks"]


class Tasks:
    """An intake whose tasks are numbers; `x` is a bad one."""

    def __init__(self) -> None:
        self.link = SimLink()
        self.bad: list[str] = []
        self.errors: list[BaseException] = []
        self.stopped = 0
        self.task_intake = TaskIntake(
            self.link,
            "key",
            "g",
            self.make,
            batch=4,
            lease_seconds=LEASE,
            taken=lambda _: None,
            bad=self.bad.append,
            failed=self.errors.append,
        )

    def make(self, data: bytes) -> list[Request]:
        if data == b"x":
            raise BadTask("no good")
        if b"skip" in data:
            return []
        if b"seen" in data:
            return [request(1)._replace(payload=codec.encode_request({"url": "http://h/1"}))]
        return [request(int(data), dont_filter=True)]

    def reply(self, verb: str, answer: Any, error: BaseException | None = None) -> Any:
        for _ in range(100):
            if self.link.calls:
                break
            self.link.pass_time(0.5)
        [call] = self.link.calls
        assert call.verb == verb
        self.link.calls.remove(call)
        call.done(answer, error)
        return call

    def stop(self) -> None:
        def done() -> None:
            self.stopped += 1

        self.task_intake.stop(done)


def task(number: int, data: bytes) -> Task:
    return Task("key", number, f"n{number}", data, 1)


def added(*outcomes: AddOutcome) -> Any:
    return list(outcomes), {}, None


@pytest.mark.parametrize("away", STEPS)
def test_an_outage_at_any_step_repeats_the_step(away: str) -> None:
    some = Tasks()
    some.task_intake.begin()
    tasks = [task(1, b"1"), task(2, b"x")]
    answers = {"lease_tasks": tasks, "add": added(AddOutcome.ADDED), "bury": True, "settle_tasks": [True, True]}
    for verb in STEPS:
        if verb == away:
            lost = some.reply(verb, None, AWAY)
            again = some.reply(verb, answers[verb])
            assert (again.args, again.named) == (lost.args, lost.named)
        else:
            some.reply(verb, answers[verb])
    assert some.bad == ["no good"]
    settled = next(call for call in reversed(some.link.asked) if call.verb == "settle_tasks")
    assert settled.named["done"] == tasks
    assert some.errors == []


def test_a_task_that_makes_no_request_is_a_dead_letter_where_it_is_to_be_reported() -> None:
    """A row of a table was lost for it, five times. A task that nobody asks about is skipped."""
    some = Tasks()
    some.task_intake.begin()
    tasks = [task(1, b"skip"), task(2, b'{"url": "skip", "report": {"list": "l", "key": "k", "try": 1}}')]
    some.reply("lease_tasks", tasks)
    assert some.reply("bury", True).args[1] == tasks[1].data
    assert some.reply("settle_tasks", [True, True]).named["done"] == tasks


def test_a_task_that_is_to_be_reported_is_done_also_where_its_request_was_seen() -> None:
    """A spider's `make_requests` does not say dont_filter: what was seen was left out, reported nothing, and its row was lost five times."""
    some = Tasks()
    some.task_intake.begin()
    asked = b'"report": {"list": "l", "key": "k", "try": 1}'
    tasks = [
        task(n, b'{"url": "seen", ' + more + b"}")
        for n, more in enumerate([asked, asked + b', "filter": true', b'"a": 1'])
    ]
    some.reply("lease_tasks", tasks)
    first, *others = some.reply("add", added(*[AddOutcome.ADDED] * 3)).args[0]
    assert first.dont_filter
    assert codec.decode_request(first.payload)["dont_filter"], (
        "a redirect asks for the page that it leads to in the same way"
    )
    assert not any(other.dont_filter for other in others), "unless the task asks for that, or nobody asks about it"


def test_tasks_without_room_stay_leased_and_are_offered_again() -> None:
    some = Tasks()
    some.task_intake.begin()
    tasks = [task(n, str(n).encode()) for n in range(3)]
    some.reply("lease_tasks", tasks)
    first = some.reply("add", added(AddOutcome.ADDED, AddOutcome.FULL, AddOutcome.FULL))
    renewed = 0
    while some.link.time < 1_000 + 2 * LEASE:
        some.link.pass_time(0.25)
        if some.link.calls and some.link.calls[0].verb == "settle_tasks":
            assert some.reply("settle_tasks", [True] * 3).named["renew"] == tasks
            renewed += 1
        elif some.link.calls:
            again = some.reply("add", added(AddOutcome.FULL, AddOutcome.FULL))
            assert again.named["key"] == first.named["key"][1:]
    assert renewed >= 3, "they did not run out meanwhile"
    while not some.link.calls:
        some.link.pass_time(0.25)
    some.reply("add", added(AddOutcome.ADDED, AddOutcome.ADDED))
    assert some.reply("settle_tasks", [True] * 3).named["done"] == tasks


def test_a_task_that_killed_its_workers_is_buried_and_not_tried() -> None:
    some = Tasks()
    some.task_intake.begin()
    poison = task(1, b"1")._replace(poison=True, attempt=5, taken="abc")
    some.reply("lease_tasks", [poison])
    buried = some.reply("bury", True)
    assert (buried.args[1], buried.named["reason"]) == (b"1", "poison")
    assert buried.named["key"].endswith("1.abc")
    assert some.reply("settle_tasks", [True]).named["done"] == [poison]


def test_an_end_gives_back_what_found_no_room() -> None:
    some = Tasks()
    some.task_intake.begin()
    some.reply("lease_tasks", [task(1, b"1")])
    some.stop()
    assert some.stopped == 0
    some.reply("add", added(AddOutcome.FULL))
    assert some.reply("settle_tasks", [True]).named["release"] == [task(1, b"1")]
    assert some.stopped == 1
    some.link.pass_time(60.0)
    assert some.link.calls == []


def test_an_end_in_an_outage_leaves_tasks_to_others() -> None:
    some = Tasks()
    some.task_intake.begin()
    some.reply("lease_tasks", [task(1, b"1")])
    some.stop()
    some.reply("add", None, AWAY)
    assert some.stopped == 1


def test_a_refusal_is_told_and_ends_it() -> None:
    some = Tasks()
    some.task_intake.begin()
    some.reply("lease_tasks", None, PermissionDenied())
    assert [type(error) for error in some.errors] == [PermissionDenied]
    some.stop()
    assert some.stopped == 1


def test_requests_of_a_start_wait_out_an_outage_and_a_full_lane_in_their_order() -> None:
    link, told, below = SimLink(), [], []
    request_adder = RequestAdder(
        link, lambda ticket, outcome, reason: told.append((ticket, outcome)), lambda error: None
    )
    for number in range(3):
        request_adder.put(request(number), f"k{number}", number)
    request_adder.below(0, lambda: below.append(link.time))
    link.pass_time(1.0)
    link.calls.pop().done(None, AWAY)
    link.pass_time(10.0)
    request_adder.put(request(3), "k3", 3)
    [call] = link.calls
    assert call.named["key"] == ["k0", "k1", "k2"]
    link.calls.pop().done(added(AddOutcome.ADDED, AddOutcome.FULL, AddOutcome.DUPLICATE), None)
    assert told == [(0, AddOutcome.ADDED), (2, AddOutcome.DUPLICATE)]
    assert not below
    link.pass_time(2.0)
    [call] = link.calls
    assert call.named["key"] == ["k1", "k3"]
    link.calls.pop().done(added(AddOutcome.ADDED, AddOutcome.ADDED), None)
    assert below
    assert len(request_adder) == 0
