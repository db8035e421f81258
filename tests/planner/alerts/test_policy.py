"""When alerts fire, are told and are resolved: on a simulated clock, whoever leads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import ormsgpack
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.planner.alerts.conditions import AlertCondition
from gossamer.planner.alerts.message import LISTED, alertmanager, line_of, message_of, text_of
from gossamer.planner.alerts.policy import (
    Phase,
    RuleState,
    as_data,
    evaluate,
    from_data,
    unobserved,
    withdraw,
)
from gossamer.planner.alerts.rules import LateRound

GATHER, WAIT, CLEAR, COOLDOWN, REPEAT = 300.0, 120.0, 60.0, 3600.0, 14400.0
RULE = LateRound.model_validate({"for": "2m", "clear": "1m", "cooldown": "1h", "repeat": "4h"})
SUBJECTS = "abc"


class Event(NamedTuple):
    at: float
    firing: frozenset[str]
    resolved: frozenset[str]


class Run:
    """One rule over time. `handed`: another planner takes over before each step, with nothing but what was written."""

    def __init__(self, rule: LateRound = RULE, gather: float = GATHER) -> None:
        self.rule, self.gather, self.now = rule, gather, 1_000_000.0
        self.state: RuleState | None = None
        self.events: list[Event] = []
        self.held: dict[str, float] = {}
        """When the condition of each held last."""
        self.over: dict[str, float] = {}

    def step(self, seconds: float, holds: dict[str, bool | None], *, handed: bool = False) -> None:
        self.now += seconds
        if handed and self.state is not None:
            self.state = from_data(ormsgpack.unpackb(ormsgpack.packb(as_data(self.state))))
        found = {name: AlertCondition(name, holds.get(name, False), "late") for name in SUBJECTS if name in holds}
        for name in SUBJECTS:
            if holds.get(name, False):
                self.held[name] = self.now
                self.over.pop(name, None)
            elif holds.get(name, False) is False:
                self.over.setdefault(name, self.now)
        self.state, told = evaluate(self.rule, self.state, found, self.now, gather=self.gather)
        if told is not None:
            self.events.append(Event(self.now, frozenset(told.firing), frozenset(told.resolved)))

    def check(self) -> None:
        for one, other in pairwise(self.events):
            assert other.at - one.at >= self.gather
        for name in SUBJECTS:
            told = [(e.at, name in e.firing) for e in self.events if name in e.firing or name in e.resolved]
            assert not told or told[0][1], "a recovery of what was never told"
            for (at, fires), (later, fires_again) in pairwise(told):
                assert fires or fires_again, "told twice that it is resolved"
                if fires and fires_again:
                    assert later - at >= REPEAT
            fired = [at for at, fires in told if fires]
            assert all(later - at >= COOLDOWN for at, later in pairwise(fired))


STEP = st.tuples(
    st.sampled_from([5.0, 15.0, 60.0, 61.0, 119.0, 299.0, 300.0, 1800.0, 3599.0, 3600.0, 20_000.0]),
    st.dictionaries(st.sampled_from(SUBJECTS), st.sampled_from([True, True, False, None])),
)


@given(st.lists(STEP, max_size=60), st.data())
@settings(max_examples=100)
def test_each_is_told_once_in_a_cool_down_and_its_recovery_once(
    steps: list[tuple[float, dict[str, bool | None]]], data: st.DataObject
) -> None:
    one, other = Run(), Run()
    for seconds, holds in steps:
        before = len(one.events)
        one.step(seconds, holds)
        other.step(seconds, holds, handed=data.draw(st.booleans()))
        for event in one.events[before:]:
            for name in event.firing:
                assert name in one.held
                assert name not in one.over, "it told of one that was over"
    assert one.events == other.events, "who leads makes no difference"
    one.check()
    # All is over: every recovery that is owed is told, and nothing is remembered for ever.
    for _ in range(80):
        one.step(60, {})
    one.check()
    for name in SUBJECTS:
        told = [name in event.firing for event in one.events if name in event.firing or name in event.resolved]
        assert not told or not told[-1]
    assert one.state is not None
    assert not one.state.alerts
    # All of them hold: each is told as soon as all the times allow it.
    for _ in range(80):
        one.step(60, dict.fromkeys(SUBJECTS, True))
    one.check()
    assert all(any(name in event.firing for event in one.events[-3:]) for name in SUBJECTS)


def test_what_comes_and_goes_is_told_once_an_hour() -> None:
    run = Run(LateRound.model_validate({"clear": 0, "cooldown": "1h", "repeat": 0}), gather=0)
    for minute in range(180):
        run.step(60, {"a": minute % 2 == 0})
    assert [(round(e.at - 1_000_060) // 60, bool(e.firing)) for e in run.events] == [
        (0, True), (1, False), (60, True), (61, False), (120, True), (121, False),
    ]  # fmt: skip


def test_a_short_one_is_not_told_at_all_and_a_gap_does_not_end_it() -> None:
    run = Run()
    run.step(0, {"a": True})
    run.step(60, {"a": False})
    run.step(30, {"a": True})
    run.step(29, {"a": True})
    assert run.events == [], "its condition has held for less than two minutes"
    run.step(1, {"a": True})
    assert [sorted(event.firing) for event in run.events] == [["a"]]
    run.step(15, {"b": True, "a": True})
    run.step(150, {"b": True, "a": False})
    run.step(60, {"b": False, "a": False})
    run.step(60, {})
    assert len(run.events) == 1, "one message in five minutes; b came and went meanwhile"
    run.step(60, {})
    assert run.events[1:] == [Event(run.now, frozenset(), frozenset("a"))]


def test_time_in_which_nobody_looked_does_not_count() -> None:
    run = Run()
    run.step(0, {"a": True})
    run.now += 3600
    assert run.state is not None
    run.state = unobserved(run.state, 3600, run.now)
    run.step(60, {"a": True})
    assert run.events == []
    run.step(60, {"a": True})
    assert len(run.events) == 1


def test_silenced_ones_are_told_when_the_silence_is_over_and_recoveries_at_once() -> None:
    rule, found = LateRound(), {"a": AlertCondition("a", True, "late"), "b": AlertCondition("b", True, "late")}
    state, told = evaluate(rule, None, found, 0, gather=0, silenced=lambda name: name == "a")
    assert told is not None
    assert set(told.firing) == {"b"}
    state, told = evaluate(rule, state, found, 10, gather=0, silenced=lambda name: True)
    assert told is None
    assert state.alerts["a"].phase is Phase.FIRING
    state, told = evaluate(rule, state, found, 20, gather=0)
    assert told is not None
    assert set(told.firing) == {"a"}
    state, _ = evaluate(rule, state, {}, 30, gather=0)
    _, told = evaluate(rule, state, {}, 90, gather=0, silenced=lambda name: True)
    assert told is not None
    assert set(told.resolved) == {"a", "b"}


def test_a_rule_that_is_removed_takes_back_what_it_told() -> None:
    state, _ = evaluate(
        LateRound(), None, {"a": AlertCondition("a", True, "x"), "b": AlertCondition("b", None)}, 0, gather=0
    )
    told = withdraw(state, 10)
    assert told is not None
    assert (set(told.resolved), set(told.firing)) == ({"a"}, set())
    assert withdraw(RuleState("late_round", {}), 10) is None


def test_a_thousand_at_once_are_one_message() -> None:
    found = {f"site{n:04}": AlertCondition(f"site{n:04}", True, "round 3 runs for 12 min") for n in range(1000)}
    rule = LateRound(note="ask the night shift")
    state, told = evaluate(rule, None, found, 1e9, gather=GATHER)
    assert told is not None
    message = message_of("late_round", rule, told, 1e9, "id1")
    sent: dict[str, Any] = alertmanager(message, "main")
    assert (len(sent["alerts"]), sent["truncatedAlerts"], sent["status"]) == (LISTED, 900, "firing")
    assert sent["alerts"][0]["labels"] == {
        "alertname": "late_round", "crawl": "main", "kind": "late_round", "severity": "warning", "site": "site0000",
    }  # fmt: skip
    assert sent["alerts"][0]["startsAt"] == "2001-09-09T01:46:40.000Z"
    text = text_of(message, "main").splitlines()
    assert text[0] == "[FIRING] warning: late_round (1,000 sites of crawl main)"
    assert text[-2:] == ["- and 980 more", "ask the night shift"]
    assert line_of(message) == "site0000: round 3 runs for 12 min, and 999 more"
    assert len(ormsgpack.packb(as_data(state))) < 100_000
    for minute in range(10):
        _, told = evaluate(rule, state, found, 1e9 + 60 * minute, gather=GATHER)
        assert told is None
