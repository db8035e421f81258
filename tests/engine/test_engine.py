"""The native engine through its front door: a site file in the crawl, a worker, a real site; what was asked for, and what came
of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3

import pytest
from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site, links

from gossamer.engine.job import NativeJob
from gossamer.engine.sites import ServedSite, SiteSet
from gossamer.engine.worker import NativeWorker
from gossamer.errors import SiteError
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text
from gossamer.testing.contract.earlier_state import forget_politeness
from gossamer.testing.servers import Server

FORUM = """
    site: forum
    seeds: [SITE/list/1]
    politeness: {robots: ignore}
    layers:
      list:
        match: '^/list/(?P<page>\\d+)'
        seen: round
        follow:
          - {css: a.post, to: post, pass: [page]}
          - {css: a.next, to: list, pages: 2}
        fields: {page: {from: url, regex: '(\\d+)$', type: int}}
      post:
        match: '^/post/'
        fields:
          title: h1
          list: {from: parent.page, type: int}
"""


def forum(site: Site, lists: int = 3, posts: int = 2) -> None:
    for number in range(1, lists + 1):
        named = [f"/post/{number}-{post}" for post in range(posts)]
        body = "".join(f'<a class="post" href="{name}">p</a>' for name in named)
        if number < lists:
            body += f'<a class="next" href="/list/{number + 1}">n</a>'
        site.on(f"/list/{number}", Reply(body=body))
        for name in named:
            site.on(name, Reply(body=f"<h1>Title of {name}</h1>"))


async def test_a_site_is_crawled_from_its_seeds_until_drained(crawl: Crawl, site: Site) -> None:
    forum(site)
    crawl.push(FORUM)
    ended = await crawl.run()
    assert ended.reason == "drained"
    assert sorted(site.paths()) == sorted(
        [f"/list/{n}" for n in (1, 2, 3)] + [f"/post/{n}-{p}" for n in (1, 2, 3) for p in (0, 1)]
    )
    posts = [item for item in crawl.items("forum") if item["layer"] == "post"]
    assert {(post["title"], post["list"]) for post in posts} == {
        (f"Title of /post/{n}-{p}", n) for n in (1, 2, 3) for p in (0, 1)
    }


async def test_page_turns_end_where_the_rule_says(crawl: Crawl, site: Site) -> None:
    forum(site, lists=6, posts=0)
    crawl.push(FORUM)
    await crawl.run()
    assert site.paths() == ["/list/1", "/list/2", "/list/3"]


async def test_a_second_worker_finds_nothing_left_and_a_new_round_begins_anew(crawl: Crawl, site: Site) -> None:
    forum(site, lists=1)
    crawl.push(FORUM)
    await crawl.run()
    await crawl.run()
    assert site.paths().count("/list/1") == 1
    with crawl.frontier() as frontier:
        frontier.new_round("forum", 1)
    await crawl.run()
    # The list is seen once a round, posts once and for all.
    assert site.paths().count("/list/1") == 2
    assert site.paths().count("/post/1-0") == 1


async def test_redirects_are_followed_hop_by_hop_and_deduplicated(crawl: Crawl, site: Site) -> None:
    site.on("/list/1", links("/post/old", "/post/new", "/post/loop"))
    site.on("/post/old", Reply(301, headers={"Location": "/post/new"}))
    site.on("/post/new", Reply(body="<h1>New</h1>"))
    site.on("/post/loop", Reply(302, headers={"Location": "/post/loop2"}))
    site.on("/post/loop2", Reply(302, headers={"Location": "/post/loop"}))
    crawl.push(FORUM.replace("a.post", "a"))
    await crawl.run()
    assert site.paths().count("/post/new") == 1
    assert [reason for reason, _ in crawl.dead("forum")] == ["redirect_loop"]
    assert site.paths().count("/post/loop") == 2  # Once more, in case it has set a cookie.


async def test_what_is_the_sites_own_to_know_is_told_to_its_own_hosts_only(crawl: Crawl, site: Site) -> None:
    with Site() as other:
        site.on("/list/1", links("/post/here", "/post/moved", f"{other.url}/post/there"))
        site.on("/post/moved", Reply(302, headers={"Location": f"{other.url}/post/target"}))
        request = "request: {headers: {Authorization: Bearer 1, X-Api-Key: '2', X-Plain: '3'}, cookies: {sid: '4'}}"
        crawl.push(
            FORUM.replace("a.post", "a").replace("robots: ignore", "robots: obey").rstrip() + f"\n    {request}\n"
        )
        await crawl.run()
        secrets = ("Authorization", "X-Api-Key", "Cookie")
        assert {tuple(visit.headers.get(name) for name in secrets) for visit in site.visits} == {
            ("Bearer 1", "2", "sid=4"),
            ("Bearer 1", "2", None),  # robots.txt is no page
        }
        assert sorted(other.paths()) == ["/post/target", "/post/there", "/robots.txt"]
        assert {tuple(visit.headers.get(name) for name in secrets) for visit in other.visits} == {(None, None, None)}
        assert {visit.headers.get("X-Plain") for visit in other.visits} == {"3"}


async def test_failures_are_tried_again_and_then_dead_letters(crawl: Crawl, site: Site) -> None:
    site.on("/list/1", links("/post/busy", "/post/broken", "/post/gone", "/post/forbidden"))
    site.on("/post/busy", Reply(500, times=1), Reply(body="<h1>at last</h1>"))
    site.on("/post/broken", Reply(500))
    site.on("/post/gone", Reply(404))
    site.on("/post/forbidden", Reply(403))
    crawl.push(FORUM.replace("a.post", "a") + "    request: {retries: 1}\n")
    await crawl.run()
    assert site.paths().count("/post/busy") == 2
    assert site.paths().count("/post/broken") == 2
    assert sorted(reason for reason, _ in crawl.dead("forum")) == ["http_500", "invalid"]
    assert crawl.counters("forum")["site/gone"] == 1
    assert "at last" in {item.get("title") for item in crawl.items("forum")}


async def test_a_throttled_host_is_left_alone_for_as_long_as_it_asks(crawl: Crawl, site: Site) -> None:
    site.on("/list/1", Reply(429, headers={"Retry-After": "1"}, times=1), links())
    crawl.push(FORUM)
    await crawl.run()
    first, second = (visit.time for visit in site.visits)
    assert second - first >= 0.9


async def test_robots_are_obeyed(crawl: Crawl, site: Site) -> None:
    site.on("/robots.txt", Reply(body="User-agent: *\nDisallow: /post/", headers={"Content-Type": "text/plain"}))
    forum(site, lists=1)
    crawl.push(FORUM.replace("robots: ignore", "robots: obey"))
    await crawl.run()
    assert site.paths() == ["/robots.txt", "/list/1"]
    assert crawl.counters("forum")["site/robots_denied"] == 2


async def test_robots_take_the_place_of_a_page_at_a_host_that_takes_one_at_a_time(crawl: Crawl, site: Site) -> None:
    forum(site, lists=1, posts=4)
    site.on("/robots.txt", Reply(404))
    crawl.push(FORUM.replace("robots: ignore", "robots: obey, concurrency: 1, delay: 0.3s"))
    await crawl.run()
    times = [visit.time for visit in site.visits]
    assert len(times) == 6
    # The clock is the site's, which may be late itself on a busy machine: that shortens one gap and lengthens another. A request that did
    # not wait would shorten the whole by 0.3.
    assert times[-1] - times[0] >= 5 * 0.3 - 0.2
    with crawl.frontier() as frontier:
        [host] = frontier.hosts([site.host])
    assert host.in_flight == 0


async def test_the_delay_that_robots_ask_for_holds_from_the_first_page_on_and_on_a_server_that_forgot_it(
    crawl: Crawl, site: Site
) -> None:
    forum(site, lists=1, posts=6)
    site.on("/robots.txt", Reply(body="User-agent: *\nCrawl-delay: 0.4", headers={"Content-Type": "text/plain"}))
    crawl.push(FORUM.replace("robots: ignore", "robots: obey, delay: 0.1s"))
    running = asyncio.ensure_future(crawl.run())
    await asyncio.to_thread(site.wait, lambda paths: len(paths) >= 4, "the second post")
    with crawl.frontier() as frontier:
        forget_politeness(frontier, "forum", site.host)
        await running
        assert frontier.hosts([site.host])[0].crawl_delay == 0.4
        assert frontier.counts().group_policies["forum"]["delay"] == 100, (
            "what was defined a moment ago is defined again"
        )
    times = [visit.time for visit in site.visits]
    assert len(times) >= 8
    # The clock is the site's, which may be late itself on a busy machine.
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.25, "0.4, not the file's 0.1"


async def test_a_page_is_asked_for_only_if_it_has_changed(crawl: Crawl, site: Site) -> None:
    site.on(
        "/list/1",
        Reply(body="<a class=post href=/post/1>1</a>", headers={"ETag": '"one"'}, times=1),
        Reply(304, body="", times=1),
        Reply(body="<p>2</p>", headers={"ETag": '"two"'}),
    )
    crawl.push(FORUM.rstrip() + "\n    schedule: {every: 0.2s}\n    request: {conditional: true}\n")
    running = asyncio.ensure_future(crawl.run(repeat=True))
    await asyncio.to_thread(site.reached, "/list/1", 4)
    running.cancel()
    await asyncio.wait([running])
    asked = [visit.headers.get("If-None-Match") for visit in site.visits if visit.path == "/list/1"][:4]
    assert asked == [None, '"one"', '"one"', '"two"']
    assert crawl.counters("forum")["site/unchanged"] == 1


async def test_records_lie_in_the_database_and_are_written_once(crawl: Crawl, site: Site) -> None:
    forum(site)
    crawl.push(FORUM + "    store: {post: {table: posts, key: [url], add: [url, round]}}\n")
    await crawl.run()
    with crawl.frontier() as frontier:
        frontier.new_round("forum", 1)
    await crawl.run()
    with sqlite3.connect(crawl.folder / "items.db") as database:
        rows = database.execute("select url, title, round from posts order by url").fetchall()
    database.close()
    assert [(url.removeprefix(site.url), title) for url, title, _ in rows] == [
        (f"/post/{n}-{p}", f"Title of /post/{n}-{p}") for n in (1, 2, 3) for p in (0, 1)
    ]
    assert {item["layer"] for item in crawl.items("forum")} == {"list"}


async def test_required_fields_that_lack_are_dead_letters(crawl: Crawl, site: Site) -> None:
    site.on("/list/1", links("/post/empty"))
    site.on("/post/empty", Reply(body="<p>nothing</p>"))
    crawl.push(FORUM.replace("a.post", "a").replace("match: '^/post/'", "match: '^/post/'\n        require: [title]"))
    await crawl.run()
    [(reason, detail)] = crawl.dead("forum")
    assert reason == "lack"
    assert "title" in detail
    assert crawl.counters("forum")["site/lack"] == 1


async def test_tasks_feed_a_site(crawl: Crawl, site: Site, valkey_server: Server, crawl_name: str) -> None:
    for number in (1, 2):
        site.on(f"/post/{number}", Reply(body=f"<h1>{number}</h1>"))
    crawl.push(FORUM.replace("seeds: [SITE/list/1]", f"seeds: [{{tasks: '{crawl_name}:tasks'}}]"))
    key = f"{crawl_name}:tasks"
    for task in (
        f"{site.url}/post/1",
        json.dumps({"url": f"{site.url}/post/2", "layer": "post", "pass": {"page": 7}}),
        json.dumps({"url": f"{site.url}/post/3", "layer": "nowhere"}),
        "not a url",
    ):
        valkey_server.call("RPUSH", key, task)
    await crawl.run()
    assert sorted(site.paths()) == ["/post/1", "/post/2"]
    assert sorted(reason for reason, _ in crawl.dead("forum")) == ["bad_task", "bad_task"]
    assert {item["list"] for item in crawl.items("forum")} == {None, 7}


async def test_sitemaps_and_feeds_are_seeds(crawl: Crawl, site: Site) -> None:
    index = f"<sitemapindex><sitemap><loc>{site.url}/map.xml</loc></sitemap></sitemapindex>"
    pages = "".join(f"<url><loc>{site.url}{path}</loc></url>" for path in ("/post/1", "/elsewhere", "/list/9"))
    site.on("/index.xml", Reply(body=index))
    site.on("/map.xml", Reply(body=f"<urlset>{pages}</urlset>"))
    site.on("/feed", Reply(body=f"<rss><channel><item><link>{site.url}/post/2</link></item></channel></rss>"))
    site.on("/broken", Reply(body="<html>no sitemap</html>"))
    for number in (1, 2):
        site.on(f"/post/{number}", Reply(body=f"<h1>{number}</h1>"))
    seeds = "seeds: [{sitemap: SITE/index.xml, pass: {page: 5}}, {feed: SITE/feed}, {sitemap: SITE/broken}]"
    crawl.push(FORUM.replace("seeds: [SITE/list/1]", seeds) + "    request: {retries: 0}\n")
    await crawl.run()
    assert sorted(site.paths()) == ["/broken", "/feed", "/index.xml", "/list/9", "/map.xml", "/post/1", "/post/2"]
    [(reason, detail)] = crawl.dead("forum")
    assert (reason, "not a sitemap" in detail) == ("invalid", True)
    posts = {
        item["url"].removeprefix(site.url): item["list"] for item in crawl.items("forum") if item["layer"] == "post"
    }
    assert posts == {"/post/1": 5, "/post/2": None}


async def test_a_changed_file_is_in_force_without_a_restart(crawl: Crawl, site: Site) -> None:
    forum(site, lists=1)
    crawl.push(FORUM)
    running = asyncio.ensure_future(crawl.run(forever=True))
    while len(crawl.items("forum")) < 3:
        await asyncio.sleep(0.05)
    site.on("/list/1", links("/post/later"))
    changed = FORUM.replace("a.post", "a").replace("title: h1", "title: {value: changed}").rstrip()
    crawl.push(changed + "\n    limits: {pages: 1000}\n")
    with crawl.frontier() as frontier:
        while frontier.counts("forum").group_policies["forum"]["max_pages"] != 1000:
            await asyncio.sleep(0.05)
        frontier.new_round("forum", 1)
    await asyncio.to_thread(site.reached, "/post/later")
    while "changed" not in {item.get("title") for item in crawl.items("forum")}:
        await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.wait([running])


async def test_a_round_that_is_asked_for_after_its_file_was_removed_never_begins(
    crawl: Crawl, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    forum(site, lists=1)
    crawl.push(FORUM)
    running = asyncio.ensure_future(crawl.run(forever=True))
    while len(crawl.items("forum")) < 3:
        await asyncio.sleep(0.05)
    with crawl.frontier() as frontier:
        frontier.drop_document("site", "site")
        frontier.new_round("forum", 1)
        while "is not served any more" not in caplog.text or frontier.counts("forum").groups[0].start != "owed":
            await asyncio.sleep(0.05)
    assert site.paths().count("/list/1") == 1
    running.cancel()
    await asyncio.wait([running])


async def test_a_worker_that_is_stopped_ends_its_pages_and_leaves_the_rest(crawl: Crawl, site: Site) -> None:
    forum(site, lists=1, posts=20)
    site.hold("/post/1-0")
    crawl.push(FORUM.replace("robots: ignore", "robots: ignore, concurrency: 1"))
    worker = NativeWorker(crawl.settings, NativeJob(stage=None))
    running = asyncio.ensure_future(worker.run())
    await asyncio.to_thread(site.reached, "/post/1-0")
    worker.stop()
    site.release("/post/1-0")
    assert (await running).reason == "shutdown"
    done = len(site.paths())
    assert done < 21
    # Nothing is held: the next worker need not wait for leases to run out.
    with crawl.frontier() as frontier:
        assert sum(lane.leased for lane in frontier.counts("forum").lanes) == 0
    await crawl.run()
    assert len(site.paths()) == len(set(site.paths())) == 21


async def test_what_a_worker_held_when_it_died_goes_to_another(crawl: Crawl, site: Site) -> None:
    forum(site, lists=1, posts=3)
    site.hold("/post/1-1")
    crawl.push(FORUM)
    running = asyncio.ensure_future(crawl.run())
    await asyncio.to_thread(site.reached, "/post/1-1")
    running.cancel()  # as good as dead: it says nothing more
    await asyncio.wait([running])
    site.release("/post/1-1")
    await crawl.run()
    titles = sorted(item["title"] for item in crawl.items("forum") if item["layer"] == "post")
    assert titles == [f"Title of /post/1-{n}" for n in range(3)]


async def test_two_workers_share_a_site(crawl: Crawl, site: Site) -> None:
    forum(site, lists=3, posts=20)
    crawl.push(FORUM)
    ends = await asyncio.gather(crawl.run(), crawl.run())
    assert {end.reason for end in ends} == {"drained"}
    assert len(site.paths()) == len(set(site.paths())) == 63


async def test_deepest_first(crawl: Crawl, site: Site) -> None:
    forum(site, lists=3, posts=4)
    crawl.push(FORUM.replace("robots: ignore", "robots: ignore, concurrency: 1"))
    await crawl.run()
    paths = site.paths()
    # A list is turned only when all posts that were known are done.
    assert paths.index("/list/2") > max(paths.index(f"/post/1-{n}") for n in range(4))
    assert paths.index("/list/3") > max(paths.index(f"/post/2-{n}") for n in range(4))


async def test_hooks_and_handlers(crawl: Crawl, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    forum(site, lists=1)
    (crawl.folder / "engine_hooks_of_a_test.py").write_text(HOOKS)
    monkeypatch.syspath_prepend(str(crawl.folder))
    names = ("before_request", "after_download", "after_extract", "before_store", "on_fail", "after_round")
    hooks = ", ".join(f"{name}: 'engine_hooks_of_a_test:{name}'" for name in names)
    text = FORUM.partition("      post:")[0] + "      post: {match: '^/post/', handler: 'engine_hooks_of_a_test:post'}"
    crawl.push(text.rstrip() + f"\n    hooks: {{{hooks}}}\n    request: {{retries: 0}}\n")
    site.on("/post/1-1", Reply(500))
    await crawl.run()
    import engine_hooks_of_a_test as told  # type: ignore[import-not-found]

    assert {visit.headers.get("X-Hook") for visit in site.visits} == {"yes"}
    [post] = [item for item in crawl.items("forum") if item["layer"] == "post"]
    assert post["title"] == "TITLE OF /POST/1-0"
    assert post["stored"] is True
    assert [reason for _, reason, _ in told.failures] == ["http_500"]
    assert told.rounds == [("forum", 0)]


HOOKS = """
failures, rounds = [], []

