"""What a second run of a spider does: it goes on with a round that is not over, and begins the next one after one that is."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support import fork_server
from tests.support.fork_server import Program
from tests.support.site import Reply, Site, links

from gossamer.courier import Courier, CourierConfig
from gossamer.errors import OtherArguments, PermissionDenied
from gossamer.frontier import item_stream
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request, RoundInfo, Selection, Token
from gossamer.planner.loop import Planner
from gossamer.planner.round_tasks import RoundTasks
from gossamer.scrapy.process import rounds
from gossamer.settings import load
from gossamer.sites.file.grant import Grant
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

SPIDER = """
import scrapy


class Shop(scrapy.Spider):
    name = "shop"

    def __init__(self, site="", tag="", **more):
        super().__init__(**more)
        self.site, self.tag = site, tag

    async def start(self):
        yield scrapy.Request(self.site + "/list")

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a")
"""
PAGES = [f"/{number}" for number in range(8)]


class Project:
    """A folder with a Scrapy project, and `scrapy crawl` and `gossamer` in it."""

    def __init__(self, folder: Path, site: Site, server: Server, crawl: str) -> None:
        self.folder, self.site = folder, site
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = shop_settings\n")
        (folder / "shop_settings.py").write_text(
            "SPIDER_MODULES = ['shop_spiders']\nADDONS = {'gossamer.Addon': 100}\nTELNETCONSOLE_ENABLED = False\n"
        )
        (folder / "shop_spiders.py").write_text(textwrap.dedent(SPIDER))
        self.settings = {"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": crawl, "GOSSAMER_LEASE_SECONDS": "3"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GOSSAMER_", "SCRAPY_"))}
        self.environ = {**kept, **self.settings}

    def start(self, *words: str) -> Program:
        return Program(words[0], [*words[1:], "-a", f"site={self.site.url}"], self.environ, self.folder)

    def run(self, *words: str, code: int = 0) -> str:
        with self.start(*words) as process:
            said = process.communicate(timeout=100)[1]
        assert process.returncode == code, said
        return said

    def crawl(self, *words: str, code: int = 0) -> str:
        return self.run("scrapy", "crawl", "shop", *words, code=code)

    def frontier(self) -> ValkeyFrontier:
        return ValkeyFrontier.find(load(self.settings, {}))


@pytest.fixture
def project(tmp_path: Path, site: Site, valkey_server: Server, crawl_name: str) -> Project:
    site.on("/list", links(*PAGES))
    return Project(tmp_path, site, valkey_server, crawl_name)


@pytest.mark.timeout(300)
def test_a_second_run_crawls_again_and_one_that_was_cut_short_goes_on(project: Project) -> None:
    site = project.site
    site.hold(PAGES[-1])  # the last link found is the first one followed
    slow = ("-s", "CONCURRENT_REQUESTS=1", "-a", "_job=1")
    with project.start("scrapy", "crawl", "shop", *slow) as first:
        site.reached(PAGES[-1])
        said = project.crawl("-a", "tag=other", code=1)
        assert "Round 0 of shop is not over and was begun with arguments site (" in said
        assert "this worker has arguments site, tag (" in said
        first.send_signal(signal.SIGTERM)
        site.release(PAGES[-1])
        said = first.communicate(timeout=60)[1]
    assert "Round 0 of shop begins." in said
    assert "Spider closed (shutdown)" in said
    said = project.crawl("-a", "_job=2")
    assert "Going on with round 0 of shop: " in said
    assert "Round 0 of shop is over." in said
    assert "Spider closed (finished)" in said
    assert sorted(site.paths()) == sorted(["/list", *PAGES]), "each page once"

    said = project.crawl("-a", "tag=other", "-s", "CLOSESPIDER_TIMEOUT=100")
    assert "Round 0 of shop is over; round 1 begins." in said
    assert "CLOSESPIDER_TIMEOUT counts what this worker does alone" in said
    assert sorted(site.paths()) == sorted(["/list", *PAGES] * 2)
    said = project.crawl("-s", "GOSSAMER_ROUND=join")
    assert "Round 1 of shop is over: GOSSAMER_ROUND is join" in said
    said = project.run("gossamer", "crawl", "shop", "-w", "1")
    assert "round 1 of shop is over; round 2 of shop begins" in said
    with project.frontier() as frontier:
        found = frontier.rounds("shop", 3)
    assert [(one.round, one.state, one.pages) for one in found] == [(number, "ended", 9) for number in (2, 1, 0)]
    assert [one.note.split(" (")[0] for one in found] == ["arguments site", "arguments site, tag", "arguments site"]


LATE = """
import os, time
from pathlib import Path
from shop_settings import *
Path("here." + os.environ["GATE"]).touch()
while not Path(os.environ["GATE"]).exists():
    time.sleep(0.05)
