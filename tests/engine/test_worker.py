"""When a worker of the native engine ends, and what it must not wait for."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from tests.support.native_crawl import Crawl, until, working
from tests.support.site import Site, links

from gossamer import heap
from gossamer.engine.job import NativeEnd, NativeJob
from gossamer.engine.worker import NativeWorker
from gossamer.errors import SiteError
from gossamer.frontier.connection import router
from gossamer.frontier.connection.url import parse
from gossamer.frontier.server.keys import partition_of
from gossamer.testing.process import free_port, hold_port
from gossamer.testing.servers import SentinelPair, Server

SITE = """
    site: pages
    seeds: [SITE/list]
    politeness: {robots: ignore, concurrency: 1}
    layers:
      list: {match: '^/list', seen: round, follow: [{css: a, to: page}]}
      page: {match: '^/page/', fields: {title: title}}
"""


@pytest.fixture
def site(site: Site) -> Site:
    return site.on("/list", links(*(f"/page/{number}" for number in range(12))))


@asynccontextmanager
async def held_at(
    crawl: Crawl, path: str, **job: object
) -> AsyncIterator[tuple[NativeWorker, asyncio.Future[NativeEnd]]]:
    """A worker that waits for the answer of this path until the block ends."""
    crawl.site.hold(path)
    worker = NativeWorker(crawl.settings, NativeJob(**{"stage": None, **job}))  # type: ignore[arg-type]
    running = asyncio.ensure_future(worker.run())
    await asyncio.to_thread(crawl.site.reached, path)
    try:
        yield worker, running
    finally:
        crawl.site.release(path)


async def ended(running: asyncio.Future[NativeEnd]) -> str:
    async with asyncio.timeout(60):
        return (await running).reason


async def test_a_worker_that_is_drained_ends_although_something_is_left(crawl: Crawl, site: Site) -> None:
    crawl.push(SITE)
    async with held_at(crawl, "/page/3") as (_, running):
        with crawl.frontier() as frontier:
            [one] = frontier.workers()
            frontier.drain_worker(one.incarnation)
    assert await ended(running) == "draining"
    assert len(site.paths()) < 13
    await crawl.run()
    assert len(site.paths()) == len(set(site.paths())) == 13


async def test_garbage_collection_is_as_before_when_a_worker_has_ended(crawl: Crawl, site: Site) -> None:
    crawl.push(SITE)
    before = gc.get_threshold()
    async with held_at(crawl, "/page/3") as (_, running):
        assert gc.get_threshold()[0] == heap.YOUNG
    assert await ended(running) == "drained"
    assert gc.get_threshold() == before


async def test_a_site_that_is_removed_is_not_waited_for(crawl: Crawl) -> None:
    crawl.push(SITE)
    async with held_at(crawl, "/page/3") as (_, running):
        with crawl.frontier() as frontier:
            frontier.drop_document("site", "site")
    assert await ended(running) == "drained"


async def test_a_group_that_is_dropped_is_not_waited_for(crawl: Crawl) -> None:
    crawl.push(SITE)

    def drop() -> None:
        with crawl.frontier() as frontier:
            for _ in frontier.drop_group("pages"):
                pass

    async with held_at(crawl, "/page/3") as (_, running):
        dropping = asyncio.ensure_future(asyncio.to_thread(drop))
        await until(lambda: _paused(crawl) == "dropped")
    await dropping
    assert await ended(running) == "drained"


def _paused(crawl: Crawl) -> str:
    with crawl.frontier() as frontier:
        return next(iter(row.paused for row in frontier.counts("pages").groups), "")


@contextmanager
def replaced_after_a_round(
    crawl_name: str, folder: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Crawl, SentinelPair, int]]:
    """A crawl behind sentinels whose replica takes over as soon as a round is over, and a port that nobody listens on: a replica
    that follows it hears nothing more."""
    with SentinelPair() as pair, hold_port(free_port()) as nobody:
        crawl = Crawl(pair.primary, crawl_name, folder, site, GOSSAMER_URL=pair.url)
        crawl.push(SITE + "    hooks: {after_round: 'tests.engine.test_worker:after_round'}\n")
        monkeypatch.setattr(AFTER, "rounds", [])
        monkeypatch.setattr(AFTER, "do", lambda: pair.failover(kill=False))
        monkeypatch.setattr(router, "LOOK_SECONDS", 1e9)  # only its last word finds the other server
        yield crawl, pair, nobody.getsockname()[1]


async def test_a_server_that_has_not_even_the_group_after_it_said_drained_ends_no_worker(
    crawl_name: str, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not dropped: the server is another one."""
    with replaced_after_a_round(crawl_name, tmp_path, site, monkeypatch) as (crawl, pair, nobody):
        await asyncio.to_thread(pair.wait_ok)
        pair.replica.call("REPLICAOF", "127.0.0.1", nobody)
        async with asyncio.timeout(60):
            assert (await crawl.run()).reason == "drained"
        with crawl.frontier() as frontier:
            assert frontier.drained("pages").drained
    assert AFTER.rounds == [0, 0]


