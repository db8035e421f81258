"""The frontier beside scrapy-redis 0.9.1, on the same server, in the same run.

    python bench/frontier.py [--quick] [--check] [--json FILE] [--only PART] [--preload LIBRARY]

Prints tables, says which targets are reached, and writes everything as JSON to bench/results. How it is measured and what
the figures mean: docs/evidence/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.storage import growth, size, speed, target
from bench.storage.clients import Clients
from bench.storage.measure import PRELOAD, Progress, start_server
from bench.storage.workload import Site

from gossamer.frontier.connection.supervisor import allocator

PARTS = ("speed", "queued", "growth", "seen")
RESULTS = Path(__file__).resolve().parent / "results"
FEW_HOSTS, MANY_HOSTS = 100, 10_000


class Scale(NamedTuple):
    """How much is measured. `seconds` is a bound: what does not fit any more is left out and said to be."""

    seconds: float = 2700
    theirs: int = 2_400
    ours: int = 12_000
    rounds: int = 5
    rounds_of_four: int = 3
    broad_rounds: int = 3
    clients: int = 4
    queued: int = 100_000
    seen: tuple[int, ...] = (1_000_000, 10_000_000)
    probes: int = 1_000_000
    job_seconds: float = 1200
    levels: tuple[tuple[int, float], ...] = ((1_000_000, 60), (10_000_000, 330))
    probe: int = 4_000
    probe_rounds: int = 7
    blocked: int = 100_000


QUICK = Scale(
    seconds=50, theirs=480, ours=4_800, rounds=2, rounds_of_four=1, broad_rounds=0, queued=10_000, seen=(100_000,),
    probes=20_000, job_seconds=12, levels=((100_000, 8),), probe=1_000, probe_rounds=3, blocked=5_000,
)  # fmt: skip


def measure(scale: Scale, parts: Sequence[str], progress: Progress) -> dict[str, list[Any]]:
    """All the figures: rows by part."""
    found: dict[str, list[Any]] = {part: [] for part in (*PARTS, "parking")}
    if "speed" in parts or "queued" in parts:
        with start_server() as server:
            if "speed" in parts:
                found["speed"] += _speed(scale, server, progress)
            if "queued" in parts:
                for hosts in (FEW_HOSTS, MANY_HOSTS):
                    found["queued"] += size.queued(server, scale.queued, hosts, progress)
    if "growth" in parts:
        rows, parking = growth.blocked(scale.blocked, scale.probe_rounds, scale.probe, progress)
        found["growth"] += growth.queued(scale.levels, scale.probe_rounds, scale.probe, progress) + rows
        found["parking"].append(parking)
    if "seen" in parts:
        found["seen"] += size.all_remembered(scale.seen, scale.probes, scale.job_seconds, progress)
    return found


def _speed(scale: Scale, server: Any, progress: Progress) -> list[speed.Row]:
    entrants = speed.contenders(scale.theirs, scale.ours)
    site = Site(FEW_HOSTS)
    table = speed.rows(speed.compare(server, entrants, site, scale.rounds, None, progress), 1, f"{FEW_HOSTS} hosts")
    if scale.broad_rounds:
        broad = Site(MANY_HOSTS, run=1)
        results = speed.compare(server, entrants[:2], broad, scale.broad_rounds, None, progress)
        table += speed.rows(results, 1, f"{MANY_HOSTS:,} hosts")
    if scale.rounds_of_four:
        with Clients(scale.clients) as clients:
            few = entrants if scale.broad_rounds else entrants[:2]
            results = speed.compare(server, few, site, scale.rounds_of_four, clients, progress)
        table += speed.rows(results, scale.clients, f"{FEW_HOSTS} hosts")
    return table


def as_json(found: dict[str, list[Any]], scale: Scale, skipped: list[str], took: float) -> dict[str, Any]:
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        "preloaded": Path(os.environ.get(PRELOAD, "")).name,
        "seconds": round(took),
        "scale": scale._asdict(),
        **{part: [row if isinstance(row, dict) else row._asdict() for row in rows] for part, rows in found.items()},
        "targets": [one._asdict() for one in target.targets(found)],
        "left_out": skipped,
    }


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[i]) for line in (heads, *lines)) for i in range(len(heads))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in (heads, rule, *lines)
    )


def report(found: dict[str, list[Any]], skipped: list[str]) -> str:
    """The tables as text, which is Markdown too."""
    texts: list[str] = []
    lines: list[Sequence[str]]
    if found["speed"]:
        lines = [
            (f"{r.clients}, {r.site}", r.work, r.contender, f"{r.rate:,.0f}", f"{r.client_us:,.1f}",
             f"{r.server_us:,.1f}", f"{r.faster:.1f}×", f"{r.lighter:.1f}×", f"{r.server_share:.2f}")
            for r in found["speed"]
        ]  # fmt: skip
        heads = (
            "clients",
            "work",
            "who",
            "per second",
            "client µs",
            "server µs",
            "faster",
            "lighter",
            "of its server time",
        )
        texts.append(table(heads, lines))
    if found["queued"]:
        lines = [
            (f"{r.hosts:,}", r.contender, f"{r.requests:,}", f"{r.queued:.0f}", f"{r.with_seen:.0f}")
            for r in found["queued"]
        ]
        texts.append(table(("hosts", "who", "queued", "bytes each", "with what was seen"), lines))
    if found["growth"]:
        lines = [
            (r.case, r.work, f"{r.wall_us:.1f}", f"{r.server_us:.1f}", f"{r.wall_times:.2f}×", f"{r.server_times:.2f}×")
            for r in found["growth"]
        ]
        texts.append(table(("case", "work", "wall µs", "server µs", "wall, to small", "server, to small"), lines))
    for parking in found["parking"]:
        texts.append(
            f"Setting {parking['hosts']:,} blocked hosts aside, once: {parking['calls']} calls, {parking['server_us']:.1f} µs of the server each."
        )
    if found["seen"]:
        lines = [
            (r.policy, f"{r.urls:,}", f"{r.bytes:.2f}", f"{r.microseconds:.1f}",
             "" if r.error is None else f"{r.error:.1e} of {r.probes:,}")
            for r in found["seen"]
        ]  # fmt: skip
        texts.append(table(("memory", "URLs", "bytes each", "server µs to add", "measured error"), lines))
    lines = [(t.name, t.wanted, t.figure, "reached" if t.reached else "missed") for t in target.targets(found)]
    if lines:
        texts.append(table(("target", "wanted", "measured", ""), lines))
    texts += [f"Left out for want of time: {name}." for name in skipped]
    return "\n\n".join(texts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the frontier beside scrapy-redis.")
    parser.add_argument("--quick", action="store_true", help="less of everything, in under a minute")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--json", type=Path, help="where to write the figures (default: bench/results/<time>.json)")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this part; may be repeated")
    parser.add_argument(
        "--preload", help="a library to load into the servers; default: jemalloc if it is there, as embedded; or none"
    )
    options = parser.parse_args(arguments)
    library = allocator() if options.preload is None else str(options.preload)
    if library and library != "none":
        if not Path(library).is_file():
            parser.error(f"{library} is not a file")
        # By the environment: the processes that measure memory start servers, too.
        os.environ[PRELOAD] = str(Path(library).resolve())
    scale = QUICK if options.quick else Scale()
    progress = Progress(scale.seconds)
    try:
        found = measure(scale, options.only or PARTS, progress)
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return 130
    print(report(found, progress.skipped))
    path = options.json or RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_json(found, scale, progress.skipped, progress.elapsed), indent=1) + "\n")
    print(f"\n{progress.elapsed:.0f} s; figures in {path}", file=sys.stderr)
    missed = [one for one in target.targets(found) if not one.reached]
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
