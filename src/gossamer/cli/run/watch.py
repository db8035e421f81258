"""A local fleet at work, as people see it: live figures from the frontier until its last worker has ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gossamer.cli import output, progress
from gossamer.errors import FrontierError
from gossamer.fleet import Fleet, stop_on_signals
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.status.overview import blocked_hosts, memory_trouble
from gossamer.status.progress import Progress, read_progress_of


class WatchedFleet(NamedTuple):
    """What a fleet works on: `groups`, or else the one that `title` names; `then` is their account before the fleet began."""

    frontier: ValkeyFrontier
    title: str
    then: Progress
    groups: Sequence[str] = ()


def watch(
    fleet: Fleet,
    watched: WatchedFleet,
    *,
    total: int | None = None,
    draw: bool = True,
    tick: Callable[[Progress], None] = lambda now: None,
) -> float:
    """Start the fleet and show how far it is, until it has ended. `total` is the number of pages if it is known; otherwise it is
    what is known so far. Ctrl-C and SIGTERM stop the fleet, a second one at once. `tick` is called with each account.

    Answers the seconds from the first request until the end."""
    said, began = False, time.monotonic()
    first: float | None = None
    with progress.live(f"crawling {watched.title}", total, sys.stderr, draw=draw) as show, stop_on_signals(fleet):
        fleet.start()
        while fleet.running:
            fleet.wait(show.interval)
            if fleet.stopping and not said:
                said = True
                output.write_notice("stopping: pages in progress are finished; once more kills the workers")
            try:
                now = read_progress_of(watched.frontier, watched.groups or [watched.title]).since(watched.then)
                blocked = len(blocked_hosts(watched.frontier))
                memory = memory_trouble(watched.frontier.connection.server_infos())
            except FrontierError as error:
                # The workers wait for it too, and nothing is lost; the figures stay as they were.
                show.note(str(error))
                continue
            if now.pages or now.open:
                first = first or time.monotonic()
                tick(now)
                show(now.pages, figures(now, blocked, memory), None if total is not None else now.pages + now.open)
    return time.monotonic() - (first or began)


def figures(now: Progress, blocked: int, memory: str = "") -> dict[str, Any]:
    """The figures below the bar, by name."""
    told: dict[str, Any] = {
        "queued": now.queued + now.waiting,
        "in progress": now.leased,
        _named(now.hosts, "host"): now.hosts,
        "of them blocked": blocked,
        _named(now.items, "item"): now.items,
        _named(now.dead, "dead letter"): now.dead,
    }
    if memory:
        told["memory"] = memory
    return {**told, "paused": now.paused} if now.paused else told


def _named(number: int, what: str) -> str:
    return what if number == 1 else f"{what}s"
