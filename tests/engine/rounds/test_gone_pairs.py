"""`gone: true` beside links with `changed`, rounds that are held, and lists that a wall cuts off."""

from __future__ import annotations

import sqlite3

import pytest
from tests.engine.rounds.test_gone_rows import gone, noted, place, unknown
from tests.support.example_sites import Place
from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site, Visit

__all__ = ["place"]

pytestmark = pytest.mark.timeout(300)

CHANGED = """
site: shop
seeds: [SITE/list]
politeness: {robots: ignore}
request: {retries: 0}
layers:
  list:
    match: ^/list
    seen: round
    records: p
    fields: {item: {css: a, attr: href}, at: i}
    follow: [{url: "{item}", to: item, changed: "{at}"}]
  item: {match: ^/item/, seen: SEEN, fields: {name: b}, follow: [{css: a.user, to: user}, {css: a.next, to: more}]}
  more: {match: ^/more/, seen: BELOW, fields: {name: b}}
  user: {match: ^/user/, seen: BELOW, fields: {name: b}}
store:
  list: {table: listed, key: [item], gone: true}
  item: {table: items, gone: true}
  more: {table: parts, gone: true}
  user: {table: users, gone: true}
"""
PYTHON = """
from gossamer import Page, Record, Site

shop = Site("shop", seeds=["SITE/list"], politeness={"robots": "ignore"}, request={"retries": 0},
    store={"list": {"table": "listed", "key": ["item"], "gone": True}} | {
        name: {"table": table, "key": ["name"], "gone": True}
        for name, table in (("item", "items"), ("more", "parts"), ("user", "users"))})


@shop.layer("list", match="^/list", seen="round", record={"item": str})
def listed(page: Page):
    for one in page.css("p"):
        yield page.follow(one.css("a")[0], "item", changed=one.css("i::text").get())
        yield {"item": one.css("a::attr(href)").get()}


@shop.layer("item", match="^/item/", seen="SEEN", record={"name": str})
def item(page: Page):
    yield {"name": page.css("b::text").get()}
    for link in page.css("a.user"):
        yield page.follow(link, "user")
    for link in page.css("a.next"):
        yield page.follow(link, "more")


@shop.layer("more", match="^/more/", seen="BELOW", record={"name": str})
def more(page: Page):
    yield {"name": page.css("b::text").get()}


@shop.layer("user", match="^/user/", seen="BELOW", record={"name": str})
def user(page: Page):
    yield {"name": page.css("b::text").get()}
"""


def listed(site: Site, items: dict[str, int]) -> None:
    """A list that says when each item changed; each has a user and a further page."""
    site.visits.clear()
    site.on("/list", Reply(body="".join(f"<p><a href=/item/{n}>x</a><i>{at}</i></p>" for n, at in items.items())))
    for name in items:
        body = f"<b>{name}</b><a class=user href=/user/{name}>u</a><a class=next href=/more/{name}>m</a>"
        site.on(f"/item/{name}", Reply(body=body))
        for kind in ("user", "more"):
            site.on(f"/{kind}/{name}", Reply(body=f"<b>{name}</b>"))


def gone_rows(place: Place) -> dict[str, set[str]]:
    return {
        table: {name[-1] for name, is_gone in gone(place, table, column).items() if is_gone}
        for table, column in (("listed", "item"), ("items", "name"), ("parts", "name"), ("users", "name"))
    }


def nothing_but(**gone: str) -> dict[str, set[str]]:
    return {table: set(gone.get(table, "")) for table in ("listed", "items", "parts", "users")}


@pytest.mark.parametrize("file", ["site.yaml", "shop.py"])
@pytest.mark.parametrize("below", ["round", "forever"])
def test_pages_that_a_list_left_alone_for_their_text_are_not_gone_nor_what_is_below_them(
    place: Place, file: str, below: str
) -> None:
    # Where a function of a layer that is fetched once leads is unknown: perhaps to lists.
    unlisted = "c" if file == "site.yaml" else ""
    with Site() as site:
        text = CHANGED if file == "site.yaml" else PYTHON
        place.write(text.replace("SITE", site.url).replace("SEEN", "forever").replace("BELOW", below), file)
        listed(site, {"a": 1, "b": 1, "c": 1})
        place.crawl(file)
        assert len(site.paths()) == 10
        assert gone_rows(place) == nothing_but()
        # Only one has changed, and one is listed no more.
        listed(site, {"a": 2, "b": 1})
        place.crawl(file)
        again = ["/more/a", "/user/a"] if below == "round" else []
        assert sorted(site.paths()) == ["/item/a", "/list", *again]
        assert gone_rows(place) == nothing_but(listed=unlisted), "the list is fetched whole, and nothing else"
        # Nothing has changed.
        listed(site, {"a": 2, "b": 1})
        place.crawl(file)
        assert site.paths() == ["/list"]
        assert gone_rows(place) == nothing_but(listed=unlisted)
        # What a page answers itself counts as ever.
        listed(site, {"a": 3, "b": 1})
        site.on("/item/a", Reply(404))
        place.crawl(file)
        assert sorted(site.paths()) == ["/item/a", "/list"]
        assert gone_rows(place) == nothing_but(listed=unlisted, items="a")
        listed(site, {"a": 4, "b": 1, "c": 1})
        place.crawl(file)
        assert gone_rows(place) == nothing_but()


