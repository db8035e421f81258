"""The tasks of a round: pushed by the planner that leads, once for each round, and again where a server lost them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from tests.support.planned_crawl import LEAD, PAGES, Interrupted, PlannedCrawl

from gossamer.errors import NotLeader, SiteError, StoreError
from gossamer.frontier.contract import Frontier
from gossamer.frontier.producer import BATCH_TASKS
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


@contextmanager
def tasks_lost(crawl: PlannedCrawl, folder: Path, *, rounds: int) -> Iterator[tuple[Server, Planner, RoundTasks]]:
    """A planner has pushed the tasks of so many rounds to a server, which has lost them."""
    crawl.advance(10 * MINUTE)
    with Server().start() as node, ValkeyFrontier.open(load({"GOSSAMER_URL": node.url}, {})) as there:
        tasks = RoundTasks(there, Grant(paths=(folder,)))
        planner = Planner(crawl.frontier, "one", seconds=LEAD, tasks=tasks)
        node.call("SAVE")
        assert len(planner.cycle().done) == rounds
        node.kill()
        node.restart()
        yield node, planner, tasks


def test_tasks_that_could_not_be_pushed_again_at_once_are_so_later(crawl: PlannedCrawl, tmp_path: Path) -> None:
    """Something else is in their key for a while, or another planner takes over in the middle; and others do not wait for them. Whether their
    file can be read does not matter any more."""
    frontier = crawl.frontier
    lists = [f"{frontier.crawl}:{name}" for name in "abc"]
    for name, key in zip("abc", lists, strict=True):
        (tmp_path / f"{name}.csv").write_text("url\nhttp://a/\nhttp://b/\n")
        schedule_spider(crawl, name, key, tmp_path / f"{name}.csv")
    with tasks_lost(crawl, tmp_path, rounds=3) as (node, planner, _):
        (tmp_path / "a.csv").unlink()
        node.call("SET", lists[0], "no list")
        planner.cycle()
        assert [node.call("LLEN", key) for key in lists[1:]] == [2, 2], "b and c do not wait for a"
        node.call("DEL", lists[0])
        planner.cycle()
        assert [node.call("LLEN", key) for key in lists] == [2, 2, 2]


def test_who_loses_the_lead_while_it_pushes_tasks_again_goes_on(crawl: PlannedCrawl, tmp_path: Path) -> None:
    key, file = f"{crawl.frontier.crawl}:tasks", tmp_path / "tasks.csv"
    file.write_text("url\n" + "".join(f"http://x/{number}\n" for number in range(2500)))
    schedule_spider(crawl, "q", key, file)
    with tasks_lost(crawl, tmp_path, rounds=1) as (node, planner, tasks):

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
