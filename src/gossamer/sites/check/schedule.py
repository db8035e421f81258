"""Whether rounds can begin as a schedule says."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

from gossamer.sites.check import expressions
from gossamer.sites.check.expressions import Complaint
from gossamer.sites.file.messages import problem_at
from gossamer.sites.file.problems import Path, Problem
from gossamer.sites.file.yaml import Spot
from gossamer.sites.format import BlackoutRule, Schedule
from gossamer.sites.schedule import next_point

YEAR = 1_767_225_600.0
"""When 2026 began (UTC)."""


class ScheduleChecker(Protocol):
    """Whoever checks the file in which the schedule stands."""

    def add(self, path: Path, message: str, hint: str = "") -> None: ...
    def warn(self, path: Path, message: str, hint: str = "") -> None: ...
    def must(self, looks: Callable[[str], Complaint], text: str | None, path: Path) -> None: ...


class ProblemReport:
    """What is wrong with one document."""

    def __init__(self, spot: Spot) -> None:
        self._spot = spot
        self.problems: list[Problem] = []

    def add(self, path: Path, message: str, hint: str = "") -> None:
        self.problems.append(problem_at(self._spot, path, message, hint))

    def warn(self, path: Path, message: str, hint: str = "") -> None:
        self.problems.append(problem_at(self._spot, path, message, hint, severity="warning"))

    def must(self, looks: Callable[[str], Complaint], text: str | None, path: Path) -> None:
        if text is not None and (complaint := looks(text)) is not None:
            self.add(path, *complaint)


def schedule_problems(schedule: Schedule | None, spot: Spot) -> list[Problem]:
    """What is wrong with the schedule of a site."""
    report = ProblemReport(spot)
    if schedule is not None:
        check_schedule(report, schedule, ("schedule",))
    return report.problems


def check_schedule(checker: ScheduleChecker, schedule: Schedule, path: Path) -> None:
    checker.must(expressions.cron, schedule.cron, (*path, "cron"))
    checker.must(expressions.zone, schedule.tz, (*path, "tz"))
    for place, hours in enumerate(schedule.blackout):
        checker.must(expressions.zone, hours.tz, (*path, "blackout", place, "tz"))
        if _always(hours):
            checker.add((*path, "blackout", place), "no round would ever begin", "name fewer hours or days")
    if schedule.every is not None and schedule.deadline is not None and schedule.deadline > schedule.every:
        checker.warn(
            (*path, "deadline"),
            "the deadline is longer than every: a round is late only after the next one was due",
            "write a deadline of at most every",
        )

    if schedule.deadline == 0:
        checker.warn((*path, "deadline"), "every round would be late", "write how long a round may take")
    if schedule.jitter > _interval(schedule):
        checker.warn(
            (*path, "jitter"),
            "the jitter is longer than the time from one round to the next: rounds begin less often than the schedule says",
            "write a shorter jitter",
        )


def _interval(schedule: Schedule) -> float:
    """The time between two rounds; of cron, that between the first two of a year."""
    if schedule.every is not None:
        return schedule.every
    if expressions.cron(schedule.cron or "") is not None or expressions.zone(schedule.tz or "UTC") is not None:
        return inf
    first = next_point(schedule, YEAR, YEAR)
    return next_point(schedule, first, first) - first


def _always(hours: BlackoutRule) -> bool:
    whole = {hours.begin, hours.end} <= {"0:00", "00:00", "24:00"} or hours.begin == hours.end
    return whole and len(set(hours.days)) in (0, 7)
