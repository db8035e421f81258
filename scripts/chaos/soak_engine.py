"""Let the native engine crawl a server that misbehaves, round after round, and see that nothing piles up.

    python scripts/chaos/soak_engine.py [--seconds 600] [--concurrency 32]

One worker in this process, with a database, on a frontier and a server of their own. A round has every page of the hard server a few
times; when it is over the next one begins. Memory, open files and tasks are noted all the time, and shown as they were at the start (when
the first rounds have filled the caches), in the middle and at the end. They may grow by no more than the margins below, and when the
worker has ended nothing may be left. Exit code 1 says that something grew, was left, or came to another end than stated.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import NamedTuple

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.hard_server.server import CASES, HardServer

from gossamer.engine.job import NativeJob
from gossamer.engine.worker import NativeWorker
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import Settings, load
from gossamer.testing.servers import Server

MEMORY_MARGIN, FILES_MARGIN, TASKS_MARGIN, THREADS_MARGIN = 12 * 2**20, 40, 20, 2
"""What may come and go between two looks."""
WARM = 0.2
"""The share of the time in which caches are filled."""
SAMPLE = 0.5
SITE = """
site: hard
seeds: [SEEDS]
politeness: {robots: ignore, hosts: {HOST: {concurrency: 64}}}
request: {timeout: 60s, max_size: 300kB, retries: 0}
seen: round
layers:
  page: {match: '^/', fields: {title: {css: title, default: none}}}
  slow: {like: page, request: {timeout: 1s}}
store: {page: {table: pages, key: [url], add: [url, round]}}
"""


class Sample(NamedTuple):
    memory: int
    files: int
    tasks: int
    threads: int

    def __str__(self) -> str:
        return f"{self.memory / 2**20:8.1f} MiB {self.files:5} files {self.tasks:5} tasks {self.threads:3} threads"


MARGINS = Sample(MEMORY_MARGIN, FILES_MARGIN, TASKS_MARGIN, THREADS_MARGIN)


def sample() -> Sample:
    with open("/proc/self/statm") as file:
        memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Sample(memory, len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), threading.active_count())


def middle(samples: list[Sample]) -> Sample:
    return Sample(*(int(median(values)) for values in zip(*samples, strict=True)))


def site_file(hard: HardServer) -> str:
    # A host that says 429 is left alone for a while, which would only make this slower.
    quick = [case.path for case in CASES if case.quick and case.path != "/status/429"]
    seeds = [f'"{hard.url(path)}{"&" if "?" in path else "?"}n=[1-5]"' for path in quick]
    seeds += [f'{{url: "{hard.url(case.path)}?n=[1-3]", layer: slow}}' for case in CASES if not case.quick]
    return SITE.replace("SEEDS", ", ".join(seeds)).replace("HOST", f'"127.0.0.1:{hard.ports["http"]}"')


def expected() -> Counter[str]:
    """The dead letters of one round, by reason."""
    ends: Counter[str] = Counter()
    for case in CASES:
        many = 5 if case.quick else 3
        if case.path == "/loop":
            # All of them lead to the same page, which leads to itself.
            ends["redirect_loop"] += 1
        elif case.path == "/nowhere":
            ends["protocol"] += many
        elif isinstance(case.expect, str):
            ends[case.expect] += many
        elif case.expect >= 500:
            ends[f"http_{case.expect}"] += many
    return ends


class Rounds:
    """Begins the next round when one is over, from a thread; every dead letter is counted and let go."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.over, self.ends, self.faults = 0, Counter[str](), list[str]()

    def look(self) -> None:
        with ValkeyFrontier.open(self._settings) as frontier:
            groups = {row.group: row for row in frontier.counts().groups}
            if "hard" not in groups or not frontier.drained("hard").drained:
                return
            ends: Counter[str] = Counter()
            while letters := frontier.dead_letters("hard", limit=500):
                ends.update(letter.reason for letter in letters)
                for partition in {letter.partition for letter in letters}:
                    frontier.drop_dead(partition, [one.id for one in letters if one.partition == partition])
            if ends != expected():
                self.faults.append(
                    f"round {self.over}: {ends - expected()} too many, {expected() - ends} missing among dead letters"
                )
            self.ends += ends
            self.over += 1
            frontier.new_round("hard", groups["hard"].round + 1)


async def soak(settings: Settings, seconds: float) -> list[str]:
    before = sample()
    worker = NativeWorker(settings, NativeJob(stage=None, forever=True))
    running = asyncio.ensure_future(worker.run())
    rounds = Rounds(settings)
    begin, samples = time.monotonic(), list[Sample]()
    while (now := time.monotonic() - begin) < seconds and not running.done():
        await asyncio.sleep(SAMPLE)
        await asyncio.to_thread(rounds.look)
        if now >= WARM * seconds:
            samples.append(sample())
    worker.stop()
    ended = await running
    faults = rounds.faults if ended.reason == "shutdown" else [f"the worker ended with {ended.reason}", *rounds.faults]
    part = max(1, len(samples) // 5)
    start, end = middle(samples[:part]), middle(samples[-part:])
    centre = middle(samples[len(samples) // 2 - part // 2 :][:part])
    for name, one in (("before", before), ("start", start), ("middle", centre), ("end", end)):
        print(f"{name:8}{one}")
    for name, early, late, margin in zip(Sample._fields, start, end, MARGINS, strict=True):
        if late - early > margin:
            faults.append(f"{name} grew from {early:,} to {late:,}")
    for _ in range(500):
        gc.collect()
        left = sample()
        if left.files <= before.files + 3 and left.tasks <= before.tasks:
            break
        await asyncio.sleep(0.02)
    else:
        faults.append(f"{left.files - before.files} files and {left.tasks - before.tasks} tasks are left")
    print(f"{'after':8}{left}")
    print(f"{rounds.over} rounds;", ", ".join(f"{end} {count:,}" for end, count in rounds.ends.most_common()))
    if not rounds.over:
        faults.append("not one round was over")
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description="Crawl a server that misbehaves, and see that nothing piles up.")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--concurrency", type=int, default=32)
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    with Server("valkey") as server, HardServer() as hard, tempfile.TemporaryDirectory() as folder:
        settings = load(
            {
                "GOSSAMER_URL": server.url,
                "GOSSAMER_CRAWL": "soak",
                "GOSSAMER_DATA_DIR": folder,
                "GOSSAMER_ENGINE_CONCURRENCY": given.concurrency,
            },
            environ={},
        )
        with ValkeyFrontier.open(settings) as frontier:
            frontier.put_document("site", "hard", site_file(hard))
        faults = uvloop.run(soak(settings, given.seconds))
    for fault in faults:
        print("FAULT", fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
