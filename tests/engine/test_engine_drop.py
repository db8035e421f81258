"""A site that was dropped is crawled from its beginning when it comes back."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.engine.crawling import Crawl
from tests.worker.harness.site import Site, links

from gossamer.registry import Registry

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
