"""Visits of the native engine that must not end as they seem to: redirects, conditions, secrets, hosts that are not there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.native_crawl import Crawl, until, working
from tests.support.site import Reply, Site, links

from gossamer.engine.job import NativeJob
from gossamer.engine.sites import ServedSite
from gossamer.engine.trial.trial import LayerChoice, Trial
from gossamer.engine.worker import NativeWorker
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text
from gossamer.testing.servers import Server

SITE = """
    site: pages
    seeds: [SITE/list]
    politeness: {robots: ignore}
    layers:
      list: {match: '^/list', seen: round, follow: [{css: a, to: page}]}
      page: {match: '^/page/', fields: {title: title}}
"""
CONDITIONAL = SITE + "    request: {conditional: true}\n"
TAGGED = {"ETag": '"one"'}
TITLED = Reply(body="<title>t</title>")
LOST = "The lease of a page was lost"


def endless(crawl: Crawl) -> NativeWorker:
    return NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))


def next_round(crawl: Crawl, number: int) -> None:
    with crawl.frontier() as frontier:
        frontier.new_round("pages", number)


def drained(crawl: Crawl) -> bool:
    with crawl.frontier() as frontier:
        return frontier.drained("pages").drained


def conditions(site: Site, path: str) -> list[str | None]:
    return [visit.headers.get("If-None-Match") for visit in site.visits if visit.path == path]


# Redirects.


async def test_a_seed_that_is_redirected_is_followed_in_every_round(crawl: Crawl, site: Site) -> None:
    """Although its target was seen, as the seed itself was."""
    site.on("/page/old", Reply(301, headers={"Location": "/page/new"}))
    crawl.push(SITE.replace("SITE/list", "SITE/page/old"))
    await crawl.run()
    next_round(crawl, 1)
    await crawl.run()
    assert site.paths() == ["/page/old", "/page/new"] * 2


async def test_a_page_that_redirects_to_a_list_leaves_the_list_to_be_read(crawl: Crawl, site: Site) -> None:
    """What is sold out often leads to its list: the list is not seen by that."""
    site.on("/list", Reply(body="<a href=/page/sold>x</a><a class=next href=/list/2>next</a>"))
    site.on("/page/sold", Reply(302, headers={"Location": "/list/3"}))
    site.on("/page/other", Reply(302, headers={"Location": "/list/3"}))
    site.on("/list/2", Reply(body="<a href=/page/other>x</a><a class=next href=/list/3>next</a>"))
    site.on("/list/3", Reply(body="<a href=/page/last>x</a>"))
    rules = "[{css: 'a:not(.next)', to: page}, {css: a.next, to: list, pages: 0}]"
    text = SITE.replace("seen: round, ", "").replace("[{css: a, to: page}]", rules)
    crawl.push(text)
    await crawl.run()
    assert site.paths().count("/page/last") == 1
    assert site.paths().count("/list/3") == 2  # For both that lead there, and as a list.
    assert [item["url"] for item in crawl.items("pages")] == [f"{site.url}/page/last"]
    assert crawl.counters("pages")["site/redirected/page"] == 2


async def test_a_page_that_redirects_to_another_layer_is_read_there_once(crawl: Crawl, site: Site) -> None:
    """As a search with one result leads to it. Seeds are followed in every round, over other redirects, and back again."""
    site.on("/list", Reply(302, headers={"Location": "/list/found"}))
    site.on("/list/found", Reply(302, headers={"Location": "/page/1"}))
    site.on("/list/round", Reply(302, headers={"Location": "/page/round"}))
    site.on("/page/round", Reply(302, headers={"Location": "/list/there"}))
    site.on("/list/there", Reply(body="<a href=/page/1>x</a>"))
    site.on("/page/1", Reply(body="<title>one</title>"))
    crawl.push(
        SITE.replace("[SITE/list]", "[{url: SITE/list, pass: {word: w}}, SITE/list/round]").replace(
            "title: title", "title: title, word: {from: parent.word}"
        )
    )
    await crawl.run()
    [item] = crawl.items("pages")
    assert (item["layer"], item["url"], item["title"]) == ("page", f"{site.url}/page/1", "one")
    counters = crawl.counters("pages")
    assert counters["site/redirected/list"] == 2
    assert counters["site/seeds_read"] == 2
    before = site.paths().count("/page/1")
    next_round(crawl, 1)
    await crawl.run()
    assert site.paths().count("/page/1") > before


async def test_a_trial_says_that_a_page_redirects_to_another_layer(site: Site) -> None:
    site.on("/page/sold", Reply(302, headers={"Location": "/list"}))
    site.on("/list", links("/page/1"))
    (spec,) = load_text(SITE.replace("SITE", site.url))
    trial = Trial()
    try:
        tried = await trial.fetch(
            ServedSite(compile_site(spec)), LayerChoice("page", "as asked"), f"{site.url}/page/sold"
        )
    finally:
        await trial.close()
    assert tried.reading is None
    assert tried.failure == "it redirected to a page of the layer list, which is read there: page has nothing of it"


async def test_two_redirects_into_a_list_leave_it_to_be_read(crawl: Crawl, site: Site) -> None:
    site.on("/list", Reply(body="<a href=/page/sold>x</a>"))
    site.on("/page/sold", Reply(302, headers={"Location": "/list/2"}))
    site.on("/list/2", Reply(302, headers={"Location": "/list/3"}))
    site.on("/list/3", Reply(body="<a href=/page/last>x</a>"))
    crawl.push(SITE.replace("seen: round, ", ""))
    await crawl.run()
    assert [item["url"] for item in crawl.items("pages")] == [f"{site.url}/page/last"]
    assert crawl.counters("pages")["site/redirected/page"] == 1


async def test_a_page_of_a_layer_that_its_url_does_not_decide_stays_in_it(crawl: Crawl, site: Site) -> None:
    """As a front page that redirects to what looks like an article, or a link with `to`."""
    site.on("/", Reply(302, headers={"Location": "/page/start"}))
    site.on("/page/start", Reply(body="<a href=/page/1>x</a>"))
    crawl.push(SITE.replace("SITE/list", "SITE/"))
    await crawl.run()
    assert sorted(item["url"] for item in crawl.items("pages")) == [f"{site.url}/page/1"]


async def test_a_page_that_redirects_to_its_longer_url_stays_in_its_layer_beside_one_for_all_pages(
    crawl: Crawl, site: Site
) -> None:
    """The pattern for all pages fits more of /page/1-title than that of its own layer. Its two links make one record."""
    site.on("/list", links("/page/1", "/page/1-title", "/page/2", "/page/3"))
    site.on("/page/1", Reply(301, headers={"Location": "/page/1-title"}))
    site.on("/page/1-title", Reply(body="<title>one</title>"))
    site.on("/page/2", Reply(302, headers={"Location": "/about"}))
    site.on("/about", Reply(body="<title>about</title>"))
    site.on("/page/3", Reply(301, headers={"Location": "/page/3-title"}))
    site.on("/page/3-title", Reply(body="<title>three</title>"))
    crawl.push(SITE.replace("'^/page/'", r"'^/page/\d+'") + "      any: {match: '.*', fields: {title: title}}\n")
    await crawl.run()
    items = [(item["layer"], item["title"]) for item in crawl.items("pages")]
    assert sorted(items) == [("any", "about"), ("page", "one"), ("page", "three")]
    assert crawl.counters("pages")["site/redirected/page"] == 1


async def test_a_page_that_leads_to_itself_by_way_of_another_one_is_read(crawl: Crawl, site: Site) -> None:
    """As sites do that begin a session on a page of their own, which sends the visitor back; it may lie on another host."""
    site.on("/list", links("/page/1", "/page/2", "/page/3"))
    for number, cookie in ((1, {"Set-Cookie": "session=1"}), (2, {})):
        begin = Reply(302, headers={"Location": f"/begin?for={number}", "Set-Cookie": "test=1"}, times=1)
        site.on(f"/page/{number}", begin, Reply(body=f"<title>{number}</title>"))
        site.on(f"/begin?for={number}", Reply(302, headers={"Location": f"/page/{number}", **cookie}))
    site.on("/page/3", Reply(302, headers={"Location": "/for/ever"}))
    site.on("/for/ever", Reply(302, headers={"Location": "/page/3"}))
    crawl.push(SITE)
    await crawl.run()
    assert sorted(item["title"] for item in crawl.items("pages")) == ["1", "2"]
    assert [reason for reason, _ in crawl.dead("pages")] == ["redirect_loop"]


async def test_pages_that_are_counted_go_on_where_page_1_redirects_to_the_first(crawl: Crawl, site: Site) -> None:
    """Also where another page of them, which was linked as well, leads to page 1 before the first does."""
    site.on("/list?page=1", Reply(301, headers={"Location": "/list"}))
    for number, path in ((1, "/list"), (2, "/list?page=2"), (3, "/list?page=3")):
        site.on(path, links(f"/page/{number}"))
    site.on("/list?page=4", Reply(301, headers={"Location": "/list"}))
    rules = "[{css: a, to: page}, {url: '/list?page={turn}', to: list, pages: 0}]"
    crawl.push(SITE.replace("[{css: a, to: page}]", rules).replace("[SITE/list]", "[SITE/list?page=3, SITE/list]"))
    await crawl.run()
    assert sorted(item["url"] for item in crawl.items("pages")) == [f"{site.url}/page/{one}" for one in (1, 2, 3)]
    assert [visit.target for visit in site.visits if visit.path == "/list"].count("/list") == 2


async def test_rules_with_the_same_links_lead_to_the_layers_of_both(crawl: Crawl, site: Site) -> None:
    site.on("/list", Reply(body="<a href=/page/1>x</a>"))
    site.on("/page/1", Reply(body="<title>t</title><h1>h</h1>"))
    text = SITE.replace("[{css: a, to: page}]", "[{css: a, to: page}, {css: a, to: head}]")
    crawl.push(text + "      head: {fields: {head: h1}}\n")
    await crawl.run()
    found = [(item["layer"], item.get("title") or item.get("head")) for item in crawl.items("pages")]
    assert sorted(found) == [("head", "h"), ("page", "t")]
    assert "site/contested/list.follow[1]" not in crawl.counters("pages")


async def test_links_of_two_rules_for_two_layers_are_counted(crawl: Crawl, site: Site) -> None:
    """The second gets none of those that the first has taken."""
    site.on("/list", Reply(body="<a href=/page/1>x</a><a class=next href=/list/2>next</a>"))
    text = SITE.replace("seen: round, ", "").replace("to: page}]", "to: page}, {css: a.next, to: list, pages: 0}]")
    crawl.push(text)
    await crawl.run()
    assert crawl.counters("pages")["site/contested/list.follow[1]"] == 1
    assert site.paths().count("/list/2") == 1


async def test_what_is_known_of_a_page_says_nothing_about_where_it_is_redirected_to(crawl: Crawl, site: Site) -> None:
    body = links("/page/1").body
    site.on("/list", Reply(body=body, headers=TAGGED, times=1), Reply(302, headers={"Location": "/list/new"}))
    site.on("/list/new", Reply(body=body))
    site.on("/page/1", TITLED)
    crawl.push(CONDITIONAL)
    async with working(endless(crawl)):
        await until(lambda: conditions(site, "/list") and drained(crawl))
        next_round(crawl, 1)
        await asyncio.to_thread(site.reached, "/list/new")
    assert conditions(site, "/list") == [None, '"one"']
    assert conditions(site, "/list/new") == [None]


async def test_what_a_link_sends_goes_along_to_the_layer_that_its_page_redirects_to(
    crawl: Crawl, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cookies as its headers, with the values of the variables in them."""
    monkeypatch.setenv("SITE_SHOP", "a")  # Written with \\x53, since the address of the site stands for SITE.
    site.on("/list", links("/search/1"))
    site.on("/search/1", Reply(302, headers={"Location": "/page/1"}))
    rules = "[{css: a, to: search, cookies: {age: '18'}, headers: {X-Shop: \"${\\x53ITE_SHOP}\"}}]"
    search = "search: {match: '^/search/', follow: [{css: a}]}"
    crawl.push(SITE.replace("[{css: a, to: page}]", rules).replace("page: {", f"{search}\n      page: {{"))
    await crawl.run()
    sent = [(visit.headers.get("X-Shop"), visit.headers.get("Cookie")) for visit in site.visits][1:]
    assert sent == [("a", "age=18")] * 3


