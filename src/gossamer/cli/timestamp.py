"""Moments of server time as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(at: float | None) -> str:
    """`2024-05-01 12:30:00 UTC`; nothing where there is none."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
