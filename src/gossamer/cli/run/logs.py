"""How many workers a local fleet has by default, and where they log."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gossamer.settings import Settings

MOST_WORKERS = 8
"""The most workers to start by default."""
LOG_MAX_BYTES = 10_000_000
ONE_FILE = "-"


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def logs(log: str, settings: Settings, name: str, number: int) -> list[Path | None]:
    """The log of each worker: all the same if `log` names one, None for standard error, otherwise a file for each."""
    if log:
        return [None if log == ONE_FILE else Path(log)] * number
    place = Path(settings["GOSSAMER_DATA_DIR"]).expanduser() / "log"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    plain = re.sub(r"[^\w.-]+", "-", name)
    files = [place / f"{plain}-{worker + 1}.log" for worker in range(number)]
    for file in files:
        if file.exists() and file.stat().st_size > LOG_MAX_BYTES:
            file.replace(file.with_suffix(".log.old"))
    return list(files)