# Conditions.


async def test_a_page_with_links_that_were_too_deep_is_fetched_whole(crawl: Crawl, site: Site) -> None:
    """In the next round it is found a step earlier, and what it leads to may be fetched."""
    site.on("/list", links("/hub/1"))
    site.on("/hub/1", links("/hub/2"))
    site.on("/hub/2", Reply(body=links("/page/1").body, headers=TAGGED))
    hub = "hub: {match: '^/hub/', seen: round, follow: [{css: a}]}"
    text = CONDITIONAL.replace("page:", f"{hub}\n      page:").replace("{css: a, to: page}", "{css: a, to: hub}")
    crawl.push(f"{text}    limits: {{depth: 2}}\n")
    await crawl.run()
    assert (conditions(site, "/hub/2"), crawl.items("pages")) == ([None], [])
    site.on("/list", links("/hub/2"))
    next_round(crawl, 1)
    await crawl.run()
    assert conditions(site, "/hub/2") == [None, None]
    assert [item["url"] for item in crawl.items("pages")] == [f"{site.url}/page/1"]


async def test_other_rules_see_a_page_whole(crawl: Crawl, site: Site) -> None:
    site.on("/list", Reply(body="<a class=b href=/page/1>1</a>", headers=TAGGED))
    site.on("/page/1", TITLED)
    crawl.push(CONDITIONAL)
    async with working(endless(crawl)):
        await until(lambda: conditions(site, "/list") and drained(crawl))
        crawl.push(CONDITIONAL.replace("css: a,", "css: a.b,") + "    limits: {pages: 1000}\n")
        await until(lambda: _policy(crawl)["max_pages"] == 1000)
        for number in (1, 2):
            next_round(crawl, number)
            await until(lambda: drained(crawl))
    assert conditions(site, "/list") == [None, None, '"one"']


