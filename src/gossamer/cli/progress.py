"""Long work as people see it: a bar with rate and time left on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TextIO

from gossamer.cli import output

LINE_SECONDS = 3.0
DRAW_SECONDS = 0.2
RATE_SECONDS = 5.0
IDLE_STEPS, IDLE_SECONDS = 32, 0.05
WAIT_SECONDS = 2.0


class Show:
    """Say how far the work is: `show(done, figures)`. `interval` is how often that is worth while."""

    def __init__(
        self, draw: Callable[[int, float, float | None, Mapping[str, Any]], None], total: int | None, interval: float
    ) -> None:
        self.interval = interval
        self._draw, self._total = draw, total
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(self, done: int, figures: Mapping[str, Any] | None = None) -> None:
        now = time.monotonic()
        self._seen.append((now, done))
        while now - self._seen[0][0] > RATE_SECONDS and len(self._seen) > 2:
            self._seen.popleft()
        then, before = self._seen[0]
        span = now - then
        rate = (done - before) / span if span > 0.1 else 0.0
        left = None if self._total is None or rate <= 0 else max(0, self._total - done) / rate
        self._draw(done, rate, left, figures or {})


@contextlib.contextmanager
def live(what: str, total: int | None, stream: TextIO, unit: str = "pages") -> Iterator[Show]:
    """Show work of `total` units (None: nobody knows) on `stream` until the block ends."""
    if stream.isatty():
        yield from _bar(what, total, stream, unit)
    else:
        yield from _lines(what, total, unit)


def _lines(what: str, total: int | None, unit: str) -> Iterator[Show]:
    said = time.monotonic()

    def draw(done: int, rate: float, left: float | None, figures: Mapping[str, Any]) -> None:
        nonlocal said
        if time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            parts = [_amount(done, total, unit), f"{rate:,.0f} {unit}/s", *_figures(figures), *_left(left)]
            output.write_notice(f"{what}: " + ", ".join(parts))

    yield Show(draw, total, 0.5)


def _bar(what: str, total: int | None, stream: TextIO, unit: str) -> Iterator[Show]:
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream)

    def picture(done: int, rate: float, left: float | None, figures: Mapping[str, Any]) -> Table:
        bar = ProgressBar(total=total, completed=done, width=min(60, console.width - 2), pulse=total is None)
        first = ", ".join([_amount(done, total, unit), f"{rate:,.0f} {unit}/s", *_left(left)])
        rows = Table.grid()
        for row in (Text(f"{what}: {first}"), bar, Text(", ".join(_figures(figures)), style="dim")):
            rows.add_row(row)
        return rows

    blank = picture(0, 0.0, None, {})
    with Live(blank, console=console, refresh_per_second=5, transient=True) as screen:
        yield Show(lambda *all_: screen.update(picture(*all_)), total, DRAW_SECONDS)


def _amount(done: int, total: int | None, unit: str) -> str:
    return f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"


def _left(seconds: float | None) -> list[str]:
    return [] if seconds is None else [f"{duration(seconds)} left"]


def _figures(figures: Mapping[str, Any]) -> list[str]:
    return [f"{value:,} {name}" for name, value in figures.items()]


def duration(seconds: float) -> str:
    """`42 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def throttled(show: Show) -> Callable[..., None]:
    """`show`, called as often as one likes but drawing only now and then."""
    due = 0.0

    def say(done: int, figures: Mapping[str, Any] | None = None) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + show.interval
            show(done, figures)

    return say


def dropping(steps: Iterable[int]) -> Iterator[int]:
    """The steps of a drop. While they bring nothing they come more slowly, and after a while it is said what for."""
    idle, since, said = 0, time.monotonic(), False
    for step in steps:
        yield step
        if step:
            idle, since = 0, time.monotonic()
            continue
        idle += 1
        if idle > IDLE_STEPS:
            time.sleep(IDLE_SECONDS)
            if not said and time.monotonic() - since > WAIT_SECONDS:
                said = True
                output.write_notice(
                    "waiting for pages in progress: a running worker settles them, or takes them up when they run out"
                )
