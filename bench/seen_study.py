"""What a memory costs and what it forgets: a forum, crawled every ten minutes for weeks, with each kind of memory.

The forum is simulated: new posts, replies that bring posts back to the lists, and now and then one to a post of long ago. The memories
are real ones, on a real server whose clock is moved on. For each kind: the memory that it takes over time, pages that were fetched
again although they had been fetched (refetches), and pages that no round has fetched although the lists showed them (misses).

No lane has a memory that forgets a page when it was found so many times. For comparison the study makes one itself; its bytes are those
of an exact memory on the server with the same pages, and one more for the count of each.

    python bench/seen_study.py                  four weeks
    python bench/seen_study.py --days 365 --charts docs/evidence
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.storage.measure import start_server

from gossamer.frontier.seen.memory import ValkeyMemory
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
COUNTED = {"found 12 times": 12, "found 144 times": 144}
"""Memories that forget a page when it was found so many times; the count fits into a byte."""


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


class Memory(Protocol):
    """Decides which of the listed posts a round fetches."""

    def fetch(self, number: int, listed: Sequence[int]) -> list[int]: ...

    def size(self) -> tuple[int, int]:
        """How many pages it knows, and its bytes."""
        ...


class LaneMemory:
    """The memory of a lane: the posts are added to it, and those that were new are leased and settled."""

    def __init__(self, frontier: ValkeyFrontier, policy: SeenPolicy) -> None:
        self._frontier, self._token = frontier, Token.fresh()
        frontier.set_host("", HostPolicy(concurrency=0))
        frontier.define("forum", {"post": LanePolicy(seen=policy)})

    def fetch(self, number: int, listed: Sequence[int]) -> list[int]:
        frontier = self._frontier
        frontier.new_round("forum", number)
        requests = [Request(fingerprint(f"p{post}"), "forum", "forum.post", b"%d" % post) for post in listed]
        outcomes = frontier.add(requests)[0]
        new = [post for post, out in zip(listed, outcomes, strict=True) if out is AddOutcome.ADDED]
        selection = Selection(groups=("forum",))
        leases = frontier.exchange(self._token, want=len(new), selection=selection).leases if new else []
        if len(leases) != len(new):
            raise RuntimeError(f"{len(leases)} of {len(new)} requests were leased")
        if leases:
            self._token = self._token.next()
            frontier.exchange(self._token, settle=[Settlement(lease) for lease in leases])
            self._token = self._token.next()
        advance(frontier, MINUTES * 60)
        return new

    def size(self) -> tuple[int, int]:
        [info] = self._frontier.seen_counts()
        return info.known, info.bytes


class CountedMemory:
    """Forgets a page when it was found `limit` times, the time it was fetched among them. What it costs is seen on the server: an exact
    memory there holds the same pages whenever the size is asked for."""

    def __init__(self, memory: ValkeyMemory, limit: int) -> None:
        self._memory, self._limit = memory, limit
        self._counts: dict[int, int] = {}
        self._stored: set[int] = set()

    def fetch(self, number: int, listed: Sequence[int]) -> list[int]:
        new = [post for post in listed if post not in self._counts]
        for post in listed:
            self._counts[post] = self._counts.get(post, 0) + 1
            if self._counts[post] >= self._limit:
                del self._counts[post]
        return new

    def size(self) -> tuple[int, int]:
        counted = set(self._counts)
        for posts, call in ((counted - self._stored, self._memory.mark), (self._stored - counted, self._memory.forget)):
            call([fingerprint(f"p{post}") for post in sorted(posts)])
        self._stored = counted
        known = self._memory.count()
        if known != len(counted):
            raise RuntimeError(f"{known} of {len(counted)} pages are in the memory")
        return known, self._memory.bytes_used() + known


@contextmanager
def lane_memory(server: Server, name: str, policy: SeenPolicy) -> Iterator[Memory]:
    with ValkeyFrontier.open(load({"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": _key(name)})) as frontier:
        yield LaneMemory(frontier, policy)


@contextmanager
def counted_memory(server: Server, name: str, limit: int) -> Iterator[Memory]:
    settings = load({"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": _key(name)})
    with ValkeyMemory.open(_key(name), SeenPolicy(), settings) as memory:
        yield CountedMemory(memory, limit)


def _key(name: str) -> str:
    return "study-" + "".join(letter if letter.isalnum() else "-" for letter in name)


def study(name: str, opened: AbstractContextManager[Memory], days: float, seed: int = 1) -> Outcome:
    """Crawl the forum for so many days, with this memory."""
    forum, rounds = Forum(seed), round(days * ROUNDS_A_DAY)
    every = max(1, rounds // 60)
    shown: set[int] = set()
    fetched: set[int] = set()
    unbroken: set[int] = set()
    refetched = relisted = 0
    samples: list[Sample] = []
    with opened as memory:
        for number in range(1, rounds + 1):
            listed = forum.turn()
            new = memory.fetch(number, listed)
            refetched += sum(post in fetched for post in new)
            relisted += sum(post in unbroken for post in new)
            fetched.update(new)
            shown.update(listed)
            unbroken = unbroken.intersection(listed).union(new)
            if number % every == 0 or number == rounds:
                samples.append(Sample(number / ROUNDS_A_DAY, *memory.size(), refetched))
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
    parser.add_argument(
        "--kind", action="append", choices=[*POLICIES, *COUNTED], help="only this memory; may be repeated"
    )
    parser.add_argument("--charts", type=Path, metavar="DIR", help="write two charts (SVG) into this folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures into this file")
    asked = parser.parse_args(arguments)
    outcomes = []
    with start_server() as server:
        for name in asked.kind or [*POLICIES, *COUNTED]:
            began = time.monotonic()
            if name in COUNTED:
                opened = counted_memory(server, name, COUNTED[name])
            else:
                opened = lane_memory(server, name, POLICIES[name])
            outcomes.append(study(name, opened, asked.days))
            sys.stderr.write(f"{name}: {outcomes[-1].rounds:,} rounds in {time.monotonic() - began:.0f} s\n")
    sys.stdout.write("\n".join(table(outcomes)) + "\n")
    if asked.charts is not None:
        for file, text in charts(outcomes).items():
            (asked.charts / file).write_text(text, "utf-8")
    if asked.json is not None:
        asked.json.write_text(json.dumps([one._asdict() for one in outcomes], indent=1), "utf-8")


if __name__ == "__main__":
    main()
