"""A site that was dropped is crawled from its beginning when it comes back; what was dropped with a lane comes back when it is found."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.native_crawl import Crawl, until, working
from tests.support.site import Site, links

from gossamer.engine.job import NativeJob
from gossamer.engine.rounds.rounds import GONE
from gossamer.engine.worker import NativeWorker
from gossamer.registry import Registry
from gossamer.testing.servers import Server

SITE = """
    site: pages
    seeds: [SITE/list]
    politeness: {robots: ignore}
    layers:
      list: {match: '^/list', seen: SEEN, follow: [{css: a, to: page}]}
      page: {match: '^/page/', seen: SEEN, fields: {title: title}}
"""
PAGES = ["/list", *(f"/page/{number}" for number in range(12))]


@pytest.mark.parametrize("seen", ["forever", "round", "never"])
@pytest.mark.parametrize("how", ["group", "site"])
async def test_it_is_fetched_again(crawl: Crawl, site: Site, seen: str, how: str) -> None:
    site.on("/list", links(*PAGES[1:]))
    for times in (1, 2, 3):
        crawl.push(SITE.replace("SEEN", seen))
        async with asyncio.timeout(90):
            assert (await crawl.run()).reason == "drained"
        assert Counter(site.paths()) == Counter(PAGES * times)
        with crawl.frontier() as frontier:
            if how == "site":
                list(Registry(frontier).remove("site", who="me"))
                list(Registry(frontier).drop("pages"))
            else:
                list(frontier.drop_group("pages"))
            assert frontier.counts().groups == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["group drop pages", "site remove site --drop"])
def test_the_commands_do_so(site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path, how: str) -> None:
    """With memories for good, so that a second crawl alone fetches nothing but its seed."""
    place = Place(tmp_path, valkey_server, crawl_name)
    site.on("/list", links(*PAGES[1:]))
    text = SITE.replace("SITE", site.url).replace("SEEN", "forever")
    file = place.write(text)
    if how.startswith("site"):
        place.run("site", "push", file)
    assert place.crawl(file)["sites"][0]["pages"] == len(PAGES)
    place.run(*how.split(), "--yes")
    [told] = place.crawl(file)["sites"]
    assert (told["drained"], told["round"], told["pages"]) == (True, 0, len(PAGES))
    assert Counter(site.paths()) == Counter(PAGES * 2)


@pytest.mark.timeout(120)
async def test_a_worker_that_serves_it_crawls_it_again_when_somebody_wants_it(
    crawl: Crawl, site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, valkey_server, crawl_name)
    site.on("/list", links(*PAGES[1:]))
    crawl.push(SITE.replace("SEEN", "forever"))

    def is_over() -> bool:
        with crawl.frontier() as frontier:
            known = bool(frontier.counts("pages").groups)
            return known and any(info.ended is not None for info in frontier.rounds("pages", 1))

    worker = NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))
    async with working(worker):
        for times in (1, 2):
            await until(is_over)
            assert Counter(site.paths()) == Counter(PAGES * times)
            _, beside = await asyncio.to_thread(place.said, "group", "drop", "pages", "--yes")
            assert "`gossamer round new pages` crawls it from its beginning" in beside
            await until(lambda: worker._rounds.over and GONE in worker._rounds._over.values())
            if times == 1:
                assert "round 0 of pages begins" in await asyncio.to_thread(place.run, "round", "new", "pages")
        await asyncio.to_thread(place.run, "site", "remove", "site", "--drop", "--yes")
        _, beside = await asyncio.to_thread(lambda: place.said("round", "new", "pages", code=2))
        assert "there is no group 'pages'" in beside


@pytest.mark.timeout(300)
def test_what_a_dropped_lane_held_is_fetched_when_it_is_found_again(
    site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, valkey_server, crawl_name)
    site.on("/list", links(*PAGES[1:]))
    text = SITE.replace("SITE", site.url).replace("SEEN", "forever")
    place.crawl(place.write(text + "    limits: {pages: 5}\n"))
    fetched = Counter(site.paths())
    assert fetched.total() == 5
    place.run("lane", "drop", "pages.page", "--yes")
    [told] = place.crawl(place.write(text))["sites"]
    assert (told["drained"], told["left"]) == (True, 0)
    assert set(site.paths()) == set(PAGES), "what was dropped was found again"
    assert Counter(site.paths()) - Counter(PAGES) == Counter(["/list"]), "what was fetched was not fetched again"
