"""Crawlee with its parsel crawler and everything in memory: follows every link, one item for each page.

Run by an interpreter of its own (scripts/peers.sh): python bench/peer/crawlee_walker.py URL CONCURRENT
"""

import asyncio
import logging
import sys
from typing import Any

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler
from crawlee.storage_clients import MemoryStorageClient


async def main(url: str, concurrent: int) -> None:
    crawler = ParselCrawler(
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=concurrent, max_concurrency=concurrent, desired_concurrency=concurrent
        ),
        configure_logging=False,
    )

    @crawler.router.default_handler  # type: ignore[untyped-decorator]
    async def handle(context: Any) -> None:
        await context.push_data({"page": int(context.request.url.rpartition("/")[2])})
        await context.enqueue_links()

    logging.getLogger("crawlee").setLevel(logging.ERROR)
    await crawler.run([url])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
