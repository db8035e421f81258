"""Thousands of requests, most of them to pages that misbehave: no task, no socket and no memory stays behind."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc

import pytest
from tests.support.hard_server.server import CASES, MIXED, HardServer

from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.engine.http.connection.dns import CachingResolver
from gossamer.model.fetch import FetchError, FetchOptions
from gossamer.model.page import PageRequest
from gossamer.testing.process import open_sockets

REQUESTS = 2000
SLOW = {case.path for case in CASES if not case.quick}


async def ask_for(fetcher: AiohttpFetcher, hard: HardServer, count: int, seed: int) -> dict[str, int]:
    """A mix of everything by 40 at a time, some of them given up on the way; how often each outcome came."""
    chance = random.Random(seed)
    patient = FetchOptions(timeout=60, connect_timeout=30, stall_timeout=30, max_size=200_000)
    hasty = patient._replace(timeout=0.3, stall_timeout=0.2)
    names = [f"h{number}.test" for number in range(5)]
    paths = [path for path in MIXED if path not in SLOW] * 4 + sorted(SLOW)
    ends: dict[str, int] = {}
    left = iter(range(count))

    async def work() -> None:
        for number in left:
            base = hard.secure_url if chance.random() < 0.2 else hard.url
            path = chance.choice(paths)
            verify: bool | str = hard.authority if chance.random() < 0.5 else False
            options = (hasty if path in SLOW else patient)._replace(verify=verify)
            ask = PageRequest(base(path, chance.choice(names)), site=f"s{number % 7}", options=options)
            try:
                if chance.random() < 0.05:
                    async with asyncio.timeout(chance.random() * 0.02):
                        end = str((await fetcher.fetch(ask)).status)
                else:
                    end = str((await fetcher.fetch(ask)).status)
            except FetchError as error:
                end = error.reason
            except TimeoutError:
                end = "cancelled"
            ends[end] = ends.get(end, 0) + 1

    await asyncio.gather(*(work() for _ in range(40)))
    return ends


async def lap(hard: HardServer, count: int, seed: int) -> tuple[dict[str, int], int, int]:
    """Everything from the first request to the end of the last connection: what came, and the memory in use and at most."""
    before, tasks = open_sockets(), asyncio.all_tasks()
    tracemalloc.reset_peak()
    resolver = CachingResolver(hosts={f"h{number}.test": "127.0.0.1" for number in range(5)})
    fetcher = AiohttpFetcher(resolver=resolver, keep_alive=2)
    try:
        ends = await ask_for(fetcher, hard, count, seed)
        assert not fetcher._connector._acquired
        assert not fetcher._connector.fresh
        assert not fetcher._connector.insisting
        assert not fetcher._connector._waiters
    finally:
        await fetcher.close()
    # Connections are closed one turn of the loop after they were told to, those over TLS some turns.
    for _ in range(500):
        if open_sockets() <= before and asyncio.all_tasks() == tasks:
            break
        await asyncio.sleep(0.02)
    assert open_sockets() <= before
    assert asyncio.all_tasks() == tasks
    gc.collect()
    return (ends, *tracemalloc.get_traced_memory())


@pytest.mark.timeout(300)
async def test_mixed_requests_leave_nothing_behind(hard: HardServer) -> None:
    tracemalloc.start()
    try:
        _, first, _ = await lap(hard, REQUESTS // 4, 1)
        ends, second, peak = await lap(hard, REQUESTS, 2)
    finally:
        tracemalloc.stop()
    assert sum(ends.values()) == REQUESTS
    assert {"200", "302", "404", "timeout", "reset", "too_large", "bad_length", "bad_encoding", "protocol"} <= set(ends)
    assert second - first < 500_000
    # 40 at a time, 200 kB each, and what lies in buffers: far from the 100 and 200 MB that some of them wanted to send.
    assert peak - first < 80_000_000
