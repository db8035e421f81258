"""The native engine and its databases: PostgreSQL and MariaDB, killed and brought back in the middle of a crawl, away when a worker
begins, away for longer than a page waits, and rows that they refuse. What counts is what the tables have in the end."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import text
from tests.support.native_crawl import Crawl, until
from tests.support.servers.databases import DatabaseServer, MariaDBServer, PostgreSQLServer
from tests.support.site import Reply, Site

from gossamer.engine.job import NativeEnd, NativeJob
from gossamer.engine.sites import ServedSite
from gossamer.engine.sql_records import SqlRecordSink
from gossamer.engine.worker import NativeWorker
from gossamer.errors import StoreUnavailable
from gossamer.model.page import PageRequest, Record, Response
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text
from gossamer.status.report import Stuck, stuck
from gossamer.store.database.url import database_of
from gossamer.testing.servers import Server

PAGES, REPLIES = 60, 3
STORED = """
    site: stored
    seeds: ["SITE/stored/list"]
    politeness: {robots: ignore, hosts: {HOST: {concurrency: 32}}}
    database: DATABASE
    layers:
      list: {match: '^/stored/list', seen: round, follow: [{css: a, to: page}]}
      page:
        match: '^/stored/page/'
        fields:
          number: {from: url, regex: '(\\d+)$', type: int}
          title: h1
          replies: {each: li, fields: {text: {xpath: .}}}
    store: {page: {table: pages, key: [number], add: [url, site]}}
"""
PLAIN = """
    site: plain
    seeds: ["SITE/plain/list"]
    politeness: {robots: ignore, hosts: {HOST: {concurrency: 32}}}
    layers:
      list: {match: '^/plain/list', seen: round, follow: [{css: a, to: page}]}
      page: {match: '^/plain/page/', fields: {title: h1}}
"""

Rows = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        for name in ("stored", "plain"):
            links = "".join(f'<a href="/{name}/page/{number}">x</a>' for number in range(PAGES))
            one.on(f"/{name}/list", Reply(body=links))
            for number in range(PAGES):
                replies = "".join(f"<li>reply {reply} of {number}</li>" for reply in range(REPLIES))
                one.on(f"/{name}/page/{number}", Reply(body=f"<h1>Page {number}</h1><ul>{replies}</ul>"))
        yield one


@pytest.fixture
def crawl(valkey_server: Server, crawl_name: str, tmp_path: Path, site: Site) -> Crawl:
    return Crawl(valkey_server, crawl_name, tmp_path, site, GOSSAMER_ENGINE_CONCURRENCY=8)


@pytest.fixture(params=[PostgreSQLServer, MariaDBServer], ids=["postgresql", "mariadb"])
def database(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """One of the test's own, durable, to be killed."""
    with request.param().start() as server:
        yield server


def rows(server: DatabaseServer, statement: str) -> list[tuple[Any, ...]]:
    engine = database_of(server.url()).engine()
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(statement))]
    finally:
        engine.dispose()


def all_there(server: DatabaseServer, url: str) -> None:
    """Every page once with its values, every child once."""
    found = rows(server, "select number, title, url, site from pages order by number")
    assert found == [(n, f"Page {n}", f"{url}/stored/page/{n}", "stored") for n in range(PAGES)]
    children = rows(server, "select parent_number, place, text from pages_replies order by 1, 2")
    assert [(n, said) for n, _, said in children] == [
        (n, f"reply {reply} of {n}") for n in range(PAGES) for reply in range(REPLIES)
    ]


@asynccontextmanager
async def running(worker: NativeWorker) -> AsyncIterator[asyncio.Future[NativeEnd]]:
    work = asyncio.ensure_future(worker.run())
    try:
        yield work
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait([work])


def asked(site: Site, name: str) -> list[str]:
    return [path for path in site.paths() if path.startswith(f"/{name}/page/")]


