"""The native engine beside Scrapy, scrapy-redis, Crawlee and feapder: the same two sites, by turns, in the same run.

    python bench/engine.py [--quick] [--check] [--json FILE] [--rounds N] [--only NAME]

Everybody follows every link of the site. Prints a table for each site, says which targets are reached, and writes everything as
JSON to bench/results. How it is measured and what the figures mean: docs/evidence/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.crawls import contender, lap
from bench.crawls.lap import Lap, lap_of, per_page, ratio
from bench.crawls.native import LAYERS
from bench.crawls.shape import Shape
from bench.crawls.site import SiteProcess
from bench.frontier import RESULTS, table
from bench.storage.measure import Progress, server_seconds, start_server
from bench.storage.target import Target

from gossamer.testing.servers import Server

ROOT = Path(__file__).resolve().parents[1]
CONCURRENT = 64
OURS, PLAIN, REDIS = "Gossamer, native engine", contender.PLAIN, contender.REDIS
IN_PYTHON = "Gossamer, site in Python"
CRAWLEE, FEAPDER, FEAPDER_REDIS = "Crawlee, in memory", "feapder, in memory", "feapder with redis"
SITES = ("graph", "forum")
LAP_SECONDS = 300.0


class Contender(NamedTuple):
    """`speed` says roughly how many pages a second it does on the easier site; `served` ones use the server."""

    label: str
    speed: int
    served: bool = False


CONTENDERS = (
    Contender(OURS, 1000, True),
    Contender(IN_PYTHON, 1000, True),
    Contender(PLAIN, 200),
    Contender(CRAWLEE, 400),
    Contender(FEAPDER, 400),
    Contender(FEAPDER_REDIS, 200, True),
    Contender(REDIS, 100, True),
)
WITHIN = 0.85
"""The least that a site in Python does of what the same site in YAML does."""
TARGETS = ((PLAIN, 5.0), (REDIS, 10.0), (CRAWLEE, 2.5), (FEAPDER_REDIS, 4.0))

SITE_FILE = (
    """
site: walker
seeds: ["{url}"]
politeness: {{robots: ignore, concurrency: {concurrent}, hosts: {{"{host}": {{concurrency: {concurrent}}}}}}}
"""
    + LAYERS
)
PYTHON_FILE = r"""
import re

from gossamer import Site

walker = Site(
    "walker",
    seeds=["{url}"],
    politeness={{"robots": "ignore", "concurrency": {concurrent}, "hosts": {{"{host}": {{"concurrency": {concurrent}}}}}}},
)


@walker.layer("page", match="^/", seen="round")
async def read(page):
    number = re.search(r"(\d+)$", page.url)
    yield {{"page": int(number[1]) if number else None}}
    for link in page.css("a"):
        yield page.follow(link, to="page")