def _policy(crawl: Crawl) -> Any:
    with crawl.frontier() as frontier:
        return frontier.counts("pages").group_policies["pages"]


async def test_a_page_whose_lease_was_lost_comes_whole_the_next_time(crawl: Crawl, site: Site, caplog: Any) -> None:
    """What was found on it did not count."""
    site.on("/page/1", Reply(body="<title>x</title>", headers=TAGGED))
    site.hold("/page/1")
    crawl.push(CONDITIONAL.replace("SITE/list", "SITE/page/1"))
    async with working(endless(crawl)):
        await asyncio.to_thread(site.reached, "/page/1")
        with crawl.another_worker():
            site.release("/page/1")
            await until(lambda: LOST in caplog.text)
        await until(lambda: drained(crawl))
    assert conditions(site, "/page/1") == [None, None]
    assert [item["title"] for item in crawl.items("pages")] == ["x"]


async def test_a_version_is_forgotten_before_another_one_is_stored(crawl: Crawl, site: Site, caplog: Any) -> None:
    """A worker that stores the second and dies leaves neither: the first may come back, and its row would not."""
    first = Reply(body="<title>1</title>", headers=TAGGED, times=1)
    site.on("/page/1", first, Reply(body="<title>2</title>", headers={"ETag": '"two"'}))
    crawl.push(CONDITIONAL.replace("SITE/list", "SITE/page/1"))
    await crawl.run()
    next_round(crawl, 1)
    site.hold("/page/1")
    async with working(endless(crawl)):
        await asyncio.to_thread(site.reached, "/page/1", 2)
        with crawl.another_worker():
            site.release("/page/1")
            await until(lambda: LOST in caplog.text)
        await until(lambda: drained(crawl))
    next_round(crawl, 2)
    await crawl.run()
    assert conditions(site, "/page/1") == [None, '"one"', None, '"two"']


