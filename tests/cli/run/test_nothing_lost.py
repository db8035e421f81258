"""What pages say arrives whole: no list is cut, no row is lost or doubled, and what cannot be read whole is reported."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site, data, links

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        yield one


@pytest.fixture
def place(valkey_server: Server, crawl_name: str, tmp_path: Path) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


def told(place: Place, file: str, *words: str, code: int = 0) -> tuple[int, ...]:
    [one] = json.loads(place.run("crawl", file, "-w", "2", "--json", *words, code=code))["sites"]
    return tuple(one[name] for name in ("round", "pages", "left", "dead"))


def test_all_of_a_list_is_followed_or_the_page_fails(site: Site, place: Place) -> None:
    ids = list(range(12_000))
    site.on("/ids", data({"ids": ids}))
    site.on("/all", data({"ids": ids, "more": list(range(9))}))
    text = f"""
    site: ids
    seeds: [{site.url}/SEED]
    politeness: {{robots: ignore}}
    limits: {{pages: 1}}
    layers:
      list: {{match: '^/(ids|all)', format: json, fields: {{ids: {{jmespath: ids, all: true}}, more: {{jmespath: more, all: true}}}},
              follow: [{{url: URL, to: one}}]}}
      one: {{match: '^/one/', fields: {{title: title}}}}
    """
    whole = place.write(text.replace("SEED", "ids").replace("URL", "'/one/{ids}'"))
    assert told(place, whole) == (0, 1, 12_000, 0)
    # More than may be of one page: nothing of it is taken, and both a trial and the crawl say why.
    much = place.write(text.replace("SEED", "all").replace("URL", "'/one/{ids}/{more}'"))
    why = "/one/{ids}/{more} gives more than 100,000 URLs; a page may have 100,000 links"
    assert f"verdict: limit: {why}" in place.run("site", "try", f"{site.url}/all", "--file", much, code=1)
    assert told(place, much, "--fresh", "--yes", code=1) == (0, 1, 0, 1)
    with place.frontier() as frontier:
        assert [(letter.reason, letter.detail) for letter in frontier.dead_letters("ids")] == [("limit", why)]


def test_names_of_one_record_go_together_and_a_joined_list_may_be_null(site: Site, place: Place) -> None:
    topics: list[dict[str, Any]] = [{"id": number, "slug": f"topic-{number}"} for number in range(1, 31)]
    site.on("/latest", data({"topics": topics}))
    for topic in topics:
        tags = "".join(f"<b>{n}</b>" for n in range(topic["id"] % 3))
        site.on(f"/t/{topic['slug']}/{topic['id']}", Reply(body=f"<h1>{topic['slug']}</h1>{tags}"))
    file = place.write(f"""
    site: forum
    seeds: [{site.url}/latest]
    politeness: {{robots: ignore, concurrency: 8}}
    layers:
      latest:
        match: '^/latest'
        format: json
        fields: {{topics: {{each: {{jmespath: topics}}, fields: {{id: {{jmespath: id, type: int}}, slug: {{jmespath: slug}}}}}}}}
        follow: [{{url: '/t/{{topics.slug}}/{{topics.id}}', to: topic}}]
      topic:
        match: '^/t/'
        fields: {{title: h1, tags: {{css: b, all: true, clean: [{{join: ', '}}]}}, list: {{css: b, all: true}}}}
    store: {{topic: {{table: topics, key: [title]}}}}
    """)
    assert told(place, file) == (0, 31, 0, 0)
    assert sorted(site.paths()) == sorted(["/latest", *(f"/t/{topic['slug']}/{topic['id']}" for topic in topics)])
    joined = {0: None, 1: "0", 2: "0, 1"}
    wanted = {
        (topic["slug"], joined[topic["id"] % 3], ["[]", '["0"]', '["0","1"]'][topic["id"] % 3]) for topic in topics
    }
    rows = place.rows("select title, tags, replace(list, ' ', '') from topics")
    assert set(rows) == wanted
    assert len(rows) == 30


def test_a_page_has_one_row_however_its_url_is_written(site: Site, place: Place) -> None:
    """The key is the identity: sessions in URLs, other orders of parameters and redirects make no second row."""
    pages = [f"/p/{n}" for n in range(5)]
    text = f"""
    site: shop
    seeds: [{site.url}/list]
    politeness: {{robots: ignore, concurrency: 8}}
    identity: {{drop: [sid]}}
    layers:
      list: {{match: '^/list', follow: [{{css: a, to: item}}]}}
      item: {{match: '^/p/', seen: round, fields: {{title: h1}}, follow: [{{css: a.review, to: review}}]}}
      review: {{match: '^/r/', identity: {{keep: [id]}}, seen: round, fields: {{text: h1}}}}
    store:
      item: {{table: items, add: [fetched_url, round]}}
      review: {{table: reviews, add: [parent]}}
      """
    for number, session in enumerate(("one", "two")):
        addresses = [f"{path}?b=2&sid={session}&a=1" if number else f"{path}?a=1&b=2&sid={session}" for path in pages]
        site.on("/list", links(*addresses))
        for path in pages:
            review = f"<a class=review href='/r/?id={path[-1]}&from={session}'>"
            site.on(path, Reply(body=f"<h1>{path} {session}</h1>{review}"))
        # A page that sends its visitors on with a session is the same page.
        home = Reply(302, headers={"Location": f"/p/4?sid=redirected-{session}&a=1&b=2"}, times=1)
        site.on("/p/4", home, Reply(body=f"<h1>/p/4 {session}</h1>"))
        site.on("/r/", Reply(body="<h1>fine</h1>"))
        told(place, place.write(text))
    wanted = [(f"{site.url}{path}?a=1&b=2", f"{path} two", 1) for path in pages]
    assert place.rows("select url, title, round from items order by url") == wanted
    fetched = [f"{site.url}{path}?b=2&sid=two&a=1" for path in pages[:4]] + [
        f"{site.url}/p/4?sid=redirected-two&a=1&b=2"
    ]
    assert [url for (url,) in place.rows("select fetched_url from items order by url")] == fetched
    # What leads to a page is called as its own row calls it.
    joined = "select items.url, reviews.url from reviews join items on reviews.parent = items.url order by 1"
    assert place.rows(joined) == [(url, f"{site.url}/r/?id={url[-9]}") for url, _, _ in wanted[:4]]


def test_pages_of_records_turn_by_what_the_page_itself_says(site: Site, place: Place) -> None:
    rows = [(number, f"book {number}") for number in range(57)]
    for first in range(0, 57, 10):
        books = [{"id": number, "title": title} for number, title in rows[first : first + 10]]
        more = {"more": first + 10 < 57, "after": f"c{first + 10}"}
        site.on(f"/api/c{first}", data({"books": books, "meta": {"total": 57, "next": more}}))
    text = f"""
    site: api
    seeds: [{site.url}/api/c0]
    politeness: {{robots: ignore}}
    layers:
      list:
        match: '^/api/'
        format: json
        records: {{jmespath: books}}
        page:
          next: {{jmespath: meta.next.after}}
          more: {{jmespath: meta.next.more, type: bool}}
          total: {{jmespath: meta.total, type: int}}
        fields: {{id: {{jmespath: id, type: int}}, title: {{jmespath: title}}, total: {{from: page.total, type: int}}}}
        follow: [{{url: '/api/{{next}}', to: list, when: more, pages: 0}}]
    store: {{list: {{table: books, key: [id]}}}}
    """
    assert told(place, place.write(text)) == (0, 6, 0, 0)
    assert place.rows("select id, title, total from books order by id") == [(*row, 57) for row in rows]
    # The same without `page` would end with the first page; it is refused.
    wrong = (
        text.replace("page:", "x-page:")
        .replace("from: page.total", "jmespath: x")
        .replace("id: {jmespath: id", "more: {jmespath: more}, next: {jmespath: next}, id: {jmespath: id")
    )
    said = place.run("site", "check", place.write(wrong, "wrong.yaml"), code=2)
    assert "more is a field of each record, and this rule, which has pages, is for the page as a whole" in said


def test_a_seed_that_is_linked_is_fetched_once_in_each_round(site: Site, place: Place) -> None:
    lists, posts = [f"/list/{n}" for n in range(1, 41)], [f"/post/{n}" for n in range(5)]
    for path in lists:
        site.on(path, links(*lists, "/home", *posts))
    # Two more pages that lead to pages that are linked as well.
    site.on("/home", Reply(302, headers={"Location": "/start"}))
    site.on("/start", links(*lists))
    text = f"""
    site: lists
    seeds: ['{site.url}/home', {{url: '{site.url}/list/[1-40]', pass: {{of: seeds}}}}]
    politeness: {{robots: ignore, concurrency: 8}}
    layers:
      list: {{match: '^/(list/|home|start)', fields: {{of: {{from: parent.of}}}}, follow: [{{css: a}}]}}
      post: {{match: '^/post/', fields: {{title: title}}}}
    store: {{list: {{table: lists, key: [url]}}}}
    """
    file = place.write(text)
    told(place, file)
    assert sorted(site.paths()) == sorted([*lists, "/home", "/start", *posts])
    # A link without what the seed passes has not taken its place.
    assert place.rows("select of, count(*) from lists group by of") == [(None, 1), ("seeds", 40)]
    # Seeds are fetched in every round, also where pages are seen forever; a seed that is new there once as well.
    del site.visits[:]
    for path in lists:
        site.on(path, links(*lists, "/list/41", "/list/42", *posts))
    told(place, place.write(text.replace("[1-40]", "[1-41]")))
    assert sorted(site.paths()) == sorted([*lists, "/list/41", "/list/42", "/home", "/start"])
    assert place.rows("select of, count(*) from lists group by of") == [(None, 2), ("seeds", 41)]


def test_a_page_that_failed_is_fetched_again_in_the_next_round(site: Site, place: Place) -> None:
    """Also where pages are seen forever; those that were read are not. What fails again has one dead letter."""
    paths = [f"/p/{n}" for n in range(6)]
    broken = {"/p/1", "/p/4"}
    site.on("/list", links(*paths))
    for path in paths:
        site.on(path, Reply(503 if path in broken else 200, body=f"<h1>{path}</h1>"))
    file = place.write(f"""
    site: shop
    seeds: [{site.url}/list]
    politeness: {{robots: ignore, concurrency: 4}}
    request: {{retries: 0}}
    layers: {{list: {{match: '^/list', follow: [{{css: a}}]}}, item: {{match: '^/p/', fields: {{title: h1}}}}}}
    store: {{item: {{table: items, key: [title]}}}}
    """)
    assert told(place, file) == (0, 7, 0, 2)
    site.on("/p/1", Reply(body="<h1>/p/1</h1>"))
    for _ in range(2):
        del site.visits[:]
        told(place, file)
        assert sorted(site.paths()) == ["/list", *sorted(broken)]
        assert place.rows("select title from items order by 1") == [(path,) for path in paths if path != "/p/4"]
        broken = {"/p/4"}
    # That of the page that still fails; it stays where no link leads to the page any more.
    with place.frontier() as frontier:
        assert len(frontier.dead_letters("shop")) == 1
    del site.visits[:]
    site.on("/list", links())
    assert told(place, file)[1:] == (1, 0, 0)
    with place.frontier() as frontier:
        assert len(frontier.dead_letters("shop")) == 1


def test_seeds_that_cannot_be_read_and_fields_that_are_always_empty_are_reported(site: Site, place: Place) -> None:
    for path in ("/gone", "/broken"):
        site.on(path, Reply(404 if path == "/gone" else 500))
    site.on("/moved", Reply(301, headers={"Location": "/lost"}))
    site.on("/lost", Reply(410))
    site.on("/robots.txt", Reply(body="User-agent: *\nDisallow: /private"))
    text = """
    site: seeds
    seeds: [SEEDS]
    request: {retries: 0}
    layers:
      page:
        seen: round
        require: [rare]
        lacking: keep
        fields:
          {title: title, notes: {each: i, fields: {text: {xpath: .}, odd: b, two: u, same: {value: x}}}, wrong: .titel, number: {css: title, type: int}, rare: .rare, never: {css: .x, default: 0}, _more: .y}
        follow: [{url: '/more/{rare}', to: page, match: '/none$'}, {url: '/next/{_more}', to: page, pages: 0}, {url: '/n/{notes.two}', to: page, match: '/none$'}]
    store: {page: {table: pages, key: [url], children: {notes: {key: [same]}}}}
    """

    def crawl(*paths: str, code: int) -> str:
        seeds = ", ".join(f"'{site.url}{path}'" for path in paths)
        return place.said("crawl", place.write(text.replace("SEEDS", seeds)), "-w", "1", code=code)[1]

    said = crawl("/gone", "/moved", "/private", "/broken", code=1)
    assert (
        "seeds: none of 4 seeds could be read (gone 2, http_500 1, robots_denied 1); the log of the workers names"
        in said
    )
    logged = place.logs()
    for path, why in (("/gone", "gone"), ("/moved", "gone"), ("/private", "robots_denied"), ("/broken", "http_500")):
        assert f"The seed {site.url}{path} could not be read: {why}." in logged
    for path, more in (("/rare", "<p class=rare>here</p>"), ("/fine", ""), ("/other", "")):
        site.on(path, Reply(body=f"<title>One</title>{more}<i>a</i><i><u>b</u></i>"))
    said = crawl("/gone", "/fine", "/rare", "/other", code=0)
    assert "seeds: 1 of 4 seeds could not be read (gone 1)" in said
    assert [line.partition(";")[0] for line in said.splitlines() if "page." in line] == [
        "seeds: page.notes.odd was found on none of 3 pages",
        "seeds: page.wrong was found on none of 3 pages",
        "seeds: page.number could not be converted to its type on 3 pages",
        "seeds: page.follow[0] left out links on 2 pages, where a {name} of it is empty",
        "seeds: page.follow[2] left out links on 3 pages, where a {name} of it is empty",
        "seeds: 3 records of page.notes are lost to others of their page, with the same key",
    ]
    examples = [line for line in place.logs().splitlines() if "has a value that is not of its type" in line]
    assert len(examples) == 1, "one of three is an example"
    assert f"seeds: {site.url}/" in examples[0]
    assert "page.number: " in examples[0]
    assert "One" in examples[0]
    assert "seeds could not be read" not in crawl("/fine", code=0)


def test_seeds_without_anything_rows_that_are_replaced_and_links_of_two_layers_are_reported(
    site: Site, place: Place
) -> None:
    site.on("/list", links("/p/1", "/p/2", "/list/2", "/p/sold"))
    site.on("/p/sold", Reply(302, headers={"Location": "/api"}))
    for path in ("/p/1", "/p/2", "/list/2"):
        site.on(path, Reply(body=f"<title>same</title><h1>{path}</h1>"))
    site.on("/p/1?a=1&b=2", Reply(body="<title>another</title>"))
    site.on("/api", Reply(body='{"errors": ["no"]}'))
    site.on("/map", Reply(body=f"<urlset><url><loc>{site.url}/p/1?a=1&b=2</loc></url><url/><url><loc>"))
    site.on("/index", Reply(body=f"<sitemapindex><sitemap><loc>{site.url}/gone</loc></sitemap></sitemapindex>"))
    site.on("/gone", Reply(404))
    text = f"""
    site: told
    seeds: [{site.url}/list, {site.url}/api, {{sitemap: {site.url}/map}}, {{sitemap: {site.url}/index}}]
    politeness: {{robots: ignore}}
    layers:
      list: {{match: '^/list', follow: [{{css: a, to: page}}, {{css: "a[href^='/list']", to: list, pages: 0}}]}}
      api: {{match: '^/api', format: json, records: {{jmespath: items}}, fields: {{id: {{jmespath: id}}}}}}
      page: {{match: '^/p/', fields: {{title: title, head: h1}}}}
    store: {{page: {{table: pages, key: [title]}}, api: {{table: things, key: [id]}}}}
    """
    said = place.said("crawl", place.write(text), "-w", "1")[1]
    assert {line.partition(";")[0] for line in said.splitlines() if line.startswith("told: ")} >= {
        "told: 1 of 5 seeds could not be read (gone 1)",
        "told: 1 of 4 seeds that could be read had neither records nor links",
        "told: sitemap: 2 entries without an address",
        "told: sitemap: 1 page not well-formed, perhaps read in part",
        "told: list.follow[1] has links on 1 page that an earlier rule leads to another layer, where they are read instead",
        "told: 1 page of page redirected to another layer of the site, where what they led to is read instead",
        "told: 2 records of page or more replaced others with the same key and other values, of other pages",
    }
    assert "/p/1?a=1&b=2" in [visit.target for visit in site.visits]
    assert f"The seed {site.url}/api has neither records nor links." in place.logs()


def test_a_resumed_round_that_has_its_pages_says_what_is_left(site: Site, place: Place) -> None:
    site.on("/list", links(*(f"/p/{n}" for n in range(9))))
    text = f"""
    site: part
    seeds: [{site.url}/list]
    politeness: {{robots: ignore}}
    limits: {{pages: 4}}
    layers: {{list: {{match: '^/list', follow: [{{css: a}}]}}, page: {{match: '^/p/', fields: {{title: title}}}}}}
    """
    said = place.said("crawl", place.write(text), "-w", "1")[1]
    assert (
        "part: has as many pages as limits.pages allows; 6 requests left, for the next round, or for this one if"
        in said
    )
    said = place.said("crawl", "site.yaml", "--resume", "-w", "1")[1]
    assert "limits.pages allows; raise it to go on with the 6 requests that are left of round 0, or begin" in said
    assert "nothing is left" not in said
    assert len(site.paths()) == 4
    assert told(place, place.write(text.replace("pages: 4", "pages: 7")), "--resume") == (0, 3, 3, 0)
    assert told(place, place.write(text.replace("limits: {pages: 4}", "")), "--resume") == (0, 3, 0, 0)
    said = place.said("crawl", "site.yaml", "--resume", "-w", "1")[1]
    assert "nothing is left of these sites" in said
    assert len(site.paths()) == len(set(site.paths())) == 10


def test_a_sitemap_of_too_many_pages_fails_instead_of_being_cut(site: Site, place: Place) -> None:
    urls = "".join(f"<url><loc>{site.url}/p/{n}</loc></url>" for n in range(100_001))
    site.on("/sitemap.xml", Reply(body=f"<urlset>{urls}</urlset>"))
    file = place.write(f"""
    site: map
    seeds: [{{sitemap: {site.url}/sitemap.xml}}]
    politeness: {{robots: ignore}}
    limits: {{pages: 1}}
    layers: {{page: {{match: '^/p/', fields: {{title: title}}}}}}
    """)
    assert told(place, file, code=1) == (0, 1, 0, 1)
    with place.frontier() as frontier:
        assert [letter.reason for letter in frontier.dead_letters("map")] == ["limit"]


def test_workers_that_cannot_work_are_no_success_where_limits_pages_was_reached(site: Site, place: Place) -> None:
    """As with a key that the table has not: the limit was raised, and nothing went on."""
    site.on("/list", links("/p/1", "/p/2", "/p/3"))
    for number in "123":
        site.on(f"/p/{number}", Reply(body=f"<h1>title {number}</h1><b>{number}</b>"))
    text = f"""
    site: part
    seeds: [{site.url}/list]
    politeness: {{robots: ignore, concurrency: 1}}
    limits: {{pages: 2}}
    layers:
      list: {{match: '^/list', follow: [{{css: a, to: item}}]}}
      item: {{match: '^/p/', fields: {{title: h1, number: b}}}}
    store: {{item: {{table: items, key: [title]}}}}
    """
    assert told(place, place.write(text)) == (0, 2, 2, 0)
    other = place.write(text.replace("pages: 2", "pages: 9").replace("key: [title]", "key: [number]"))
    said = place.said("crawl", other, "-w", "1", code=1)[1]
    assert "Table items in the database has the key (title), the description says (number)" in said
    assert "part not drained; go on with" in said
    assert told(place, place.write(text.replace("pages: 2", "pages: 9"))) == (0, 2, 0, 0)


def test_links_to_pages_that_are_not_there_or_forbidden_are_reported(site: Site, place: Place) -> None:
    site.on("/list", links("/item/1", "/item/2", "/item/3", "/private/1", "/private/2"))
    site.on("/item/1", Reply(body="<h1>One</h1>"))
    for path in ("/item/2", "/item/3", "/list?page=2"):
        site.on(path, Reply(404))
    site.on("/robots.txt", Reply(body="User-agent: *\nDisallow: /private"))
    file = place.write(f"""
    site: shop
    seeds: ['{site.url}/list']
    layers:
      list: {{match: ^/list, follow: [{{css: a, to: item}}, {{url: '/list?page={{turn+1}}', to: list, pages: 0}}]}}
      item: {{fields: {{title: h1}}}}
    """)
    said = place.said("crawl", file, "-w", "1")[1]
    assert "shop: 2 pages of item do not exist (404, 410); the log of the workers names one" in said
    logged = [line for line in place.logs().splitlines() if "does not exist: status 404" in line]
    assert len(logged) == 1, "one of them is an example"
    assert f"shop: {site.url}/item/" in logged[0]
    assert "shop: robots.txt forbids 2 pages of item" in said
    assert "of list" not in said, "that the last page is not there ends the pages that are counted"
    assert place.said("report", "left-out")[0].splitlines()[1:] == [
        "shop\titem\tpages that do not exist (404, 410)\t2",
        "shop\titem\tpages that robots.txt forbids\t2",
    ]


def test_a_layer_that_no_link_leads_to_is_reported(site: Site, place: Place) -> None:
    site.on("/list/1", links("/list/2"))
    site.on("/list/2", links("/item/1"))
    site.on("/item/1", Reply(body="<h1>One</h1>"))
    text = """
    site: shop
    seeds: ['SITE/list/1']
    layers:
      list: {match: ^/list, seen: round, follow: [{css: CSS, to: item, match: item}, {css: a, to: list, pages: 0, match: list}]}
      item: {fields: {title: h1}}
      front: {match: ^/$, follow: [{css: a, to: list}]}
    """.replace("SITE", site.url)
    word = "shop: no link has led to item in any round"
    # No link does where the lists alone are crawled.
    assert word not in place.said("crawl", place.write(text.replace("CSS", "a")), "-w", "1", "--layer", "list")[1]
    fresh = ("--fresh", "--yes")
    said = place.said("crawl", place.write(text.replace("CSS", "a.itme")), "-w", "1", *fresh)[1]
    assert word in said
    assert "front" not in said, "no layer that was read leads there"
    assert "shop: list.follow[0] found no link on 2 pages, all that were read; if there should be some" in said
    said = place.said("crawl", place.write(text.replace("CSS", "a")), "-w", "1")[1]
    assert (word in said, "found no link" in said) == (False, False)
    # The next page of a list is one that only its own rule leads to.
    said = place.said(
        "crawl", place.write(text.replace("CSS", "a").replace("css: a, to: list", "css: a.nxt, to: list")), "-w", "1"
    )[1]
    assert "shop: list.follow[1] found no link on 1 page, all that were read" in said
    site.on("/list/2", links())
    assert word not in place.said("crawl", place.write(text.replace("CSS", "a")), "-w", "1")[1], "there was one before"


def test_a_layer_that_is_there_only_for_the_table_of_its_records_is_not_reported(site: Site, place: Place) -> None:
    site.on("/item/1", Reply(body="<h1>One</h1>"))
    text = f"""
