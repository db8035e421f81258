"""When rounds begin, on a simulated clock."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.planner.policy.rounds import (
    Action,
    Blackout,
    CatchUp,
    LastRound,
    Overlap,
    RoundPolicy,
    decide_round,
    is_overdue,
    round_policy,
)
from gossamer.sites.file.load import load_text
from gossamer.sites.format import Schedule

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
TEN = Schedule(every=10 * MINUTE)


def at(text: str, tz: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz)).timestamp()


def days(
    policy: RoundPolicy, lasts: float, end: float, *, step: float = 7.0, asleep: tuple[float, float] = (0.0, 0.0)
) -> list[tuple[float, Action]]:
    """A planner that looks every few seconds, a site whose rounds last so long, until `end`: when it did what. While it is asleep it
    does nothing."""
    last: LastRound | None = None
    done: list[tuple[float, Action]] = []
    now = 0.0
    while now < end:
        if last is not None and last.ended is None and now >= (last.seeded or last.began) + lasts:
            last = last._replace(ended=now)
        if not asleep[0] <= now < asleep[1]:
            action, _, _ = decide_round("s", policy, last, now)
            if action is not Action.WAIT:
                done.append((now, action))
                number = 0 if last is None else last.number + 1
                if action is Action.RESEED and last is not None:
                    last = last._replace(seeded=now)
                else:
                    last = LastRound(number, now)
        now += step
    return done


def test_a_site_without_rounds_begins_at_once_and_then_in_its_interval() -> None:
    assert [moment for moment, _ in days(RoundPolicy(TEN), 60, HOUR, step=1)] == [0, 600, 1200, 1800, 2400, 3000]


def test_no_schedule_and_a_paused_site_wait_and_a_round_can_be_asked_for() -> None:
    last = LastRound(0, 0.0, 10.0)
    assert decide_round("s", RoundPolicy(None), last, 1e9).action is Action.WAIT
    assert decide_round("s", RoundPolicy(TEN), last, 1e9, paused=True).action is Action.WAIT
    for policy, paused in ((RoundPolicy(None), False), (RoundPolicy(TEN), True)):
        assert decide_round("s", policy, last, 20.0, asked=True, paused=paused).action is Action.BEGIN
    # One that runs is not begun again.
    assert decide_round("s", RoundPolicy(None), LastRound(0, 0.0), 20.0, asked=True).action is Action.WAIT


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        # Rounds of 25 minutes, due every 10.
        (Overlap.QUEUE, [(0, "begin"), (1500, "begin"), (3000, "begin"), (4500, "begin"), (6000, "begin")]),
        (Overlap.SKIP, [(0, "begin"), (1800, "begin"), (3600, "begin"), (5400, "begin")]),
        (Overlap.REPLACE, [(600 * n, "begin" if n == 0 else "replace") for n in range(12)]),
        (Overlap.RESEED, [(600 * n, "begin" if n == 0 else "reseed") for n in range(12)]),
    ],
)
def test_a_point_that_comes_while_a_round_runs(overlap: Overlap, expected: list[tuple[float, str]]) -> None:
    found = days(RoundPolicy(TEN, overlap), 25 * MINUTE, 2 * HOUR, step=1)
    assert [(moment, action.value) for moment, action in found] == expected


def test_after_downtime_one_round_makes_up_for_all_or_none_does() -> None:
    asleep = (HOUR + 1, 3 * HOUR + 100)
    once = [moment for moment, _ in days(RoundPolicy(TEN), 60, 4 * HOUR, step=1, asleep=asleep)]
    assert [moment for moment in once if HOUR < moment < 3.5 * HOUR] == [3 * HOUR + 100 + 600 * n for n in range(3)]
    none = [moment for moment, _ in days(RoundPolicy(TEN, catch_up=CatchUp.NONE), 60, 4 * HOUR, step=1, asleep=asleep)]
    assert [moment for moment in none if HOUR < moment < 3.5 * HOUR] == [3 * HOUR + 600, 3 * HOUR + 1200]


def test_what_waits_for_the_last_round_was_not_missed() -> None:
    """Rounds of 25 minutes, due every 10: `catch_up` is about times at which nobody was there."""
    policy = RoundPolicy(TEN, Overlap.QUEUE, CatchUp.NONE)
    assert [moment for moment, _ in days(policy, 25 * MINUTE, 2 * HOUR, step=1)] == [0, 1500, 3000, 4500, 6000]
    # Nobody was there when the second one was over.
    found = [moment for moment, _ in days(policy, 25 * MINUTE, 2 * HOUR, step=1, asleep=(2900, 3100))]
    assert found == [0, 1500, 3300, 4800, 6300]
    # The last one is over in a blackout, and was due before it.
    daily = RoundPolicy(Schedule(cron="0 21 * * *"), Overlap.QUEUE, CatchUp.NONE, (Blackout(time(22), time(6)),))
    last = LastRound(0, at("2026-03-01T21:00"), at("2026-03-02T23:00"))
    assert decide_round("s", daily, last, at("2026-03-03T06:00:30")).action is Action.BEGIN
    assert decide_round("s", daily, last, at("2026-03-03T06:01:30"))[:2] == (Action.WAIT, at("2026-03-03T21:00"))


def test_cron_keeps_to_the_clock_of_its_time_zone_also_when_that_changes() -> None:
    daily = RoundPolicy(Schedule(cron="30 2 * * *", tz="Europe/Berlin"))
    last = LastRound(0, at("2026-03-28T02:30", "Europe/Berlin"), at("2026-03-28T03:00", "Europe/Berlin"))
    # On the 29th there is no half past two: clocks go from two to three.
    decision = decide_round("s", daily, last, last.began + HOUR)
    assert decision.action is Action.WAIT
    assert decision.at is not None
    assert datetime.fromtimestamp(decision.at, UTC) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    last = LastRound(1, at("2026-03-30T02:30", "Europe/Berlin"), at("2026-03-30T02:40", "Europe/Berlin"))
    decision = decide_round("s", daily, last, last.began + HOUR)
    assert decision.at == at("2026-03-31T02:30", "Europe/Berlin")
    # On the 25th of October two to three comes twice, and the second time half past two is over.
    twice = at("2026-10-25T01:00", "Europe/Berlin") + HOUR
    for minute in range(150):
        last = LastRound(2, twice + minute * MINUTE, twice + minute * MINUTE + 1)
        decision = decide_round("s", daily, last, last.began + 2)
        first = minute < 30
        assert decision.at == at("2026-10-25T02:30" if first else "2026-10-26T02:30", "Europe/Berlin"), minute


def test_in_a_blackout_nothing_begins_and_afterwards_what_was_due_does() -> None:
    night = Blackout(time(22), time(6), tz="Asia/Shanghai")
    policy = RoundPolicy(TEN, blackout=(night,))
    last = LastRound(3, at("2026-01-05T21:55", "Asia/Shanghai"), at("2026-01-05T21:56", "Asia/Shanghai"))
    decision = decide_round("s", policy, last, at("2026-01-05T23:00", "Asia/Shanghai"))
    assert decision == (Action.WAIT, at("2026-01-06T06:00", "Asia/Shanghai"), "no round begins in these hours")
    assert decide_round("s", policy, last, at("2026-01-06T06:00", "Asia/Shanghai")).action is Action.BEGIN
    # By hand it begins at any hour.
    assert decide_round("s", policy, last, at("2026-01-05T23:00", "Asia/Shanghai"), asked=True).action is Action.BEGIN


@pytest.mark.parametrize("schedule", [Schedule(every=DAY), Schedule(cron="0 23 * * *"), Schedule(every=10 * MINUTE)])
def test_what_is_due_in_a_blackout_was_not_missed(schedule: Schedule) -> None:
    hours = (Blackout(time(22), time(2)), Blackout(time(2), time(6)))
    policy = RoundPolicy(schedule, catch_up=CatchUp.NONE, blackout=hours)
    last = LastRound(0, at("2026-03-01T23:00"), at("2026-03-01T23:01"))
    assert decide_round("s", policy, last, at("2026-03-02T23:30"))[:2] == (Action.WAIT, at("2026-03-03T06:00"))
    assert decide_round("s", policy, last, at("2026-03-03T06:00:30")).action is Action.BEGIN
    if schedule.every != 10 * MINUTE:
        late = decide_round("s", policy, last, at("2026-03-03T06:01:30"))
        assert late[:2] == (Action.WAIT, at("2026-03-03T23:00")), "nobody was there"


def test_hours_belong_to_the_day_on_which_they_begin_and_follow_each_other() -> None:
    friday = Blackout(time(22), time(6), frozenset({4}))
    saturday = Blackout(time(6), time(8), frozenset({5}))
    policy = RoundPolicy(TEN, blackout=(saturday, friday))
    last = LastRound(0, at("2026-01-02T21:00"), at("2026-01-02T21:01"))  # a Friday
    assert decide_round("s", policy, last, at("2026-01-03T01:00")).at == at("2026-01-03T08:00")
    assert decide_round("s", policy, last, at("2026-01-04T01:00")).action is Action.BEGIN


def test_a_round_is_overdue_while_it_runs_and_after_it_ended() -> None:
    policy = RoundPolicy(Schedule(every=600, deadline=540))
    assert not is_overdue(policy, LastRound(0, 0.0), 540)
    assert is_overdue(policy, LastRound(0, 0.0), 541)
    assert is_overdue(policy, LastRound(0, 0.0, 600.0), 601)
    assert not is_overdue(policy, LastRound(0, 0.0, 500.0), 9999)
    assert not is_overdue(RoundPolicy(None), None, 1e9)


SCHEDULES = st.one_of(
    st.builds(Schedule, every=st.integers(400, 7200), jitter=st.integers(0, 600)),
    st.builds(Schedule, cron=st.sampled_from(["*/10 * * * *", "5 */2 * * *", "0 0 * * *"]), jitter=st.integers(0, 600)),
)
POLICIES = st.builds(RoundPolicy, SCHEDULES, st.sampled_from(Overlap), st.sampled_from(CatchUp), st.just(()))


@given(policy=POLICIES, lasts=st.integers(1, 9000), nap=st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)))
def test_a_round_never_begins_before_its_time_nor_twice(policy: RoundPolicy, lasts: int, nap: tuple[int, int]) -> None:
    done = days(policy, lasts, DAY / 3, step=53, asleep=(min(nap), max(nap)))
    assert policy.schedule is not None
    every = policy.schedule.every or 600.0
    moments = [moment for moment, _ in done]
    assert moments == sorted(set(moments))
    for (earlier, _), (later, action) in itertools.pairwise(done):
        if policy.schedule.every:
            assert later - earlier >= every
        if action is Action.BEGIN:
            assert later - earlier >= lasts
    if min(nap) == max(nap) and policy.schedule.every:  # Nothing is forgotten, either.
        slowest = max(every, lasts + (every if policy.overlap is Overlap.SKIP else 0)) + policy.schedule.jitter + 600
        gaps = [later - earlier for earlier, later in zip(moments, [*moments[1:], DAY / 3], strict=True)]
        assert max(gaps) <= slowest + every


def test_a_site_file_says_all_of_it() -> None:
    [site] = load_text(
        """