# Secrets.


@pytest.fixture
def other() -> Iterator[Site]:
    with Site() as one:
        yield one


async def test_a_robots_txt_of_somebody_else_hears_no_secrets(crawl: Crawl, site: Site, other: Site) -> None:
    site.on("/robots.txt", Reply(302, headers={"Location": f"{other.url}/robots.txt"}))
    crawl.push(SITE.replace("robots: ignore", "robots: obey") + "    request: {headers: {X-Api-Key: k}}\n")
    await crawl.run()
    assert [visit.headers.get("X-Api-Key") for visit in site.visits] == ["k", "k"]
    assert [(visit.path, visit.headers.get("X-Api-Key")) for visit in other.visits] == [("/robots.txt", None)]


async def test_secrets_of_a_task_stay_with_the_sites_own_hosts(
    crawl: Crawl, site: Site, other: Site, valkey_server: Server, crawl_name: str
) -> None:
    site.on("/page/away", Reply(302, headers={"Location": f"{other.url}/page/there"}))
    crawl.push(SITE.replace("[SITE/list]", f"[SITE/list, {{tasks: '{crawl_name}:tasks'}}]"))
    task = f'{{"url": "{site.url}/page/away", "headers": {{"X-Api-Key": "k", "X-Plain": "p"}}}}'
    valkey_server.call("RPUSH", f"{crawl_name}:tasks", task)
    await crawl.run()
    assert [(visit.headers.get("X-Api-Key"), visit.headers.get("X-Plain")) for visit in other.visits] == [(None, "p")]


