"""Planners on a real server whose clock the tests move: what they begin, and that a change of the leader changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.planned_crawl import LEAD, PAGES, Interrupted, PlannedCrawl

from gossamer.errors import NotLeader, SiteError, StoreError
from gossamer.frontier.call import function_call
from gossamer.frontier.contract import Frontier
from gossamer.frontier.producer import BATCH_TASKS
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, Token
from gossamer.planner.loop import Planner
from gossamer.planner.overview import overview
from gossamer.planner.policy.rounds import Action
from gossamer.planner.round_tasks import RoundTasks
from gossamer.settings import load
from gossamer.sites.file.grant import Grant
from gossamer.sites.format.spider import SpiderTasks
from gossamer.testing.servers import Server

MINUTE = 60.0


@pytest.fixture
def crawl(valkey_server: Server, crawl_name: str) -> Iterator[PlannedCrawl]:
    with PlannedCrawl(valkey_server, crawl_name) as crawl:
        yield crawl


def test_a_round_begins_when_it_is_due_and_no_sooner(crawl: PlannedCrawl) -> None:
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m}")
    crawl.push("b", "{every: 1d}")
    assert planner.cycle().done == [], "nobody has run the first start"
    for group in "ab":
        crawl.run_round(group)
    assert planner.cycle().done == []
    crawl.advance(10 * MINUTE - 5)
    assert planner.cycle().done == []
    crawl.advance(5)
    assert [(one.group, one.round, one.action) for one in planner.cycle().done] == [("a", 0, Action.BEGIN)]
    assert planner.cycle().done == [], "it runs"
    [info] = crawl.frontier.rounds("a", 1)
    assert (info.round, info.trigger, info.who) == (1, "schedule", "one")
    crawl.advance(20 * MINUTE)
    assert planner.cycle().done == [], "it still runs"
    crawl.run_round("a")
    assert [one.group for one in planner.cycle().done] == ["a"], "at once, and once for two that were due"
    crawl.run_round("a")
    assert planner.cycle().done == []


def test_a_file_that_is_pushed_or_removed_counts_in_the_next_cycle(crawl: PlannedCrawl) -> None:
    planner = crawl.planner("one")
    crawl.push("a", "{every: 1d}")
    crawl.run_round("a")
    crawl.advance(11 * MINUTE)
    assert planner.cycle().done == []
    crawl.push("a", "{every: 10m}")
    assert [one.group for one in planner.cycle().done] == ["a"]
    crawl.run_round("a")
    crawl.advance(11 * MINUTE)
    crawl.frontier.put_document("site", "a", "site: a\nlayers: [page]\n")
    assert [one.group for one in planner.cycle().done] == ["a"], "a file that cannot be read counts as it was"
    crawl.run_round("a")
    crawl.advance(11 * MINUTE)
    crawl.frontier.drop_document("site", "a")
    assert planner.cycle().done == []


def test_a_paused_site_waits(crawl: PlannedCrawl) -> None:
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m}")
    crawl.run_round("a")
    crawl.frontier.pause(group="a", reason="by hand")
    crawl.advance(20 * MINUTE)
    assert planner.cycle().done == []
    crawl.frontier.resume(group="a")
    assert [one.group for one in planner.cycle().done] == ["a"]


def test_what_overlaps(crawl: PlannedCrawl) -> None:
    planner = crawl.planner("one")
    for overlap in ("queue", "skip", "reseed"):
        crawl.push(overlap, f"{{every: 10m, overlap: {overlap}}}")
        crawl.seed(overlap, 3)
    crawl.advance(10 * MINUTE + 1)
    assert [(one.group, one.action) for one in planner.cycle().done] == [("reseed", Action.RESEED)]
    assert crawl.rounds("reseed") == [(0, "seeded again"), (1, "running")]
    crawl.advance(11 * MINUTE)
    assert planner.cycle().done == [], "the seeds of the last time are not there yet"
    crawl.seed("reseed", 2)
    [done] = planner.cycle().done
    assert done.group == "reseed"
    crawl.seed("reseed", 2)
    state = crawl.frontier.plan_state(lanes=True).groups["reseed"]
    assert sum(lane.queued for lane in state.lanes) == 3 + 2 + 2, "nothing was dropped"
    for overlap in ("queue", "skip"):
        crawl.fetch(overlap)
    assert [one.group for one in planner.cycle().done] == ["queue"]
    crawl.advance(10 * MINUTE)
    assert "skip" in [one.group for one in planner.cycle().done]


def test_rounds_of_spiders_begin_by_their_schedule_and_end_when_nothing_is_left(crawl: PlannedCrawl) -> None:
    """Workers that stay note no end; and a task that waits keeps a round from ending."""
    planner = crawl.planner("one")
    crawl.frontier.put_document("spider", "all", "spider: quotes\nschedule: {every: 10m, deadline: 5m}\n")
    key = f"{crawl.frontier.crawl}:tasks"
    crawl.frontier.define("quotes", {"page": PAGES}, GroupPolicy(start=True, tasks=(key,)))
    crawl.seed("quotes", 3)
    assert planner.cycle().done == []
    crawl.frontier.connection.execute("RPUSH", key, "one", key=key)
    crawl.fetch("quotes", end=False)
    assert planner.cycle().done == [], "a task waits"
    [task] = crawl.frontier.lease_tasks(crawl.token, key, 1)
    crawl.frontier.settle_tasks(crawl.token, key, done=[task])
    crawl.advance(6 * MINUTE)
    assert [one.over for one in planner.cycle().done] == [True]
    [info] = crawl.frontier.rounds("quotes")
    assert (info.state, info.late, info.pages) == ("ended", True, 3)
    assert planner.cycle().done == []
    crawl.advance(4 * MINUTE)
    assert [(one.group, one.action) for one in planner.cycle().done] == [("quotes", Action.BEGIN)]
    assert planner.cycle().done == [], "its start is owed"
    crawl.frontier.drop_document("spider", "all")
    crawl.seed("quotes", 1)
    crawl.fetch("quotes", end=False)
    assert planner.cycle().done == []


def test_tasks_of_a_file_are_pushed_once_for_each_round(
    crawl: PlannedCrawl, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key, file = f"{crawl.frontier.crawl}:tasks", tmp_path / "tasks.csv"
    plan = f"spider: quotes\nschedule: {{every: 10m}}\ntasks: {{key: '{key}', csv: '{file}'}}\n"
    crawl.frontier.put_document("spider", "quotes", plan)
    crawl.frontier.define("quotes", {"page": PAGES}, GroupPolicy(start=True, tasks=(key,)))
    crawl.run_round("quotes")
    crawl.advance(10 * MINUTE)
    planner = Planner(crawl.frontier, "one", seconds=LEAD, tasks=RoundTasks(crawl.frontier, Grant(paths=(tmp_path,))))

    def waiting() -> list[bytes]:
        return list(crawl.frontier.connection.execute("LRANGE", key, 0, -1, key=key))

    long = "url\n" + "".join(f"http://a/{number}\n" for number in range(BATCH_TASKS + 1))
    for text, wrong in (
        (None, "No such file"),
        ("url,priority,meta.tag\nonly\n", ":2: it has 1 cell for 3 columns"),
        (f"{long}x,y\n", f":{BATCH_TASKS + 3}: it has 2 cells for 1 column"),
    ):
        if text is not None:
            file.write_text(text)
        assert [planner.cycle().done for _ in range(2)] == [[], []], "the round waits for its tasks"
        assert [wrong in record.message for record in caplog.records if "quotes" in record.message][-1:] == [True]
        assert wrong in crawl.frontier.rounds("quotes", 1)[0].obstacle, "for its workers"
        [row] = overview(crawl.frontier)[1]
        assert (row.next, wrong in row.why) == (None, True), "it is due, and says what it waits for"
        assert waiting() == [], "nothing of a bad file is fetched"
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 3, "each is said once"
    began = f"quotes:1:{crawl.frontier.rounds('quotes')[0].began:.3f}"
    file.write_text("url,priority,meta.tag\nhttp://a/,5,x\nhttp://b/,,y\nhttp://a/,5,x\n", encoding="utf-8-sig")
    assert RoundTasks(crawl.frontier, Grant(paths=None)).push(began, SpiderTasks(key=key, csv=str(file)), int) == 2
    assert [one.group for one in planner.cycle().done] == ["quotes"], "another planner had pushed them and died"
    assert [info.obstacle for info in crawl.frontier.rounds("quotes", 2)] == ["", ""]
    assert sorted(waiting()) == [
        b'{"url": "http://a/", "priority": 5, "meta": {"tag": "x"}}', b'{"url": "http://b/", "meta": {"tag": "y"}}'
    ]  # fmt: skip
    query = SpiderTasks(key=key, sql="SELECT 1 AS a")
    for rule, grant, wrong in (
        (query, Grant(), "Allow it with GOSSAMER_SITE_TABLES=*"),
        (query, Grant(tables=("*",)), "Add database: to them, or set GOSSAMER_STORE_URL"),
        (query.model_copy(update={"database": "sqlite:////etc/other.db"}), Grant(tables=("*",)), "does not lie below"),
        (query.model_copy(update={"database": "${HOME}"}), Grant(tables=("*",)), "HOME is not a variable"),
    ):
        with pytest.raises(SiteError) as failed:
            RoundTasks(crawl.frontier, grant).push("quotes:2", rule, int)
        assert wrong in str(failed.value)
    both = query.model_copy(update={"sql": 'SELECT 1 AS a, 2 AS "a.b"'})
    with pytest.raises(StoreError, match="a is a value"):
        RoundTasks(crawl.frontier, Grant(tables=("*",)), f"sqlite:///{tmp_path}/x.db").push("quotes:2", both, int)
    with pytest.raises(SiteError, match="this planner may not read it"):
        RoundTasks(crawl.frontier, Grant()).push("quotes:2", SpiderTasks(key=key, csv=str(file)), int)
    assert RoundTasks(crawl.frontier, Grant(paths=None)).push("quotes:2", SpiderTasks(key=key, csv=str(file)), int) == 2


def test_tasks_that_their_server_has_lost_are_pushed_again(
    crawl: PlannedCrawl, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a cluster, where the node that has the tasks is replaced by a replica that lacks its last second, and that of the round is not."""
    key, file = f"{crawl.frontier.crawl}:tasks", tmp_path / "tasks.csv"
    file.write_text("url\nhttp://a/\nhttp://b/\nhttp://c/\n")
    plan = f"spider: quotes\nschedule: {{every: 10m}}\ntasks: {{key: '{key}', csv: '{file}'}}\n"
    crawl.frontier.put_document("spider", "quotes", plan)
    crawl.frontier.define("quotes", {"page": PAGES}, GroupPolicy(start=True))
    crawl.run_round("quotes")
    crawl.advance(10 * MINUTE)
    with Server().start() as node, ValkeyFrontier.open(load({"GOSSAMER_URL": node.url}, {})) as there:
        tasks = RoundTasks(there, Grant(paths=(tmp_path,)), clock=lambda: now)
        planner, now = Planner(crawl.frontier, "one", seconds=LEAD, tasks=tasks), 0.0
        node.call("SAVE")
        assert [one.group for one in planner.cycle().done] == ["quotes"]
        assert node.call("LLEN", key) == 3
        planner.resign()
        assert crawl.planner("other").cycle().leader.granted, "who pushed them looks after them, whoever leads"
        node.kill()
        planner.cycle()
        assert "the last rounds are all there is not known" in caplog.text, "and other groups go on"
        node.restart()
        now += 1000
        planner.cycle()
        assert node.call("LLEN", key) == 3, "however long it was away"
        assert "has lost 3 tasks of a round: pushed again" in caplog.text
        token = Token.fresh()
        assert there.settle_tasks(token, key, done=there.lease_tasks(token, key, 1)) == [True]
        node.call("SAVE")
        node.restart()
        planner.cycle()
        assert node.call("LLEN", key) == 2, "one is done, and nothing was lost"
        now += 1000
        planner.cycle()
        node.call("FLUSHALL")
        node.call("SAVE")
        node.restart()
        planner.cycle()
        assert node.call("LLEN", key) == 0, "what comes later is not the planner's"