site: s
seeds: http://s.example/
layers: {a: {}}
schedule:
  cron: 0 * * * *
  tz: Asia/Shanghai
  overlap: reseed
  catch_up: none
  blackout: [{from: 22:00, to: 24:00, days: [sat, sun]}, {from: 3:30, to: 04:00, tz: UTC}]
"""
    )
    assert round_policy(site.schedule) == RoundPolicy(
        site.schedule,
        Overlap.RESEED,
        CatchUp.NONE,
        (Blackout(time(22), time(0), frozenset({5, 6}), "Asia/Shanghai"), Blackout(time(3, 30), time(4))),
    )
    assert round_policy(None) == RoundPolicy(None)


def test_seeds_that_are_still_being_added_are_not_added_again() -> None:
    for overlap in (Overlap.RESEED, Overlap.REPLACE):
        decision = decide_round("s", RoundPolicy(TEN, overlap), LastRound(0, 0.0, seeding=True), HOUR)
        assert decision == (Action.WAIT, None, "the seeds of the last round are still being added")


@pytest.mark.parametrize("day", ["2026-03-28", "2026-10-24", "2026-07-01"])
@pytest.mark.parametrize(
    ("begin", "end"), [("02:00", "02:30"), ("22:00", "02:30"), ("02:30", "03:30"), ("01:30", "02:15")]
)
def test_no_round_begins_at_hours_that_clocks_show_twice_or_jump_over(day: str, begin: str, end: str) -> None:
    """Berlin puts its clocks forward and back in two of these nights."""
    zone, hours = (
        ZoneInfo("Europe/Berlin"),
        Blackout(time.fromisoformat(begin), time.fromisoformat(end), tz="Europe/Berlin"),
    )
    more = 0
    for minute in range(0, 1440, 5):
        now = at(f"{day}T12:00", "Europe/Berlin") + minute * MINUTE
        clock = datetime.fromtimestamp(now, zone).time()
        inside = hours.begin <= clock < hours.end if begin < end else clock >= hours.begin or clock < hours.end
        assert not inside or hours.until(now) is not None, clock
        more += hours.until(now) is not None and not inside
    # Between two times that clocks show alike, none begins either: the first and the last of them bound the hours.
    assert more <= (9 if day == "2026-10-24" else 0)
