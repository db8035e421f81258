"""Rounds of the native engine: which one a page belongs to, and when one is over although something waits."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import ormsgpack
import pytest
from tests.support.native_crawl import Crawl, until, working
from tests.support.site import Site, links

from gossamer.engine.job import NativeJob
from gossamer.engine.worker import NativeWorker
from gossamer.errors import UnknownGroup
from gossamer.frontier.call import function_call, read
from gossamer.frontier.server import keys
from gossamer.registry.registry import Registry
from gossamer.testing.servers import Server

SITE = """
    site: pages
    seeds: [SITE/list]
    politeness: {robots: ignore}
    layers:
      list: {match: '^/list', seen: round, follow: [{css: a, to: page}]}
      page: {match: '^/page/', fields: {title: title}}
    store: {page: {table: pages, key: [url], add: [url, round]}}
"""


@pytest.fixture
def site(site: Site) -> Site:
    return site.on("/list", links(*(f"/page/{number}" for number in range(12))))


async def test_a_page_belongs_to_the_round_that_found_it(crawl: Crawl, site: Site) -> None:
    site.hold("/page/3")
    crawl.push(SITE)
    running = asyncio.ensure_future(crawl.run(forever=True))
    await asyncio.to_thread(site.reached, "/page/3")
    with crawl.frontier() as frontier:
        frontier.new_round("pages", 1)
    await asyncio.to_thread(site.reached, "/list", 2)
    site.release("/page/3")
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(_over, crawl):
            await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.wait([running])
    with closing(sqlite3.connect(crawl.folder / "items.db")) as database:
        rounds = dict(database.execute("select url, round from pages").fetchall())
    assert rounds == {f"{site.url}/page/{number}": 0 for number in range(12)}


def _over(crawl: Crawl) -> bool:
    with crawl.frontier() as frontier:
        return frontier.drained("pages").drained


async def test_a_round_with_as_many_pages_as_it_may_have_is_over_until_the_limit_is_raised(
    crawl: Crawl, site: Site
) -> None:
    """A worker that ends when all is done ends, with what it may not fetch still queued: for the next round, or a raised limit."""
    limited = SITE + "    limits: {pages: 5}\n"
    crawl.push(limited)
    async with asyncio.timeout(60):
        assert (await crawl.run()).reason == "drained"
    assert len(site.paths()) == 5
    with crawl.frontier() as frontier:
        [group] = frontier.counts("pages").groups
        assert (group.paused, group.open) == ("pages_full", 8)
        frontier.new_round("pages", 1)
    async with asyncio.timeout(60):
        assert (await crawl.run()).reason == "drained"
    assert len(site.paths()) == 10
    crawl.push(limited.replace("pages: 5", "pages: 100"))
    async with asyncio.timeout(60):
        assert (await crawl.run()).reason == "drained"
    assert sorted(site.paths()) == sorted(["/list", "/list", *(f"/page/{number}" for number in range(12))])


@pytest.mark.parametrize("given", ["GOSSAMER_ITEMS_MAX", "GOSSAMER_ITEMS_MAX_BYTES"])
async def test_what_a_site_leaves_waiting_is_bounded_by_the_settings(
    valkey_server: Server, crawl_name: str, tmp_path: Path, site: Site, given: str
) -> None:
    crawl = Crawl(valkey_server, crawl_name, tmp_path, site, **{given: 2, "GOSSAMER_DEAD_MAX": 7})
    crawl.push(SITE.replace("    store: {page: {table: pages, key: [url], add: [url, round]}}\n", ""))
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None))):
        await until(lambda: _paused(crawl) == "items_full")
    key = keys.base(crawl_name, 0) + keys.SUFFIXES["group_policy"]
    with crawl.frontier() as frontier:
        assert ormsgpack.unpackb(frontier.connection.execute("HGET", key, "pages", key=key))["max_dead"] == 7


def _paused(crawl: Crawl) -> str:
    with crawl.frontier() as frontier:
        return next((row.paused for row in frontier.counts("pages").groups), "")


async def test_lists_are_read_again_while_details_of_the_last_round_are_still_fetched(crawl: Crawl, site: Site) -> None:
    """`overlap: reseed`, without a planner: how fresh lists are does not depend on the backlog of details."""
    site.hold("/page/3")
    crawl.push(SITE + "    schedule: {every: 1s, overlap: reseed}\n")
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True, repeat=True))):
        await asyncio.to_thread(site.reached, "/list", 3)
        site.release("/page/3")
        await until(lambda: _states(crawl).count("ended") > 0)
    states = _states(crawl)
    assert states[:2] == ["seeded again", "seeded again"]
    assert site.paths().count("/page/3") == 1


@pytest.mark.parametrize("drained", [False, True])
async def test_rounds_begin_as_the_newest_file_says_also_where_a_worker_may_not_use_it(
    crawl: Crawl, site: Site, drained: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """This worker serves the rest of the site as before; when rounds begin concerns all workers."""
    often, seldom = "    schedule: {every: 1s}\n", "    schedule: {every: 1d}\n"
    site.on("/list", links())
    crawl.push(SITE + often)
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True, repeat=True))):
        await until(lambda: len(_states(crawl)) > 1)
        refused = "    request: {headers: {X-Test: '${NOT_GRANTED}'}}\n"
        crawl.push(SITE + (often if drained else seldom) + refused)
        await until(lambda: "The site file site cannot be used" in caplog.text)
        if drained:
            caplog.clear()
            with crawl.frontier() as frontier:
                Registry(frontier).drain("site", who="")
            await until(lambda: "The site file site cannot be used" in caplog.text)
        before = len(_states(crawl))
        crawl.push(
            SITE.replace("site: pages", "site: others").replace("table: pages", "table: others") + often, "others"
        )
        await until(lambda: len(_states(crawl, "others")) > 3)
        # One may have been about to begin.
        assert len(_states(crawl)) <= before + 1
        assert _states(crawl)[-1] == "ended"


def _states(crawl: Crawl, name: str = "pages") -> list[str]:
    """Of the rounds, the oldest first."""
    with crawl.frontier() as frontier, suppress(UnknownGroup):
        return [info.state for info in reversed(frontier.rounds(name))]
    return []


async def test_a_round_that_began_on_some_partitions_only_is_begun_on_all(
    valkey_server: Server, crawl_name: str, tmp_path: Path, site: Site
) -> None:
    """Whoever began it was killed in the middle."""
    crawl = Crawl(valkey_server, crawl_name, tmp_path, site, GOSSAMER_PARTITIONS=2)
    crawl.push(SITE)
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True, repeat=True))):
        await until(lambda: _states(crawl) == ["ended"])
        with crawl.frontier() as frontier:
            other = keys.base(crawl_name, 1 - keys.home_of("pages", 2))
            [told] = frontier.ask([function_call("round_counts", other, {"group": "pages"})])
            half = {"salt": "s", "group": "pages", "round": 1, "home": False, "session": 0, "epoch": read(told)[-1]}
            frontier.ask([function_call("new_round", other, half)])
        await until(lambda: _states(crawl) == ["ended", "ended"])
    assert site.paths().count("/list") == 2
