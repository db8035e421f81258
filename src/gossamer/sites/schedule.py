"""When a site's next round is due, from its schedule and the begin of the last round."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b
from zoneinfo import ZoneInfo

from cronsim import CronSim

from gossamer.sites.format import Schedule


def next_due(schedule: Schedule, began: float, site: str, number: int) -> float:
    """The time (Unix seconds) at which the round after `number`, which began at `began`, should begin. The jitter is the same
    in every worker."""
    if schedule.every is not None:
        due = began + schedule.every
    else:
        assert schedule.cron is not None
        zone = ZoneInfo(schedule.tz) if schedule.tz else UTC
        due = next(CronSim(schedule.cron, datetime.fromtimestamp(began, zone))).timestamp()
    if schedule.jitter:
        part = int.from_bytes(blake2b(f"{site}\0{number}".encode(), digest_size=8).digest(), "big") / 2**64
        due += schedule.jitter * part
    return due


def is_late(schedule: Schedule | None, began: float, ended: float) -> bool:
    return schedule is not None and schedule.deadline is not None and ended - began > schedule.deadline
