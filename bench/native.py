"""A fleet of the native engine on a site of the bench, with the same audit as a fleet of Scrapy workers."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.fleet import ENOUGH, LEASE_SECONDS, Arrived, arrived
from bench.project import ROOT
from bench.shape import Shape
from bench.site import SiteProcess

from gossamer.frontier.codec import decode
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.audit import audit
from gossamer.testing.process import end, spawn, wait_until

NAME = "walker"
READ = 1_000
SITE = """
site: walker
seeds: ["{url}"]
politeness: {{robots: ignore, hosts: {{{hosts}}}}}
layers:
  page:
    match: '^/'
    seen: round
    follow: [{{css: a, to: page, pages: 0}}]
    fields: {{page: {{from: url, regex: '(\\d+)$', type: int}}}}
"""
STORE = """
store: {page: {table: pages, key: [page]}}
"""


class NativeWorker:
    """One `gossamer work`, which dies with this process."""

    def __init__(self, name: str, folder: Path, environ: Mapping[str, str]) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        command = [str(shutil.which("env")), *(f"{one}={value}" for one, value in environ.items())]
        command += [sys.executable, "-m", "gossamer", "work", "--sites", NAME, "--all-stages", "--drained"]
        self.process = spawn(command, folder, self._log)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait(self, seconds: float) -> int:
        wait_until(lambda: not self.running, f"worker {self.name} to end", seconds)
        return self.process.wait()


class NativeFleet:
    """Workers of one crawl at `address` on a site of their own. `stored`: records go into a database instead of the stream."""

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
        self.shape, self.crawl, self.stored = shape, crawl, stored
        self.folder = Path(tempfile.mkdtemp())
        self.environ = {
            "GOSSAMER_URL": address,
            "GOSSAMER_CRAWL": crawl,
            "GOSSAMER_PARTITIONS": str(partitions),
            "GOSSAMER_LEASE_SECONDS": str(lease),
            "GOSSAMER_DATA_DIR": str(self.folder),
            "GOSSAMER_ENGINE_CONCURRENCY": str(concurrent),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        }
        self.workers: list[NativeWorker] = []
        self.site = SiteProcess(shape, delay, hold)
        self.site.__enter__()
        hosts = ", ".join(
            f'"{origin.partition("//")[2]}": {{concurrency: {ENOUGH * concurrent}}}' for origin in self.site.origins
        )
        text = SITE.format(url=self.site.url, hosts=hosts) + (STORE if stored else "")
        with ValkeyFrontier.open(load(self.environ, environ={})) as frontier:
            frontier.put_document("site", NAME, text)

    def start(self, number: int = 1) -> list[NativeWorker]:
        made = [
            NativeWorker(f"native{len(self.workers) + place}", self.folder, self.environ) for place in range(number)
        ]
        self.workers += made
        return made

    def together(self, number: int) -> list[NativeWorker]:
        """So many workers that all work from the first page on."""
        workers = self.start(number)

        def joined() -> bool:
            with self.frontier() as frontier:
                return len(frontier.workers()) >= number

        wait_until(joined, "all workers to join", 120)
        wait_until(self.site.requests, "the front page to be asked for", 60)
        self.site.release()
        return workers

    def end(self, workers: list[NativeWorker], seconds: float = 180) -> None:
        """Wait until all have ended by themselves."""
        deadline = time.monotonic() + seconds
        for worker in workers:
            code = worker.wait(max(1.0, deadline - time.monotonic()))
            assert code == 0, f"worker {worker.name} ended with {code}. Its log ends:\n{worker.log[-4000:]}"

    def frontier(self) -> ValkeyFrontier:
        return ValkeyFrontier.find(load(self.environ, environ={}))

    def items(self, frontier: ValkeyFrontier) -> Counter[int]:
        """How many records there are of each page."""
        if self.stored:
            with closing(sqlite3.connect(self.folder / "items.db")) as database:
                return Counter(page for (page,) in database.execute("select page from pages"))
        found: Counter[int] = Counter()
        for partition in range(frontier.partitions):
            after = "0-0"
            while rows := frontier.read_items(NAME, partition, after, READ):
                found.update(decode(item)["page"] for _, item in rows)
                after = rows[-1][0]
        return found

    def check(self) -> Arrived:
        """After the crawl: AssertionError unless the frontier is at peace with itself, drained, without dead letters, and
        there is exactly one record of each page."""
        with self.frontier() as frontier:
            found = arrived(self.shape.pages, self.items(frontier), Counter(visit.page for visit in self.site.visits()))
            assert found.exact, f"{found} of {self.shape.pages} pages"
            audit(frontier)
            assert frontier.drained(NAME).drained
            assert frontier.dead_letters(NAME) == []
        return found

    def close(self) -> None:
        for worker in self.workers:
            end(worker.process)
        self.site.__exit__(None, None, None)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