from gossamer import Record, Site
shop = Site("shop", seeds=["{site.url}/item/1"], politeness={{"robots": "ignore"}})
@shop.layer("note", table="notes", key=["text"], record={{"text": str}})
def note(page):
    yield None
@shop.layer("lost", match="^/lost", table="lost")
def lost(page):
    yield None
@shop.layer("item", match="^/item")
def item(page):
    yield Record("note", {{"text": page.css("h1::text").get()}})
"""
    said = place.said("crawl", place.write(text, "shop.py"), "-w", "1")[1]
    assert "no link has led to lost in any round" in said
    assert "no link has led to note" not in said
    assert place.rows("select text from notes") == [("One",)]


def test_links_that_are_too_long_are_counted_and_logged(site: Site, place: Place) -> None:
    site.on("/list", links(f"/item/{'9' * 9_000}", "/item/1"))
    entries = "".join(f"<url><loc>{site.url}/item/{name}</loc></url>" for name in ("2", "9" * 9_000))
    site.on("/map.xml", Reply(body=f"<urlset>{entries}</urlset>", headers={"Content-Type": "text/xml"}))
    file = place.write(f"""
    site: long
    seeds: ['{site.url}/list', {{sitemap: '{site.url}/map.xml'}}]
    politeness: {{robots: ignore}}
    layers: {{list: {{match: ^/list, follow: [{{css: a, to: item}}]}}, item: {{match: ^/item, fields: {{title: title}}}}}}
    """)
    out, said = place.said("crawl", file, "-w", "1", "--json")
    [counts] = json.loads(out)["sites"]
    assert (counts["pages"], counts["overlong"]) == (4, {"list.follow[0]": 1, "sitemap": 1})
    assert "long: list.follow[0] left out links on 1 page that are longer than 8,000 characters" in said
    assert f"list.follow[0] left out a link of {site.url}/list: an address of 9006 characters" in place.logs()
    assert f"the sitemap {site.url}/map.xml has an address of" in place.logs()
    assert "pages with links that are longer than 8,000 characters" in place.run("report", "left-out")


def crawled(place: Place, *words: str) -> tuple[list[list[object]], str]:
    said = place.said("crawl", *words, "-w", "1", "-O", str(place.directory / "rows.json"))[1]
    return [list(record.values())[2:] for record in json.loads((place.directory / "rows.json").read_text())], said


def test_rows_of_files_are_records_and_broken_ones_are_said(site: Site, place: Place) -> None:
    def give(*lines: str) -> None:
        body = gzip.compress("\n".join(("SKU;Unit price;link", *lines)).encode("cp1252"))
        site.on("/prices.csv.gz", Reply(body=body, headers={"Content-Type": "application/gzip"}))

    site.on("/1", Reply(body="<h1>One</h1>"))
    give("Müller;3,50;/1", "x;1,00;")
    file = place.write(f"""
    site: shop
    seeds: ['{site.url}/prices.csv.gz']
    politeness: {{robots: ignore}}
    seen: round
    layers:
      prices:
        format: csv
        records: {{jmespath: '[]'}}
        fields: {{sku: {{jmespath: SKU}}, price: {{jmespath: '"Unit price"', type: decimal, decimal: ','}}}}
        follow: [{{jmespath: '[].link', to: item}}]
      item: {{match: '^/1', fields: {{title: h1}}}}
    """)
    place.run("site", "check", file)
    rows, said = crawled(place, file)
    assert sorted(rows, key=str) == [["Müller", "3.50"], ["One"], ["x", "1.00"]]
    assert "not well-formed" not in said
    give("Müller;4,50;/1", "x", "y;1,00;;more")
    rows, said = crawled(place, file)
    assert sorted(rows, key=str) == [["Müller", "4.50"], ["One"], ["x", None], ["y", "1.00"]]
    assert "shop: prices: 1 page not well-formed, perhaps read in part" in said
