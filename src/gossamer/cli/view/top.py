"""`gossamer top`: a crawl as it goes."""

from __future__ import annotations

import contextlib
import json as jsonlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from gossamer.cli import options, output
from gossamer.cli.options import flag, option
from gossamer.errors import FrontierError
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.status import overview as reading
from gossamer.status.rates import Rates

app = options.Noun()

DRAW_SECONDS = 1.0
LINE_SECONDS = 5.0


@app.command()
def top(
    group: Annotated[str, option("--group", "NAME", "Only this group and its lanes.")] = "",
    every: Annotated[
        float, option("--every", "SECONDS", "How often to look; 0: each second, off a terminal every 5.", min=0.0)
    ] = 0.0,
    count: Annotated[int, option("--count", "N", "End after N looks; 0: never.", min=0)] = 0,
    json: Annotated[bool, flag("--json", "Write a line of JSON at each look.")] = False,
    where: options.Where = options.HERE,
) -> None:
    """Watch a crawl as it goes: lanes, groups, workers, rates.

    On a terminal this is a screen that refreshes itself; q or Ctrl-C ends it. Elsewhere, and with --json, it writes a
    line every few seconds. A look costs the frontier the same however much is queued.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    drawn = sys.stdout.isatty() and not json
    interval = every or (DRAW_SECONDS if drawn else LINE_SECONDS)
    with (
        ValkeyFrontier.find(reading.hasty(where.settings())) as frontier,
        contextlib.suppress(KeyboardInterrupt),
    ):
        # The first look may fail like any command; later ones wait for the frontier to come back.
        first = reading.overview(frontier, group)
        show = _screen if drawn else _lines
        with show(frontier.connection.address.safe, json) as (draw, wait):
            if not drawn:
                # A line is kept, in a log or by a script: it has to have a rate, and that takes two looks.
                wait(min(interval, DRAW_SECONDS))
            _watch(frontier, first, group, draw, lambda: wait(interval), count, again=not drawn)


Draw = Callable[[reading.Overview, Rates, str], None]
Wait = Callable[[float], bool]


def _watch(
    frontier: ValkeyFrontier,
    view: reading.Overview,
    group: str,
    draw: Draw,
    wait: Callable[[], bool],
    count: int,
    again: bool,
) -> None:
    """`again`: look a second time before anything is drawn."""
    rates, trouble, looks = Rates(), "", 0
    rates.take(view)
    while True:
        if looks or again:
            try:
                view, trouble = reading.overview(frontier, group), ""
                rates.take(view)
            except FrontierError as error:
                trouble = str(error)
        draw(view, rates, trouble)
        looks += 1
        if looks == count or wait():
            return


@contextlib.contextmanager
def _lines(place: str, json: bool) -> Iterator[tuple[Draw, Wait]]:
    from gossamer.cli.view import top_screen

    def draw(view: reading.Overview, rates: Rates, trouble: str) -> None:
        if trouble:
            output.write_notice(f"not the newest: {trouble}")
        elif json:
            sys.stdout.write(
                jsonlib.dumps({**reading.as_json(view), "url": place, "rates": _rates(view, rates)}) + "\n"
            )
        else:
            output.write_line(top_screen.line(view, rates))
        sys.stdout.flush()

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    yield draw, wait


def _rates(view: reading.Overview, rates: Rates) -> dict[str, dict[str, float]]:
    lanes, groups = [x.lane for x in view.lanes], [x.group for x in view.groups]
    names = {"pages": lanes, "items": groups, "bytes": groups, "errors": groups}
    return {what: {name: round(rates.of(what, [name]), 3) for name in each} for what, each in names.items()}


@contextlib.contextmanager
def _screen(place: str, _: bool) -> Iterator[tuple[Draw, Wait]]:
    from rich.console import Console
    from rich.live import Live

    from gossamer.cli.view import top_screen

    console = Console(file=sys.stdout)
    with _keys() as wait, Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as screen:

        def draw(view: reading.Overview, rates: Rates, trouble: str) -> None:
            screen.update(top_screen.picture(view, rates, place, console, trouble), refresh=True)

        yield draw, wait


@contextlib.contextmanager
def _keys() -> Iterator[Wait]:
    """Waiting that a `q` ends. Without a keyboard it is only waiting."""
    if not sys.stdin.isatty():

        def sleep(seconds: float) -> bool:
            time.sleep(seconds)
            return False

        yield sleep
        return
    # Imported here: only terminals of Unix have them.
    import os
    import select
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before: list[Any] = termios.tcgetattr(keyboard)
    # Single keys without Enter; Ctrl-C still interrupts.
    tty.setcbreak(keyboard)

    def wait(seconds: float) -> bool:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([keyboard], [], [], left)
            if ready:
                pressed = os.read(keyboard, 64)
                # Nothing to read: the terminal was closed.
                if not pressed or b"q" in pressed or b"Q" in pressed:
                    return True
        return False

    try:
        yield wait
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