def schedule_spider(crawl: PlannedCrawl, name: str, key: str, file: Path) -> None:
    """A spider with a round every ten minutes, each with the tasks of a CSV file; its first round is over."""
    plan = f"spider: {name}\nschedule: {{every: 10m}}\ntasks: {{key: '{key}', csv: '{file}'}}\n"
    crawl.frontier.put_document("spider", name, plan)
    crawl.frontier.define(name, {"page": PAGES}, GroupPolicy(start=True))
    crawl.run_round(name)


def test_tasks_that_could_not_be_pushed_again_at_once_are_so_later(crawl: PlannedCrawl, tmp_path: Path) -> None:
    """Their file cannot be read for a while, or another planner takes over in the middle; and others do not wait for them."""
    frontier = crawl.frontier
    lists = [f"{frontier.crawl}:{name}" for name in "abc"]
    for name, key in zip("abc", lists, strict=True):
        (tmp_path / f"{name}.csv").write_text("url\nhttp://a/\nhttp://b/\n")
        schedule_spider(crawl, name, key, tmp_path / f"{name}.csv")
    crawl.advance(10 * MINUTE)
    with Server().start() as node, ValkeyFrontier.open(load({"GOSSAMER_URL": node.url}, {})) as there:
        tasks = RoundTasks(there, Grant(paths=(tmp_path,)))
        planner = Planner(frontier, "one", seconds=LEAD, tasks=tasks)
        node.call("SAVE")
        assert len(planner.cycle().done) == 3
        node.kill()
        node.restart()
        (tmp_path / "a.csv").rename(tmp_path / "away.csv")
        planner.cycle()
        assert [node.call("LLEN", key) for key in lists] == [0, 2, 2], "b and c do not wait for a"
        (tmp_path / "away.csv").rename(tmp_path / "a.csv")
        planner.cycle()
        assert [node.call("LLEN", key) for key in lists] == [2, 2, 2]


