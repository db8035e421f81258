"""Gossamer in a process whose clock is an hour ahead: `python -m scripts.chaos.clock_ahead plan`."""

from __future__ import annotations

import runpy
import sys
import time

AHEAD = 3600.0


def main() -> None:
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + AHEAD
    time.time_ns = lambda: nanoseconds() + int(AHEAD * 1e9)
    sys.argv[0] = "gossamer"
    runpy.run_module("gossamer", run_name="__main__")


if __name__ == "__main__":
    main()
