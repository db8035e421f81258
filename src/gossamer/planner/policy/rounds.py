"""When a round begins: from a site's schedule, its last round and the time.

A schedule names points in time: at an interval since the last round began, or by cron. `overlap` says what happens when
such a point comes while the last round is still running, `catch_up` what happens when it passed and no planner or
worker could begin the round; `blackout` names hours in which no round begins. Two planners that know the same decide
the same.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gossamer.sites.format import Schedule
from gossamer.sites.schedule import jitter, next_point

WEEK = 7 * 86400.0
GRACE = 60.0
"""Seconds after which a point counts as missed: the planner looks only from time to time."""


class Overlap(enum.Enum):
    """What to do at a point in time at which the last round is still running.

    QUEUE: begin the next round as soon as this one is over, once, however many points have passed. SKIP: wait for the next point
    after it is over. REPLACE: begin the next round now; what is left of this one is dropped. RESEED: seed again now, in a new
    version of the same round; what is left of it stays.
    """

    QUEUE = "queue"
    SKIP = "skip"
    REPLACE = "replace"
    RESEED = "reseed"


class CatchUp(enum.Enum):
    """What to do about points that passed while no round could begin. ONCE: begin one round for all of them. NONE: wait for the next."""

    ONCE = "once"
    NONE = "none"


def moments(day: date, at: time, zone: ZoneInfo) -> tuple[float, float]:
    """The first and the last moment at which clocks show a time: two where they are put back, and where they are put forward over it, the
    moment at which that happens."""
    first, last = sorted(datetime.combine(day, at, zone).replace(fold=fold).timestamp() for fold in (0, 1))
    if datetime.fromtimestamp(first, zone).time() == at:
        return first, last
    before = datetime.fromtimestamp(first, zone).utcoffset()
    while last - first > 1:
        middle = (first + last) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == before:
            first = middle
        else:
            last = middle
    return last, last


class Blackout(NamedTuple):
    """Hours of the day in which no round begins, on some days of the week (Monday is 0), in a time zone. Hours that end before
    they begin go over midnight, and belong to the day on which they begin. An hour that comes twice when clocks are put back counts twice."""

    begin: time
    end: time
    days: frozenset[int] = frozenset(range(7))
    tz: str = "UTC"

    def until(self, now: float) -> float | None:
        """When the hours that `now` is in are over; None if it is in none."""
        found = self.span(now)
        return None if found is None else found[1]

    def span(self, now: float) -> tuple[float, float] | None:
        """When the hours that `now` is in began and when they are over; None if it is in none."""
        zone = ZoneInfo(self.tz)
        here = datetime.fromtimestamp(now, UTC).astimezone(zone)
        for back in (0, 1):
            day = here.date() - timedelta(days=back)
            if day.weekday() not in self.days:
                continue
            over = day + timedelta(days=1) if self.end <= self.begin else day
            begin, end = moments(day, self.begin, zone)[0], moments(over, self.end, zone)[1]
            if begin <= now < end:
                return begin, end
        return None


class RoundPolicy(NamedTuple):
    """The schedule of a site with all that it says about rounds."""

    schedule: Schedule | None
    overlap: Overlap = Overlap.QUEUE
    catch_up: CatchUp = CatchUp.ONCE
    blackout: tuple[Blackout, ...] = ()


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def round_policy(schedule: Schedule | None) -> RoundPolicy:
    """What a site file says about rounds."""
    if schedule is None:
        return RoundPolicy(None)
    hours = (
        Blackout(
            _time(rule.begin),
            _time(rule.end),
            frozenset(map(DAYS.index, rule.days or DAYS)),
            rule.tz or schedule.tz or "UTC",
        )
        for rule in schedule.blackout
    )
    return RoundPolicy(schedule, Overlap(schedule.overlap), CatchUp(schedule.catch_up), tuple(hours))


def _time(text: str) -> time:
    hour, minute = text.split(":")
    return time(int(hour) % 24, int(minute))


class LastRound(NamedTuple):
    """The round of a site as the frontier knows it. `ended` is None while it runs, or what comes after it is done. `seeded` is when its seeds were added last:
    later than `began` if it was seeded again. `seeding`: they are still being added."""

    number: int
    began: float
    ended: float | None = None
    seeded: float | None = None
    seeding: bool = False


class Action(enum.Enum):
    """WAIT: nothing is to be done before `at`. BEGIN: begin the next round. REPLACE: the same, and drop what is left of the last.
    RESEED: add the seeds again, in a new version."""

    WAIT = "wait"
    BEGIN = "begin"
    REPLACE = "replace"
    RESEED = "reseed"


class RoundDecision(NamedTuple):
    """What to do about the rounds of a site. `at` is when to look again, None if only something from outside changes it; `why` is for
    people."""

    action: Action
    at: float | None
    why: str


def decide_round(
    site: str, policy: RoundPolicy, last: LastRound | None, now: float, *, asked: bool = False, paused: bool = False
) -> RoundDecision:
    """`asked`: somebody asked for a round by hand; it begins at any hour, also of a paused site's, unless one is running. `last` is
    None for a site that has had none: its first round is not waited for."""
    running = last is not None and last.ended is None
    if asked and not running:
        return RoundDecision(Action.BEGIN, None, "asked for by hand")
    if paused:
        return RoundDecision(Action.WAIT, None, "the site is paused")
    if policy.schedule is None:
        return RoundDecision(Action.WAIT, None, "it has no schedule")
    due = _due(site, policy, last, now)
    if now < due:
        return RoundDecision(Action.WAIT, due, "the next round is not due yet")
    if (until := _blackout(policy.blackout, now)) is not None:
        return RoundDecision(Action.WAIT, until, "no round begins in these hours")
    if not running:
        return RoundDecision(Action.BEGIN, None, "due")
    if last is not None and last.seeding:
        # Otherwise the last seeds of a long list would never be added.
        return RoundDecision(Action.WAIT, None, "the seeds of the last round are still being added")
    if policy.overlap is Overlap.REPLACE:
        return RoundDecision(Action.REPLACE, None, "due, and the last round is still running")
    if policy.overlap is Overlap.RESEED:
        return RoundDecision(Action.RESEED, None, "due, and the last round is still running")
    return RoundDecision(Action.WAIT, None, "the last round is still running")


def is_overdue(policy: RoundPolicy, last: LastRound | None, now: float) -> bool:
    """Whether a round runs longer than its schedule's deadline."""
    schedule = policy.schedule
    if last is None or schedule is None or schedule.deadline is None:
        return False
    return (now if last.ended is None else last.ended) - last.began > schedule.deadline


