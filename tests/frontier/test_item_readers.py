"""Random readers of a group's items at its limit and at an age: feeds, names and exports without one, which come, go on, end and are
forgotten in any order. What nobody has written stays; where nothing else could go the group is paused, until somebody has."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from gossamer.frontier import item_stream
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy, Lease, Request, Settlement, Token
from gossamer.settings import load
from gossamer.testing.clock import advance
from gossamer.testing.servers import Server

SEEDS = range(6 * int(os.environ.get("MACHINE_FACTOR", "1")))
STEPS = 80
FEEDS, NAMES = ("feed-a", "feed-b"), ("lake", "shop")
AGE = 50.0


@pytest.fixture
def frontier(valkey_server: Server, crawl_name: str) -> Iterator[ValkeyFrontier]:
    with ValkeyFrontier.open(load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}, {})) as opened:
        yield opened


class Readers:
    """What is known of the items, each by its number: how many came, how many of the oldest are not there any more, and up to which
    each reader has written them."""

    def __init__(self, frontier: ValkeyFrontier, choice: random.Random) -> None:
        self.frontier, self.choice = frontier, choice
        self.limit = choice.choice((0, 5, 12))
        self.policy = GroupPolicy(max_items=self.limit, max_item_age=choice.choice((0.0, AGE)))
        frontier.define("g", {"a": LanePolicy()}, self.policy)
        self.positions: list[str] = []
        self.first = self.went = 0
        self.at: dict[str, int] = {}
        self.plain = 0
        self.story = [f"{self.policy.max_items} items, for {self.policy.max_item_age:g} s"]

    def free(self) -> int:
        """So many of the items that ever came may go."""
        feeds = [at for name, at in self.at.items() if name in FEEDS]
        names = [at for name, at in self.at.items() if name in NAMES]
        return min(feeds) if feeds else max(min(names, default=0), self.plain)

    def is_paused(self) -> bool:
        return any(row.paused == "items_full" for row in self.frontier.counts("g").groups)

    def produce(self) -> None:
        number = self.choice.randint(1, 4)
        token = Token.fresh()
        self.frontier.add([Request(1, "h", "g.a", b"x", dont_filter=True)])
        leases: list[Lease] = []
        for _ in range(3):
            leases += self.frontier.exchange(token, want=1).leases
            token = token.next()
            if leases:
                break
        # A group that is full takes no pages.
        was = self.is_paused()
        assert bool(leases) is not was, self.told()
        if not was:
            self.frontier.exchange(token, settle=[Settlement(leases[0], items=[b"x"] * number)])
        self.story.append(f"{number} items{', paused' * was}")

    def keep(self) -> None:
        name = self.choice.choice((*FEEDS, *NAMES, ""))
        before = self.at.get(name, 0) if name else self.plain
        upto = self.choice.randint(before, len(self.positions))
        if name:
            self.at[name] = upto
            self.frontier.keep_items("g", name, {0: ""})
        else:
            self.plain = upto
        if upto > before:
            self.frontier.keep_items("g", name, {0: self.positions[upto - 1]})
        self.story.append(f"{name or 'export'} to {upto}")

    def forget(self) -> None:
        name = self.choice.choice((*FEEDS, *NAMES))
        self.plain = max(self.plain, self.at.pop(name, 0))
        self.frontier.keep_items("g", name, {0: "gone"})
        self.story.append(f"{name} ends")

    def drop(self) -> None:
        upto = self.choice.randint(self.first, len(self.positions))
        if upto > self.first:
            dropped = self.frontier.drop_items("g", {0: self.positions[upto - 1]})
            assert dropped == upto - self.first, self.told()
            self.first = upto
        self.story.append(f"drop to {upto}")

    def wait(self) -> None:
        advance(self.frontier, AGE)
        self.story.append("later")

    def check(self) -> None:
        rows = [
            position for page in item_stream.pages(self.frontier, "g", 0, item_stream.START) for position, _ in page
        ]
        self.positions += [position for position in rows if position not in self.positions]
        first = len(self.positions) - len(rows)
        assert rows == self.positions[first:], self.told()
        if first > self.first:
            assert first <= self.free(), self.told()
            self.went += first - self.first
            self.first = first
        assert item_stream.gone(self.frontier, "g", 0)[0] == self.went, self.told()
        is_full = 0 < self.limit <= len(rows) and self.free() <= self.first
        assert self.is_paused() is is_full, self.told()
        assert not self.limit or len(rows) < self.limit + 4, self.told()

    def told(self) -> str:
        return "\n".join((*self.story, f"{self.first} gone of {len(self.positions)}, {self.at}, export {self.plain}"))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_nobody_has_written_stays_and_a_full_group_waits_for_who_writes_it(
    seed: int, frontier: ValkeyFrontier
) -> None:
    choice = random.Random(seed)
    readers = Readers(frontier, choice)
    for _ in range(STEPS):
        choice.choices((readers.produce, readers.keep, readers.forget, readers.drop, readers.wait), (8, 8, 2, 1, 1))[
            0
        ]()
        readers.check()
