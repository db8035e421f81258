"""The end of a process that was asked to end: it comes, whatever its threads wait for."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

PAGES_SHARE, CALLS_SHARE = 0.8, 0.9
"""Of the time that a worker has to end (GOSSAMER_STOP_SECONDS), until when pages in progress may go on, and the last calls to the
frontier may be answered; the rest is for what is closed then and for the end of the process."""
LAST_SECONDS = 5.0
"""How long a process may take that was told twice to end, or that is done and only waits for threads of its own."""

_owed = False


def exit_within(seconds: float, code: int) -> None:
    """End this process with `code` after so long, unless it has ended by then. Neither a blocked event loop nor a thread that
    waits for an answer keeps it."""

    def end() -> None:
        time.sleep(seconds)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code)

    threading.Thread(target=end, name="gossamer-ending", daemon=True).start()


def after_main() -> None:
    """Let `limited` hold for this process: a thread left behind must not keep it."""
    global _owed
    _owed = True


def limited(code: int) -> None:
    """To be called last by the process's main function."""
    if _owed:
        exit_within(LAST_SECONDS, code)


@contextmanager
def handle_signals(first: Callable[[int], object], second: Callable[[], object]) -> Iterator[None]:
    """Inside the block SIGINT and SIGTERM call `first` with their number; the next one calls `second`, and the process ends within
    LAST_SECONDS; one more ends it at once. Both are called on the main thread, between any two steps of what it does."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    told = 0

    def obey(number: int, _: FrameType | None) -> None:
        nonlocal told
        told += 1
        if told == 1:
            first(number)
            return
        exit_within(LAST_SECONDS, 128 + number)
        for one in numbers:
            signal.signal(one, signal.SIG_DFL)
        second()

    before = [signal.signal(number, obey) for number in numbers]
    try:
        yield
    finally:
        if told < 2:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)