def before_request(ask):
    return ask._replace(headers={**ask.headers, "X-Hook": "yes"})

async def after_download(document):
    return document._replace(body=document.body.replace(b"Title", b"TITLE"))

def after_extract(document, reading):
    return reading

def before_store(record):
    record.fields["stored"] = True
    return record

def on_fail(url, reason, detail):
    failures.append((url, reason, detail))

async def after_round(site, number):
    rounds.append((site, number))

async def post(page):
    yield {"title": page.css("h1::text").get().upper()}
"""


async def test_a_hook_that_raises_is_a_dead_letter_with_its_traceback(
    crawl: Crawl, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    (crawl.folder / "engine_bad_hooks_of_a_test.py").write_text("def broken(document):\n    raise KeyError('oh')\n")
    monkeypatch.syspath_prepend(str(crawl.folder))
    forum(site, lists=1)
    crawl.push(FORUM.rstrip() + "\n    hooks: {after_download: 'engine_bad_hooks_of_a_test:broken'}\n")
    await crawl.run()
    [(reason, detail)] = crawl.dead("forum")
    assert reason == "engine"
    assert "KeyError: 'oh'" in detail


async def test_a_round_is_begun_again_by_its_schedule(crawl: Crawl, site: Site) -> None:
    forum(site, lists=1, posts=1)
    crawl.push(FORUM.rstrip() + "\n    schedule: {every: 0.5s, deadline: 1h}\n")
    running = asyncio.ensure_future(crawl.run(repeat=True))
    await asyncio.to_thread(site.reached, "/list/1", 3)
    running.cancel()
    await asyncio.wait([running])
    with crawl.frontier() as frontier:
        rounds = frontier.rounds("forum")
    assert len(rounds) >= 3
    assert {one.trigger for one in rounds if one.round > 0} == {"schedule"}
    assert all(not one.late for one in rounds)


async def test_a_crawl_without_sites_says_so(crawl: Crawl) -> None:
    with pytest.raises(SiteError, match="site push"):
        await crawl.run()
    with pytest.raises(SiteError, match="nothere"):
        await crawl.run(sites=("nothere",))


def test_a_worker_tells_which_engines_fetch_its_pages() -> None:
    book = SiteSet()
    assert book.engines == "native"
    for name, engine in (("a", "scrapy"), ("b", "native"), ("c", "scrapy")):
        (site,) = load_text(f"site: {name}\nengine: {engine}\nseeds: http://s.example/\nlayers: {{a: {{}}}}\n")
        book.put(ServedSite(compile_site(site)))
        assert book.engines == ("scrapy" if name == "a" else "native scrapy")
