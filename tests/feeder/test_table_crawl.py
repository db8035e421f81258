"""`gossamer task feed` with real workers: a site's and a spider's, and whoever is killed meanwhile."""

from __future__ import annotations

import json
import signal
import sqlite3
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.support import fork_server
from tests.support.busy_crawl import environment
from tests.support.servers.databases import PostgreSQLServer
from tests.support.site import Reply, Site

from gossamer.cli import exit_codes
from gossamer.store.database.url import database_of
from gossamer.testing import process
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

SITE = """
    site: pages
    seeds: [{tasks: "pages:tasks"}]
    politeness: {robots: ignore, delay: 0.01, adaptive: false, hosts: {HOST: {concurrency: 4}}}
    request: {retries: 0}
    layers:
      page:
        match: '^/'
        fields: {id: {from: parent.id, type: int}}
"""
SPIDER = """
    import scrapy
    from gossamer import FleetSpider

    class Pages(FleetSpider):
        name = "pages"
        tasks = "pages:tasks"
        mode = "forever"
        custom_settings = {"ROBOTSTXT_OBEY": False, "RETRY_ENABLED": False, "TELNETCONSOLE_ENABLED": False}

        def parse(self, response):
            if response.url.endswith("/4"):
                raise RuntimeError("a bug of the spider")
            # A link with the meta of its page: its end is not that of the task.
            yield {"id": response.meta["id"]}
            if "child" not in response.url:
                yield response.follow("/child", meta=response.meta, dont_filter=True)
"""


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        yield one


class Crawl:
    """Workers and feeders of one crawl, as processes."""

    def __init__(self, server: Server, name: str, folder: Path, url: str) -> None:
        self.given = environment(
            GOSSAMER_URL=server.url, GOSSAMER_CRAWL=name, GOSSAMER_DATA_DIR=str(folder), GOSSAMER_LEASE_SECONDS="5"
        )
        self.folder, self.url = folder, url
        self.running: list[tuple[Any, Path]] = []

    def start(self, *words: str) -> Any:
        log = self.folder / f"{len(self.running)}.log"
        started = fork_server.start(
            "gossamer", words, environ=self.given, directory=self.folder, stdout=log, options=["-P"]
        )
        self.running.append((started, log))
        return started

    def feed(self, *more: str) -> Any:
        return self.start("task", "feed", "pages:tasks", "--table", f"{self.url}#pages", *more, "--json")

    def said(self, number: int) -> str:
        return str(self.running[number][1].read_text())

    def close(self) -> None:
        for started, _ in self.running:
            if started.poll() is None:
                process.end(started)


def until(condition: Callable[[], object], what: str) -> None:
    process.wait_until(condition, what, 120, pause=0.2)