def test_who_loses_the_lead_while_it_pushes_tasks_again_goes_on(crawl: PlannedCrawl, tmp_path: Path) -> None:
    frontier, key, file = crawl.frontier, f"{crawl.frontier.crawl}:tasks", tmp_path / "tasks.csv"
    file.write_text("url\n" + "".join(f"http://x/{number}\n" for number in range(2500)))
    schedule_spider(crawl, "q", key, file)
    crawl.advance(10 * MINUTE)
    with Server().start() as node, ValkeyFrontier.open(load({"GOSSAMER_URL": node.url}, {})) as there:
        tasks = RoundTasks(there, Grant(paths=(tmp_path,)))
        planner = Planner(frontier, "one", seconds=LEAD, tasks=tasks)
        node.call("SAVE")
        assert len(planner.cycle().done) == 1
        node.kill()
        node.restart()

        def lost() -> None:
            raise NotLeader

        with pytest.raises(NotLeader):
            tasks.push_lost(lambda name: True, lost)
        assert node.call("LLEN", key) not in (0, 2500)
        planner.cycle()
        assert node.call("LLEN", key) == 2500


def test_what_is_wrong_with_each_of_several_groups_is_said_once(
    crawl: PlannedCrawl, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "ab":
        plan = f"spider: {name}\nschedule: {{every: 10m}}\ntasks: {{key: 'k', csv: '{tmp_path}/{name}.csv'}}\n"
        crawl.frontier.put_document("spider", name, plan)
        crawl.frontier.define(name, {"page": PAGES}, GroupPolicy(start=True))
        crawl.seed(name)
    planner = Planner(crawl.frontier, "one", seconds=LEAD, tasks=RoundTasks(crawl.frontier, Grant(paths=(tmp_path,))))

    def said() -> int:
        return len([record for record in caplog.records if record.levelname == "ERROR"])

    for _ in range(3):
        planner.cycle()
    assert said() == 2
    assert all("No such file" in row.why and row.next is None for row in overview(crawl.frontier)[1])
    (tmp_path / "a.csv").write_text("url\n")
    planner.cycle()
    assert [row.why for row in overview(crawl.frontier)[1] if "No such file" in row.why and row.group == "a"] == []
    (tmp_path / "a.csv").unlink()
    crawl.frontier.new_round("a", 1)
    planner.cycle()
    assert said() == 3, "it is wrong again"


def test_a_round_that_the_planner_did_not_begin_has_its_tasks_too(crawl: PlannedCrawl, tmp_path: Path) -> None:
    frontier, file = crawl.frontier, tmp_path / "tasks.csv"
    key, policy = f"{frontier.crawl}:tasks", {"page": PAGES}
    file.write_text("url\nhttp://a/\n")
    plan = f"spider: quotes\nschedule: {{every: 10m, deadline: 5m, overlap: reseed}}\ntasks: {{key: '{key}', csv: '{file}'}}\n"
    frontier.put_document("spider", "quotes", plan)
    tasks = RoundTasks(frontier, Grant(paths=(tmp_path,)))

    def planned() -> int:
        """Two planners, one after the other; how many tasks there are then, which are taken away."""
        for name in ("one", "two"):
            planner = Planner(frontier, name, seconds=LEAD, tasks=tasks)
            for _ in range(2):
                planner.cycle()
            planner.resign()
        waiting = frontier.connection.execute("LLEN", key, key=key)
        frontier.connection.execute("DEL", key, key=key)
        return int(waiting)

    for life in range(2):
        frontier.define("quotes", policy, GroupPolicy(start=True, tasks=(key,)))
        crawl.seed("quotes")
        assert planned() == 1, f"the first round, in life {life}"
        frontier.new_round("quotes", 1, trigger="by hand")
        assert planned() == 1
        crawl.advance(86400 + 1)
        assert planned() == 0, "once, though it takes longer than a day"
        list(frontier.drop_group("quotes"))


def test_workers_of_a_round_that_has_ended_do_not_get_the_tasks_of_the_next(
    crawl: PlannedCrawl, tmp_path: Path
) -> None:
    """They left out what the last round had seen: a long file takes its time, and the next round had only what came last."""
    frontier, file, key = crawl.frontier, tmp_path / "tasks.csv", f"{crawl.frontier.crawl}:tasks"
    file.write_text("url\nhttp://a/\n")
    plan = f"spider: quotes\nschedule: {{every: 10m}}\ntasks: {{key: '{key}', csv: '{file}'}}\n"
    frontier.put_document("spider", "quotes", plan)
    frontier.define("quotes", {"page": PAGES}, GroupPolicy(start=True, tasks=(key,)))
    crawl.run_round("quotes")
    crawl.advance(10 * MINUTE + 1)
    stopped = Interrupted(crawl.opened())
    tasks = RoundTasks(frontier, Grant(paths=(tmp_path,)))
    seen: list[int] = []
    stopped.verb, stopped.then = "new_round", lambda: seen.append(frontier.connection.execute("LLEN", key, key=key))
    Planner(cast(Frontier, stopped), "one", seconds=LEAD, tasks=tasks).cycle()
    assert (seen, frontier.connection.execute("LLEN", key, key=key)) == ([0], 1)
    assert [(info.round, info.tasks) for info in frontier.rounds("quotes")] == [(1, True), (0, False)]


@pytest.mark.parametrize("overlap", ["reseed", "replace"])
def test_workers_of_a_round_that_runs_do_not_get_the_tasks_of_the_next(
    crawl: PlannedCrawl, tmp_path: Path, overlap: str
) -> None:
    frontier, file = crawl.frontier, tmp_path / "tasks.csv"
    key = f"{frontier.crawl}:tasks"
    plan = f"spider: quotes\nschedule: {{every: 10m, overlap: {overlap}}}\ntasks: {{key: '{key}', csv: '{file}'}}\n"
    frontier.put_document("spider", "quotes", plan)
    frontier.define("quotes", {"page": PAGES}, GroupPolicy(start=True, tasks=(key,)))
    stopped = Interrupted(crawl.opened())
    tasks = RoundTasks(frontier, Grant(paths=(tmp_path,)))
    planner = Planner(cast(Frontier, stopped), "one", seconds=LEAD, tasks=tasks)
    file.write_text("url\nhttp://a/\n")
    crawl.seed("quotes", 3)
    planner.cycle()

    def waiting() -> int:
        return int(frontier.connection.execute("LLEN", key, key=key))

    assert waiting() == 1
    crawl.advance(10 * MINUTE + 1)
    file.unlink()
    for _ in range(3):
        assert planner.cycle().done == [], "the round waits for its tasks"
    assert frontier.plan_state().groups["quotes"].open == 3, "and nothing of the last one is dropped"
    file.write_text("url\nhttp://b/\n")
    seen: list[int] = []
    stopped.verb, stopped.then = "new_round", lambda: seen.append(waiting())
    while not planner.cycle().done:
        pass
    assert (seen, waiting(), frontier.rounds("quotes")[0].tasks) == ([1], 2, True)


def test_what_is_wrong_with_several_spiders_is_said_once_and_again_after_it_was_right(
    crawl: PlannedCrawl, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frontier, file = crawl.frontier, tmp_path / "tasks.csv"
    for name in ("one", "two"):
        key = f"{frontier.crawl}:{name}"
        plan = f"spider: {name}\nschedule: {{every: 10m}}\ntasks: {{key: '{key}', csv: '{file}'}}\n"
        frontier.put_document("spider", name, plan)
        frontier.define(name, {"page": PAGES}, GroupPolicy(start=True, tasks=(key,)))
        crawl.run_round(name)
    planner = Planner(frontier, "one", seconds=LEAD, tasks=RoundTasks(frontier, Grant(paths=(tmp_path,))))

    def complaints() -> int:
        return sum("No such file" in record.message for record in caplog.records)

    for times in (2, 4):
        crawl.advance(10 * MINUTE + 1)
        for _ in range(3):
            planner.cycle()
        assert complaints() == times
        file.write_text("url\n")
        assert sorted(one.group for one in planner.cycle().done) == ["one", "two"]
        file.unlink()
        for name in ("one", "two"):
            crawl.run_round(name)


def test_a_round_whose_tasks_nobody_takes_is_late_and_does_not_keep_seeds_from_being_added(crawl: PlannedCrawl) -> None:
    frontier, planner = crawl.frontier, crawl.planner("one")
    key = f"{frontier.crawl}:tasks"
    plan = "spider: quotes\nschedule: {every: 10m, deadline: 5m, overlap: reseed}\n"
    frontier.put_document("spider", "quotes", plan)
    frontier.define("quotes", {"page": PAGES}, GroupPolicy(start=True, tasks=(key,)))
    frontier.connection.execute("RPUSH", key, "http://a/", key=key)
    crawl.seed("quotes")
    crawl.fetch("quotes", end=False)
    crawl.advance(6 * MINUTE)
    assert [one.late for one in planner.cycle().done] == [True]
    crawl.advance(5 * MINUTE)
    assert [one.action for one in planner.cycle().done] == [Action.RESEED]


@pytest.mark.parametrize("schedule", ["{every: 10m}", "{cron: '*/10 * * * *'}"])
def test_a_group_is_planned_by_the_clock_that_notes_its_rounds(crawl: PlannedCrawl, schedule: str) -> None:
    planner, frontier = crawl.planner("one"), crawl.frontier
    name = next(name for name in "abcdefgh" if keys.home_of(name, 2) == 1)
    crawl.push(name, schedule)
    crawl.run_round(name)
    crawl.advance(10 * MINUTE)
    # The server of the other partition is ahead.
    frontier.ask([function_call("clock", keys.base(frontier.crawl, 0), {"by_ms": 3_600_000, "book": False})])
    done: list[object] = []
    for _ in range(3):
        done += planner.cycle().done
        crawl.run_round(name)
    assert len(done) == 1
    assert frontier.counts(name).clocks[name] == pytest.approx(frontier.counts().now - 3600, abs=60)


def test_what_is_left_is_dropped_for_the_next_round(crawl: PlannedCrawl) -> None:
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m, overlap: replace}")
    crawl.seed("a", 700)
    crawl.advance(10 * MINUTE + 1)
    done = [decision for _ in range(3) for decision in planner.cycle().done]
    assert [(one.group, one.action) for one in done] == [("a", Action.REPLACE)]
    assert crawl.rounds("a") == [(0, "cut short"), (1, "running")]
    crawl.seed("a", 2)
    state = crawl.frontier.plan_state(lanes=True).groups["a"]
    assert state.lanes[0].queued == 2
    crawl.fetch("a")
    assert crawl.rounds("a")[1] == (1, "ended")


def test_a_late_round_is_noted_once_while_it_runs(crawl: PlannedCrawl, caplog: pytest.LogCaptureFixture) -> None:
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m, deadline: 5m}")
    crawl.seed("a")
    crawl.advance(5 * MINUTE + 1)
    for _ in range(3):
        planner.cycle()
    assert [record.message for record in caplog.records if "late" in record.message] == [
        "Round 0 of a is late: it runs longer than its deadline."
    ]
    assert crawl.frontier.rounds("a", 1)[0].late


