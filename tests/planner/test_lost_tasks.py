"""Tasks of rounds while servers lose what came last: whatever planners, a worker and the clock do in whichever order, no round lacks one."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.planned_crawl import LEAD, PAGES, PlannedCrawl

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, StartState, Token
from gossamer.planner import round_tasks
from gossamer.planner.loop import Planner
from gossamer.planner.round_tasks import RoundTasks
from gossamer.settings import load
from gossamer.sites.file.grant import Grant
from gossamer.testing.servers import Server

STEPS, TASKS, LATELY = 25, 3, (1, 20)
ACTIONS = ("plan", "plan", "plan", "start", "take", "take", "advance", "pass", "save", "back", "turn")
SEEDS = (12, 22, 36, 44, 54, 3, 7, 11)
"""In the first five, tasks are lost that nobody but the planner could push again."""


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with Server().start() as one, Server().start() as other:
        yield one, other


class TaskedCrawl:
    """A spider whose rounds begin with tasks. `apart`: these are on a server of their own, as on another node of a cluster, and it alone goes
    back; otherwise the only one does."""

    def __init__(self, crawl: PlannedCrawl, tasks: ValkeyFrontier, server: Server, file: Path, overlap: str) -> None:
        self.crawl, self.tasks, self.server = crawl, tasks, server
        self.key, self.taken, self._token = f"{crawl.frontier.crawl}:tasks", Counter[str](), Token.fresh()
        file.write_text("url\n" + "".join(f"http://x/{number}\n" for number in range(TASKS)))
        plan = f"spider: q\nschedule: {{every: 10m, overlap: {overlap}}}\ntasks: {{key: '{self.key}', csv: '{file}'}}\n"
        crawl.frontier.put_document("spider", "q", plan)
        here = (self.key,) if tasks is crawl.frontier else ()
        crawl.frontier.define("q", {"page": PAGES}, GroupPolicy(start=True, tasks=here))
        grant, self._now = Grant(paths=(file.parent,)), 0.0
        self.planners = [
            Planner(crawl.frontier, name, seconds=LEAD, tasks=RoundTasks(tasks, grant, clock=lambda: self._now))
            for name in ("one", "other")
        ]

    def plan(self) -> None:
        for planner in self.planners:
            planner.cycle()

    def turn(self) -> None:
        """The other one leads from now on."""
        for planner in self.planners:
            planner.resign()
        self.planners.reverse()
        self.plan()

    def start(self) -> None:
        if self.crawl.frontier.start("q", self.crawl.token)[0] is StartState.GRANTED:
            self.crawl.frontier.started("q", self.crawl.token)

    def advance(self, seconds: float) -> None:
        """Planners look all the time, and only what came last is ever lost."""
        self.crawl.advance(seconds)
        self._now += seconds
        self.plan()
        if seconds > max(LATELY):
            self.server.call("SAVE")

    def take(self) -> None:
        tasks = self.tasks.lease_tasks(self._token, self.key, STEPS * TASKS)
        self.taken.update(json.loads(task.data)["url"] for task in tasks)
        self.tasks.settle_tasks(self._token.next(), self.key, done=tasks)
        self._token = self._token.next().next()
        # What was taken stays so: it is counted here.
        self.server.call("SAVE")

    def back(self) -> None:
        self.server.kill()
        self.server.restart()
        self.plan()
        self.server.call("SAVE")

    def wanted(self) -> int:
        """How often each task was to be taken."""
        return sum(info.tasks for info in self.crawl.frontier.rounds("q"))


@pytest.mark.parametrize("seed", SEEDS)
def test_each_round_has_its_tasks_although_a_server_goes_back(
    servers: tuple[Server, Server], crawl_name: str, tmp_path: Path, seed: int
) -> None:
    chance, apart = random.Random(seed), seed % 2 == 0
    overlap = chance.choice(("queue", "skip", "reseed", "replace"))
    given = {"GOSSAMER_URL": servers[1].url, "GOSSAMER_CRAWL": crawl_name}
    with PlannedCrawl(servers[0], crawl_name) as crawl, ValkeyFrontier.open(load(given, {})) as elsewhere:
        tasks, server = (elsewhere, servers[1]) if apart else (crawl.frontier, servers[0])
        tasked = TaskedCrawl(crawl, tasks, server, tmp_path / "tasks.csv", overlap)
        server.call("SAVE")
        done = []
        for _ in range(STEPS):
            done.append(action := chance.choice(ACTIONS))
            if action in ("advance", "pass"):
                tasked.advance(600 if action == "advance" else chance.choice(LATELY))
            elif action == "save":
                server.call("SAVE")
            else:
                getattr(tasked, action)()
        tasked.plan()
        tasked.take()
        taken = [tasked.taken[f"http://x/{number}"] for number in range(TASKS)]
        assert min(taken) >= tasked.wanted(), (overlap, " ".join(done))
        # Of equal tasks of rounds that overlap, the server knows the last.
        if overlap in ("queue", "skip"):
            assert max(taken) <= tasked.wanted(), (overlap, " ".join(done))


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("kept", [1000, 1])
def test_what_is_pushed_again_is_of_the_round_also_where_its_file_has_changed(
    servers: tuple[Server, Server],
    crawl_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lost: bool,
    kept: int,
) -> None:
    """The file is that of the next round by now: its tasks are not lost, and those of this one are not in it."""
    monkeypatch.setattr(round_tasks, "KEPT", kept)
    server, file = servers[1], tmp_path / "tasks.csv"
    given = {"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": crawl_name}
    with PlannedCrawl(servers[0], crawl_name) as crawl, ValkeyFrontier.open(load(given, {})) as elsewhere:
        tasked = TaskedCrawl(crawl, elsewhere, server, file, "queue")
        tasked.start()
        server.call("SAVE")
        tasked.plan()
        if not lost:
            server.call("SAVE")
        file.write_text("url\nhttp://x/next\n")
        tasked.back()
        tasked.back()
        tasked.take()
        assert tasked.taken == {f"http://x/{number}": 1 for number in range(TASKS)}