"""
PATIENT = """
import sys
from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings

process = CrawlerProcess(get_project_settings())
process.crawl("shop", site=sys.argv[-1].removeprefix("site="))
process.start()
"""


@pytest.mark.timeout(200)
def test_workers_that_are_started_together_crawl_one_round(project: Project) -> None:
    """The second one is through with its start when the first has crawled everything. One with other arguments was not meant for
    that round, nor was a script that has waited for its time."""
    project.crawl("-s", "DOWNLOAD_DELAY=0")
    (project.folder / "late_settings.py").write_text(LATE)
    (project.folder / "patient.py").write_text(PATIENT)
    crawl, started = ("scrapy", "crawl", "shop"), {}
    project.environ["SCRAPY_SETTINGS_MODULE"] = "late_settings"
    for name, words in (("late", crawl), ("other", (*crawl, "-a", "tag=other")), ("script", ("patient",))):
        project.environ["GATE"] = name
        started[name] = project.start(*words)
    try:
        for name in started:
            wait_until((project.folder / f"here.{name}").exists, f"{name} to be starting")
        del project.environ["SCRAPY_SETTINGS_MODULE"]
        assert "Round 0 of shop is over; round 1 begins." in project.crawl()
        said = {}
        for name, process in started.items():
            (project.folder / name).touch()
            said[name] = process.communicate(timeout=60)[1]
    finally:
        for process in started.values():
            process.kill()
            process.communicate()
    assert [process.returncode for process in started.values()] == [0, 0, 0], said
    assert "Round 1 of shop is over: it ended while this worker was starting" in said["late"]
    assert "Round 1 of shop is over; round 2 begins." in said["other"]
    assert "Round 2 of shop is over; round 3 begins." in said["script"]
    assert len(project.site.paths()) == 4 * (1 + len(PAGES))


def info(**known: Any) -> RoundInfo:
    return RoundInfo("shop", 3, "ended", 1.0, 100.0, 100.0, "", "", 0, 0, 0, 0, False, "")._replace(**known)


def test_who_begins_a_round() -> None:
    assert 0 < rounds.process_age() < 100_000
    over, late = [info()], info(ended=200.0)
    assert rounds.why_not("auto", over, 150.0) == rounds.why_not("new", over, 150.0) == ""
    assert "set it to new" in rounds.why_not("join", over, 150.0)
    assert "waits for tasks" in rounds.why_not("auto", over, 150.0, waits=True)
    assert rounds.why_not("new", [late], 150.0).startswith("it ended while this worker was starting")
    mine = rounds.noted({"tag": "a"})
    assert rounds.why_not("new", [late], 150.0, mine=mine) == "", "it was not meant for that one"
    assert "ended while" in rounds.why_not("new", [late], 150.0, mine=mine, same=False)
    both = [late._replace(round=4), late._replace(note=mine)]
    assert "round 3, which has the same arguments, ended while" in rounds.why_not("new", both, 150.0, mine=mine)


def test_arguments_are_noted_without_their_values() -> None:
    given: dict[str, Any] = {"n": 1, "tag": "x", "key": "secret", "pages": [1, {"a", "b"}, {"c": None}], "by": object()}
    said = rounds.noted({**given, "_job": "7"})
    assert said.startswith("arguments by, key, n, pages, tag (")
    assert "secret" not in said
    assert said == rounds.noted({**given, "n": "1", "pages": (1, {"b", "a"}, {"c": None}), "by": object(), "_job": "8"})
    assert rounds.noted({"_job": "7"}) == ""
    rounds.compare("shop", info(note=said), said)
    rounds.compare("shop", info(note="after_round failed"), said)
    for note in ("", rounds.noted({**given, "pages": [1]})):
        with pytest.raises(OtherArguments, match="GOSSAMER_GROUP=NAME"):
            rounds.compare("shop", info(note=note), said)


SCRIPT = """
import sys
from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings

