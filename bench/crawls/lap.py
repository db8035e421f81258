"""One crawl of the whole site by one contender, what it cost, and how laps compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from bench.crawls.contender import environ, settings
from bench.crawls.project import Project
from bench.crawls.site import SiteProcess, Visit
from bench.storage.measure import server_seconds

from gossamer.testing.servers import Server

LAP_SECONDS = 900.0
ADMINISTRATION = ("config|resetstat", "info", "flushall", "function|list", "function|load", "function|flush", "ping")


class Lap(NamedTuple):
    """What a crawl of `pages` pages took: seconds on the clock from the first page's arrival at the site to the last one's,
    processor seconds of the workers and of the server, commands that the server executed (those inside functions
    too), calls of functions, and round trips of the workers if they were counted. `distance` is by how many seconds a round trip
    was longer than on this machine."""

    pages: int
    wall: float
    client: float
    server: float = 0.0
    commands: int = 0
    calls: int = 0
    round_trips: int | None = None
    distance: float = 0.0

    @property
    def rate(self) -> float:
        return self.pages / self.wall


class Row(NamedTuple):
    """One line of the table, medians over the rounds; `faster` and `lighter` (in processor time of the workers) than Scrapy
    with its defaults, in the same round."""

    workers: int
    distance_ms: float
    contender: str
    rounds: int
    rate: float
    client_ms: float
    server_us: float | None
    commands: float | None
    round_trips: float | None
    faster: float | None
    lighter: float | None


def lap_of(visits: Sequence[Visit], pages: int, client: float) -> Lap:
    """RuntimeError if the crawl is not complete: a fast crawl of half a site is no crawl."""
    missing = pages - len({visit.page for visit in visits if visit.page >= 0})
    if missing:
        raise RuntimeError(f"{missing} of {pages} pages were never asked for")
    times = [visit.time for visit in visits]
    # The first visit starts the clock, so it is not one of those that were waited for.
    return Lap(len(visits) - 1, max(times) - min(times), client)


def run(label: str, site: SiteProcess, workers: int, server: Server | None, url: str = "") -> Lap:
    """Crawl the site once, on an emptied server; `url` leads to it when it is not reached directly."""
    url = url or (server.url if server else "")
    site.reset()
    if server:
        server.call("FLUSHALL")
        server.call("CONFIG", "RESETSTAT")
    before = server_seconds(server) if server else 0.0
    with Project(settings(label, url)) as project:
        for _ in range(workers):
            project.start(environ(label, url), [f"site={site.url}"])
        deadline = time.monotonic() + LAP_SECONDS
        for worker in project.workers:
            worker.wait(max(1.0, deadline - time.monotonic()))
        client = sum(worker.report().cpu for worker in project.workers)
    lap = lap_of(site.visits(), site.shape.pages, client)
    if server is None:
        return lap
    commands, calls = executed(server.info("commandstats"))
    return lap._replace(server=server_seconds(server) - before, commands=commands, calls=calls)


def executed(commandstats: dict[str, str]) -> tuple[int, int]:
    """Commands and calls of functions, from INFO; what only starts or watches is left out."""
    numbers = {
        name.removeprefix("cmdstat_"): int(fields.partition("calls=")[2].partition(",")[0])
        for name, fields in commandstats.items()
    }
    commands = sum(number for name, number in numbers.items() if name not in ADMINISTRATION)
    return commands, numbers.get("fcall", 0) + numbers.get("fcall_ro", 0)


def per_page(laps: Sequence[Lap], figure: Callable[[Lap], float]) -> float:
    return median(figure(lap) / lap.pages for lap in laps)


def ratio(ours: Sequence[Lap], theirs: Sequence[Lap], figure: Callable[[Lap], float]) -> float:
    """The median of the rounds' own ratios: what disturbed one disturbed the other."""
    return median(figure(mine) / figure(other) for mine, other in zip(ours, theirs, strict=False))


def row(laps: Sequence[Lap], plain: Sequence[Lap], contender: str, workers: int) -> Row:
    """`plain` are the laps of Scrapy with its defaults in the same rounds, if there were any."""
    counted = [lap for lap in laps if lap.round_trips is not None]
    served = any(lap.server for lap in laps)
    return Row(
        workers, round(laps[0].distance * 1e3, 2), contender, len(laps), median(lap.rate for lap in laps),
        per_page(laps, lambda lap: lap.client) * 1e3,
        per_page(laps, lambda lap: lap.server) * 1e6 if served else None,
        per_page(laps, lambda lap: lap.commands) if served else None,
        per_page(counted, lambda lap: lap.round_trips or 0) if counted else None,
        ratio(laps, plain, lambda lap: lap.rate) if plain else None,
        1 / ratio(laps, plain, lambda lap: lap.client / lap.pages) if plain else None,
    )  # fmt: skip
