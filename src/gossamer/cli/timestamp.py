"""Moments of server time as people read them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from gossamer.cli.progress import duration


def moment(at: float | None) -> str:
    """`2024-05-01 12:30:00 UTC`; nothing where there is none."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def when(at: float | None, now: float) -> str:
    """A moment; on a terminal, how long ago it was or how soon it comes: `3 min ago`, `in 2 h`, `now`."""
    if at is None or not sys.stdout.isatty():
        return moment(at)
    if round(abs(at - now)) == 0:
        return "now"
    return f"{about(now - at)} ago" if at < now else f"in {about(at - now)}"


def about(seconds: float) -> str:
    """A duration in its largest unit."""
    number, unit, *_ = duration(max(0.0, seconds)).split()
    return f"{number} {unit}"