def test_a_table_of_the_same_name_in_another_database_is_refused(
    valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    """Its rows were done with the pages of the first one, and nobody had fetched theirs."""
    files = [tmp_path / name for name in ("one.db", "two.db")]
    for file in files:
        with closing(sqlite3.connect(file)) as made, made:
            made.execute("CREATE TABLE pages (url TEXT PRIMARY KEY, task_state VARCHAR(16))")
            made.execute("INSERT INTO pages (url) VALUES ('http://h/1')")

    def states() -> list[str | None]:
        found = []
        for file in files:
            with closing(sqlite3.connect(file)) as made:
                found += made.execute("SELECT task_state FROM pages").fetchone()
        return found

    crawl = Crawl(valkey_server, crawl_name, tmp_path, "")
    words = [
        ["task", "feed", f"{crawl_name}:tasks", "--prepare", "--table", f"sqlite:///{file}#pages"] for file in files
    ]
    try:
        (tmp_path / "pages.yaml").write_text(textwrap.dedent(SITE).replace("HOST", "h"))
        assert crawl.start("site", "push", "pages.yaml").wait(60) == 0
        first = crawl.start(*words[0])
        until(lambda: states()[0] == "waiting", "the first table feeds the key")
        assert crawl.start(*words[1]).wait(60) == exit_codes.FRONTIER
        assert "--moved" in crawl.said(2)
        assert states() == ["waiting", None]
        assert first.poll() is None
        first.send_signal(signal.SIGINT)
        first.wait(60)
        assert crawl.start(*words[1]).wait(60) == exit_codes.FRONTIER, "its task is still to come back"
        moved = crawl.start(*words[1], "--moved")
        until(lambda: states()[1] == "waiting", "it has moved")
        assert moved.poll() is None
    finally:
        crawl.close()


@pytest.mark.parametrize("engine", ["native", "scrapy"])
def test_a_table_is_crawled(engine: str, valkey_server: Server, crawl_name: str, tmp_path: Path, site: Site) -> None:
    """Pages that redirect are done, those that fail have failed, and each is fetched once; a second run fetches none."""
    file = tmp_path / "pages.db"
    with closing(sqlite3.connect(file)) as made, made:
        made.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, link TEXT)")
        made.executemany("INSERT INTO pages VALUES (?, ?)", [(n, f"{site.url}/{n}") for n in range(1, 31)])
        made.execute("INSERT INTO pages VALUES (31, NULL)")
    site.on("/3", Reply(302, headers={"Location": "/moved"}))
    site.on("/4", Reply(500 if engine == "native" else 200))
    crawl = Crawl(valkey_server, crawl_name, tmp_path, f"sqlite:///{file}")
    member = "pass.id=id" if engine == "native" else "meta.id=id"
    try:
        if engine == "native":
            (tmp_path / "pages.yaml").write_text(textwrap.dedent(SITE).replace("HOST", site.host))
            assert (
                fork_server.run("gossamer", ["site", "push", "pages.yaml"], crawl.given, tmp_path, 60).returncode == 0
            )
            crawl.start("work", "--forever")
        else:
            (tmp_path / "pages.py").write_text(textwrap.dedent(SPIDER))
            crawl.start("work", "pages.py")
        until(
            lambda: "TASKS WAITING" in fork_server.run("gossamer", ["status"], crawl.given, tmp_path, 60).stdout,
            "a worker",
        )
        feeder = crawl.feed("--task", "url=link", "--task", member, "--prepare")
        assert feeder.wait(120) == 1, crawl.said(1)
        told = json.loads(crawl.said(1)[crawl.said(1).index("{") : crawl.said(1).rindex("}") + 1])
        assert told["rows"] == {"new": 0, "waiting": 0, "running": 0, "done": 29, "failed": 2, "lost": 0, "other": 0}
        assert [told[name] for name in ("pushed", "done", "failed", "pushed_again", "lost")] == [30, 29, 2, 0, 0]
        with closing(sqlite3.connect(file)) as made:
            failed = dict(made.execute("SELECT id, task_detail FROM pages WHERE task_state = 'failed'"))
        assert sorted(failed) == [4, 31]
        assert failed[31] == "no task: its URL is empty"
        # Once more: what was done is not fetched again, and what comes later is. Ctrl-C ends it, with its summary.
        again = crawl.feed("--task", "url=link", "--task", member, "--forever")
        with closing(sqlite3.connect(file)) as made:
            with made:
                made.execute("INSERT INTO pages (id, link) VALUES (32, ?)", (f"{site.url}/32",))
            done = "SELECT COUNT(*) FROM pages WHERE task_state = 'done'"
            until(lambda: made.execute(done).fetchone() == (30,), "the row that came later")
        again.send_signal(signal.SIGINT)
        assert again.wait(60) == 130, crawl.said(2)
        assert json.loads(crawl.said(2)[crawl.said(2).index("{") : crawl.said(2).rindex("}") + 1])["interrupted"]
    finally:
        crawl.close()
    fetched = Counter(visit.path for visit in site.visits if visit.path != "/child")
    assert fetched == {f"/{n}": 1 for n in (*range(1, 31), 32)} | {"/moved": 1}


def test_whoever_is_killed_nothing_is_lost(tmp_path: Path, crawl_name: str, site: Site) -> None:
    """Feeder, worker, server and database die with SIGKILL in the middle. All rows are done; what is fetched twice was in progress then."""
    rows = 200
    with Server().start(fsync="always") as server, PostgreSQLServer().start() as database:
        url = database.url()
        engine = database_of(url).engine()
        with engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE pages AS SELECT n AS id FROM generate_series(1, {rows}) AS n"))
            connection.execute(text("ALTER TABLE pages ADD PRIMARY KEY (id)"))
        crawl = Crawl(server, crawl_name, tmp_path, url)
        (tmp_path / "pages.yaml").write_text(textwrap.dedent(SITE).replace("HOST", site.host))
        feed = (
            "--page",
            f"{site.url}/{{id}}",
            "--task",
            "pass.id=id",
            "--prepare",
            "--max-waiting",
            "30",
            "--max-open",
            "60",
        )
        try:
            assert (
                fork_server.run("gossamer", ["site", "push", "pages.yaml"], crawl.given, tmp_path, 60).returncode == 0
            )
            worker = crawl.start("work", "--forever")
            feeder = crawl.feed(*feed)
            until(lambda: len(site.visits) > 20, "some pages")
            feeder.kill()
            # It may have given out no more than was fetched.
            feeder = crawl.feed(*feed)
            until(lambda: len(site.visits) > 80, "more pages")
            worker.kill()
            crawl.start("work", "--forever")
            # A worker that finds no server when it starts ends.
            known = len(site.visits)
            until(lambda: len(site.visits) > known + 5, "pages of the other worker")
            server.kill()
            server.restart()
            until(lambda: len(site.visits) > 120, "more pages")
            database.kill()
            database.restart()
            assert feeder.wait(120) == 0, crawl.said(2)
        finally:
            crawl.close()
        with engine.begin() as connection:
            told = connection.execute(text("SELECT task_state, COUNT(*) FROM pages GROUP BY 1")).all()
        engine.dispose()
    assert [tuple(row) for row in told] == [("done", rows)]
    fetched = Counter(visit.path for visit in site.visits)
    assert set(fetched) == {f"/{n}" for n in range(1, rows + 1)}
    assert sum(fetched.values()) - rows <= 20, "what was in progress when its worker or the server died"
