"""What our way of fetching costs beside bare aiohttp: the same pages of the same site, by turns, in one process.

    python bench/fetch.py [--pages 2000] [--rounds 7] [--concurrency 32]

One core is enough: what counts is the processor time of this process for a page, the site runs in another.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aiohttp
import uvloop
from bench.crawls.shape import Shape
from bench.crawls.site import SiteProcess

from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.model.page import PageRequest

Get = Callable[[str], Awaitable[int]]
"""Fetches a page and says how many bytes it had."""


async def lap(get: Get, urls: Sequence[str], concurrency: int) -> tuple[float, int]:
    """Processor seconds for all of them, and their bytes."""
    waiting = iter(urls)
    total = 0

    async def work() -> None:
        nonlocal total
        for url in waiting:
            size = await get(url)
            total += size

    gc.collect()
    before = time.process_time()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return time.process_time() - before, total


async def compare(urls: Sequence[str], rounds: int, concurrency: int) -> dict[str, list[float]]:
    """Milliseconds a page, round by round; the first round of each is not counted."""
    fetcher = AiohttpFetcher(concurrency=concurrency)
    # As a careful user would have it: no cookies, as many connections.
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=concurrency), cookie_jar=aiohttp.DummyCookieJar()
    )

    async def ours(url: str) -> int:
        return len((await fetcher.fetch(PageRequest(url))).body)

    async def bare(url: str) -> int:
        async with session.get(url) as response:
            return len(await response.read())

    taken: dict[str, list[float]] = {"bare aiohttp": [], "gossamer": []}
    sizes = set()
    try:
        for number in range(rounds + 1):
            order = [("bare aiohttp", bare), ("gossamer", ours)]
            for name, get in order if number % 2 else reversed(order):
                seconds, size = await lap(get, urls, concurrency)
                sizes.add(size)
                if number:
                    taken[name].append(seconds / len(urls) * 1000)
    finally:
        await fetcher.close()
        await session.close()
    if len(sizes) != 1:
        raise RuntimeError(f"the two did not get the same pages: {sizes} bytes")
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare our fetching with bare aiohttp.")
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--concurrency", type=int, default=32)
    given = parser.parse_args()
    shape = Shape(pages=given.pages)
    with SiteProcess(shape) as site:
        urls = [shape.url(number, site.origins) for number in range(shape.pages)]
        taken = uvloop.run(compare(urls, given.rounds, given.concurrency))
    for name, rounds in taken.items():
        print(f"{name:14} {median(rounds):.3f} ms of CPU a page ({min(rounds):.3f} to {max(rounds):.3f})")
    ratios = [mine / other for mine, other in zip(taken["gossamer"], taken["bare aiohttp"], strict=True)]
    print(f"gossamer / bare aiohttp: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