def test_one_leads_and_another_takes_over(crawl: PlannedCrawl, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    one, other = crawl.planner("one"), crawl.planner("other")
    crawl.push("a", "{every: 10m}")
    crawl.run_round("a")
    assert one.cycle().leader.granted
    assert not other.cycle().leader.granted
    crawl.advance(10 * MINUTE + 1)
    assert [one.group for one in other.cycle().done] == ["a"], "the first one was silent for too long"
    assert not one.cycle().leader.granted
    assert one.term == 0
    other.resign()
    assert one.cycle().leader.granted
    said = [record.message for record in caplog.records if "leads the crawl" in record.message]
    assert "The planner other leads the crawl; this one (one) waits." in said
    assert crawl.rounds("a")[-1] == (1, "running")


def test_a_leader_that_was_frozen_before_it_acts_changes_nothing(crawl: PlannedCrawl) -> None:
    """It has decided to begin round 1, and is stopped; another leads, begins it, and the round is over. Then it wakes up."""
    one, frozen = crawl.stoppable("one")
    other = crawl.planner("other")
    crawl.push("a", "{every: 10m}")
    crawl.run_round("a")
    crawl.advance(10 * MINUTE)

    def meanwhile() -> None:
        crawl.advance(LEAD + 1)
        assert [done.group for done in other.cycle().done] == ["a"]
        crawl.run_round("a")

    frozen.verb, frozen.then = "new_round", meanwhile
    assert one.cycle().done == []
    assert one.term == 0
    assert crawl.rounds("a") == [(0, "ended"), (1, "ended")]
    assert not one.cycle().leader.granted


def test_a_server_that_went_back(crawl_name: str) -> None:
    """It has lost the lead, a round and its end: the leader leads on, in a later term, and begins the round that is due once."""
    with Server().start() as server, PlannedCrawl(server, crawl_name) as crawl:
        planner, other = crawl.planner("one"), crawl.planner("other")
        crawl.push("a", "{every: 10m}")
        crawl.run_round("a")
        crawl.advance(10 * MINUTE)
        server.call("SAVE")
        assert len(planner.cycle().done) == 1
        before = planner.term
        crawl.run_round("a")
        assert crawl.rounds("a") == [(0, "ended"), (1, "ended")]
        server.kill()
        server.restart()
        assert crawl.rounds("a") == [(0, "ended")], "it went back"
        assert [one.group for one in planner.cycle().done] == ["a"]
        assert planner.term > before
        assert not other.cycle().leader.granted
        crawl.run_round("a")
        assert planner.cycle().done == []
        assert crawl.rounds("a") == [(0, "ended"), (1, "ended")]


@pytest.mark.parametrize("lost", ["a", "b"])
def test_files_that_are_pushed_to_a_server_that_went_back(crawl_name: str, lost: str) -> None:
    """What it has lost had the same versions: the leader, whose term goes on, plans by what there is, not by what it read."""
    with Server().start() as server, PlannedCrawl(server, crawl_name) as crawl:
        planner = crawl.planner("one")
        crawl.push("a", "{every: 10h}")
        crawl.run_round("a")
        planner.cycle()
        server.call("SAVE")
        before = planner.term
        crawl.push(lost, "{every: 20h}")
        planner.cycle()
        server.kill()
        server.restart()
        crawl.push("a", "{every: 10m}")
        crawl.advance(11 * MINUTE)
        assert [one.group for one in planner.cycle().done] == ["a"]
        assert planner.term == before


def test_a_clock_that_is_ahead(crawl: PlannedCrawl) -> None:
    """Nothing begins twice, and nothing is forgotten."""
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m}")
    crawl.run_round("a")
    crawl.advance(3600)
    assert len(planner.cycle().done) == 1, "the clock jumped: one round for all that it passed"
    crawl.run_round("a")
    assert planner.cycle().done == []
    # It goes back: time goes on from where it was.
    crawl.advance(-3600)
    assert planner.cycle().done == []
    assert planner.cycle().leader.granted


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("cycle"), st.integers(0, 1)),
        st.tuples(st.just("frozen"), st.integers(0, 1)),
        st.tuples(st.just("advance"), st.sampled_from([1, 5, 60, 300, 700])),
        st.tuples(st.just("work"), st.integers(0, 1)),
        st.tuples(st.just("seed"), st.integers(0, 1)),
        st.tuples(st.just("hand"), st.integers(0, 1)),
        st.tuples(st.just("resign"), st.integers(0, 1)),
    ),
    max_size=25,
)


