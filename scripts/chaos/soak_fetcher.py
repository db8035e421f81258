"""Ask a server that misbehaves for pages, for as long as wanted, and see that nothing piles up.

    python scripts/chaos/soak_fetcher.py [--seconds 600] [--concurrency 60] [--loop uvloop|asyncio]

Every second or so the number of tasks, of sockets and the memory in use are noted. The first fifth of the time is for
getting warm; after that the last fifth must not be above the second by more than the stated margins, and at the end, with
everything closed, no socket and no task may be left.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import NamedTuple

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.hard_server.server import CASES, HardServer

from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.engine.http.connection.dns import CachingResolver
from gossamer.model.fetch import FetchError, FetchOptions
from gossamer.model.page import PageRequest
from gossamer.testing.process import open_sockets

HOSTS = [f"h{number}.test" for number in range(20)]
MEMORY_MARGIN, SOCKET_MARGIN, TASK_MARGIN = 12 * 2**20, 60, 10
"""What may come and go: connections over TLS that are kept have large buffers."""
SAMPLE = 1.0
GIVEN_UP = 0.03
"""The share of requests that are cancelled on the way."""


class Sample(NamedTuple):
    memory: int
    sockets: int
    tasks: int


def sample() -> Sample:
    with open("/proc/self/statm") as file:
        memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Sample(memory, open_sockets(), len(asyncio.all_tasks()))


async def ask(fetcher: AiohttpFetcher, server: HardServer, chance: random.Random) -> tuple[str, str, str]:
    """One request: its path, what is expected of it and what came."""
    case = chance.choice(CASES)
    secure = chance.random() < 0.25
    url = server.secure_url(case.path) if secure else server.url(case.path, chance.choice(HOSTS))
    options = FetchOptions(timeout=60, connect_timeout=30, stall_timeout=30, max_size=500_000, verify=server.authority)
    if not case.quick:
        options = options._replace(timeout=1.0, stall_timeout=0.6)
    try:
        if chance.random() < GIVEN_UP:
            async with asyncio.timeout(chance.random() * 0.02):
                return (
                    case.path,
                    str(case.expect),
                    str((await fetcher.fetch(PageRequest(url, options=options))).status),
                )
        return case.path, str(case.expect), str((await fetcher.fetch(PageRequest(url, options=options))).status)
    except FetchError as error:
        return case.path, str(case.expect), error.reason
    except TimeoutError:
        return case.path, str(case.expect), "given up"


async def soak(server: HardServer, seconds: float, concurrency: int, seed: int) -> list[str]:
    """What was wrong."""
    before = sample()
    fetcher = AiohttpFetcher(concurrency=concurrency, resolver=CachingResolver(hosts=dict.fromkeys(HOSTS, "127.0.0.1")))
    over = time.monotonic() + seconds
    ends: Counter[str] = Counter()
    unexpected: Counter[str] = Counter()

    async def work(number: int) -> None:
        chance = random.Random(seed + number)
        while time.monotonic() < over:
            path, expected, came = await ask(fetcher, server, chance)
            ends[came] += 1
            if came not in (expected, "given up"):
                unexpected[f"{path}: {came} instead of {expected}"] += 1

    workers = [asyncio.create_task(work(number)) for number in range(concurrency)]
    samples = []
    while time.monotonic() < over:
        await asyncio.sleep(SAMPLE)
        samples.append(sample())
    await asyncio.gather(*workers)
    await fetcher.close()
    faults = [f"{count} times {what}" for what, count in unexpected.items()]
    fifth = max(1, len(samples) // 5)
    for name, margin in (("memory", MEMORY_MARGIN), ("sockets", SOCKET_MARGIN), ("tasks", TASK_MARGIN)):
        early = median(getattr(one, name) for one in samples[fifth : 2 * fifth] or samples)
        late = median(getattr(one, name) for one in samples[-fifth:])
        print(f"{name:8} {early:>12,.0f} early {late:>12,.0f} late")
        if late - early > margin:
            faults.append(f"{name} grew from {early:,.0f} to {late:,.0f}")
    for _ in range(500):
        gc.collect()
        left = sample()
        if left.sockets <= before.sockets and left.tasks <= before.tasks:
            break
        await asyncio.sleep(0.02)
    else:
        faults.append(f"{left.sockets - before.sockets} sockets and {left.tasks - before.tasks} tasks are left")
    print(f"{sum(ends.values()):,} requests:", ", ".join(f"{end} {count:,}" for end, count in ends.most_common()))
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Ask a server that misbehaves for pages, and see that nothing piles up."
    )
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--concurrency", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    given = parser.parse_args()
    run = uvloop.run if given.loop == "uvloop" else asyncio.run
    with HardServer() as server:
        faults = run(soak(server, given.seconds, given.concurrency, given.seed))
    for fault in faults:
        print("FAULT", fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