"""


class Scale(NamedTuple):
    seconds: float = 1500
    rounds: int = 3
    lap: float = 8


QUICK = Scale(seconds=60, rounds=1, lap=0.3)


class Key(NamedTuple):
    site: str
    label: str
    workers: int = 1


Found = dict[Key, list[Lap]]


def run(label: str, site: SiteProcess, workers: int, server: Server) -> Lap:
    """Crawl the site once, from an empty server."""
    if label in (PLAIN, REDIS):
        return lap.run(label, site, workers, server if label == REDIS else None)
    site.reset()
    server.call("FLUSHALL")
    before = server_seconds(server)
    with tempfile.TemporaryDirectory() as folder:
        commands, environ = _commands(label, site.url, server, Path(folder), workers)
        cpu = _spend(commands, environ, Path(folder))
    made = lap_of(site.visits(), site.shape.pages, cpu)
    served = next(one.served for one in CONTENDERS if one.label == label)
    return made._replace(server=server_seconds(server) - before) if served else made


def _commands(
    label: str, url: str, server: Server, folder: Path, workers: int
) -> tuple[list[list[str]], dict[str, str]]:
    peers = Path(sys.executable).absolute().parent.parent / "peers"
    environ = {"PYTHONPATH": str(ROOT)}
    if label == CRAWLEE:
        words = [str(peers / "crawlee/bin/python"), str(ROOT / "bench/peer/crawlee_walker.py"), url, str(CONCURRENT)]
    elif label in (FEAPDER, FEAPDER_REDIS):
        words = [str(peers / "feapder/bin/python"), str(ROOT / "bench/peer/feapder_walker.py"), url, str(CONCURRENT)]
        words += [f"127.0.0.1:{server.port}"] if label == FEAPDER_REDIS else []
    else:
        host = url.split("/")[2]
        file = folder / ("walker.py" if label == IN_PYTHON else "walker.yaml")
        text = PYTHON_FILE if label == IN_PYTHON else SITE_FILE
        file.write_text(text.format(url=url, host=host, concurrent=CONCURRENT))
        environ |= {"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": "bench", "GOSSAMER_DATA_DIR": str(folder)}
        environ |= {"GOSSAMER_ENGINE_CONCURRENCY": str(CONCURRENT), "GOSSAMER_ALLOWED_MODULES": "walker"}
        push = [sys.executable, "-m", "gossamer", "site", "push", str(file)]
        subprocess.run(push, env={**os.environ, **environ}, check=True, stdout=subprocess.DEVNULL)
        words = [sys.executable, "-m", "gossamer", "work", "--sites", "walker", "--all-stages", "--drained"]
    return [words] * workers, environ


def _spend(commands: Sequence[Sequence[str]], environ: dict[str, str], folder: Path) -> float:
    """Run all of them at once; the processor seconds of all, with those of their threads and children."""
    before = os.times()
    with ExitStack() as stack:
        processes = []
        for number, command in enumerate(commands):
            log = stack.enter_context(open(folder / f"{number}.log", "wb"))
            process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, **environ}, stdout=log, stderr=log, start_new_session=True
            )
            stack.callback(_end, process)
            processes.append(process)
        deadline = time.monotonic() + LAP_SECONDS
        for number, process in enumerate(processes):
            code = process.wait(max(1.0, deadline - time.monotonic()))
            if code:
                said = (folder / f"{number}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{' '.join(command)} ended with {code}:\n{said}")
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def measure(scale: Scale, only: Sequence[str], progress: Progress, found: Found) -> None:
    keys = [
        Key(site, one.label, workers)
        for site in SITES
        for one in CONTENDERS
        for workers in (1, 2)
        if (not only or one.label in only) and (workers == 1 or one.label in (OURS, REDIS))
    ]
    speeds = {one.label: one.speed for one in CONTENDERS}
    took: dict[Key, float] = {}
    starts: dict[tuple[str, int], float] = {}
    with ExitStack() as stack:
        server = stack.enter_context(start_server())
        sizes = {key: max(60, int(speeds[key.label] * scale.lap)) for key in keys}
        sites = {
            (key.site, sizes[key]): stack.enter_context(SiteProcess(Shape(key.site, sizes[key])))
            for key in {(k.site, sizes[k]): k for k in keys}.values()
        }
        tiny = stack.enter_context(SiteProcess(Shape("graph", 2)))
        for number in range(scale.rounds):
            for key in keys:
                text = f"round {number + 1} of {scale.rounds}: {key.site}: {key.label}, {key.workers} workers, {sizes[key]:,} pages"
                if progress.left < took.get(key, scale.lap + 4):
                    progress.leave_out(text)
                    continue
                progress.step(text)
                begin = time.monotonic()
                lap_ = run(key.label, sites[key.site, sizes[key]], key.workers, server)
                if key.label not in (PLAIN, REDIS):
                    # What it costs to start and to end is not a cost of pages. Scrapy's laps leave it out by themselves.
                    fixed = (key.label, key.workers)
                    if fixed not in starts:
                        starts[fixed] = run(key.label, tiny, key.workers, server).client
                    lap_ = lap_._replace(client=max(lap_.client - starts[fixed], 1e-9))
                found.setdefault(key, []).append(lap_)
                took[key] = time.monotonic() - begin


def targets(found: Found) -> list[Target]:
    """Per core: by the processor time of the workers per page; beside it by the clock, with one worker each."""
    goals = []
    for site in SITES:
        ours = found.get(Key(site, OURS), [])
        for label, wanted in TARGETS:
            theirs = found.get(Key(site, label), [])
            if ours and theirs:
                lighter = 1 / ratio(ours, theirs, lambda one: one.client / one.pages)
                faster = ratio(ours, theirs, lambda one: one.rate)
                figure = f"{lighter:.1f}×; {faster:.1f}× by the clock"
                goals.append(Target(f"{site}: pages per core, to {label}", f"≥ {wanted:g}×", figure, lighter >= wanted))
        if ours and (python := found.get(Key(site, IN_PYTHON), [])):
            share = 1 / ratio(python, ours, lambda one: one.client / one.pages)
            clock = ratio(python, ours, lambda one: one.rate)
            figure = f"{share:.2f}×; {clock:.2f}× by the clock"
            goals.append(Target(f"{site}: in Python, to in YAML", f"≥ {WITHIN:g}×", figure, share >= WITHIN))
    return goals


def report(found: Found, skipped: Sequence[str]) -> str:
    texts = []
    for site in SITES:
        plain = found.get(Key(site, PLAIN), [])
        lines = []
        for key, laps in found.items():
            if key.site != site:
                continue
            middle = sorted(one.rate for one in laps)[len(laps) // 2]
            lighter = 1 / ratio(laps, plain, lambda one: one.client / one.pages) if plain else None
            lines.append(
                (
                    f"{key.workers}",
                    key.label,
                    f"{middle:,.0f}",
                    f"{per_page(laps, lambda one: one.client) * 1e3:.2f}",
                    f"{per_page(laps, lambda one: one.server) * 1e6:,.0f}" if any(one.server for one in laps) else "",
                    f"{lighter:.2f}×" if lighter else "",
                )
            )
        heads = ("workers", f"{site}: who", "pages/s", "CPU ms/page", "server µs/page", "per core, to Scrapy")
        texts.append(table(heads, lines))
    goals = [(t.name, t.wanted, t.figure, "reached" if t.reached else "missed") for t in targets(found)]
    if goals:
        texts.append(table(("target", "wanted", "measured", ""), goals))
    return "\n\n".join([*texts, *(f"Left out for want of time: {name}." for name in skipped)])


def as_json(found: Found, scale: Scale, progress: Progress) -> dict[str, Any]:
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        "seconds": round(progress.elapsed),
        "scale": scale._asdict(),
        "laps": [{**key._asdict(), **one._asdict()} for key, laps in found.items() for one in laps],
        "targets": [one._asdict() for one in targets(found)],
        "left_out": progress.skipped,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; figures mean little")
    parser.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", action="append", default=[], choices=[one.label for one in CONTENDERS])
    given = parser.parse_args()
    scale = QUICK if given.quick else Scale()
    if given.rounds:
        scale = scale._replace(rounds=given.rounds)
    progress, found = Progress(scale.seconds), Found()
    try:
        measure(scale, given.only, progress, found)
    except KeyboardInterrupt:
        print("interrupted: what was measured so far", file=sys.stderr)
    print(report(found, progress.skipped))
    place = given.json or RESULTS / time.strftime("engine-%Y%m%d-%H%M%S.json", time.gmtime())
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(as_json(found, scale, progress), indent=1))
    print(f"\n{progress.elapsed:.0f} s; figures in {place}")
    return int(given.check and any(not one.reached for one in targets(found)))


if __name__ == "__main__":
    raise SystemExit(main())