@pytest.mark.timeout(300)
async def test_a_database_that_is_killed_in_the_middle_costs_nothing_and_holds_nobody_else_up(
    crawl: Crawl, site: Site, database: DatabaseServer
) -> None:
    """The other site's pages are all done while it is away; then it comes back, and no page was even fetched twice."""
    crawl.push(STORED.replace("DATABASE", database.url()), "stored")
    async with running(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))) as work:
        await until(lambda: len(asked(site, "stored")) >= PAGES // 4)
        await asyncio.to_thread(database.kill)
        crawl.push(PLAIN, "plain")
        await until(lambda: len(crawl.items("plain")) == PAGES)
        await until(lambda: any(row.why.startswith("its workers wait for their database: ") for row in _stuck(crawl)))
        assert not work.done()
        await asyncio.to_thread(database.restart)
        await until(lambda: _drained(crawl, "stored"))
        await until(lambda: not _stuck(crawl))
    all_there(database, site.url)
    assert crawl.dead("stored") == []
    assert sorted(asked(site, "stored")) == sorted(f"/stored/page/{n}" for n in range(PAGES))


@pytest.mark.timeout(300)
async def test_again_and_again(crawl: Crawl, site: Site, database: DatabaseServer) -> None:
    """Killed as soon as it has taken some more rows."""
    crawl.push(STORED.replace("DATABASE", database.url()), "stored")
    async with running(NativeWorker(crawl.settings, NativeJob(stage=None))) as work:
        for goal in (PAGES // 6, PAGES // 3, PAGES // 2):
            await until(lambda goal=goal: work.done() or len(asked(site, "stored")) >= goal)  # type: ignore[misc]
            await asyncio.to_thread(database.kill)
            await asyncio.to_thread(database.restart)
        assert (await work).reason == "drained"
    all_there(database, site.url)
    assert crawl.dead("stored") == []


@pytest.mark.timeout(300)
async def test_a_worker_that_begins_while_the_database_is_away_serves_the_others_and_this_site_later(
    crawl: Crawl, site: Site, database: DatabaseServer
) -> None:
    url = database.url()
    database.kill()
    crawl.push(STORED.replace("DATABASE", url), "stored")
    crawl.push(PLAIN, "plain")
    # One that is to end by itself and can do nothing else says what is wrong at once, and for whom.
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
        await crawl.run(sites=("stored",))
    async with running(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))) as work:
        await until(lambda: len(crawl.items("plain")) == PAGES)
        assert not work.done()
        assert asked(site, "stored") == []
        await asyncio.to_thread(database.restart)
        await until(lambda: _drained(crawl, "stored"))
    all_there(database, site.url)


async def test_a_worker_that_ends_by_itself_does_not_hide_that_a_site_was_not_served(crawl: Crawl, site: Site) -> None:
    crawl.push(STORED.replace("DATABASE", "postgresql://nobody:x@127.0.0.1:9/none"), "stored")
    crawl.push(PLAIN, "plain")
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:9"):
        await crawl.run()
    assert len(crawl.items("plain")) == PAGES


