"""Long work as people see it: a bar with rate and time left on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TextIO

from gossamer.cli import output

LINE_SECONDS = 3.0
DRAW_SECONDS = 0.2
RATE_SECONDS = 5.0
IDLE_STEPS, IDLE_SECONDS = 32, 0.05
WAIT_SECONDS = 2.0


class ProgressState(NamedTuple):
    """How far the work is: of `total` units (None: unknown), with `left` seconds to go at this rate."""

    done: int
    total: int | None
    rate: float
    left: float | None
    figures: Mapping[str, Any]


class ProgressDisplay:
    """Say how far the work is: `show(done, figures)`, and `total` where it grows. `interval` is how often that is worth
    while."""

    def __init__(self, draw: Callable[[ProgressState], None], total: int | None, interval: float) -> None:
        self.interval = interval
        self._draw, self._total = draw, total
        self._seen: deque[tuple[float, int]] = deque()
        self._last = ProgressState(0, total, 0.0, None, {})

    def __call__(self, done: int, figures: Mapping[str, Any] | None = None, total: int | None = None) -> None:
        self._total = self._total if total is None else total
        now = time.monotonic()
        self._seen.append((now, done))
        while now - self._seen[0][0] > RATE_SECONDS and len(self._seen) > 2:
            self._seen.popleft()
        then, before = self._seen[0]
        span = now - then
        rate = (done - before) / span if span > 0.1 else 0.0
        left = None if self._total is None or rate <= 0 else max(0, self._total - done) / rate
        self._last = ProgressState(done, self._total, rate, left, figures or {})
        self._draw(self._last)

    def note(self, what: str) -> None:
        """Show the last state once more, and what keeps it from being newer."""
        self._draw(self._last._replace(rate=0.0, left=None, figures={**self._last.figures, "not the newest": what}))


@contextlib.contextmanager
def live(
    what: str, total: int | None, stream: TextIO, unit: str = "pages", *, draw: bool = True
) -> Iterator[ProgressDisplay]:
    """Show work of `total` units (None: unknown) on `stream` until the block ends; without `draw` as lines even on a
    terminal."""
    if draw and stream.isatty():
        yield from _bar(what, total, stream, unit)
    else:
        yield from _lines(what, total, unit)


def _lines(what: str, total: int | None, unit: str) -> Iterator[ProgressDisplay]:
    said = time.monotonic()

    def draw(now: ProgressState) -> None:
        nonlocal said
        if time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            parts = [_amount(now, unit), f"{now.rate:,.0f} {unit}/s", *_figures(now.figures), *_left(now.left)]
            output.write_notice(f"{what}: " + ", ".join(parts))

    yield ProgressDisplay(draw, total, 0.5)


def _bar(what: str, total: int | None, stream: TextIO, unit: str) -> Iterator[ProgressDisplay]:
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream)

    def picture(now: ProgressState) -> Table:
        width = min(60, console.width - 2)
        bar = ProgressBar(total=now.total, completed=now.done, width=width, pulse=now.total is None)
        first = ", ".join([_amount(now, unit), f"{now.rate:,.0f} {unit}/s", *_left(now.left)])
        rows = Table.grid()
        for row in (Text(f"{what}: {first}"), bar, Text(", ".join(_figures(now.figures)), style="dim")):
            rows.add_row(row)
        return rows

    blank = picture(ProgressState(0, total, 0.0, None, {}))
    with Live(blank, console=console, refresh_per_second=5, transient=True) as screen:
        yield ProgressDisplay(lambda now: screen.update(picture(now)), total, DRAW_SECONDS)


def _amount(now: ProgressState, unit: str) -> str:
    return f"{now.done:,} {unit}" if now.total is None else f"{now.done:,} of {now.total:,} {unit}"


def _left(seconds: float | None) -> list[str]:
    return [] if seconds is None else [f"{duration(seconds)} left"]


def _figures(figures: Mapping[str, Any]) -> list[str]:
    """Numbers with what they count; a text is preceded by what it is."""
    return [f"{name}: {value}" if isinstance(value, str) else f"{value:,} {name}" for name, value in figures.items()]


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


def throttled(show: ProgressDisplay) -> Callable[..., None]:
    """`show`, called as often as one likes but drawing only now and then."""
    due = 0.0

    def say(done: int, figures: Mapping[str, Any] | None = None) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + show.interval
            show(done, figures)

    return say


def _patient(steps: Iterable[int]) -> Iterator[int]:
    """The steps of a drop. While they bring nothing they come more slowly, and after a while a notice says why."""
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


def drop(total: int | None, *drops: Iterable[int]) -> int:
    """Carry out drops of about `total` requests, None if unknown, with a bar; returns how many went."""
    dropped = 0
    with live("dropping", total, sys.stderr, "requests") as show:
        say = throttled(show)
        for steps in drops:
            for step in _patient(steps):
                dropped += step
                say(dropped)
    return dropped