async def test_a_trial_tells_secrets_to_the_sites_own_hosts_only(site: Site, other: Site) -> None:
    site.on("/page/away", Reply(302, headers={"Location": f"{other.url}/page/there"}))
    text = SITE.replace("SITE", site.url) + "    request: {headers: {X-Api-Key: k}, auth: [user, password]}\n"
    [loaded] = load_text(text, "site.yaml")
    trial = Trial()
    await trial.fetch(ServedSite(compile_site(loaded)), LayerChoice("page", ""), f"{site.url}/page/away")
    await trial.close()
    assert [(visit.headers.get("X-Api-Key"), "Authorization" in visit.headers) for visit in site.visits] == [
        ("k", True)
    ]
    assert [(visit.headers.get("X-Api-Key"), "Authorization" in visit.headers) for visit in other.visits] == [
        (None, False)
    ]


# What is not there.


async def test_a_host_that_is_not_there_does_not_keep_a_crawl_from_its_end(crawl: Crawl, site: Site) -> None:
    """Nor does a robots.txt that nobody can ask for: its pages fail as they would without it."""
    with Site() as gone:
        there = gone.url
    nowhere = [f"http://no-such-host.invalid/page/{number}" for number in range(3)]
    site.on("/list", links(f"{there}/page/1", *nowhere))
    crawl.push(SITE.replace("robots: ignore", "robots: obey") + "    request: {retries: 1}\n")
    async with asyncio.timeout(100):
        assert (await crawl.run()).reason == "drained"
    dead = crawl.dead("pages")
    assert sorted(reason for reason, _ in dead) == ["connect", *["dns"] * 3]
    assert all(detail.startswith("robots.txt could not be fetched") for _, detail in dead)


async def test_pages_of_a_site_that_is_taken_away_are_given_back(
    crawl: Crawl, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that had been leased ahead, too: they are there when the site is."""
    caplog.set_level("INFO", "gossamer.engine")
    pages = [f"/page/{number}" for number in range(12)]
    site.on("/list", links(*pages))
    site.hold("/page/0")
    crawl = Crawl(
        crawl.server,
        crawl.given["GOSSAMER_CRAWL"],
        crawl.folder,
        site,
        GOSSAMER_ENGINE_CONCURRENCY=1,
        GOSSAMER_SEND_SECONDS=60,
    )
    crawl.push(SITE)
    async with working(endless(crawl)):
        await asyncio.to_thread(site.reached, "/page/0")
        with crawl.frontier() as frontier:
            assert sum(lane.leased for lane in frontier.counts("pages").lanes) > 1
            frontier.drop_document("site", "site")
        # At once: what was leased long ago would be given back in any case.
        await until(lambda: "not served any more" in caplog.text)
        site.release("/page/0")
        await until(lambda: not _leased(crawl))
    assert (crawl.dead("pages"), site.paths()) == ([], ["/list", "/page/0"])
    crawl.push(SITE)
    await crawl.run()
    assert sorted(site.paths()) == sorted(["/list", *pages])


def _leased(crawl: Crawl) -> int:
    with crawl.frontier() as frontier:
        return sum(lane.leased for lane in frontier.counts("pages").lanes)
