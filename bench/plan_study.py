"""A month of a thousand sites and two hundred workers, on a simulated clock: when rounds begin, what waits, who gets how much.

The sites are a model (`bench.planning.model`); the planner's own code decides. For two days three times as many posts come as usual, more
than the workers can fetch. The second study visits pages that change at their own pace, by the rules of revisits. `--real` crawls
eight real sites with real workers for two minutes, and tells how far the model is from that.

    python bench/plan_study.py --charts docs/evidence
    python bench/plan_study.py --real
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from math import cos, pi
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.planning.model import Begin, Fleet, Sample, SiteSpec
from bench.planning.revisits import RULES, RevisitOutcome, revisited

from gossamer.planner.policy.rounds import CatchUp, Overlap, RoundPolicy
from gossamer.sites.format import Schedule
from gossamer.status.chart import line_chart, svg

HOUR, DAY = 3600.0, 86400.0
INTERVALS = ((600.0, 10), (HOUR, 40), (6 * HOUR, 30), (DAY, 20))
"""Seconds between rounds, and how many of a hundred sites."""
OVERLAPS = ((Overlap.RESEED, 40), (Overlap.QUEUE, 40), (Overlap.SKIP, 10), (Overlap.REPLACE, 10))
CRONS = {HOUR: "0 * * * *", 6 * HOUR: "0 */6 * * *", DAY: "0 3 * * *"}
WEIGHTS = (1.0, 2.0, 4.0)
PAGES_A_SECOND = 2.0
"""Of one worker."""
USUAL, BURST = 0.6, 3.0
"""How much of what workers can fetch appears in ordinary times; and by how much more in the days of the burst."""


class Study(NamedTuple):
    """What is simulated. The burst is from one day to another."""

    sites: int = 1000
    workers: int = 200
    days: float = 30.0
    burst: tuple[float, float] = (10.0, 12.0)
    limit: int = 250_000
    tick: float = 120.0

    @property
    def capacity(self) -> float:
        return self.workers * PAGES_A_SECOND

    def appeared(self, t: float) -> float:
        """How many posts have come until `t` where one a second does on average; more by day than by night."""
        burst = max(0.0, min(t, self.burst[1] * DAY) - self.burst[0] * DAY) * (BURST - 1)
        return t - 0.5 * DAY / (2 * pi) * (cos(2 * pi * t / DAY) - 1) + burst


class Outcome(NamedTuple):
    """What came of a study with one way to divide the room."""

    shares: str
    seconds: float
    samples: list[Sample]
    begins: list[Begin]
    overlaps: dict[str, Overlap]
    by_weight: dict[float, list[tuple[float, int]]]
    """Pages fetched of the sites of each weight, until each time."""
    never: int
    """Sites that had found pages all through the burst, and of which none was fetched in one of its hours."""


def specs(study: Study, seed: int = 1) -> list[SiteSpec]:
    """Sites of all kinds. Their hosts could serve three times what appears on them."""
    chance = random.Random(seed)
    kinds = []
    for number in range(study.sites):
        [every] = chance.choices([one for one, _ in INTERVALS], [part for _, part in INTERVALS])
        [overlap] = chance.choices([one for one, _ in OVERLAPS], [part for _, part in OVERLAPS])
        cron = CRONS.get(every) if chance.random() < 0.25 else None
        schedule = Schedule(cron=cron, jitter=every / 20) if cron else Schedule(every=every, jitter=every / 20)
        policy = RoundPolicy(schedule, overlap, CatchUp.ONCE)
        delay = chance.choice((0.5, 1.0, 2.0))
        kinds.append((f"s{number:04}", policy, delay, chance.choice(WEIGHTS), chance.lognormvariate(0.0, 0.8)))
    total = sum(size for *_, size in kinds)
    return [
        SiteSpec(name, policy, 10, min(USUAL * study.capacity * size / total, 0.3 / delay), delay, weight)
        for name, policy, delay, weight, size in kinds
    ]


def simulated(study: Study, shares: str, seed: int = 1) -> Outcome:
    began = time.perf_counter()
    sites = specs(study, seed)
    fleet = Fleet(
        sites,
        capacity=study.capacity,
        limit=study.limit,
        shares=shares,
        tick=study.tick,
        appeared=study.appeared,
        seed=seed,
    )
    samples: list[Sample] = []
    by_weight: dict[float, list[tuple[float, int]]] = defaultdict(list)
    starved: set[str] = set()
    before: dict[str, tuple[int, int]] = {}
    while fleet.now < study.days * DAY:
        samples += fleet.run(HOUR, HOUR)[:1]
        fetched: Counter[float] = Counter()
        for name, site in fleet.sites.items():
            fetched[site.spec.weight] += site.fetched
            if before.get(name, (0, -1)) == (site.found, site.fetched) and site.found and site.queued == 0:
                starved.add(name)
            before[name] = site.found, site.fetched
        for weight in WEIGHTS:
            by_weight[weight].append((fleet.now, fetched[weight]))
    samples.append(fleet.sample())
    return Outcome(
        shares,
        time.perf_counter() - began,
        samples,
        fleet.begins,
        {spec.name: spec.policy.overlap for spec in sites},
        dict(by_weight),
        len(starved),
    )


def late(outcome: Outcome, overlap: Overlap, first: float, last: float) -> list[float]:
    """By how many seconds rounds of such sites began after their time, in these days; the least first."""
    return sorted(
        begin.at - begin.due
        for begin in outcome.begins
        if begin.number and first * DAY <= begin.at < last * DAY and outcome.overlaps[begin.site] is overlap
    )


def gaps(outcome: Outcome, study: Study, overlap: Overlap) -> list[tuple[float, float]]:
    """Day by day, how many rounds of such sites began, as a part of those of the first whole day."""
    days = Counter(int(begin.at / DAY) for begin in outcome.begins if outcome.overlaps[begin.site] is overlap)
    usual = days[1] or 1
    return [(day + 0.5, days[day] / usual * 100) for day in range(1, int(study.days))]


def part(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def report(study: Study, outcomes: Sequence[Outcome]) -> Iterator[str]:
    for one in outcomes:
        most = max(one.samples, key=lambda sample: sample.waiting)
        caught = next(
            (x.at for x in one.samples if x.at > most.at and x.waiting < study.capacity * HOUR), study.days * DAY
        )
        last = one.samples[-1]
        yield f"### {one.shares}: {study.sites:,} sites, {study.workers} workers, {study.days:g} days"
        yield ""
        yield f"- {len(one.begins):,} rounds began; {last.fetched:,} of {last.appeared:,} posts were fetched."
        yield f"- Queued: {max(x.queued for x in one.samples):,} at most; the limit is {study.limit:,}."
        yield (
            f"- Waiting in records: {most.waiting:,} at most, on day {most.at / DAY:.1f}; caught up on day {caught / DAY:.1f}."
        )
        yield f"- Sites with found pages of which none was queued or fetched for an hour: {one.never}."
        yield ""
        yield "| overlap | rounds | late: half of them | 99 % | at most | in the burst: 99 % |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: |"
        for overlap, _ in OVERLAPS:
            usual = late(one, overlap, 0, study.burst[0])
            burst = late(one, overlap, *study.burst)
            figures = (part(usual, 0.5), part(usual, 0.99), part(usual, 1.0), part(burst, 0.99))
            told = " | ".join(f"{figure:,.1f} s" for figure in figures)
            yield f"| {overlap.value} | {len(late(one, overlap, 0, study.days)):,} | {told} |"
        yield ""


def charts(study: Study, outcomes: Sequence[Outcome], revisits: Sequence[RevisitOutcome]) -> dict[str, str]:
    """File names and texts."""
    first = outcomes[0]
    queue = {
        "queued": [(x.at / DAY, float(x.queued)) for x in first.samples],
        "limit": [(0.0, float(study.limit)), (study.days, float(study.limit))],
    }
    waiting = {"waiting in records": [(x.at / DAY, float(x.waiting)) for x in first.samples]}
    began = {overlap.value: gaps(first, study, overlap) for overlap, _ in OVERLAPS}
    rates = {}
    for one in outcomes:
        for weight, row in one.by_weight.items():
            points = [(t / DAY, (after - before) / HOUR) for (_, before), (t, after) in pairwise(row)]
            rates[f"{one.shares}, weight {weight:g}"] = points[:: max(1, len(points) // 120)]
    stale = {one.name: one.stale for one in revisits}
    return {
        "plan-queue.svg": svg(line_chart("Queued pages, and the limit", "days", "pages", queue)),
        "plan-waiting.svg": svg(line_chart("Found pages that wait for room", "days", "pages", waiting)),
        "plan-rounds.svg": svg(line_chart("Rounds that began, by overlap", "days", "% of an ordinary day", began)),
        "plan-shares.svg": svg(line_chart("Pages of sites by weight", "days", "pages a second", rates)),
        "plan-revisits.svg": svg(line_chart("Pages that changed since their last visit", "days", "% of all", stale)),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sites", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--pages", type=int, default=1000, help="pages that are visited again (default 1,000)")
    parser.add_argument("--shares", action="append", choices=("weights", "neocrawler"), help="only this one")
    parser.add_argument("--charts", type=Path, metavar="DIR", help="write the charts (SVG) into this folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures into this file")
    parser.add_argument("--real", action="store_true", help="crawl real sites instead, and compare the model with that")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long --real takes (default 120)")
    asked = parser.parse_args(arguments)
    if asked.real:
        from bench.planning.real_run import compare

        sys.stdout.write("\n".join(compare(asked.seconds, asked.charts)) + "\n")
        return
    burst = (asked.days / 3, asked.days / 3 + asked.days / 15)
    study = Study(asked.sites, asked.workers, asked.days, burst, limit=250 * asked.sites)
    ways = asked.shares or ["weights", "neocrawler"]
    outcomes = []
    with ProcessPoolExecutor(min(len(ways), os.cpu_count() or 1)) as pool:
        for one in pool.map(simulated, [study] * len(ways), ways):
            outcomes.append(one)
            sys.stderr.write(f"{one.shares}: {len(one.begins):,} rounds in {one.seconds:.0f} s\n")
    revisits = [revisited(name, rules, asked.pages, asked.days) for name, rules in RULES.items()]
    sys.stdout.write("\n".join([*report(study, outcomes), *_visits(revisits)]) + "\n")
    if asked.charts is not None:
        for file, text in charts(study, outcomes, revisits).items():
            (asked.charts / file).write_text(text, "utf-8")
    if asked.json is not None:
        told = [{**one._asdict(), "begins": len(one.begins), "overlaps": len(one.overlaps)} for one in outcomes]
        asked.json.write_text(json.dumps([told, [one._asdict() for one in revisits]], indent=1), "utf-8")


def _visits(revisits: Sequence[RevisitOutcome]) -> Iterator[str]:
    yield "| revisit | visits a day | of these the page had changed | changes seen in a day | pages that are out of date |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for one in revisits:
        seen = one.visits_a_day * one.useful
        yield f"| {one.name} | {one.visits_a_day:,.0f} | {one.useful:.0%} | {seen:,.0f} | {one.out_of_date:.1%} |"


if __name__ == "__main__":
    main()
