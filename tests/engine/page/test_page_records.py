"""Pages that are fetched again by themselves: what the native engine tells the frontier of each visit."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from itertools import pairwise

import pytest
from tests.support.native_crawl import Crawl, until, working
from tests.support.site import Reply, Site, links

from gossamer.engine.job import NativeJob
from gossamer.engine.page.reader import signature
from gossamer.engine.worker import NativeWorker
from gossamer.frontier import codec
from gossamer.model import PageEvent, PageInfo, PageState
from gossamer.model.page import NOTHING, PageRequest, Record, Response
from gossamer.testing.servers import Server

SITE = """
    site: forum
    seeds: [SITE/list]
    politeness: {robots: ignore, concurrency: 8}
    request: {conditional: true, retries: 0}
    layers:
      list: {match: '^/list', seen: round, follow: [{css: a, to: page}]}
      page: {match: '^/page/', revisit: {every: 1s, gone: 2}, fields: {title: title}}
"""
PAGES = [f"/page/{name}" for name in ("steady", "changing", "tagged", "missing", "broken", "moved")]


def records(crawl: Crawl) -> dict[str, PageInfo]:
    """By path."""
    with crawl.frontier() as frontier:
        cursor, rows = frontier.scan_page_records("forum.page", 0, limit=1000)
        assert cursor == ""
    urls = {str(codec.decode_request(row.payload)["url"]): row for row in rows}
    return {url.removeprefix(crawl.site.url): row for url, row in urls.items()}


def events(record: PageInfo) -> list[PageEvent]:
    return [event for event, _ in record.trail]


@pytest.mark.timeout(120)
async def test_pages_of_a_layer_that_is_gone_go_over_to_the_one_that_matches_them(crawl: Crawl, site: Site) -> None:
    """They were visited by their old records for ever, beside the visits of the new layer; what no layer matched left a dead letter each time."""
    site.on("/list", links("/page/a", "/page/old"))
    crawl.push(SITE)
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, repeat=True))):
        await until(lambda: min(map(site.paths().count, ("/page/a", "/page/old"))) >= 2)
        crawl.push(
            SITE.replace("to: page", "to: thread").replace("page: {match: '^/page/'", "thread: {match: '^/page/a'")
        )
        await until(lambda: crawl.dead("forum"))
        with crawl.frontier() as frontier:
            await until(lambda: len(frontier.scan_page_records("forum.thread", 0)[1]) == 1)
        before = site.paths().count("/page/a")
        await until(lambda: site.paths().count("/page/a") >= before + 4)
        crawl.push(SITE)
        await until(lambda: crawl.round("forum") == 0 and records(crawl)["/page/a"].interval == 1)
    times = [visit.time for visit in site.visits if visit.path == "/page/a"]
    assert all(later - earlier > 0.9 for earlier, later in pairwise(times[:before])), "by the old layer"
    assert all(later - earlier > 0.9 for earlier, later in pairwise(times[before : before + 4])), "once, by the new one"
    assert [reason for reason, _ in crawl.dead("forum")] == ["unknown_layer"]


@pytest.mark.timeout(120)
async def test_a_page_that_the_new_layer_has_already_is_not_fetched_once_more(crawl: Crawl, site: Site) -> None:
    """It was, whatever its record there says, when it was due in the layer that is gone."""
    site.on("/list", links("/page/a"))
    crawl.push(SITE)
    with crawl.frontier() as frontier:
        async with working(NativeWorker(crawl.settings, NativeJob(stage=None, repeat=True))):
            await until(lambda: site.paths().count("/page/a") >= 2)
            frontier.pause(lane="forum.page")
            await until(lambda: records(crawl)["/page/a"].state is PageState.SCHEDULED)
            before = site.paths().count("/page/a")
            renamed = SITE.replace("to: page", "to: thread").replace("page: {match", "thread: {match")
            crawl.push(renamed.replace("every: 1s", "every: 1h"))
            await until(lambda: any(lane.lane == "forum.thread" for lane in frontier.counts("forum").lanes))
            frontier.new_round("forum", 1)
            await until(lambda: site.paths().count("/page/a") == before + 1)
            frontier.resume(lane="forum.page")
            await until(lambda: events(records(crawl)["/page/a"])[-1] is PageEvent.REPLACED)
            await until(lambda: frontier.drained("forum").drained)
    assert site.paths().count("/page/a") == before + 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kept", ["", "page_records: true, "])
async def test_what_waits_in_a_layer_that_is_gone_is_fetched_by_the_one_that_matches_it(
    crawl: Crawl, site: Site, kept: str
) -> None:
    """Also where both have one memory, in which the page is seen."""
    site.on("/list", links("/page/a", "/page/b"))
    site.hold("/list")
    file = SITE.replace("revisit: {every: 1s, gone: 2}, ", kept)
    crawl.push(file)
    with crawl.frontier() as frontier:
        async with working(NativeWorker(crawl.settings, NativeJob(stage=None, repeat=True))):
            await until(lambda: any(lane.lane == "forum.page" for lane in frontier.counts().lanes))
            frontier.pause(lane="forum.page")
            site.release("/list")
            await until(lambda: sum(lane.queued for lane in frontier.counts("forum").lanes) == 2)
            crawl.push(file.replace("to: page", "to: thread").replace("page: {match", "thread: {match"))
            await until(lambda: any(lane.lane == "forum.thread" for lane in frontier.counts("forum").lanes))
            frontier.resume(lane="forum.page")
            await until(lambda: {"/page/a", "/page/b"} <= set(site.paths()) and frontier.drained("forum").drained)
    assert sorted(path for path in site.paths() if path.startswith("/page/")) == ["/page/a", "/page/b"]


@pytest.mark.timeout(120)
async def test_pages_are_visited_again_and_their_records_say_what_was_found(crawl: Crawl, site: Site) -> None:
    """One crawl whose pages do all that pages do. The list is read once: what is visited again comes from the records."""
    site.on("/list", links(*PAGES))
    site.on("/page/changing", *(Reply(body=f"<title>{n}</title>", times=1) for n in range(4)))
    site.on("/page/tagged", Reply(headers={"ETag": '"1"'}, times=1), Reply(304, b"", {"ETag": '"1"'}))
    site.on("/page/missing", Reply(times=1), Reply(404))
    site.on("/page/broken", Reply(500))
    site.on("/page/moved", Reply(302, headers={"Location": "/page/target"}))
    crawl.push(SITE)
    job = NativeJob(stage=None, repeat=True)
    async with working(NativeWorker(crawl.settings, job)):
        await until(lambda: min(map(site.paths().count, ("/page/steady", "/page/tagged", "/page/target"))) >= 4)
        await until(lambda: records(crawl)["/page/missing"].state is PageState.GONE)
    assert site.paths().count("/list") == 1
    found = records(crawl)
    assert set(found) == {*PAGES, "/page/target"}
    for path in found:
        times = [visit.time for visit in site.visits if visit.path == path]
        assert all(later - earlier > 0.95 for earlier, later in pairwise(times)), (
            f"{path} was fetched before it was due"
        )
    assert (found["/page/steady"].status, found["/page/steady"].changes, found["/page/steady"].interval) == (200, 0, 1)
    assert found["/page/changing"].changes >= 2
    assert found["/page/tagged"].status == 304
    assert PageEvent.UNCHANGED in events(found["/page/tagged"])
    assert [visit.headers.get("If-None-Match") for visit in site.visits if visit.path == "/page/tagged"][1] == '"1"'
    assert site.paths().count("/page/missing") == 3
    assert (found["/page/missing"].misses, found["/page/missing"].due) == (2, 0)
    assert PageEvent.FAILED in events(found["/page/broken"])
    assert found["/page/broken"].interval > 1
    assert PageEvent.REPLACED in events(found["/page/moved"])
    assert [reason for reason, _ in crawl.dead("forum")] == ["http_500"] * site.paths().count("/page/broken")


@pytest.mark.timeout(120)
async def test_a_page_that_redirects_at_each_visit_is_not_counted_as_left_out(crawl: Crawl, site: Site) -> None:
    site.on("/list", links("/page/moved"))
    site.on("/page/moved", Reply(302, headers={"Location": "/page/target"}))
    crawl.push(SITE.replace("{every: 1s, gone: 2}", "{every: 1s, min: 1s, max: 1s, adaptive: true}"))
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, repeat=True))):
        await until(lambda: site.paths().count("/page/moved") >= 4)
    assert "site/redirected_seen/page" not in crawl.counters("forum")


@pytest.mark.timeout(120)
async def test_another_visit_is_of_no_task_and_of_the_present_round(
    crawl: Crawl, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    """The end of a task was reported with every visit. What it redirected to was visited with it, besides its own visits. Rows named the
    round of the first visit."""
    site.on("/page/moved", Reply(302, headers={"Location": "/page/target"}))
    file = SITE.replace("seeds: [SITE/list]", f"seeds: [{{tasks: '{crawl_name}:tasks'}}]")
    crawl.push(file + "    store: {page: {table: pages, key: [url], add: [url, round]}}\n")
    for name in ("moved", "plain"):
        report = {"list": f"{crawl_name}:ended", "key": name, "try": 1}
        task = json.dumps({"url": f"{site.url}/page/{name}", "report": report})
        valkey_server.call("RPUSH", f"{crawl_name}:tasks", task)

    def rounds() -> set[int]:
        with closing(sqlite3.connect(crawl.folder / "items.db")) as database:
            return {number for (number,) in database.execute("select round from pages")}

    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, repeat=True))):
        await until(lambda: min(map(site.paths().count, ("/page/plain", "/page/target"))) >= 3)
        with crawl.frontier() as frontier:
            frontier.new_round("forum", 1)
        await until(lambda: rounds() == {1})
    times = [visit.time for visit in site.visits if visit.path == "/page/target"]
    assert all(later - earlier > 0.95 for earlier, later in pairwise(times)), "it was fetched before it was due"
    ended = valkey_server.call("LRANGE", f"{crawl_name}:ended", 0, -1)
    assert isinstance(ended, list)
    assert sorted(json.loads(str(one))["key"] for one in ended) == ["moved", "plain"]


@pytest.mark.parametrize("kept", ["", "page_records: true, "])
async def test_a_page_that_failed_is_found_again_by_a_list_that_has_not_changed(
    crawl: Crawl, site: Site, kept: str
) -> None:
    """It leads where it led when it was read."""
    listed = Reply(body=links("/page/a").body, headers={"ETag": '"1"'}, times=1)
    site.on("/list", listed, Reply(304, body=""))
    site.on("/page/a", Reply(500, times=1))
    crawl.push(SITE.replace("revisit: {every: 1s, gone: 2}, ", kept))
    await crawl.run()
    with crawl.frontier() as frontier:
        frontier.new_round("forum", 1)
    await crawl.run()
    assert [visit.headers.get("If-None-Match") for visit in site.visits if visit.path == "/list"] == [None, '"1"']
    assert [item["title"] for item in crawl.items("forum")] == ["/page/a"]


def test_a_page_is_known_by_its_records_then_its_links_then_its_body() -> None:
    one, other = (Response("http://x/", 200, {}, body) for body in (b"12:00", b"12:01"))
    record = [Record("page", {"title": "a", "votes": 3})]
    linked = [PageRequest("http://x/1", "GET", NOTHING, NOTHING, b"", "page", number) for number in (1, 2)]
    assert signature(one, record, []) == signature(other, record, linked)
    assert signature(one, record, []) != signature(one, [Record("page", {"title": "a", "votes": 4})], [])
    assert signature(one, [], linked) == signature(other, [], linked[::-1])
    assert signature(one, [], linked) != signature(one, [], linked[:1])
    assert signature(one, [], []) != signature(other, [], [])