settings = get_project_settings()
settings["RETRY_TIMES"] = 0
settings["FEEDS"] = {"%(tag)s.jl": {"format": "jsonlines", "overwrite": True}}
process = CrawlerProcess(settings)
for tag in ("a", "b"):
    process.crawl("shop", sys.argv[1], tag=tag)
process.start()
sys.exit(process.bootstrap_failed)
"""


def test_a_script_that_runs_a_spider_twice_with_other_arguments_crawls_in_a_group_for_each(
    project: Project, site: Site
) -> None:
    (project.folder / "script.py").write_text(SCRIPT)
    files = [project.folder / f"{tag}.jl" for tag in "ab"]
    site.on(PAGES[0], Reply(500))
    for times in (1, 2):
        for file in files:
            file.write_text("old\n")
        done = fork_server.run("script", [site.url], project.environ, project.folder, 100)
        assert done.returncode == 0, done.stderr
        assert sorted(site.paths()) == sorted(["/list", *PAGES] * 2 * times), "each has a seen memory of its own"
        assert [len(file.read_text().splitlines()) for file in files] == [len(PAGES)] * 2
        with project.frontier() as frontier:
            groups = sorted(row.group for row in frontier.counts().groups)
            assert len(groups) == 2
            assert groups[0] == "shop"
            assert re.fullmatch("shop@[0-9a-f]{8}", groups[1])
            for group in groups:
                assert f"{times} dead letter{'s' * (times > 1)} of {group}: " in done.stderr
                assert item_stream.consumers(frontier, group) == {}
                rounds_of_it = frontier.rounds(group, 3)
                assert [one.note.split(" (")[0] for one in rounds_of_it] == ["arguments 0, tag"] * times


def test_a_script_whose_worker_is_refused_exits_with_an_error_after_its_last_line(project: Project, site: Site) -> None:
    """Other crawls of the process are not refused, and the script goes on after them; but its exit code says that a crawl is missing."""
    (project.folder / "script.py").write_text(SCRIPT.replace("sys.exit(process.bootstrap_failed)", "print('ready')"))
    site.hold(PAGES[-1])
    with project.start("scrapy", "crawl", "shop", "-s", "CONCURRENT_REQUESTS=1") as first:
        site.reached(PAGES[-1])
        script = subprocess.Popen(
            [sys.executable, "script.py", site.url],
            cwd=project.folder,
            env=project.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with script:
            site.reached(PAGES[-1], 2)
            site.release(PAGES[-1])
            written, log = script.communicate(timeout=100)
        assert script.returncode == 1, log
        assert written == "ready\n"
        assert "Round 0 of shop is not over and was begun with arguments site (" in log
        assert "`gossamer group drop shop` or `gossamer crawl --fresh`" in log
        assert sorted(len(lines) for tag in "ab" if (lines := _lines(project.folder / f"{tag}.jl"))) == [1 + len(PAGES)]
        assert first.wait(60) == 0


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def test_a_worker_that_is_there_runs_the_start_of_a_round_that_somebody_begins(project: Project, site: Site) -> None:
    """An operator, or another worker that is told to."""
    words = ("scrapy", "crawl", "shop", "-s", "GOSSAMER_MODE=forever", "-s", "LOG_LEVEL=ERROR")
    processes = [project.start(*words)]
    try:
        wait_until(lambda: len(site.paths()) == 1 + len(PAGES), "all pages to be asked for", 60)
        with project.frontier() as frontier:
            wait_until(lambda: frontier.drained("shop").drained, "the group to be drained", 60)
            frontier.new_round("shop", 1)
            wait_until(lambda: len(site.paths()) == 2 * (1 + len(PAGES)), "all pages to be asked for again", 60)
            wait_until(lambda: frontier.drained("shop").drained, "the group to be drained again", 60)
            processes.append(project.start(*words, "-s", "GOSSAMER_ROUND=new"))
            wait_until(lambda: len(site.paths()) == 3 * (1 + len(PAGES)), "all pages to be asked for once more", 60)
            found = frontier.rounds("shop", 3)
        assert [one.note.split(" (")[0] for one in found] == ["arguments site"] * 3
        assert found[1].state == "ended", "who begins a round notes the end of the last one"
    finally:
        for process in processes:
            process.terminate()
            process.communicate(timeout=60)


FED = """

