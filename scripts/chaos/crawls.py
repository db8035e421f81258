"""Let something happen to the server of a live crawl and ask the site which pages nobody fetched: `make chaos`.

Two workers crawl a site of some thousand pages. In the middle the server's state goes back (a power cut, a restored backup, a
replica that had not heard everything), the server becomes a replica behind its address, its memory is full, its clock jumps, or
the group is dropped and crawled again: see `troubles.py`. Workers live on and remember what the server has forgotten.
They must end as drained, and then: every page of the site was fetched, by the site's own log; every page has exactly one item; the
frontier passes the auditor; there are no dead letters.

    python scripts/chaos/crawls.py [--runs 10] [--kinds cut,lagging,…] [--engines native,scrapy] [--pages 4000] [--times 2]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.crawls.fleet import Fleet, arrived
from bench.crawls.native import NativeFleet
from bench.crawls.shape import Shape
from scripts.chaos.troubles import CRAWL, PARTITIONS, PATIENCE, TROUBLES, Crawl
from tests.support.auditor.audit import audit

from gossamer.testing.resp import ReplyError

ENGINES = ("native", "scrapy")


class Plan(NamedTuple):
    """One run: what happens, how often, and to which crawl."""

    kind: str
    engine: str
    pages: int = 4_000
    rule: str = "ten"
    times: int = 2
    workers: int = 2

    def __str__(self) -> str:
        return f"{self.kind} x {self.times}, {self.engine}, {self.rule} of {self.pages}"


class Outcome(NamedTuple):
    """What the site and the frontier say when the workers have ended. `at`: how many pages had been asked for each time."""

    plan: Plan
    at: list[int]
    never: int
    lost: int
    doubled: int
    again: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.plan}: at {self.at}; never fetched {self.never}, without an item {self.lost}, "
            f"items too many {self.doubled}, fetched again {self.again}; {self.seconds:.0f} s"
        )

    @property
    def whole(self) -> bool:
        return not (self.never or self.lost or self.doubled)


def fleet_of(plan: Plan, address: str) -> Fleet | NativeFleet:
    partitions = PARTITIONS if plan.kind in ("part", "apart") else 1
    shape = Shape(plan.rule, plan.pages, 3 * partitions if partitions > 1 else 1)
    # The old primary of a planned failover goes on accepting calls for some ten seconds, and the crawl must be longer.
    delay = 640 / plan.pages if plan.kind == "planned" else 0.03
    kind = NativeFleet if plan.engine == "native" else Fleet
    return kind(shape, address, CRAWL, hold=True, delay=delay, partitions=partitions)


def run(plan: Plan, choice: random.Random) -> Outcome:
    """One crawl. AssertionError if a worker did not end as drained, or the frontier contradicts itself."""
    begin, at = time.monotonic(), list[int]()
    with TROUBLES[plan.kind]() as (address, strike), fleet_of(plan, address) as fleet:
        crawl = Crawl(fleet, list(fleet.together(plan.workers)), choice)
        for number in range(plan.times):
            # Sometimes while the first page is on its way, and nothing of the start is settled.
            early = number == 0 and choice.random() < 0.25
            crawl.reach(0 if early else plan.pages * (number + choice.uniform(0.0, 0.4)) / (plan.times + 0.5))
            strike(crawl)
            at.append(fleet.site.pages())
        over = crawl.over if crawl.excused is None else crawl.excused
        fleet.wait(crawl.workers, PATIENCE)
        if over:
            # The crawl was over before the server forgot its end: that is for the next worker.
            fleet.wait(fleet.start(environ={"GOSSAMER_ROUND": "join"}), PATIENCE)
        return judge(plan, fleet, at, time.monotonic() - begin)


def judge(plan: Plan, fleet: Fleet | NativeFleet, at: list[int], seconds: float) -> Outcome:
    visits = Counter(visit.page for visit in fleet.site.visits())
    with fleet.frontier() as frontier:
        found = arrived(plan.pages, fleet.items(frontier), visits)
        audit(frontier)
        left = frontier.drained(fleet.group)
        assert left.drained, f"{plan}: the workers ended before the crawl: {left}, {frontier.counts(fleet.group)}"
        assert frontier.dead_letters(fleet.group) == [], f"{plan}: dead letters"
    never = sum(1 for page in range(plan.pages) if not visits[page])
    return Outcome(plan, at, never, found.lost, found.doubled, found.again, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Let something happen to the server of live crawls.")
    parser.add_argument("--runs", type=int, default=10, help="of each kind with each engine")
    parser.add_argument("--kinds", default=",".join(TROUBLES))
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--pages", type=int, default=4_000)
    parser.add_argument("--times", type=int, default=2, help="how often it happens in a crawl")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    print(f"trouble in crawls of {given.pages} pages, seed {given.seed}", flush=True)
    choice, bad = random.Random(given.seed), 0
    for engine in given.engines.split(","):
        for kind in given.kinds.split(","):
            for number in range(given.runs):
                rule = choice.choice(("ten", "binary", "forum"))
                plan = Plan(kind, engine, given.pages, rule, 1 if kind in ("planned", "replaced") else given.times)
                try:
                    outcome = run(plan, choice)
                except (AssertionError, TimeoutError, ReplyError) as error:
                    bad += 1
                    print(f"{number + 1}: {plan}: {error}", flush=True)
                    continue
                bad += not outcome.whole
                print(f"{number + 1}: {outcome}", flush=True)
    sys.exit(f"{bad} crawls were not whole" if bad else 0)


if __name__ == "__main__":
    main()
