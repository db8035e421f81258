"""Walls that come instead of pages: tried again, slower, with another proxy; never a row, nor a version to be remembered."""

from __future__ import annotations

import sqlite3

import pytest
from tests.support.native_crawl import Crawl
from tests.support.servers.web_proxy import WebProxy
from tests.support.site import Reply, Site, Visit, links

from gossamer.engine.http.connection.proxies import ProxyPool
from gossamer.model import Feedback, Fetched, HostVerdict, Lease

WALL = {"cf-mitigated": "challenge", "Retry-After": "1", "ETag": '"wall"'}
CHALLENGE = Reply(body="<title>Just a moment...</title>", headers=WALL)
FILE = """
    site: shop
    seeds: [SITE/list]
    politeness: {robots: ignore}
    request: {retries: 1, conditional: true}
    layers:
      list: {match: '^/list', seen: round, follow: [{css: a, to: item}]}
      item: {match: '^/item/', seen: round, fields: {name: h1}}
    database: 'sqlite:///FOLDER/rows.db'
    store: {item: {table: items}}
"""


def file(crawl: Crawl, text: str = FILE) -> str:
    return text.replace("FOLDER", str(crawl.folder))


def item(number: int) -> Reply:
    return Reply(body=f"<h1>lamp {number}</h1>", headers={"ETag": f'"{number}"'})


@pytest.fixture
def shop(site: Site) -> Site:
    for number in range(3):
        site.on(f"/item/{number}", item(number))
    return site.on("/list", links(*(f"/item/{number}" for number in range(3))))


def rows(crawl: Crawl) -> list[str | None]:
    with sqlite3.connect(crawl.folder / "rows.db") as database:
        return [name for (name,) in database.execute("select name from items order by url")]


def new_round(crawl: Crawl, number: int) -> None:
    with crawl.frontier() as frontier:
        frontier.new_round("shop", number)


@pytest.mark.parametrize(
    "wall",
    [
        CHALLENGE,
        Reply(403, "no", headers=WALL),
        Reply(302, headers={"Location": "/cdn-cgi/challenge-platform/x", "Retry-After": "1"}),
        Reply(body="<meta http-equiv=refresh content='0; url=/_Incapsula_Resource?a=1'>", headers={"Retry-After": "1"}),
        Reply(body="", headers={"Retry-After": "1"}),
    ],
    ids=["header", "status", "redirect", "meta refresh", "empty"],
)
async def test_a_wall_is_tried_again_and_then_a_dead_letter(crawl: Crawl, shop: Site, wall: Reply) -> None:
    shop.on("/item/0", wall)
    shop.on("/item/1", Reply(wall.status, wall.body, wall.headers, times=1), item(1))
    crawl.push(file(crawl))
    await crawl.run()
    assert [reason for reason, _ in crawl.dead("shop")] == ["blocked"]
    assert rows(crawl) == ["lamp 1", "lamp 2"]
    assert [shop.paths().count(f"/item/{number}") for number in range(3)] == [2, 2, 1]
    assert crawl.counters("shop")["site/blocked"] == 3


async def test_a_wall_replaces_no_row_and_its_version_is_not_remembered(crawl: Crawl, shop: Site) -> None:
    crawl.push(file(crawl))
    await crawl.run()
    shop.on("/item/0", CHALLENGE).on("/item/1", CHALLENGE)
    new_round(crawl, 1)
    await crawl.run()
    assert rows(crawl) == ["lamp 0", "lamp 1", "lamp 2"]
    assert [reason for reason, _ in crawl.dead("shop")] == ["blocked"] * 2

    def unchanged(visit: Visit) -> Reply | None:
        known = visit.headers.get("If-None-Match")
        return Reply(304, body="") if visit.path.startswith("/item/") and known == f'"{visit.path[-1]}"' else None

    shop.visits.clear()
    shop.answer(unchanged)
    new_round(crawl, 2)
    await crawl.run()
    asked = {visit.path[-1]: visit.headers.get("If-None-Match") for visit in shop.visits if "item" in visit.path}
    assert asked == {"0": '"0"', "1": '"1"', "2": '"2"'}
    assert (rows(crawl), crawl.dead("shop")) == (["lamp 0", "lamp 1", "lamp 2"], [])


async def test_a_wall_slows_its_host(crawl: Crawl, shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.on("/item/0", Reply(body=CHALLENGE.body, headers=WALL | {"Retry-After": "2"}, times=1), item(0))
    crawl.push(file(crawl))
    verdicts: list[Feedback] = []

    def noted(lease: Lease, feedback: Feedback | None) -> Fetched:
        if feedback is not None:
            verdicts.append(feedback)
        return Fetched(lease, feedback)

    monkeypatch.setattr("gossamer.engine.engine.Fetched", noted)
    await crawl.run()
    throttled = [one for one in verdicts if one.verdict is HostVerdict.THROTTLED]
    assert [one.retry_after for one in throttled] == [2.0]


async def test_a_wall_counts_against_the_proxy(crawl: Crawl, shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    votes: list[bool] = []
    vote = ProxyPool.vote

    def noted(self: ProxyPool, proxy: object, good: bool) -> None:
        votes.append(good)
        vote(self, proxy, good)  # type: ignore[arg-type]

    monkeypatch.setattr(ProxyPool, "vote", noted)
    shop.on("/item/0", Reply(body="", headers={"Retry-After": "1"}, times=1), item(0))
    with WebProxy() as proxy:
        text = file(crawl).replace("conditional: true", "proxy: pool")
        crawl.push(text + f"    proxies: {{pool: {{urls: ['{proxy.url}']}}}}\n")
        await crawl.run()
    assert (votes.count(False), votes.count(True)) == (1, 4)
    assert rows(crawl) == ["lamp 0", "lamp 1", "lamp 2"]


async def test_a_wall_says_nothing_of_the_session(crawl: Crawl, shop: Site) -> None:
    """Else the site would be logged in to again and again."""
    shop.on("/in", Reply(body="<p>welcome</p>"))
    wall = Reply(body="<input type=password name=p>", headers=WALL, times=1)
    shop.on("/item/0", wall, item(0))
    crawl.push(file(crawl) + "    login: {url: SITE/in, form: {user: me}}\n")
    await crawl.run()
    assert (shop.paths().count("/in"), rows(crawl)) == (1, ["lamp 0", "lamp 1", "lamp 2"])


async def test_a_list_that_ends_with_nothing_is_read_to_its_end(crawl: Crawl, site: Site) -> None:
    site.answer(lambda visit: Reply(body="<i>a</i>" if visit.target in ("/list", "/list?page=1") else ""))
    crawl.push("""
    site: shop
    seeds: [SITE/list]
    politeness: {robots: ignore}
    layers:
      list:
        match: ^/list
        records: i
        fields: {word: {xpath: .}, url: {from: url}}
        follow: [{url: '/list?page={turn}', to: list, pages: 0}]
    """)
    await crawl.run()
    assert not crawl.dead("shop")
    assert len(crawl.items("shop")) == 2