async def test_one_layer_alone_does_not_wait_for_what_is_left_of_others(crawl: Crawl, site: Site) -> None:
    crawl.push(SITE)
    async with held_at(crawl, "/page/3") as (worker, running):
        worker.stop()
    assert await ended(running) == "shutdown"
    before = len(site.paths())
    async with asyncio.timeout(60):
        assert (await crawl.run(layer="list")).reason == "drained"
    assert len(site.paths()) == before


async def test_seeds_that_find_no_room_do_not_keep_a_full_round_open(crawl: Crawl, site: Site) -> None:
    crawl.push(SITE.replace("[SITE/list]", "['SITE/page/[1-40]']") + "    limits: {backlog: 10, pages: 5}\n")
    async with asyncio.timeout(60):
        ends = await asyncio.gather(crawl.run(), crawl.run())
    assert [end.reason for end in ends] == ["drained", "drained"]
    assert len(site.paths()) == 5
    # The start was given back: with more pages to be had it is gone on with, and no seed is added twice.
    crawl.push(SITE.replace("[SITE/list]", "['SITE/page/[1-40]']") + "    limits: {backlog: 10}\n")
    async with asyncio.timeout(60):
        assert (await crawl.run()).reason == "drained"
    assert sorted(site.paths()) == sorted(f"/page/{number}" for number in range(1, 41))


async def test_seeds_that_find_no_room_keep_no_other_site_from_its_own(crawl: Crawl, site: Site) -> None:
    crawl.push(SITE.replace("[SITE/list]", "['SITE/page/[1-3000]']") + "    limits: {backlog: 10}\n", "many")
    async with held_at(crawl, "/page/1", forever=True) as (worker, running):
        crawl.push(SITE.replace("site: pages", "site: other").replace("SITE/list", "SITE/list?other"), "other")
        with crawl.frontier() as frontier:
            frontier.pause(group="pages")
        await until(lambda: _waits(crawl))
    await asyncio.to_thread(site.reached, "/list")
    worker.stop()
    await ended(running)


def _waits(crawl: Crawl) -> bool:
    """Whether the seeds have found the queue full."""
    with crawl.frontier() as frontier:
        return sum(lane.queued + lane.leased for lane in frontier.counts("pages").lanes) >= 10


async def test_another_version_of_the_file_goes_on_with_its_own_seeds(crawl: Crawl, site: Site) -> None:
    """What was added of the first version does not stand for seeds of the second."""
    crawl.push(SITE.replace("[SITE/list]", "['SITE/page/[1-3000]']") + "    limits: {backlog: 10}\n")
    async with held_at(crawl, "/page/1") as (worker, running):
        await until(lambda: _waits(crawl))
        worker.stop()
    assert await ended(running) == "shutdown"
    crawl.push(SITE.replace("[SITE/list]", "['SITE/page/[5001-5003]']"))
    async with asyncio.timeout(60):
        assert (await crawl.run()).reason == "drained"
    assert {"/page/5001", "/page/5002", "/page/5003"} <= set(site.paths())


