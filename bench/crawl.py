"""Whole crawls: Scrapy, scrapy-redis 0.9.1 and Gossamer with the same spider on the same site, by turns, in the same run.

    python bench/crawl.py [--quick] [--check] [--json FILE] [--rounds N] [--rule graph|forum] [--only NAME]

Prints a table, says which targets are reached, and writes everything as JSON to bench/results. How it is measured and what the
figures mean: docs/evidence/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.crawls.contender import CONTENDERS, OURS, PLAIN, REDIS, REDIS_STATS, TUNED
from bench.crawls.distance import Distance, round_trip
from bench.crawls.lap import Lap, Row, per_page, ratio, row, run
from bench.crawls.shape import Shape
from bench.crawls.site import SiteProcess
from bench.frontier import RESULTS, table
from bench.storage.measure import PRELOAD, Progress, start_server
from bench.storage.target import Target

from gossamer.frontier.connection.supervisor import allocator

START = 3.0
"""Seconds that a lap takes beside the crawl itself."""
AWAY = 0.001
"""Seconds to a server that is in another rack, there and back."""


class Scale(NamedTuple):
    """How much is measured. A contender crawls a site that it needs about `lap` seconds for; `seconds` is a bound: what does
    not fit any more is left out and said to be."""

    seconds: float = 1800
    rounds: int = 3
    lap: float = 10
    workers: int = 2


QUICK = Scale(seconds=50, rounds=1, lap=0.8)


class Key(NamedTuple):
    """What a lap was: by whom, with how many workers, with the server away, with its round trips counted."""

    label: str
    workers: int = 1
    away: bool = False
    counted: bool = False


Found = dict[Key, list[Lap]]


def plan(scale: Scale, only: Sequence[str]) -> list[Key]:
    """The laps of one round, those first that targets need, those last whose figures are the least."""
    served = [one.label for one in CONTENDERS if one.served]
    keys = [Key(one.label) for one in CONTENDERS]
    keys += [Key(OURS, away=True), Key(OURS, counted=True), Key(REDIS, away=True)]
    keys += [Key(label, workers=scale.workers) for label in (OURS, REDIS) if scale.workers > 1]
    keys += [Key(label, counted=True) for label in served if label != OURS]
    return [key for key in keys if not only or key.label in only]


def measure(scale: Scale, rule: str, only: Sequence[str], progress: Progress, found: Found) -> None:
    """Run all laps and put them into `found`, each as soon as it is over."""
    keys = plan(scale, only)
    sizes = {one.label: max(30, int(one.speed * scale.lap)) for one in CONTENDERS}
    took: dict[Key, float] = {}
    with ExitStack() as stack:
        server = stack.enter_context(start_server())
        near = stack.enter_context(Distance(server.port, 0.0))
        direct = round_trip(server.port)
        # What forwarding costs comes on top: at least so far away.
        far = stack.enter_context(Distance(server.port, AWAY))
        distance = far.measured() - direct
        sites = {
            pages: stack.enter_context(SiteProcess(Shape(rule, pages)))
            for pages in sorted({sizes[key.label] for key in keys})
        }
        for number in range(scale.rounds):
            for key in keys:
                text = f"round {number + 1} of {scale.rounds}: {described(key)}, {sizes[key.label]:,} pages"
                if key.counted and number:
                    continue  # Round trips are counted, not timed: once is enough.
                if progress.left < took.get(key, scale.lap + START):
                    progress.leave_out(text)
                    continue
                progress.step(text)
                begin = time.monotonic()
                way = far if key.away else near if key.counted else None
                shared = server if served(key.label) else None
                before = way.round_trips if way else 0
                lap = run(key.label, sites[sizes[key.label]], key.workers, shared, way.url if way else "")
                if way:
                    lap = lap._replace(round_trips=way.round_trips - before, distance=distance if key.away else 0.0)
                found.setdefault(key, []).append(lap)
                took[key] = time.monotonic() - begin


def served(label: str) -> bool:
    return next(one.served for one in CONTENDERS if one.label == label)


def described(key: Key) -> str:
    text = f"{key.label}, {key.workers} worker{'s' if key.workers > 1 else ''}"
    return text + (", server away" if key.away else "") + (", counting round trips" if key.counted else "")


def rows(found: Found) -> list[Row]:
    """A line for each kind of lap but those that only counted; their count stands with the timed ones."""
    lines = []
    for key, laps in found.items():
        if key.counted:
            continue
        plain = found.get(Key(PLAIN), [])
        line = row(laps, plain, key.label, key.workers)
        counted = found.get(key._replace(counted=True), [])
        if counted:
            line = line._replace(round_trips=per_page(counted, lambda lap: lap.round_trips or 0))
        lines.append(line)
    return lines


def targets(found: Found) -> list[Target]:
    """Those for which there are figures. Ratios are of pages a second, medians of the rounds' own; beside them that of
    the workers' processor time per page, which a busy machine disturbs less."""
    ours = found.get(Key(OURS), [])
    goals = []
    for label, wanted in ((PLAIN, 2.0), (TUNED, 0.95), (REDIS, 4.0), (REDIS_STATS, 10.0)):
        theirs = found.get(Key(label), [])
        if ours and theirs:
            reached = ratio(ours, theirs, lambda lap: lap.rate)
            lighter = 1 / ratio(ours, theirs, lambda lap: lap.client / lap.pages)
            figure = f"{reached:.2f}×; {lighter:.2f}× by processor time"
            goals.append(Target(f"pages/s, to {label}", f"≥ {wanted:g}×", figure, reached >= wanted))
    counted = found.get(Key(OURS, counted=True), [])
    if counted:
        trips = per_page(counted, lambda lap: lap.round_trips or 0)
        goals.append(Target("round trips per page", "≤ 0.5", f"{trips:.2f}", trips <= 0.5))
    theirs = found.get(Key(REDIS), [])
    if ours and theirs:
        share = ratio(ours, theirs, lambda lap: lap.server / lap.pages)
        goals.append(Target(f"server time per page, to {REDIS}", "≤ 1/5", f"1/{1 / share:.1f}", share <= 0.2))
    away = found.get(Key(OURS, away=True), [])
    if ours and away:
        kept = ratio(away, ours, lambda lap: lap.rate)
        goals.append(Target("pages/s with the server away, to without", "≥ 0.9×", f"{kept:.2f}×", kept >= 0.9))
    return goals


