"""Crawling a site of the tests with the native engine, in this process."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.support.site import Site

from gossamer.engine.job import NativeEnd, NativeJob
from gossamer.engine.worker import NativeWorker
from gossamer.frontier import codec
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Token
from gossamer.settings import Settings, load
from gossamer.testing.clock import advance
from gossamer.testing.servers import Server


class Crawl:
    """One crawl on a server of the tests: push site files, run workers, look at what came of it."""

    def __init__(self, server: Server, name: str, folder: Path, site: Site, **more: Any) -> None:
        self.server, self.site, self.folder = server, site, folder
        self.given = {
            "GOSSAMER_URL": server.url,
            "GOSSAMER_CRAWL": name,
            "GOSSAMER_DATA_DIR": str(folder),
            "GOSSAMER_LEASE_SECONDS": 5.0,
            # What the files of these tests name; everything else is refused as it is by default.
            "GOSSAMER_ALLOWED_MODULES": "tests.engine,engine_hooks_of_a_test,engine_bad_hooks_of_a_test",
            "GOSSAMER_SITE_VARIABLES": "SITE_*,CONFORMANCE_SECRET",
            "GOSSAMER_SITE_DATABASES": "127.0.0.1",
            **more,
        }
        self.settings: Settings = load(self.given)

    def push(self, text: str, name: str = "site") -> None:
        """SITE stands for the test site's URL, HOST for its host."""
        text = textwrap.dedent(text).replace("SITE", self.site.url).replace("HOST", self.site.host)
        with self.frontier() as frontier:
            frontier.put_document("site", name, text)

    def frontier(self) -> ValkeyFrontier:
        return ValkeyFrontier.open(self.settings)

    async def run(self, **job: Any) -> NativeEnd:
        return await NativeWorker(self.settings, NativeJob(**{"stage": None, **job})).run()

    def items(self, group: str) -> list[dict[str, Any]]:
        with self.frontier() as frontier:
            return [codec.decode(data) for _, data in frontier.read_items(group, 0, limit=1000)]

    def dead(self, group: str) -> list[tuple[str, str]]:
        """Reason and detail of each."""
        with self.frontier() as frontier:
            return [(letter.reason, letter.detail) for letter in frontier.dead_letters(group)]

    @contextmanager
    def another_worker(self) -> Iterator[None]:
        """Time goes by until another worker gets what was leased. At the end it gives it back."""
        with self.frontier() as frontier:
            token = Token.fresh()
            # A worker that renews in time keeps its lease, hence again.
            while not (leases := frontier.exchange(token, want=1).leases):
                advance(frontier, 60)
                token = token.next()
            yield
            frontier.release(token.next(), leases)

    def counters(self, group: str) -> Mapping[str, float]:
        with self.frontier() as frontier:
            return next(row.counters for row in frontier.counts(group).groups if row.group == group)

    def round(self, group: str) -> int:
        with self.frontier() as frontier:
            return next(row.round for row in frontier.counts(group).groups if row.group == group)


async def until(condition: Callable[[], object], seconds: float = 90.0) -> None:
    """Return when it is true; it is asked for in a thread."""
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.05)


@asynccontextmanager
async def working(worker: NativeWorker) -> AsyncIterator[None]:
    """While this worker runs."""
    running = asyncio.ensure_future(worker.run())
    try:
        yield
    finally:
        worker.stop()
        async with asyncio.timeout(60):
            await running