@given(EVENTS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_no_round_begins_twice_or_too_early(
    valkey_server: Server, events: list[tuple[str, int]]
) -> None:
    """Two planners, of which the leader is stopped between any two calls; workers, people and time that go on."""
    with PlannedCrawl(valkey_server, Token.fresh().incarnation, partitions=2) as crawl:
        groups = ("a", "b")
        crawl.push("a", "{every: 10m}")
        crawl.push("b", "{every: 10m, overlap: reseed}")
        planners = [crawl.stoppable("one"), crawl.stoppable("other")]
        by_hand: set[tuple[str, int]] = set()

        def step(event: str, which: int) -> None:
            planner, _ = planners[which % 2]
            group = groups[which % 2]
            if event == "cycle":
                planner.cycle()
            elif event == "advance":
                crawl.advance(which)
            elif event == "work":
                crawl.run_round(group)
            elif event == "seed":
                crawl.seed(group)
            elif event == "hand":
                number = crawl.frontier.plan_state().groups[group].round + 1
                crawl.frontier.new_round(group, number, trigger="by hand")
                by_hand.add((group, number))
            elif event == "resign":
                planner.resign()

        for place, (event, which) in enumerate(events):
            if event == "frozen":
                # Between its decision and what follows from it, the rest of the events happens.
                planner, frontier = planners[which]
                rest = [one for one in events[place + 1 : place + 6] if one[0] != "frozen" and one != ("cycle", which)]

                def meanwhile(rest: list[tuple[str, int]] = rest) -> None:
                    for one in rest:
                        step(*one)

                frontier.verb, frontier.then = "new_round", meanwhile
                planner.cycle()
                frontier.verb = ""
            else:
                step(event, which)
        for group in groups:
            infos = list(reversed(crawl.frontier.rounds(group)))
            numbers = [info.round for info in infos]
            assert numbers == sorted(set(numbers))
            for before, after in pairwise(infos):
                assert before.began is not None
                assert after.began is not None
                if (group, after.round) not in by_hand:
                    assert after.began - before.began >= 600
                    assert before.state == ("seeded again" if before.ended is None else "ended")
