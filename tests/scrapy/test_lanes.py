"""Lanes in Python spiders: how requests join them, who serves them, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from tests.scrapy.spiders.laned import Laned, Ordered, Staged
from tests.support.site import Reply, Site
from tests.support.workers.variants import FIRST, LAST, Variant, some
from tests.support.workers.workers import Workers, left, of

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

LISTS = {f"/list/{n}" for n in range(1, 5)}
POSTS = {f"/post/{n}{post}" for n in range(1, 5) for post in range(3)}
STAGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"lanes": "main,list"}, {"lanes": "post"}),
    ({"settings": {"GOSSAMER_LANES": "main, list"}}, {"settings": {"GOSSAMER_LANES": "post"}}),
    ({"settings": {"GOSSAMER_LANES": "list"}}, {"settings": {"GOSSAMER_STAGE": "posts"}}),
]


@pytest.mark.parametrize("variant", some((FIRST, "asyncio"), (LAST, "uvloop")), ids=str)
def test_a_request_is_in_the_lane_it_names_and_its_children_are_not(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    site.on("/redirected", Reply(302, headers={"Location": "/redirected/to"}))
    site.on("/retried", Reply(500, times=1))
    with Workers(valkey_server.url, crawl_name, variant) as workers:
        worker = workers.start(Laned, site=site.url)
        assert worker.reason() == "finished"
        settled = [event for event in worker.events if event.kind == "settle"]
        lanes = {(event.what, event.more["lane"].removeprefix("laned.")) for event in settled}
        assert lanes == {
            ("/start", "main"), ("/by-meta", "post"), ("/by-lane", "post"), ("/by-lane-request", "comment"),
            ("/by-decorator", "decorated"), ("/by-decorator-with-policy", "deep"), ("/meta-before-decorator", "comment"),
            ("/by-meta/child", "main"), ("/by-meta/follow", "main"), ("/own-slot", "main"), ("/own-slot/child", "main"),
            ("/own-slot/follow", "main"), ("/redirected", "post"), ("/redirected/to", "post"), ("/retried", "post"),
            ("/after", "main"), ("/always", "always"),
        }  # fmt: skip
        hosts = {event.what: event.more["host"] for event in settled}
        assert site.paths().count("/always") == 4, "in a lane that remembers nothing there are no duplicates"
        own = {path for path, host in hosts.items() if host != site.host}
        assert own == {"/own-slot", "/own-slot/child"}, "only a slot of the spider's own goes on with the meta"
        assert worker.stats()["scheduler/unserializable"] == 2
        assert "no lane 'nowhere'" in worker.log
        with workers.frontier() as frontier:
            foreign = [letter for letter in left(frontier, Laned.name).dead if letter.lane != "laned.main"]
            deep = frontier.counts(Laned.name).lane_policies["laned.deep"]
        assert deep["tier"] == 5, "a lane with a policy may be a decorator"
        assert [letter.lane for letter in foreign] == ["others.lane"], "a lane of another group that is not there"
        assert worker.stats()["scheduler/refused/unknown_lane"] == 1


def test_the_site_sees_tiers_priorities_and_order(site: Site, valkey_server: Server, crawl_name: str) -> None:
    with Workers(valkey_server.url, crawl_name, CONCURRENT_REQUESTS=1) as workers:
        assert workers.start(Ordered, site=site.url).reason() == "finished"
        fifo, lifo = (3, 1, 2, 4), (3, 2, 1, 4)
        assert site.paths() == [
            "/start", *(f"/first/{n}" for n in fifo), *(f"/lifo/{n}" for n in lifo), *(f"/late/{n}" for n in fifo)
        ]  # fmt: skip


@pytest.mark.parametrize("stages", STAGES, ids=["argument", "lanes", "stage"])
def test_workers_serve_the_lanes_they_were_given(
    stages: tuple[Mapping[str, Any], Mapping[str, Any]], site: Site, valkey_server: Server, crawl_name: str
) -> None:
    with Workers(valkey_server.url, crawl_name) as workers:
        lists, posts = (workers.start(Staged, site=site.url, **given) for given in stages)
        assert [lists.reason(), posts.reason()] == ["finished"] * 2
        assert (set(of(lists.events, "leased")), set(of(posts.events, "leased"))) == (LISTS, POSTS)
        with workers.frontier() as frontier:
            assert left(frontier, Staged.name).ids() == Counter(LISTS | POSTS)


def test_a_worker_tells_which_lanes_it_serves(site: Site, valkey_server: Server, crawl_name: str) -> None:
    """So that people are told of those that no worker serves."""
    site.hold("/list/1")
    with Workers(valkey_server.url, crawl_name) as workers:
        worker = workers.start(Staged, site=site.url, settings={"GOSSAMER_LANES": "main,list", "GOSSAMER_STAGE": ""})
        site.reached("/list/1")
        with workers.frontier() as frontier:
            [told] = frontier.workers()
        site.release("/list/1")
        worker.kill()
    assert (told.groups, told.lanes, told.stage) == (("staged",), ("staged.main", "staged.list"), None)


def test_a_lane_that_the_spider_does_not_have_is_refused(valkey_server: Server, crawl_name: str) -> None:
    with Workers(valkey_server.url, crawl_name) as workers:
        worker = workers.start(Staged, lanes="post,nowhere")
        assert worker.reason() == "PolicyError"
        assert "no lane 'nowhere'" in worker.log
        assert "Traceback" not in worker.log
