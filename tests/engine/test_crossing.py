"""Links that cross sites, in one worker: functions, changed files, and sites that are gone."""

from __future__ import annotations

import sys
import types
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.native_crawl import Crawl, until, working
from tests.support.site import Site, links

from gossamer.engine.job import NativeJob
from gossamer.engine.worker import NativeWorker

LISTS = """
    site: lists
    seeds: [SITE/list]
    politeness: {robots: ignore}
    layers:
      list: {match: '^/list', seen: round, follow: [{css: a, to: details.post}]}
"""
DETAILS = """
    site: details
    politeness: {robots: ignore}
    layers:
      post: {fields: {title: title}}
"""


@pytest.fixture
def site(site: Site) -> Site:
    return site.on("/list", links("/post/1", "/post/2", "/post/2#a"))


async def test_links_of_functions_lead_to_sites_that_nobody_serves_yet(
    crawl: Crawl, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pages(page: Any) -> AsyncIterator[Any]:
        for url in page.css("a::attr(href)").getall():
            yield page.follow(url, to="details.post")

    module = types.ModuleType("engine_hooks_of_a_test")
    pages.__module__ = module.__name__
    module.pages = pages  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    handled = "{match: '^/list', handler: 'engine_hooks_of_a_test:pages'}"
    crawl.push(LISTS.replace("{match: '^/list', seen: round, follow: [{css: a, to: details.post}]}", handled))
    crawl.push(DETAILS, "details")
    await crawl.run(sites=("lists",))
    assert site.paths() == ["/list"]
    assert crawl.dead("lists") == []
    await crawl.run(sites=("details",))
    assert sorted(item["title"] for item in crawl.items("details")) == ["/post/1", "/post/2"]


async def test_the_file_of_the_other_site_decides_also_after_it_has_changed(crawl: Crawl, site: Site) -> None:
    crawl.push(LISTS)
    crawl.push(DETAILS + "    identity: {fragment: true}\n", "details")
    async with working(NativeWorker(crawl.settings, NativeJob(sites=("lists",), stage=None, forever=True))):
        await until(lambda: queued(crawl) == 3)
        # Its pages are requested in another way now: these are others.
        crawl.push(DETAILS.replace("{fields", "{request: {method: POST, form: {a: b}}, fields"), "details")
        with crawl.frontier() as frontier:
            frontier.new_round("lists", 1)
        await until(lambda: queued(crawl) == 5)
    await crawl.run(sites=("details",))
    assert sorted(visit.method for visit in site.visits if visit.path == "/post/1") == ["GET", "POST"]


def queued(crawl: Crawl) -> int:
    with crawl.frontier() as frontier:
        return sum(lane.queued for lane in frontier.counts().lanes if lane.lane == "details.post")


async def test_what_leads_to_a_site_that_is_dropped_is_a_dead_letter(crawl: Crawl, site: Site) -> None:
    crawl.push(LISTS)
    crawl.push(DETAILS, "details")
    site.hold("/list")
    async with working(NativeWorker(crawl.settings, NativeJob(sites=("lists",), stage=None, forever=True))):
        await until(lambda: "/list" in site.paths())
        with crawl.frontier() as frontier:
            frontier.drop_document("site", "details")
            for _ in frontier.drop_group("details"):
                pass
        site.release("/list")
        await until(lambda: len(crawl.dead("lists")) == 2)
    assert set(crawl.dead("lists")) == {("unknown_lane", "no lane details.post")}
