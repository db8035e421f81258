"""A planner is killed before any of its calls, and another takes over: what comes of the crawl is the same as without that."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.planned_crawl import LEAD, PAGES, PlannedCrawl, verb_of

from gossamer.errors import NotLeader
from gossamer.frontier.connection.router import Conversation, RoutedCommand
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy, RecordPolicy, Request, Token
from gossamer.planner.loop import Planner
from gossamer.planner.round_tasks import RoundTasks
from gossamer.sites.file.grant import Grant
from gossamer.testing.servers import Server

CYCLES, STEP, LIMIT, FOUND = 12, 150.0, 8, 40


class Killed(BaseException):
    """As SIGKILL: nothing of the planner's own runs any more."""


class Outcome(NamedTuple):
    """What came of a crawl: its rounds, the tasks that were pushed, pages fetched of the one that is fed."""

    rounds: dict[str, list[int]]
    tasks: list[bytes]
    fetched: int
    calls: list[str]


class Counting:
    """Counts the calls of a planner, and kills it before one of them. A question to several partitions is several calls."""

    def __init__(self, frontier: ValkeyFrontier, last: int | None) -> None:
        self._ask, self._last = frontier.calls.ask, last
        self.calls: list[str] = []
        frontier.calls.ask = self.ask  # type: ignore[method-assign]

    def ask(self, calls: Sequence[RoutedCommand]) -> Conversation[list[Any]]:
        answers = []
        for one in calls:
            if len(self.calls) == self._last:
                raise Killed
            self.calls.append(verb_of(one))
            answers += yield from self._ask([one])
        return answers


def crawled(server: Server, folder: Path, last: int | None = None) -> Outcome:
    """Half an hour of a crawl in which everything happens that planners do. After so many calls the first planner is killed."""
    name = Token.fresh().incarnation
    with PlannedCrawl(server, name) as crawl:
        key, file = f"{name}:tasks", folder / "tasks.csv"
        file.write_text("url\nhttp://a/\nhttp://b/\n")
        for overlap in ("queue", "reseed", "replace"):
            crawl.push(overlap, f"{{every: 10m, overlap: {overlap}}}")
        crawl.frontier.put_document(
            "spider", "quotes", f"spider: quotes\nschedule: {{every: 10m}}\ntasks: {{key: '{key}', csv: '{file}'}}\n"
        )
        crawl.frontier.define("quotes", {"page": PAGES}, GroupPolicy(start=True))
        crawl.frontier.define("fed", {"page": LanePolicy(records=RecordPolicy())})
        grant = Grant(paths=(folder,))
        opened = crawl.opened(), crawl.opened()
        planners = [
            Planner(one, who, seconds=LEAD, limit=LIMIT, tasks=RoundTasks(one, grant))
            for one, who in zip(opened, ("one", "other"), strict=True)
        ]
        counting, alive = Counting(opened[0], last), True
        tasks: list[bytes] = []
        fetched = 0
        for cycle in range(CYCLES):
            for number, planner in enumerate(planners):
                if number or alive:
                    try:
                        planner.cycle()
                    except Killed:
                        alive = False
                        # The next cycle of the other comes when the lead of this one is over.
                        crawl.advance(LEAD + 1)
                    except NotLeader:
                        raise AssertionError("it is not told to whoever runs it") from None
            queued = sum(lane.queued + lane.delayed for lane in crawl.frontier.counts("fed").lanes)
            assert queued <= LIMIT, "no two leaders queue more than the limit"
            if cycle == 0:
                crawl.frontier.add([Request(10_000 + n, f"h{n % 3}", "fed.page", b"x") for n in range(FOUND)])
            for group in ("queue", "reseed", "replace", "quotes"):
                crawl.seed(group, 2)
                if group != "replace" or cycle % 5 == 4:
                    crawl.fetch(group, end=group != "quotes")
            before = crawl.frontier.counts("fed").lanes[0].done
            crawl.fetch("fed", end=False)
            fetched += crawl.frontier.counts("fed").lanes[0].done - before
            tasks += crawl.frontier.connection.execute("LRANGE", key, 0, -1, key=key)
            crawl.frontier.connection.execute("DEL", key, key=key)
            crawl.advance(STEP)
        rounds = {
            group: [info.round for info in reversed(crawl.frontier.rounds(group))]
            for group in ("queue", "reseed", "replace", "quotes")
        }
    return Outcome(rounds, sorted(tasks), fetched, counting.calls)


@pytest.mark.timeout(400)
def test_a_change_of_the_leader_in_the_middle_of_anything_changes_nothing(
    valkey_server: Server, tmp_path: Path
) -> None:
    expected = crawled(valkey_server, tmp_path)
    assert expected.fetched == FOUND, "all that was found"
    assert all(len(numbers) >= 3 for numbers in expected.rounds.values())
    # Each kind of moment once: between these two kinds of calls.
    moments = {pair: place for place, pair in reversed(list(enumerate(pairwise(expected.calls), 1)))}
    assert len(moments) > 10
    for (before, after), last in moments.items():
        found = crawled(valkey_server, tmp_path, last)
        assert found[:3] == expected[:3], f"killed between {before} and {after}, before call {last}"
