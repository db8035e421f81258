"""What a worker costs that has nothing to do: the same, however many sites it serves. And when it notices that there is something."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest
from tests.support.native_crawl import Crawl, until, working
from tests.support.site import Site

from gossamer.engine.job import NativeJob
from gossamer.engine.worker import NativeWorker
from gossamer.store import Store
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)


def described(number: int, more: str = "") -> str:
    return f"""
    site: idle{number}
    seeds: [SITE/idle{number}]
    politeness: {{robots: ignore}}
    layers: {{page: {{seen: round}}}}
    {more}
"""


def calls(server: Server) -> int:
    """How often workers have called the server so far."""
    stats = server.info("commandstats").items()
    found = [re.search(r"calls=(\d+)", str(said)) for name, said in stats if name.startswith("cmdstat_fcall")]
    return sum(int(one[1]) for one in found if one is not None)


async def idle_calls(crawl: Crawl, server: Server, worker: NativeWorker, sites: int) -> float:
    """Calls for each exchange of a worker that has nothing to do, without those that look for killed workers: three a second at most."""
    await until(lambda: all_over(crawl, sites))
    rounds_of: Any = worker._rounds
    # Each is over, and when its next round is due was asked for, which it is once.
    await until(lambda: rounds_of.over and len(rounds_of._over) == len(rounds_of.next_rounds.looks) == sites)
    courier = worker._engine.courier
    # What it was still about to say and to learn.
    await until(lambda: not rounds_of._forced and courier.hints is not None and courier.hints.open == 0)
    settling = courier.exchanges
    await until(lambda: courier.exchanges >= settling + 4)
    first, begun, since = courier.exchanges, calls(server), time.monotonic()
    await until(lambda: courier.exchanges >= first + 5)
    looks = 3 * (time.monotonic() - since) + 3
    return (calls(server) - begun - looks) / (courier.exchanges - first)


def all_over(crawl: Crawl, sites: int) -> bool:
    with crawl.frontier() as frontier:
        found = frontier.counts().groups
        return len(found) == sites and all(row.open == 0 for row in found)


async def test_the_cost_of_an_idle_worker_does_not_grow_with_its_sites(
    crawl_name: str, tmp_path: Any, site: Site
) -> None:
    async def cost(sites: int) -> float:
        with Server().start() as server:
            folder = tmp_path / str(sites)
            folder.mkdir()
            crawl = Crawl(server, crawl_name, folder, site)
            for number in range(sites):
                crawl.push(described(number, "schedule: {every: 1d}"), f"idle{number}")
            worker = NativeWorker(crawl.settings, NativeJob(stage=None, forever=True, repeat=True))
            async with working(worker):
                return await idle_calls(crawl, server, worker, sites)

    # Both wait for most of their time.
    costs = await asyncio.gather(cost(3), cost(30))
    # The exchange itself, and nothing else: no look at all sites, none at each of them.
    assert max(costs) <= 1.4


async def test_what_an_operator_begins_is_noticed(crawl: Crawl, site: Site) -> None:
    """A round of a site that was over, though nobody looks at it any more."""
    for number in range(8):
        crawl.push(described(number), f"idle{number}")
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True, repeat=True))):
        await until(lambda: len(site.paths()) == 8 and all_over(crawl, 8))
        with crawl.frontier() as frontier:
            frontier.new_round("idle5", 1)
        await until(lambda: site.paths().count("/idle5") == 2)
        await until(lambda: all_over(crawl, 8))
    assert len(site.paths()) == 9


async def test_a_round_is_begun_when_it_is_due(crawl: Crawl, site: Site) -> None:
    crawl.push(described(0, "schedule: {every: 2s}"), "idle0")
    crawl.push(described(1), "idle1")
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True, repeat=True))):
        await until(lambda: site.paths().count("/idle0") == 3)
    assert site.paths().count("/idle1") == 1


async def test_a_changed_schedule_is_in_force_when_the_file_has_changed(crawl: Crawl, site: Site) -> None:
    """Not only after the round that the former one has set."""
    crawl.push(described(0, "schedule: {every: 1d}"), "idle0")
    worker = NativeWorker(crawl.settings, NativeJob(stage=None, forever=True, repeat=True))
    async with working(worker):
        await until(lambda: "idle0" in worker._rounds.next_rounds.looks if hasattr(worker, "_rounds") else False)
        crawl.push(described(0, "schedule: {every: 1s}"), "idle0")
        await until(lambda: site.paths().count("/idle0") == 3)
        # And the other way round: it is put off.
        crawl.push(described(0, "schedule: {every: 2d}"), "idle0")
        known = worker._rounds.next_rounds.looks
        await until(lambda: "idle0" in known and known["idle0"].at > time.time() + 86400)


async def test_the_tables_of_many_sites_are_prepared_at_once(
    crawl: Crawl, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One connection, one lock and one transaction for all sites of a database; and one that is wrong spoils it for nobody."""
    prepared, before = [0], Store.prepare

    def counted(store: Store, tables: Any) -> None:
        listed = list(tables)
        prepared.append(len(listed))
        before(store, listed)

    monkeypatch.setattr(Store, "prepare", counted)
    for number in range(12):
        stored = described(number, f"store: {{page: {{table: many{number}, key: [title]}}}}")
        crawl.push(stored.replace("seen: round", "seen: round, fields: {title: title}"), f"idle{number}")
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))):
        await until(lambda: len(site.paths()) == 12 and all_over(crawl, 12))
    assert prepared == [0, 12]