class Fed(Shop):
    name = "fed"

    def __init__(self, key="", **more):
        super().__init__(**more)
        self.tasks = (key,)

    async def start(self):
        yield scrapy.Request(f"{self.site}/{self.tag}", dont_filter=True)

    def parse(self, response):
        if "/task/" in response.url:
            yield scrapy.Request(response.url.replace("/task/", f"/{self.tag}/"), dont_filter=True)
"""


def test_a_worker_that_stays_gets_arguments_and_tasks_of_its_spider_file_and_its_rounds_end(
    project: Project, site: Site, tmp_path: Path, crawl_name: str
) -> None:
    with (tmp_path / "shop_spiders.py").open("a") as file:
        file.write(FED)
    with sqlite3.connect(tmp_path / "pages.db") as database:
        database.execute("CREATE TABLE pages (link TEXT, shop INTEGER, active INTEGER)")
        found = [(f"{site.url}/task/{number}", number, number < 3) for number in range(5)]
        database.executemany("INSERT INTO pages VALUES (?, ?, ?)", found)
    sql = """sql: 'SELECT link AS url, shop AS "meta.shop" FROM pages WHERE active'"""
    key = f"{crawl_name}:tasks"

    def push(tag: str, tasks: str = "") -> None:
        plan = f"spider: fed\nschedule: {{every: 1s}}\narguments: {{tag: {tag}, key: '{key}'}}\n{tasks}"
        frontier.put_document("spider", "fed", plan)

    with ValkeyFrontier.open(load(project.settings, {})) as frontier, ExitStack() as stack:
        push("one")
        worker = project.start("gossamer", "work", "fed", "--forever", "-s", "LOG_LEVEL=INFO")
        stack.callback(lambda: worker.communicate(timeout=60))
        stack.callback(worker.terminate)
        site.reached("/one")

        def last() -> RoundInfo:
            return frontier.rounds("fed", 1)[0]

        wait_until(lambda: last().state == "ended", "the worker to note the end of its round without a planner", 60)
        push("two", f"tasks: {{key: '{key}', {sql}}}")
        grant = Grant(tables=("*",), paths=(tmp_path,))
        planner = Planner(
            frontier, "one", seconds=4, tasks=RoundTasks(frontier, grant, f"sqlite:///{tmp_path}/pages.db")
        )
        planner.cycle()
        wait_until(lambda: planner.cycle() and last().round == 1, "the second round", 60)
        push("two")
        site.reached("/two")
        wait_until(lambda: planner.cycle() and last().round >= 2, "the end of the second round", 60)
        said = project.run("scrapy", "crawl", "fed", "-a", f"key={key}", code=1)
        assert "The spider file fed of the crawl has other arguments for fed than this worker: tag." in said
        assert "or give them: -a tag=two" in said
        assert worker.poll() is None
        _, *_, second, first = frontier.rounds("fed")
    paths = site.paths()
    assert sorted(path for path in paths if path.startswith("/task/")) == ["/task/0", "/task/1", "/task/2"]
    with_tag = sorted(path for path in paths if path.count("/") == 2 and not path.startswith("/task/"))
    assert with_tag == ["/two/0", "/two/1", "/two/2"], "tasks are taken with the arguments of their round"
    assert (first.pages, first.trigger, second.trigger, second.who) == (1, "", "schedule", "one")
    assert first.note.startswith("arguments key, site, tag (")
    assert second.note.startswith("arguments key, site, tag (")
    assert second.note != first.note
    assert second.ended is not None
    assert second.began is not None
    assert 0 < second.ended - second.began < 30
    said = worker.communicate(timeout=60)[1]
    assert "Arguments in the spider file are others now (tag): this worker begins again." in said


def _has(log: Path, words: str) -> bool:
    return log.exists() and words in log.read_text()


def test_a_round_that_a_worker_or_somebody_begins_is_not_over_before_the_planner_has_pushed_its_tasks(
    project: Project, site: Site, tmp_path: Path, crawl_name: str
) -> None:
    with (tmp_path / "shop_spiders.py").open("a") as file:
        file.write(FED)
    key = f"{crawl_name}:tasks"
    tasks = tmp_path / "tasks.csv"
    tasks.write_text(f"url\n{site.url}/task/0\n")
    plan = f"spider: fed\nschedule: {{every: 1d}}\narguments: {{tag: x, key: '{key}'}}\ntasks: {{key: '{key}', csv: '{tasks}'}}\n"
    project.environ["GOSSAMER_PLAN_LEAD_SECONDS"] = "2"
    log = tmp_path / "log"
    words = ("gossamer", "work", "fed", "-s", "LOG_LEVEL=INFO", "-s", f"LOG_FILE={log}")
    with ValkeyFrontier.open(load(project.settings, {})) as frontier:
        frontier.put_document("spider", "fed", plan)
        planner = Planner(frontier, "one", seconds=60, tasks=RoundTasks(frontier, Grant(paths=(tmp_path,))))
        for number, more in enumerate(([], ["--forever"])):
            planner.cycle()
            if number:
                frontier.new_round("fed", number, trigger="by hand")
            with project.start(*words, *more) as worker:
                says = f"Round {number} of fed waits for its tasks"
                wait_until(partial(_has, log, says), "the worker to wait", 60)
                tasks.rename(away := tmp_path / "away.csv")
                planner.cycle()
                cannot = f"{says}, and so does this worker: the planner cannot push them. {tasks}: [Errno 2]"
                wait_until(partial(_has, log, cannot), "the worker to say why", 60)
                away.rename(tasks)
                planner.cycle()
                wait_until(lambda: frontier.rounds("fed", 1)[0].state == "ended", "the end of the round", 60)
                if more:
                    worker.terminate()
                worker.communicate(timeout=60)
            assert (worker.returncode, frontier.rounds("fed", 1)[0].pages) == (0, 3)
        planner.resign()
        frontier.new_round("fed", 2)
        project.run(*words)
        assert _has(log, "Round 2 of fed has none of the tasks in its spider file")
        info = frontier.rounds("fed", 1)[0]
        assert (info.state, info.pages, info.tasks) == ("ended", 1, False)
    assert [site.paths().count(path) for path in ("/task/0", "/x/0", "/x")] == [2, 2, 3]


@pytest.mark.parametrize("partition", range(3))
def test_a_worker_that_has_ended_looks_at_every_partition_for_a_state_that_went_back(
    valkey_server: Server, crawl_name: str, partition: int
) -> None:
    given = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_PARTITIONS": 3}
    with ValkeyFrontier.open(load(given, {})) as frontier:
        frontier.define("shop", {"main": LanePolicy()})
        frontier.add([Request(1, "host", "shop.main")])
        courier = Courier.__new__(Courier)
        courier.plan, courier.token = CourierConfig("shop", Selection()), Token.fresh()
        courier.link = cast(Any, SimpleNamespace(now=lambda: 0.0))
        then = dict(frontier.exchange(courier.token, everywhere=True).states)
        assert len(then) == 3

        async def ask(verb: Any, /, *args: Any, **named: Any) -> Any:
            return getattr(frontier, verb.__name__)(*args, **named)

        async def sleep(seconds: float) -> None:
            raise AssertionError("everything is answered")

        assert asyncio.run(rounds.left(ask, sleep, courier, then, 1.0)) == "", "there is something new"
        frontier.connection.execute(
            "HSET", keys.partition_meta(crawl_name, partition), "epoch", "another", key=keys.base(crawl_name, partition)
        )
        courier.token = courier.token.next().next()
        assert "1 request is left" in asyncio.run(rounds.left(ask, sleep, courier, then, 1.0))
        list(frontier.drop_group("shop"))
        courier.token = courier.token.next().next()
        assert "the group is not there" in asyncio.run(rounds.left(ask, sleep, courier, then, 1.0))
        then.clear()
        courier.token = courier.token.next().next()
        assert asyncio.run(rounds.left(ask, sleep, courier, then, 1.0)) == "", "it was dropped"
        for key in frontier.connection.execute("KEYS", f"*{crawl_name}*"):
            frontier.connection.execute("DEL", key)
        assert "lost the crawl" in asyncio.run(rounds.left(ask, sleep, courier, then, 1.0))

        async def denied(verb: Any, /, *args: Any, **named: Any) -> Any:
            raise PermissionDenied("no right to ask")

        said = asyncio.run(rounds.left(denied, sleep, courier, then, 1.0))
        assert said == "whether its round is over was not confirmed: no right to ask"
