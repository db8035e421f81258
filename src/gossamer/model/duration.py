"""Durations as people write them."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MONTHS = re.compile(r"(\d{1,4})\s*M(?![sS])")
_PART = re.compile(r"(\d+(?:\.\d*)?)\s*(ms|s|m|h|d|w|)\s*")


def seconds(text: str) -> float:
    """Seconds from `90`, `0.5s`, `10m`, `1h30m`, `7d`; ValueError for anything else."""
    if found := _MONTHS.search(text):
        raise ValueError(
            f"{text!r} is not a duration: M may mean minutes or months; write {found[1]}m for minutes, or days ({int(found[1]) * 30}d)"
        )
    written = text.strip().lower()
    # Found and compared rather than matched as a whole: a repeated group could backtrack without end.
    parts = _PART.findall(written)
    if not parts or "".join(number + unit for number, unit in parts) != re.sub(r"\s", "", written):
        raise ValueError(f"{text!r} is not a duration; write 0.5s, 10m, 1h30m or 7d")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