@pytest.mark.parametrize("file", ["site.yaml", "shop.py"])
def test_layers_that_each_round_fetches_are_so_whatever_their_lists_say(place: Place, file: str) -> None:
    with Site() as site:
        text = CHANGED if file == "site.yaml" else PYTHON
        place.write(text.replace("SITE", site.url).replace("SEEN", "round").replace("BELOW", "round"), file)
        listed(site, {"a": 1, "b": 1, "c": 1})
        place.crawl(file)
        listed(site, {"a": 2, "b": 1})
        place.crawl(file)
        assert len(site.paths()) == 7
        assert gone_rows(place) == nothing_but(listed="c", items="c", parts="c", users="c")
        assert noted(place) == (4, "")


OWN = """
from gossamer import Page, Site

shop = Site("shop", seeds=["SITE/list/1"], request={"retries": 0}, seen="round",
    store={"list": {"table": "items", "key": ["name"], "gone": True}})


@shop.layer("list", match="^/list", record={"name": str})
def listed(page: Page):
    for name in page.css("b::text").getall():
        yield {"name": name}
    for link in page.css("a"):
        yield page.follow(link)
"""


def test_a_page_that_robots_txt_forbids_keeps_the_rows_of_the_pages_that_follow_it(place: Place) -> None:
    with Site() as site:
        place.write(OWN.replace("SITE", site.url), "shop.py")
        for number in (1, 2, 3):
            site.on(f"/list/{number}", Reply(body=f"<b>{number}</b><a href=/list/{number + 1}>next</a>"))
        site.on("/list/4", Reply(404)).on("/robots.txt", Reply(404))
        place.crawl("shop.py")
        assert gone(place) == dict.fromkeys("123", False)
        site.on("/robots.txt", Reply(body="User-agent: *\nDisallow: /list/2", headers={"Content-Type": "text/plain"}))
        place.crawl("shop.py")
        assert gone(place) == dict.fromkeys("123", False)
        assert unknown(place) == "list: robots.txt forbids pages (list)"


HELD = """
    site: shop
    seeds: [SITE/list]
    politeness: {robots: ignore, hosts: {HOST: {concurrency: 4}}}
    seen: round
    hold: {coverage: 80%}
    layers:
      list: {match: '^/list', follow: [{css: a, to: item}]}
      item: {match: '^/item/', fields: {name: h1, price: b}}
    database: 'sqlite:///FOLDER/rows.db'
    store: {item: {table: items, gone: true}}
"""


async def test_a_round_that_was_held_takes_no_rows_with_it_whatever_its_note_says(crawl: Crawl, site: Site) -> None:
    price, numbers = "<b>9</b>", range(60)

    def answer(visit: Visit) -> Reply | None:
        if visit.path == "/list":
            return Reply(body="".join(f"<a href=/item/{n}>x</a>" for n in numbers))
        return Reply(body=f"<h1>lamp</h1>{price}") if visit.path.startswith("/item/") else None

    def rows_gone() -> int:
        with sqlite3.connect(crawl.folder / "rows.db") as database:
            return int(database.execute("select count(*) from items where gone_at is not null").fetchone()[0])

    def paused() -> str:
        with crawl.frontier() as frontier:
            return frontier.counts("shop").groups[0].paused

    async def round_of(number: int) -> None:
        with crawl.frontier() as frontier:
            frontier.new_round("shop", number)
        await crawl.run()

    site.answer(answer)
    crawl.push(HELD.replace("FOLDER", str(crawl.folder)))
    await crawl.run()
    assert (paused(), rows_gone()) == ("", 0)
    price, numbers = "", range(50)
    await round_of(1)
    assert paused().startswith("held: item.price")
    assert rows_gone() == 0
    with crawl.frontier() as frontier:
        # As where whoever held it was killed before the note was written, or another note came.
        frontier.round_note("shop", 1, {"note": "looked at it"})
        frontier.resume(group="shop")
    price = "<b>8</b>"
    await crawl.run()
    with crawl.frontier() as frontier:
        if paused():
            frontier.resume(group="shop")
    await crawl.run()
    assert (paused(), rows_gone()) == ("", 0)
    with crawl.frontier() as frontier:
        [info] = frontier.rounds("shop", 1)
    assert (info.round, info.gone) == (1, 0)
    assert "the round was held" in info.note
    await round_of(2)
    assert (paused(), rows_gone()) == ("", 10)


