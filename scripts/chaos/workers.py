"""Kill a worker in the middle of a crawl, again and again, and count what arrived: `make chaos`.

Two workers crawl a tree of 3,000 pages, flat, ten ways or two, with 16 or 64 requests at a time. One of them is killed
(SIGKILL) at a random moment, early (2–6 % of the pages asked for) or late (30–60 %); sometimes another takes its place. When the
crawl is over, every page must have exactly one item. What the site was asked is read from the site itself.

    python scripts/chaos/workers.py [--runs 30] [--native 30] [--theirs 12] [--cluster 6] [--pages 3000] [--seed N]

`--theirs` is how many of the runs scrapy-redis 0.9.1 gets, whose losses are shown beside ours and fail nothing. `--cluster`
runs are on three masters and three partitions, with children that lie on other partitions than their parents. `--native` runs are
of the native engine; every other one of them stores its records in a database.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import cycle, product
from pathlib import Path
from typing import Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.crawls.contender import REDIS, settings
from bench.crawls.fleet import Arrived, Fleet, arrived
from bench.crawls.native import NativeFleet
from bench.crawls.project import Project, Worker
from bench.crawls.shape import TREES, Shape
from bench.crawls.site import SiteProcess
from bench.crawls.spider import Walker

from gossamer.testing.process import wait_until
from gossamer.testing.servers import Cluster, Server

Moment = Literal["early", "late"]

WHEN: dict[Moment, tuple[float, float]] = {"early": (0.02, 0.06), "late": (0.3, 0.6)}
HOSTS = 9
"""Enough that the hosts of a site lie on all of three partitions, but for one case in some thousand."""
QUIET = 3.0
"""Seconds without a request, with an empty queue, after which scrapy-redis has nothing more to do."""


class Plan(NamedTuple):
    """One run. `moment` says when to kill, `replaced` whether another worker comes."""

    rule: str
    pages: int
    concurrent: int
    moment: Moment
    replaced: bool = False
    partitions: int = 1

    def __str__(self) -> str:
        where = f", {self.partitions} partitions" if self.partitions > 1 else ""
        return f"{self.rule}, {self.concurrent} at a time, {self.moment}{', replaced' if self.replaced else ''}{where}"


class Outcome(NamedTuple):
    """What a run found; `killed_at` is how many pages had been asked for by then."""

    plan: Plan
    killed_at: int
    arrived: Arrived
    seconds: float

    def __str__(self) -> str:
        found = self.arrived
        return (
            f"{self.plan}: killed at {self.killed_at} of {self.plan.pages}; lost {found.lost}, doubled {found.doubled}, "
            f"fetched again {found.again}; {self.seconds:.0f} s"
        )


def plans(pages: int, choice: random.Random, partitions: int = 1) -> Iterator[Plan]:
    """Every combination by turns, in an order of chance."""
    moments: tuple[Moment, ...] = ("early", "late")
    every = list(product(TREES, (16, 64), moments))
    choice.shuffle(every)
    for rule, concurrent, moment in cycle(every):
        yield Plan(rule, pages, concurrent, moment, choice.random() < 0.5, partitions)


def kill_one(workers: Sequence[Worker], site: SiteProcess, plan: Plan, choice: random.Random) -> int:
    """Wait for a moment of chance and kill one of those that have worked; answers how many pages had been asked for."""
    first, last = WHEN[plan.moment]
    goal = plan.pages * choice.uniform(first, last)
    wait_until(lambda: site.pages() >= goal, f"{goal:.0f} pages to be asked for", 180)
    time.sleep(choice.uniform(0.0, 0.05))
    busy = {visit.who for visit in site.visits()}
    choice.choice([worker for worker in workers if worker.name in busy]).kill()
    return site.pages()


def ours(plan: Plan, address: str, crawl: str, choice: random.Random) -> Outcome:
    """A run of Gossamer; AssertionError if anything was lost or doubled, or a worker ended for another reason than drained."""
    begin = time.monotonic()
    shape = Shape(plan.rule, plan.pages, HOSTS if plan.partitions > 1 else 1)
    with Fleet(shape, address, crawl, concurrent=plan.concurrent, partitions=plan.partitions, hold=True) as fleet:
        workers = fleet.together(2)
        killed_at = kill_one(workers, fleet.site, plan, choice)
        if plan.replaced:
            workers += fleet.start()
        living = [worker for worker in workers if worker.running]
        reasons = fleet.end(living)
        assert set(reasons) == {"finished"}, f"{plan}: workers ended with {reasons}"
        found = fleet.check()
        if plan.partitions > 1:
            with fleet.frontier() as frontier:
                used = [
                    partition for partition in range(plan.partitions) if frontier.read_items(Walker.name, partition)
                ]
                assert len(used) > 1, "the hosts of this run lie on one partition"
    return Outcome(plan, killed_at, found, time.monotonic() - begin)


def native(plan: Plan, address: str, crawl: str, choice: random.Random, stored: bool) -> Outcome:
    """A run of the native engine; AssertionError if anything was lost or doubled, or a worker ended with an error."""
    begin = time.monotonic()
    shape = Shape(plan.rule, plan.pages, HOSTS if plan.partitions > 1 else 1)
    with NativeFleet(
        shape, address, crawl, concurrent=plan.concurrent, partitions=plan.partitions, hold=True, stored=stored
    ) as fleet:
        workers = fleet.together(2)
        first, last = WHEN[plan.moment]
        goal = plan.pages * choice.uniform(first, last)
        wait_until(lambda: fleet.site.pages() >= goal, f"{goal:.0f} pages to be asked for", 180)
        time.sleep(choice.uniform(0.0, 0.02))
        choice.choice(workers).kill()
        killed_at = fleet.site.pages()
        if plan.replaced:
            workers += fleet.start()
        fleet.wait([worker for worker in workers if worker.running])
        found = fleet.check()
    return Outcome(plan, killed_at, found, time.monotonic() - begin)


def theirs(plan: Plan, choice: random.Random) -> Outcome:
    """The same of scrapy-redis, as it is meant to be used: seeds in a list, items in its pipeline's list, a persistent
    queue. Its workers never end by themselves: they are told to when nothing moves any more."""
    begin = time.monotonic()
    with ExitStack() as stack:
        server = stack.enter_context(Server("valkey"))
        site = stack.enter_context(SiteProcess(Shape(plan.rule, plan.pages), 0.02, held=True))
        chosen = settings(REDIS, server.url, plan.concurrent) | {
            "SPIDER_MODULES": ["bench.crawls.spider_redis"],
            "ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 300},
        }
        project = stack.enter_context(Project(chosen))
        workers = [project.start() for _ in range(2)]
        wait_until(lambda: all(worker.opened for worker in workers), "all spiders to be open", 120)
        server.call("LPUSH", f"{Walker.name}:start_urls", json.dumps({"url": site.url}))
        wait_until(site.requests, "the front page to be asked for", 60)
        site.release()
        killed_at = kill_one(workers, site, plan, choice)
        if plan.replaced:
            workers.append(project.start())
        wait_until(Stillness(server, site), "scrapy-redis to come to rest", 600)
        for worker in workers:
            if worker.running:
                worker.process.terminate()
                worker.wait(60)
        rows = server.call("LRANGE", f"{Walker.name}:items", 0, -1, timeout=30)
        assert isinstance(rows, list)
        items = Counter(int(json.loads(str(row))["page"]) for row in rows)
        found = arrived(plan.pages, items, Counter(visit.page for visit in site.visits()))
    return Outcome(plan, killed_at, found, time.monotonic() - begin)


class Stillness:
    """True once the queue has been empty and the site not asked for some seconds."""

    def __init__(self, server: Server, site: SiteProcess) -> None:
        self._server, self._site = server, site
        self._requests, self._since = -1, 0.0

    def __call__(self) -> bool:
        requests, now = self._site.requests(), time.monotonic()
        if requests != self._requests or self._server.call("ZCARD", f"{Walker.name}:requests"):
            self._requests, self._since = requests, now
        return now - self._since > QUIET


def summary(name: str, outcomes: Sequence[Outcome]) -> str:
    """One line for all runs of one side."""
    if not outcomes:
        return f"{name}: no runs"
    lost = [outcome.arrived.lost for outcome in outcomes]
    pages = sum(outcome.plan.pages for outcome in outcomes)
    return (
        f"{name}: {len(outcomes)} kills, {pages} pages; lost {sum(lost)} ({min(lost)}–{max(lost)} a run), "
        f"doubled {sum(outcome.arrived.doubled for outcome in outcomes)}, "
        f"fetched again {sum(outcome.arrived.again for outcome in outcomes)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill workers in the middle of a crawl and count what arrived.")
    parser.add_argument("--runs", type=int, default=30, help="kills of a Gossamer worker, on one server")
    parser.add_argument(
        "--cluster", type=int, default=6, help="kills of a Gossamer worker on a cluster of three masters"
    )
    parser.add_argument("--native", type=int, default=30, help="kills of a worker of the native engine")
    parser.add_argument("--theirs", type=int, default=12, help="kills of a scrapy-redis worker")
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    print(f"workers killed in a crawl of {given.pages} pages, seed {given.seed}", flush=True)

    def campaign(name: str, runs: int, partitions: int, run: Callable[[int, Plan, random.Random], Outcome]) -> str:
        choice = random.Random(given.seed)
        outcomes = []
        for number, plan in zip(range(runs), plans(given.pages, choice, partitions), strict=False):
            outcomes.append(run(number, plan, choice))
            print(f"{name} {number + 1}: {outcomes[-1]}", flush=True)
        return summary(name, outcomes)

    texts = []
    with Server("valkey") as server:
        texts.append(campaign("gossamer", given.runs, 1, lambda n, plan, c: ours(plan, server.url, f"run{n}", c)))
        texts.append(
            campaign(
                "gossamer, native engine",
                given.native,
                1,
                lambda n, plan, c: native(plan, server.url, f"native{n}", c, stored=n % 2 == 1),
            )
        )
    if given.cluster:
        with Cluster(3) as cluster:
            texts.append(
                campaign(
                    "gossamer, cluster", given.cluster, 3, lambda n, plan, c: ours(plan, cluster.url, f"run{n}", c)
                )
            )
            texts.append(
                campaign(
                    "gossamer, native engine, cluster",
                    min(given.cluster, given.native),
                    3,
                    lambda n, plan, c: native(plan, cluster.url, f"native{n}", c, stored=n % 2 == 1),
                )
            )
    texts.append(campaign("scrapy-redis", given.theirs, 1, lambda _, plan, c: theirs(plan, c)))
    print("\n".join(texts))


if __name__ == "__main__":
    main()
