"""A fleet of Gossamer workers on a site, and the audit of what it brought: every page's item, exactly once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple, Self

from bench.crawls.contender import OURS, settings
from bench.crawls.project import Project, Worker, WorkerProcess
from bench.crawls.shape import Shape
from bench.crawls.site import SiteProcess
from bench.crawls.spider import Walker
from tests.support.auditor.audit import audit

from gossamer.frontier.codec import decode
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.process import wait_until

LEASE_SECONDS = 5.0
READ = 1_000
ENOUGH = 4


class Arrived(NamedTuple):
    """What came of a crawl: pages without an item, items too many, items of pages that do not exist, and requests that the
    site got for a page it had been asked for before."""

    lost: int
    doubled: int
    unknown: int
    again: int

    @property
    def exact(self) -> bool:
        return not (self.lost or self.doubled or self.unknown)


def arrived(pages: int, items: Counter[int], visits: Counter[int]) -> Arrived:
    """Compare what the site has with what came of it."""
    return Arrived(
        sum(1 for page in range(pages) if not items[page]),
        sum(items[page] - 1 for page in range(pages) if items[page]),
        sum(number for page, number in items.items() if not 0 <= page < pages),
        sum(number - 1 for page, number in visits.items() if page >= 0),
    )


class AnyFleet:
    """Workers of one crawl at `address` on a site of their own, and the audit of what they brought. `group` is theirs."""

    group = Walker.name

    def __init__(
        self, shape: Shape, address: str, crawl: str, *, partitions: int, delay: float, hold: bool, lease: float
    ) -> None:
        self.shape, self.crawl = shape, crawl
        self.environ = {
            "GOSSAMER_URL": address,
            "GOSSAMER_CRAWL": crawl,
            "GOSSAMER_PARTITIONS": str(partitions),
            "GOSSAMER_LEASE_SECONDS": str(lease),
        }
        self._stack = ExitStack()
        self.site = self._stack.enter_context(SiteProcess(shape, delay, hold))

    def frontier(self) -> ValkeyFrontier:
        return ValkeyFrontier.find(load(self.environ, environ={}))

    def begin(self) -> None:
        """Let the site answer, which held its answers until all workers were there."""
        wait_until(self.site.requests, "the front page to be asked for", 60)
        self.site.release()

    def wait(self, workers: Sequence[WorkerProcess], seconds: float = 180) -> None:
        """Wait until all have ended by themselves."""
        deadline = time.monotonic() + seconds
        for worker in workers:
            code = worker.wait(max(1.0, deadline - time.monotonic()))
            assert code == 0, f"worker {worker.name} ended with {code}. Its log ends:\n{worker.log[-4000:]}"

    def items(self, frontier: ValkeyFrontier) -> Counter[int]:
        """How many items there are of each page."""
        found: Counter[int] = Counter()
        for partition in range(frontier.partitions):
            after = "0-0"
            while rows := frontier.read_items(self.group, partition, after, READ):
                found.update(decode(item)["page"] for _, item in rows)
                after = rows[-1][0]
        return found

    def check(self) -> Arrived:
        """After the crawl: AssertionError unless the frontier is at peace with itself, drained, without dead letters, and
        there is exactly one item of each page."""
        with self.frontier() as frontier:
            found = arrived(self.shape.pages, self.items(frontier), Counter(visit.page for visit in self.site.visits()))
            assert found.exact, f"{found} of {self.shape.pages} pages"
            audit(frontier)
            assert frontier.drained(self.group).drained
            assert frontier.dead_letters(self.group) == []
        return found

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Fleet(AnyFleet):
    """Of Scrapy workers, all with the same settings."""

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
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(shape, address, crawl, partitions=partitions, delay=delay, hold=hold, lease=lease)
        # What Scrapy allows one process, Gossamer allows the whole fleet: here every worker may use all it has.
        limit = {"CONCURRENT_REQUESTS_PER_DOMAIN": ENOUGH * concurrent}
        chosen = {**settings(OURS, address, concurrent), **limit, **(more or {})}
        self.project = self._stack.enter_context(Project(chosen))

    def start(self, number: int = 1, environ: Mapping[str, str] | None = None) -> list[Worker]:
        """So many workers more; `environ` for these only."""
        return [
            self.project.start({**self.environ, **(environ or {})}, [f"site={self.site.url}"]) for _ in range(number)
        ]

    def together(self, number: int) -> list[Worker]:
        """So many workers that all work from the first page on: the site, which must hold its answers, waits for the last."""
        workers = self.start(number)
        wait_until(lambda: all(worker.opened for worker in workers), "all spiders to be open", 120)
        self.begin()
        return workers

    def reach(self, pages: int, seconds: float = 120) -> int:
        """Wait until the site was asked for so many different pages."""

        def enough() -> int:
            now = self.site.pages()
            return now if now >= pages else 0

        return wait_until(enough, f"{pages} pages to be asked for", seconds)

    def end(self, workers: list[Worker], seconds: float = 180) -> list[str]:
        """Wait until all have ended by themselves; why each did."""
        self.wait(workers, seconds)
        return [worker.report().reason for worker in workers]
