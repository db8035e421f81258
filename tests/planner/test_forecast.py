"""What planners will do in the next hours, from the present state."""

from __future__ import annotations

from gossamer.model import GroupState, Leader, PlanState, RoundInfo
from gossamer.planner.forecast import Event, forecast, next_decision, usual_duration
from gossamer.planner.policy.rounds import Action, round_policy
from gossamer.planner.schedules import PlannedGroup
from gossamer.sites.format import BlackoutRule, Schedule

NOW = 1_800_000_000.0
NOBODY = Leader(False, 0, "", 0.0, NOW)


def group(name: str, began: float, ended: float | None, paused: str = "", start: str = "done") -> GroupState:
    return GroupState(name, True, 5, start, paused, 0, 0, began, ended, ended, False, "", ())


def planned(name: str, **schedule: object) -> PlannedGroup:
    return PlannedGroup(name, round_policy(Schedule.model_validate(schedule)), name)


def told(groups: list[GroupState], plans: list[PlannedGroup], seconds: float, **durations: float) -> list[Event]:
    state = PlanState(NOW, 0, NOBODY, {one.group: one for one in groups})
    return forecast(state, {one.group: one for one in plans}, durations, seconds)


def test_the_next_hour_of_all_sites_in_order() -> None:
    groups = [group("a", NOW - 300, NOW - 200), group("b", NOW - 3000, NOW - 2900), group("c", NOW, NOW, "by hand")]
    plans = [planned("a", every=600), planned("b", every=1800), planned("c", every=60), planned("unknown", every=60)]
    events = told(groups, plans, 3600, a=100, b=100)
    assert [(event.at - NOW, event.group, event.round) for event in events] == [
        (0, "b", 6),
        (300, "a", 6),
        (900, "a", 7),
        (1500, "a", 8),
        (1800, "b", 7),
        (2100, "a", 9),
        (2700, "a", 10),
        (3300, "a", 11),
    ]


def test_a_round_that_takes_long_puts_the_next_one_off_or_is_seeded_again() -> None:
    running = [group(name, NOW - 500, None) for name in ("queue", "skip", "reseed")]
    plans = [planned(one.group, every=600, overlap=one.group) for one in running]
    events = told(running, plans, 3600, queue=1500, skip=1500, reseed=1500)
    found = {name: [event.at - NOW for event in events if event.group == name] for name in ("queue", "skip", "reseed")}
    assert found == {
        "queue": [1000, 2500],
        "skip": [1300, 3100],
        "reseed": [100, 700, 1300, 1900, 2500, 3100],
    }
    assert {event.action for event in events if event.group == "reseed"} == {Action.RESEED}
    assert [event.why for event in events if event.group == "queue"] == ["due, if round 5 is over by then", "due"]


def test_blackout_hours_are_waited_out_and_nothing_waits_for_ever() -> None:
    hours = BlackoutRule.model_validate({"from": "08:00", "to": "09:00"})  # NOW is 08:00 UTC
    events = told([group("a", NOW - 900, NOW - 800)], [planned("a", every=600, blackout=[hours])], 3900)
    assert [event.at - NOW for event in events] == [3600]
    assert told([group("a", NOW, NOW)], [PlannedGroup("a", round_policy(None), "a")], 1e6) == []


def test_what_is_in_the_way_is_told_with_the_round_that_waits_for_it() -> None:
    held = group("a", NOW - 700, NOW - 600)._replace(obstacle="tasks.csv is missing")
    events = told([held], [planned("a", every=600)], 700)
    assert [(event.at - NOW, event.why) for event in events] == [
        (0, "due, as soon as this is mended: tasks.csv is missing"),
        (600, "due"),
    ]
    # It was in the way of a round that has begun since.
    events = told([held._replace(began=NOW, ended=NOW, closed=NOW)], [planned("a", every=600)], 700)
    assert [(event.at - NOW, event.why) for event in events] == [(600, "due")]


def test_how_long_rounds_take_and_what_comes_next() -> None:
    def info(began: float | None, ended: float | None) -> RoundInfo:
        return RoundInfo("a", 0, "ended", began, ended, ended, "", "", 0, 0, 0, 0, False, "")

    assert usual_duration([info(0, None), info(0, 10), info(0, 30), info(0, 500), info(None, 5)]) == 30
    assert usual_duration([info(0, None)]) == 0
    waits = next_decision(planned("a", every=600), group("a", NOW - 100, NOW), NOW)
    assert waits == (Action.WAIT, NOW + 500, "the next round is not due yet")
    taskless = group("a", NOW, NOW)._replace(has_start=False)
    assert next_decision(planned("a", every=600), taskless, NOW).at is None
