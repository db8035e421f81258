"""A fleet of the native engine on a site of the bench, with the same audit as a fleet of Scrapy workers."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from bench.crawls.fleet import ENOUGH, LEASE_SECONDS, AnyFleet
from bench.crawls.project import WorkerProcess
from bench.crawls.shape import Shape

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.process import end, wait_until

NAME = "walker"
WORDS = ["gossamer", "work", "--sites", NAME, "--all-stages", "--drained"]
LAYERS = """\
layers:
  page:
    match: '^/'
    seen: round
    follow: [{{css: a, to: page, pages: 0}}]
    fields: {{page: {{from: url, regex: '(\\d+)$', type: int}}}}
"""
"""What is read on the pages of the bench's site."""
SITE = (
    """
site: walker
seeds: ["{url}"]
politeness: {{robots: ignore, hosts: {{{hosts}}}}}
"""
    + LAYERS
)
STORE = """
store: {page: {table: pages, key: [page]}}
"""


class NativeFleet(AnyFleet):
    """Of `gossamer work`. `stored`: records go into a database instead of the stream."""

    group = NAME

    def __init__(
        self,
        shape: Shape,
        address: str,
        crawl: str,
        *,
        concurrent: int = 16,
        partitions: int = 1,
        delay: float = 0.02,
        hold: bool = False,
        lease: float = LEASE_SECONDS,
        stored: bool = False,
    ) -> None:
        super().__init__(shape, address, crawl, partitions=partitions, delay=delay, hold=hold, lease=lease)
        self.stored = stored
        self.folder = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="gossamer-", ignore_cleanup_errors=True))
        )
        self.environ |= {
            "GOSSAMER_DATA_DIR": str(self.folder),
            "GOSSAMER_ENGINE_CONCURRENCY": str(concurrent),
        }
        self.workers: list[WorkerProcess] = []
        hosts = ", ".join(
            f'"{origin.partition("//")[2]}": {{concurrency: {ENOUGH * concurrent}}}' for origin in self.site.origins
        )
        text = SITE.format(url=self.site.url, hosts=hosts) + (STORE if stored else "")
        with ValkeyFrontier.open(load(self.environ, environ={})) as frontier:
            frontier.put_document("site", NAME, text)

    def start(self, number: int = 1, environ: Mapping[str, str] | None = None) -> list[WorkerProcess]:
        """So many workers more; `environ` for these only."""
        given = {**self.environ, **(environ or {})}
        made = [
            WorkerProcess(f"native{len(self.workers) + place}", self.folder, given, WORDS) for place in range(number)
        ]
        self.workers += made
        return made

    def together(self, number: int) -> list[WorkerProcess]:
        """So many workers that all work from the first page on."""
        workers = self.start(number)

        def joined() -> bool:
            with self.frontier() as frontier:
                return len(frontier.workers()) >= number

        wait_until(joined, "all workers to join", 120)
        self.begin()
        return workers

    def items(self, frontier: ValkeyFrontier) -> Counter[int]:
        """How many records there are of each page."""
        if self.stored:
            with closing(sqlite3.connect(self.folder / "items.db")) as database:
                return Counter(page for (page,) in database.execute("select page from pages"))
        return super().items(frontier)

    def close(self) -> None:
        for worker in self.workers:
            end(worker.process)
        super().close()