def report(found: Found, skipped: Sequence[str]) -> str:
    """The tables as text, which is Markdown too."""

    def said(value: float | None, form: str, unit: str = "") -> str:
        return "" if value is None else f"{value:{form}}{unit}"

    lines = [
        (f"{r.workers}", said(r.distance_ms or None, ".2f", " ms"), r.contender, said(r.rate, ",.0f"),
         said(r.client_ms, ".2f"), said(r.server_us, ",.0f"), said(r.commands, ".1f"), said(r.round_trips, ".2f"),
         said(r.faster, ".2f", "×"), said(r.lighter, ".2f", "×"))
        for r in rows(found)
    ]  # fmt: skip
    heads = (
        "workers", "server away", "who", "pages/s", "CPU ms/page", "server µs/page", "commands/page", "round trips/page",
        "faster", "lighter",
    )  # fmt: skip
    texts = [table(heads, lines)]
    goals = [(t.name, t.wanted, t.figure, "reached" if t.reached else "missed") for t in targets(found)]
    if goals:
        texts.append(table(("target", "wanted", "measured", ""), goals))
    return "\n\n".join([*texts, *(f"Left out for want of time: {name}." for name in skipped)])


def as_json(found: Found, scale: Scale, rule: str, progress: Progress, whole: bool) -> dict[str, Any]:
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        "preloaded": Path(os.environ.get(PRELOAD, "")).name,
        "seconds": round(progress.elapsed),
        "scale": scale._asdict(),
        "site": rule,
        "interrupted": not whole,
        "crawl": [line._asdict() for line in rows(found)],
        "laps": [{**key._asdict(), **lap._asdict()} for key, laps in found.items() for lap in laps],
        "targets": [one._asdict() for one in targets(found)],
        "left_out": progress.skipped,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure whole crawls beside Scrapy and scrapy-redis.")
    parser.add_argument("--quick", action="store_true", help="less of everything, in under a minute")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument(
        "--json", type=Path, help="where to write the figures (default: bench/results/crawl-<time>.json)"
    )
    parser.add_argument("--rounds", type=int, help="how often everybody takes turns")
    parser.add_argument("--rule", choices=("graph", "forum"), default="graph", help="the site")
    labels = [one.label for one in CONTENDERS]
    parser.add_argument("--only", choices=labels, action="append", help="let only this one run; may be repeated")
    options = parser.parse_args(arguments)
    library = allocator()
    if library:
        os.environ[PRELOAD] = library  # As the embedded server would be.
    scale = QUICK if options.quick else Scale()
    if options.rounds:
        scale = scale._replace(rounds=options.rounds)
    progress = Progress(scale.seconds)
    found: Found = {}
    whole = True
    try:
        measure(scale, options.rule, options.only or [], progress, found)
    except KeyboardInterrupt:
        # Half an hour's work is worth its first ten minutes.
        whole = False
        print("interrupted: only what was measured until now", file=sys.stderr)
    print(report(found, progress.skipped))
    path = options.json or RESULTS / time.strftime("crawl-%Y%m%d-%H%M%S.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_json(found, scale, options.rule, progress, whole), indent=1) + "\n")
    print(f"\n{progress.elapsed:.0f} s; figures in {path}", file=sys.stderr)
    missed = [one for one in targets(found) if not one.reached]
    return 130 if not whole else 1 if options.check and missed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
