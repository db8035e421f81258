"""What a memory costs and what it forgets: a forum, crawled every ten minutes for weeks, with each kind of memory.

The forum is simulated: new posts, replies that bring posts back to the lists, and now and then one to a post of long ago. The memories
are real ones, on a real server whose clock is moved on. For each kind: the memory that it takes over time, pages that were fetched
again although they had been fetched (refetches), and pages that no round has fetched although the lists showed them (misses).

    python bench/seen_study.py                  four weeks
    python bench/seen_study.py --days 365 --charts docs/evidence
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.storage.measure import start_server

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    AddOutcome,
    HostPolicy,
    LanePolicy,
    Request,
    SeenKind,
    SeenPolicy,
    Selection,
    Settlement,
    Token,
    fingerprint,
)
from gossamer.settings import load
from gossamer.status.chart import line_chart, svg
from gossamer.testing.clock import advance
from gossamer.testing.servers import Server

MINUTES = 10
ROUNDS_A_DAY = 24 * 60 // MINUTES
DAY = 86400.0
POLICIES = {
    "exact": SeenPolicy(),
    "bloom, sized for 100,000": SeenPolicy(SeenKind.BLOOM, capacity=100_000),
    "bloom, sized for 1,000": SeenPolicy(SeenKind.BLOOM, capacity=1000),
    "rolling, 7 days": SeenPolicy(SeenKind.ROLLING, window=7 * DAY),
    "rolling, 20,000 pages": SeenPolicy(SeenKind.ROLLING, window_count=20_000),
    "hits, 7 days": SeenPolicy(SeenKind.HITS, window=7 * DAY),
    "hits, 12 rounds": SeenPolicy(SeenKind.HITS, window_rounds=12),
    "hits, 144 rounds": SeenPolicy(SeenKind.HITS, window_rounds=144),
}


class Forum:
    """A list of posts by their last reply, `listed` of which a crawler sees. In each round come `new` posts and `replies` to old ones,
    on average: mostly to those on the lists, more to those further up, and every `revival`-th to any post that ever was."""

    def __init__(
        self, seed: int, listed: int = 100, new: float = 5.0, replies: float = 12.0, revival: int = 100
    ) -> None:
        self._random = random.Random(seed)
        self._new, self._replies, self._revival, self._listed = new, replies, revival, listed
        self.posts = listed
        self.top = list(range(listed - 1, -1, -1))
        """Posts by their last reply, the latest first; those far below are left out."""

    def turn(self) -> list[int]:
        """Let ten minutes pass; answers what the lists show then."""
        for _ in range(self._number(self._replies)):
            if self._random.randrange(self._revival) == 0:
                post = self._random.randrange(self.posts)
                if post in self.top:
                    self.top.remove(post)
            else:
                post = self.top.pop(int(len(self.top) * self._random.random() ** 2))
            self.top.insert(0, post)
        for _ in range(self._number(self._new)):
            self.top.insert(0, self.posts)
            self.posts += 1
        del self.top[self._listed * 3 :]
        return self.top[: self._listed]

    def _number(self, mean: float) -> int:
        """Of events in ten minutes."""
        number, left = 0, self._random.expovariate(1.0)
        while left < mean:
            number += 1
            left += self._random.expovariate(1.0)
        return number


class Sample(NamedTuple):
    """Where a crawl stood after so many days."""

    days: float
    known: int
    bytes: int
    refetched: int


class Outcome(NamedTuple):
    """What came of a crawl with one kind of memory."""

    kind: str
    rounds: int
    shown: int
    fetched: int
    refetched: int
    missed: int
    relisted: int
    """Refetched while the lists had shown them without a break since they were fetched."""
    samples: list[Sample]

    @property
    def last(self) -> Sample:
        return self.samples[-1]

    @property
    def most(self) -> int:
        return max(sample.bytes for sample in self.samples)


def study(server: Server, name: str, policy: SeenPolicy, days: float, seed: int = 1) -> Outcome:
    """Crawl the forum for so many days, with this memory."""
    forum, rounds = Forum(seed), round(days * ROUNDS_A_DAY)
    every = max(1, rounds // 60)
    shown: set[int] = set()
    fetched: set[int] = set()
    unbroken: set[int] = set()
    refetched = relisted = 0
    samples: list[Sample] = []
    crawl = "study-" + "".join(letter if letter.isalnum() else "-" for letter in name)
    with ValkeyFrontier.open(load({"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": crawl})) as frontier:
        frontier.set_host("", HostPolicy(concurrency=0))
        frontier.define("forum", {"post": LanePolicy(seen=policy)})
        token = Token.fresh()
        for number in range(1, rounds + 1):
            frontier.new_round("forum", number)
            listed = forum.turn()
            requests = [Request(fingerprint(f"p{post}"), "forum", "forum.post", b"%d" % post) for post in listed]
            outcomes = frontier.add(requests)[0]
            new = [post for post, out in zip(listed, outcomes, strict=True) if out is AddOutcome.ADDED]
            refetched += sum(post in fetched for post in new)
            relisted += sum(post in unbroken for post in new)
            fetched.update(new)
            shown.update(listed)
            unbroken = unbroken.intersection(listed).union(new)
            leases = (
                frontier.exchange(token, want=len(new), selection=Selection(groups=("forum",))).leases if new else []
            )
            if len(leases) != len(new):
                raise RuntimeError(f"{len(leases)} of {len(new)} requests were leased")
            if leases:
                token = token.next()
                frontier.exchange(token, settle=[Settlement(lease) for lease in leases])
                token = token.next()
            advance(frontier, MINUTES * 60)
            if number % every == 0 or number == rounds:
                [info] = frontier.seen_counts()
                samples.append(Sample(number / ROUNDS_A_DAY, info.known, info.bytes, refetched))
    return Outcome(name, rounds, len(shown), len(fetched), refetched, len(shown - fetched), relisted, samples)


def table(outcomes: list[Outcome]) -> Iterator[str]:
    yield "| memory | pages it knows | bytes at the end | most bytes | pages shown | fetched again | of these never off the lists | never fetched |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for one in outcomes:
        figures = (one.last.known, one.last.bytes, one.most, one.shown, one.refetched, one.relisted, one.missed)
        yield f"| {one.kind} | " + " | ".join(f"{figure:,}" for figure in figures) + " |"


def charts(outcomes: list[Outcome]) -> dict[str, str]:
    """File names and texts."""
    memory = {one.kind: [(sample.days, sample.bytes / 1000) for sample in one.samples] for one in outcomes}
    again = {one.kind: [(sample.days, float(sample.refetched)) for sample in one.samples] for one in outcomes}
    return {
        "seen-memory.svg": svg(line_chart("Memory of a forum's posts", "days", "kilobytes", memory)),
        "seen-refetches.svg": svg(line_chart("Pages fetched again", "days", "pages", again)),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--days", type=float, default=28.0, help="simulated days (default 28)")
    parser.add_argument("--kind", action="append", choices=list(POLICIES), help="only this memory; may be repeated")
    parser.add_argument("--charts", type=Path, metavar="DIR", help="write two charts (SVG) into this folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures into this file")
    asked = parser.parse_args(arguments)
    outcomes = []
    with start_server() as server:
        for name in asked.kind or POLICIES:
            began = time.monotonic()
            outcomes.append(study(server, name, POLICIES[name], asked.days))
            sys.stderr.write(f"{name}: {outcomes[-1].rounds:,} rounds in {time.monotonic() - began:.0f} s\n")
    sys.stdout.write("\n".join(table(outcomes)) + "\n")
    if asked.charts is not None:
        for file, text in charts(outcomes).items():
            (asked.charts / file).write_text(text, "utf-8")
    if asked.json is not None:
        asked.json.write_text(json.dumps([one._asdict() for one in outcomes], indent=1), "utf-8")


if __name__ == "__main__":
    main()