async def test_a_partition_that_is_full_does_not_end_the_round_of_others(
    valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        sites: dict[int, Site] = {}
        while len(sites) < 2:
            one = stack.enter_context(Site())
            sites.setdefault(partition_of(one.host, 2), one)
        quick, slow = sites[0], sites[1]
        crawl = Crawl(valkey_server, crawl_name, tmp_path, quick, GOSSAMER_PARTITIONS=2)
        seeds = f"['SITE/page/[1-6]', '{slow.url}/page/[1-4]']"
        politeness = f"{{robots: ignore, hosts: {{'{slow.host}': {{delay: 1.3s}}}}}}"
        crawl.push(
            SITE.replace("[SITE/list]", seeds).replace("{robots: ignore, concurrency: 1}", politeness)
            + "    limits: {pages: 4}\n"
        )
        async with asyncio.timeout(60):
            assert (await crawl.run()).reason == "drained"
        assert (len(quick.paths()), len(slow.paths())) == (4, 4)


async def test_a_layer_or_stage_that_no_site_has_is_said(crawl: Crawl, site: Site) -> None:
    crawl.push(SITE.replace("page: {match", "page: {stage: details, match"))
    with pytest.raises(SiteError, match="No site of this crawl has the layer pagge; did you mean page"):
        await crawl.run(layer="pagge")
    with pytest.raises(SiteError, match="has the stage later; there is only details"):
        await crawl.run(stage="later")
    assert site.paths() == []


async def test_a_worker_without_end_waits_for_a_stage_that_no_site_has_yet(
    crawl: Crawl, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    crawl.push(SITE + "    limits: {pages: 1}\n")
    await crawl.run()
    async with working(NativeWorker(crawl.settings, NativeJob(stage="details", forever=True))):
        await until(lambda: "has the stage details; see stage in the site files. This worker waits" in caplog.text)
        crawl.push(SITE.replace("page: {match", "page: {stage: details, match"))
        await asyncio.to_thread(site.reached, "/page/11")


async def test_a_worker_without_end_says_that_the_crawl_has_no_sites_yet(
    crawl: Crawl, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(NativeWorker(crawl.settings, NativeJob(forever=True))):
        await until(lambda: "This crawl has no sites. Push their files" in caplog.text)
        assert "This worker waits for one." in caplog.text
        crawl.push(SITE)
        await asyncio.to_thread(site.reached, "/page/11")


async def test_a_worker_that_is_stopped_waits_for_slow_pages_only_so_long(
    valkey_server: Server, crawl_name: str, tmp_path: Path, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    crawl = Crawl(valkey_server, crawl_name, tmp_path, site, GOSSAMER_STOP_SECONDS=2.0, GOSSAMER_LEASE_SECONDS=600.0)
    crawl.push(SITE)
    caplog.set_level(logging.INFO, "gossamer")
    async with held_at(crawl, "/page/3") as (worker, running):
        worker.stop()
        assert await ended(running) == "shutdown"
        with crawl.frontier() as frontier:
            lanes = {lane.lane: lane for lane in frontier.counts("pages").lanes}
        page = lanes["pages.page"]
        assert (page.leased, page.expired) == (0, 0), "it was given back"
        assert page.queued + page.done == 12
    assert "1 page was not finished in time (GOSSAMER_STOP_SECONDS)" in caplog.text
    assert caplog.messages[0] == f"Worker of crawl {crawl_name} on {parse(crawl.settings['GOSSAMER_URL']).safe}."
    async with asyncio.timeout(60):
        assert (await crawl.run()).reason == "drained"
    assert set(site.paths()) == {"/list", *(f"/page/{number}" for number in range(12))}
    assert crawl.dead("pages") == []


async def test_a_worker_that_is_stopped_ends_in_time_though_the_server_does_not_answer(
    crawl_name: str, tmp_path: Path, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    with Server() as server:
        crawl = Crawl(server, crawl_name, tmp_path, site, GOSSAMER_STOP_SECONDS=3.0, GOSSAMER_OUTAGE_SECONDS=120)
        crawl.push(SITE)
        async with held_at(crawl, "/page/3") as (worker, running):
            server.pause()
            crawl.site.release("/page/3")
            began = asyncio.get_running_loop().time()
            worker.stop()
            assert await ended(running) == "shutdown"
            # Without the limit it waits for its calls, which are repeated for GOSSAMER_OUTAGE_SECONDS.
            assert asyncio.get_running_loop().time() - began < 60
    assert "1 page could not be reported to the frontier: when the leases run out, other workers do" in caplog.text


async def test_a_server_that_is_replaced_after_it_said_drained_ends_no_worker(
    crawl_name: str, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the replica had not heard is done again by the worker that was about to end."""
    with replaced_after_a_round(crawl_name, tmp_path, site, monkeypatch) as (crawl, pair, nobody):
        async with held_at(crawl, "/page/3") as (_, running):
            await asyncio.to_thread(pair.wait_ok)
            pair.replica.call("REPLICAOF", "127.0.0.1", nobody)
        assert await ended(running) == "drained"
        with crawl.frontier() as frontier:
            assert frontier.drained("pages").drained
    assert AFTER.rounds == [0, 0]
    assert site.paths().count("/page/3") == 2
    assert site.paths().count("/page/2") == 1


class After:
    """What the hook does, once, and the rounds that it was called for."""

    def __init__(self) -> None:
        self.do: Callable[[], object] | None = None
        self.rounds: list[int] = []


AFTER = After()


async def after_round(site: str, number: int) -> None:
    AFTER.rounds.append(number)
    if AFTER.do is not None:
        do, AFTER.do = AFTER.do, None
        await asyncio.to_thread(do)
