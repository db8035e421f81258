"""A round that replaces another takes many steps: a planner is killed between any two of them, and nothing stays closed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from tests.support.planned_crawl import LEAD, PlannedCrawl, verb_of

from gossamer.frontier.connection.router import Conversation, RoutedCommand
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import AddOutcome, Request, Token
from gossamer.planner.loop import Planner
from gossamer.testing.servers import Server

STEPS = ("drop", "new_round", "purge")
PAGES = 12


class Killed(BaseException):
    """As SIGKILL: nothing of the planner's own runs any more."""


class Mortal:
    """Lets a planner make so many steps on the server. A question to several partitions is several steps."""

    def __init__(self, frontier: ValkeyFrontier, steps: int) -> None:
        self._ask, self.left = frontier.calls.ask, steps
        frontier.calls.ask = self.ask  # type: ignore[method-assign]

    def ask(self, calls: Sequence[RoutedCommand]) -> Conversation[list[Any]]:
        answers = []
        for one in calls:
            if verb_of(one) in STEPS:
                if not self.left:
                    raise Killed
                self.left -= 1
            answers += yield from self._ask([one])
        return answers


def replaced_until(crawl: PlannedCrawl, steps: int) -> bool:
    """A planner replaces round 0 of site `a`, and is killed after so many steps; False: it was done with it before that."""
    crawl.push("a", "{every: 10m, overlap: replace}")
    crawl.seed("a", PAGES)
    crawl.advance(601)
    frontier = crawl.opened()
    planner = Planner(frontier, "one", seconds=LEAD)
    Mortal(frontier, steps)
    try:
        while not planner.cycle().done:
            pass
    except Killed:
        return True
    return False


def crawls(server: Server) -> Any:
    for steps in count():
        with PlannedCrawl(server, Token.fresh().incarnation) as crawl:
            if not replaced_until(crawl, steps):
                assert steps >= 3, "there was nothing to interrupt"
                return
            yield crawl


def test_another_planner_goes_on_after_any_step(valkey_server: Server) -> None:
    for crawl in crawls(valkey_server):
        other = crawl.planner("other")
        assert not other.cycle().leader.granted
        crawl.advance(LEAD + 1)
        while crawl.rounds("a")[-1][0] == 0:
            other.cycle()
        assert crawl.rounds("a")[-1] == (1, "running")
        assert crawl.seed("a", PAGES)
        crawl.fetch("a")
        assert [number for number, _ in crawl.rounds("a")] == [0, 1]
        assert crawl.rounds("a")[1] == (1, "ended")
        assert crawl.frontier.rounds("a")[0].pages == PAGES, (
            "each of its pages was fetched, and none of the last round's"
        )
        assert other.cycle().done == []


@pytest.mark.parametrize("schedule", ["{every: 1d}", ""], ids=["another-schedule", "nobody-plans"])
def test_where_nobody_goes_on_lanes_open_again(valkey_server: Server, schedule: str) -> None:
    """The file says something else meanwhile; or no planner and no worker that begins rounds is left."""
    for crawl in crawls(valkey_server):
        frontier = crawl.frontier
        if schedule:
            frontier.put_document(
                "site", "a", f"site: a\nseeds: [http://a.example/]\nschedule: {schedule}\nlayers: {{page: {{}}}}\n"
            )
        other = crawl.planner("other")
        for _ in range(5):
            crawl.advance(LEAD)
            if schedule:
                assert other.cycle().done == []
        requests = [Request(1000 + n, f"h{n}", "a.page", b"x") for n in range(PAGES)]
        assert set(frontier.add(requests)[0]) == {AddOutcome.ADDED}
        before = sum(info.pages for info in frontier.rounds("a"))
        crawl.fetch("a", end=False)
        assert sum(info.pages for info in frontier.rounds("a")) >= before + PAGES
        assert all(lane.paused == "" for lane in frontier.counts("a").lanes)