LINKED = """
site: shop
seeds: [SITE/start]
politeness: {robots: ignore}
request: {retries: 0}
seen: round
layers:
  start: {match: ^/start, follow: [{css: a, to: list}]}
  list: {match: ^/list/, FIELDS follow: [{css: a.item, to: item}, TURN]}
  item: {match: ^/item/, fields: {name: b}}
store:
  item: {table: items, gone: true}STORE
"""
RECORDS = "records: p, fields: {name: {css: a, attr: href}},"
STORE = "\n  list: {table: listed, key: [name], gone: true}"
TURNS = {"linked": "{css: a.next, to: list, pages: 0}", "counted": '{url: "/list/{turn+1}", to: list, pages: 0}'}
PAGES, ON_A_PAGE = 3, 2
WALL = "<html><body><h2>Checking your browser</h2></body></html>"


def serve_lists(site: Site, count: int = PAGES, wall: int = 0, body: str = WALL) -> None:
    """A list of some pages, each with two items; one is a wall. After the last, a page without items."""
    site.visits.clear()
    site.on("/start", Reply(body="<a href=/list/1>list</a>"))
    for page in range(1, PAGES + 2):
        links = "".join(
            f"<p><a class=item href=/item/{page}{n}>x</a></p>" for n in range(ON_A_PAGE if page <= count else 0)
        )
        more = f"<a class=next href=/list/{page + 1}>next</a>" if page < count else ""
        site.on(f"/list/{page}", Reply(body=body if page == wall else f"<html>page {page}{links}{more}</html>"))
        for n in range(ON_A_PAGE):
            site.on(f"/item/{page}{n}", Reply(body=f"<b>{page}{n}</b>"))


@pytest.mark.parametrize("fields", ["", RECORDS], ids=["links", "records"])
@pytest.mark.parametrize("turns", ["linked", "counted"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_list_that_a_wall_cuts_off_takes_no_rows_with_it(place: Place, fields: str, turns: str, at: int) -> None:
    # An empty body is a wall by itself, but where pages are counted: these may end so.
    wall = "" if turns == "counted" and at > 1 else WALL
    with Site() as site:
        text = LINKED.replace("SITE", site.url).replace("TURN", TURNS[turns])
        place.write(text.replace("FIELDS", fields).replace("STORE", STORE if fields else ""))
        serve_lists(site)
        place.crawl("site.yaml")
        names = [f"{page}{n}" for page in range(1, PAGES + 1) for n in range(ON_A_PAGE)]
        assert gone(place) == dict.fromkeys(names, False)
        tables = ["items", *(["listed"] if fields else [])]
        serve_lists(site, wall=at, body=wall)
        place.crawl("site.yaml")
        assert f"/list/{at}" in site.paths()
        assert not {f"/item/{page}0" for page in range(at, PAGES + 1)} & set(site.paths())
        assert not any(any(gone(place, table).values()) for table in tables)
        assert "pages have none of the records or links that they had before (list)" in unknown(place)
        # It is back, without its last page.
        serve_lists(site, PAGES - 1)
        place.crawl("site.yaml")
        counted = turns == "counted"
        lost = {} if counted else {"30", "31"}
        assert {name for name, is_gone in gone(place).items() if is_gone} == set(lost), "an end like a wall waits"
        serve_lists(site, PAGES - 1)
        place.crawl("site.yaml")
        assert {name for name, is_gone in gone(place).items() if is_gone} == {"30", "31"}
        if fields:
            assert {name[-2:] for name, is_gone in gone(place, "listed").items() if is_gone} == {"30", "31"}
        assert noted(place) == (2 * len(tables) if counted else 0, "")
        # All is there again.
        serve_lists(site)
        place.crawl("site.yaml")
        assert not any(any(gone(place, table).values()) for table in tables)


@pytest.mark.parametrize("turns", ["linked", "counted"])
def test_a_page_turn_that_redirects_to_its_list_takes_no_rows_with_it_at_once(place: Place, turns: str) -> None:
    names = [f"{page}{n}" for page in range(1, PAGES + 1) for n in range(ON_A_PAGE)]
    with Site() as site:
        text = LINKED.replace("SITE", site.url).replace("TURN", TURNS[turns])
        place.write(text.replace("FIELDS", RECORDS).replace("STORE", STORE))

        def round_of(*, leads: bool) -> set[str]:
            serve_lists(site)
            if leads:
                site.on("/list/2", Reply(302, headers={"Location": "/list/1"}))
            place.crawl("site.yaml")
            return {name for name, is_gone in gone(place).items() if is_gone}

        assert round_of(leads=False) == set()
        assert round_of(leads=True) == set()
        assert "page turns with records or links redirect to other pages now (list)" in unknown(place)
        assert round_of(leads=False) == set()
        assert unknown(place) == ""
        assert round_of(leads=True) == set()
        assert round_of(leads=True) == set(names[ON_A_PAGE:])
        assert round_of(leads=False) == set()
