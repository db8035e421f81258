"""When a site's next round is due, from its schedule and the begin of the last round."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b
from zoneinfo import ZoneInfo

from cronsim import CronSim

from gossamer.sites.format import Schedule


def next_point(schedule: Schedule, began: float, after: float) -> float:
    """The first point in time that a schedule names after a moment. `began` is when the last round began: `every` counts from there."""
    if schedule.every is not None:
        return began + schedule.every * (1 + max(int((after - began) // schedule.every), 0))
    assert schedule.cron is not None
    zone = ZoneInfo(schedule.tz) if schedule.tz else UTC
    moment = max(began, after)
    points = (point.timestamp() for point in CronSim(schedule.cron, datetime.fromtimestamp(moment, zone)))
    # In the hour that comes twice when clocks go back, the first that it names may be that of the hour before.
    return next(point for point in points if point > moment)


def jitter(schedule: Schedule, site: str, number: int) -> float:
    """How much later than its point the round after `number` begins: the same in every process."""
    part = int.from_bytes(blake2b(f"{site}\0{number}".encode(), digest_size=8).digest(), "big") / 2**64
    return schedule.jitter * part


def is_late(schedule: Schedule | None, began: float, ended: float) -> bool:
    return schedule is not None and schedule.deadline is not None and ended - began > schedule.deadline
