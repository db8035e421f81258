"""The native engine and a database that accepts and does not answer (SIGSTOP): a worker can be stopped in every state, and others'
sites go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.engine.test_records import PAGES, PLAIN, STORED, all_there, asked, running
from tests.engine.test_records import site as site
from tests.support.native_crawl import Crawl, until
from tests.support.servers.databases import DatabaseServer, MariaDBServer, PostgreSQLServer
from tests.support.site import Site

from gossamer.engine.job import NativeEnd, NativeJob
from gossamer.engine.worker import NativeWorker
from gossamer.store import schema
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def crawl(valkey_server: Server, crawl_name: str, tmp_path: Path, site: Site) -> Crawl:
    return Crawl(valkey_server, crawl_name, tmp_path, site, GOSSAMER_ENGINE_CONCURRENCY=8, GOSSAMER_CLOSE_SECONDS=0.5)


@pytest.fixture(params=[PostgreSQLServer, MariaDBServer], ids=["postgresql", "mariadb"])
def database(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    with request.param().start() as server:
        yield server
        server.resume()


@asynccontextmanager
async def working(crawl: Crawl) -> AsyncIterator[tuple[NativeWorker, asyncio.Future[NativeEnd]]]:
    worker = NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))
    async with running(worker) as work:
        yield worker, work


async def stopped(worker: NativeWorker, work: asyncio.Future[NativeEnd]) -> None:
    worker.stop()
    async with asyncio.timeout(60):
        assert (await work).reason == "shutdown"


async def test_while_it_runs(crawl: Crawl, site: Site, database: DatabaseServer) -> None:
    crawl.push(STORED.replace("DATABASE", database.url()), "stored")
    async with working(crawl) as (worker, work):
        await until(lambda: len(asked(site, "stored")) >= PAGES // 4)
        database.pause()
        await stopped(worker, work)
    with crawl.frontier() as frontier:
        assert sum(lane.leased for lane in frontier.counts("stored").lanes) == 0
    database.resume()
    await crawl.run()
    all_there(database, site.url)


async def test_when_it_starts(crawl: Crawl, database: DatabaseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent from the moment at which it has taken the connection."""
    before, reached = schema.create_tables, asyncio.Event()
    loop = asyncio.get_running_loop()

    def silent(*arguments: object) -> None:
        database.pause()
        loop.call_soon_threadsafe(reached.set)
        before(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(schema, "create_tables", silent)
    crawl.push(STORED.replace("DATABASE", database.url()), "stored")
    async with working(crawl) as (worker, work):
        async with asyncio.timeout(60):
            await reached.wait()
        await stopped(worker, work)


async def test_when_a_file_changes(crawl: Crawl, site: Site, database: DatabaseServer) -> None:
    """Sites without it, that are pushed before, are crawled meanwhile."""
    stored = STORED.replace("DATABASE", database.url())
    crawl.push(stored, "stored")
    async with working(crawl) as (worker, work):
        await until(lambda: len(asked(site, "stored")) == PAGES)
        database.pause()
        crawl.push(PLAIN, "plain")
        await until(lambda: len(crawl.items("plain")) == PAGES)
        crawl.push(stored.replace("add: [url, site]", "add: [url, site, round]"), "stored")
        await until(lambda: worker._updates.changing is not None)
        await stopped(worker, work)