def _due(site: str, policy: RoundPolicy, last: LastRound | None, now: float) -> float:
    """When the next round should begin; of several points that have passed, the first that counts."""
    schedule = policy.schedule
    assert schedule is not None
    if last is None:
        return now
    since = last.began if last.seeded is None else max(last.seeded, last.began)
    later = jitter(schedule, site, last.number)

    def first_after(moment: float) -> float:
        return next_point(schedule, since, max(moment - later, since)) + later

    # Points that come while a round runs may not count.
    over = now if last.ended is None else last.ended
    due = first_after(over if policy.overlap is Overlap.SKIP else since)
    if policy.catch_up is CatchUp.NONE:
        # What waits for the last round, or came in hours in which no round begins, was not missed: it begins when they are over.
        possible = max(due, over) if policy.overlap is Overlap.QUEUE else due
        if (allowed := _allowed(policy.blackout, now - GRACE)) > possible:
            due = first_after(allowed)
    return due


def _allowed(hours: Sequence[Blackout], moment: float) -> float:
    """The last moment until this one at which a round might have begun."""
    begin = moment
    while moment - begin < WEEK and (spans := [span for hour in hours if (span := hour.span(begin)) is not None]):
        begin = min(since for since, _ in spans) - 1
    return begin


def _blackout(hours: Sequence[Blackout], now: float) -> float | None:
    """When the hours that `now` is in, and those that follow without a gap, are over. Hours that never end are looked at again
    after a week."""
    end = now
    while end - now < WEEK and (over := max([one.until(end) or 0.0 for one in hours], default=0.0)) > end:
        end = over
    return end if end > now else None