@pytest.mark.timeout(300)
async def test_a_database_that_is_away_for_longer_than_a_page_waits(
    valkey_server: Server, crawl_name: str, tmp_path: Path, site: Site, database: DatabaseServer
) -> None:
    """The pages are given back and fetched again when it is there: twice, but never lost."""
    crawl = Crawl(valkey_server, crawl_name, tmp_path, site, GOSSAMER_ENGINE_CONCURRENCY=8, GOSSAMER_STORE_SECONDS=0.5)
    crawl.push(STORED.replace("DATABASE", database.url()), "stored")
    async with running(NativeWorker(crawl.settings, NativeJob(stage=None))) as work:
        await until(lambda: len(asked(site, "stored")) >= PAGES // 4)
        begun = monotonic()
        await asyncio.to_thread(database.kill)
        await until(lambda: _given_back(crawl))
        assert not work.done()
        await asyncio.to_thread(database.restart)
        assert (await work).reason == "drained"
        seconds = monotonic() - begun
    all_there(database, site.url)
    assert crawl.dead("stored") == []
    again = len(asked(site, "stored")) - PAGES
    # At most what one worker has in hand, each time that it has waited, however long the database takes to start.
    assert 0 < again <= 8 * (seconds / 0.5 + 1)


@pytest.mark.timeout(300)
async def test_a_worker_that_is_stopped_does_not_wait_for_a_database_that_is_away(
    valkey_server: Server, crawl_name: str, tmp_path: Path, site: Site, database: DatabaseServer
) -> None:
    crawl = Crawl(valkey_server, crawl_name, tmp_path, site, GOSSAMER_ENGINE_CONCURRENCY=8, GOSSAMER_CLOSE_SECONDS=0.5)
    crawl.push(STORED.replace("DATABASE", database.url()), "stored")
    worker = NativeWorker(crawl.settings, NativeJob(stage=None))
    async with running(worker) as work:
        await until(lambda: len(asked(site, "stored")) >= PAGES // 4)
        await asyncio.to_thread(database.kill)
        worker.stop()
        async with asyncio.timeout(60):
            assert (await work).reason == "shutdown"
    with crawl.frontier() as frontier:
        assert sum(lane.leased for lane in frontier.counts("stored").lanes) == 0
    await asyncio.to_thread(database.restart)
    await crawl.run()
    all_there(database, site.url)


@pytest.mark.timeout(300)
async def test_a_row_that_is_refused_is_a_dead_letter_and_the_others_are_stored(
    crawl: Crawl, site: Site, database: DatabaseServer
) -> None:
    """Somebody else's table with rules of its own; the row of one page breaks them, in a transaction with others."""
    database.sql("create table theirs (number bigint primary key, title varchar(20) not null)", "gossamer")
    site.on("/stored/page/7", Reply(body=f"<h1>{'far too long ' * 10}</h1>"))
    site.on("/stored/page/8", Reply(body="<p>no title</p>"))
    theirs = STORED.replace(
        "table: pages, key: [number], add: [url, site]", "table: theirs, key: [number], existing: true"
    )
    # The page without a title is a row, too: it is the database that refuses it.
    theirs = theirs.replace("          replies: {each: li, fields: {text: {xpath: .}}}\n", "        require: none\n")
    crawl.push(theirs.replace("DATABASE", database.url()), "stored")
    assert (await crawl.run()).reason == "drained"
    assert [reason for reason, _ in crawl.dead("stored")] == ["store_refused"] * 2
    assert all("theirs" in detail or "title" in detail for _, detail in crawl.dead("stored"))
    assert rows(database, "select number, title from theirs order by number") == [
        (n, f"Page {n}") for n in range(PAGES) if n not in (7, 8)
    ]


@pytest.mark.timeout(300)
async def test_a_round_whose_tables_are_put_aside_waits_for_the_database(
    crawl: Crawl, site: Site, database: DatabaseServer
) -> None:
    """The seeds of the new round are not lost when the database is away as it begins."""
    text_ = STORED.replace("add: [url, site]", "add: [url, site], archive: true").replace("DATABASE", database.url())
    # Every page in each round, as a table that begins anew needs it.
    crawl.push(
        text_.replace("        match: '^/stored/page/'", "        match: '^/stored/page/'\n        seen: round"),
        "stored",
    )
    async with running(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))):
        await until(lambda: _drained(crawl, "stored"))
        await asyncio.to_thread(database.kill)
        with crawl.frontier() as frontier:
            frontier.new_round("stored", 1)
        await until(lambda: _start(crawl) == "leased")
        await asyncio.to_thread(database.restart)
        await until(lambda: _drained(crawl, "stored"))
    all_there(database, site.url)
    assert crawl.dead("stored") == []
    assert len(asked(site, "stored")) == 2 * PAGES


def _drained(crawl: Crawl, name: str) -> bool:
    with crawl.frontier() as frontier:
        return name in {row.group for row in frontier.counts().groups} and frontier.drained(name).drained


def _start(crawl: Crawl) -> str:
    with crawl.frontier() as frontier:
        return next(row.start for row in frontier.counts("stored").groups)


def _stuck(crawl: Crawl) -> list[Stuck]:
    with crawl.frontier() as frontier:
        return list(stuck(frontier, ["stored"]))


def _given_back(crawl: Crawl) -> bool:
    return crawl.counters("stored").get("engine/failed/store_unavailable", 0) > 0


async def test_a_page_that_comes_to_be_stored_when_there_is_no_time_left_does_not_wait(crawl: Crawl) -> None:
    """Its download may have taken longer than its worker had to end."""
    described = (
        "site: late\nseeds: [http://h.test/]\nlayers: {page: {fields: {title: h1}}}\nstore: {page: {table: late}}\n"
    )
    [loaded] = load_text(described, "late.yaml")
    late = ServedSite(compile_site(loaded))
    record_sink = SqlRecordSink(crawl.settings)
    await record_sink.prepare(late)
    url = "http://h.test/"
    page_request = PageRequest(url)
    with closing(sqlite3.connect(crawl.folder / "items.db", isolation_level=None)) as other:
        other.execute("begin exclusive")
        record_sink.give_up()
        async with asyncio.timeout(60):
            page = Response(url, 200, {}, b"")
            assert not await record_sink.put(late.layers["page"], page_request, page, [Record("page", {"title": "x"})])
    await record_sink.close()
