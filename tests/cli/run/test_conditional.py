"""`conditional: true` from run to run: what has not changed is not sent again, and no row is missing for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site, links

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

PAGES = 6
FILE = """
site: shop
seeds: [SITE/list]
politeness: {robots: ignore, hosts: {HOST: {concurrency: 8}}}
request: {conditional: true}
layers:
  list: {match: ^/list, seen: round, follow: [{css: a, to: item}]}
  item: {match: ^/item/, seen: round, fields: {id: {from: url, regex: '(\\d+)$', type: int}, price: {css: b, type: int}}}
store:
  item: {table: items, key: [id]ARCHIVE}
"""


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


def serve(site: Site, prices: dict[int, int], unchanged: set[int]) -> None:
    """As a server does: 304 for those that have not changed since they were sent. The list never changes."""
    site.visits.clear()
    listed = links(*(f"/item/{number}" for number in prices))
    site.on("/list", Reply(body=listed.body, headers={"ETag": '"list"'}))
    for number, price in prices.items():
        whole = Reply(body=f"<b>{price}</b>", headers={"ETag": f'"{number}-{price}"'})
        site.on(f"/item/{number}", Reply(304, body="") if number in unchanged else whole)


def asked(site: Site) -> dict[int, str | None]:
    """With which tag each item was asked for; the list with its own if the items were with theirs."""
    [listed] = [visit.headers.get("If-None-Match") for visit in site.visits if visit.path == "/list"]
    found = {
        int(visit.path.rpartition("/")[2]): visit.headers.get("If-None-Match")
        for visit in site.visits
        if visit.path != "/list"
    }
    assert listed == ('"list"' if any(found.values()) else None)
    return found


def test_a_later_run_asks_only_for_what_has_changed(place: Place) -> None:
    every, prices = set(range(PAGES)), {number: 100 + number for number in range(PAGES)}
    tags = {number: f'"{number}-{price}"' for number, price in prices.items()}
    none = dict.fromkeys(every)

    def rows() -> dict[int, int]:
        return dict(place.rows("select id, price from items"))

    with Site() as site:
        text = FILE.replace("SITE", site.url).replace("HOST", site.host)
        place.write(text.replace("ARCHIVE", ""))
        serve(site, prices, set())
        place.crawl("site.yaml")
        assert (asked(site), rows()) == (none, prices)
        # One has changed. Another run, other processes.
        prices[3] = 7
        serve(site, prices, every - {3})
        place.crawl("site.yaml")
        assert (asked(site), rows()) == (tags, prices)
        tags[3] = '"3-7"'
        serve(site, prices, every)
        place.crawl("site.yaml")
        assert (asked(site), rows()) == (tags, prices)
        # The rows are gone: all pages are wanted again.
        place.rows("drop table items")
        serve(site, prices, set())
        place.crawl("site.yaml")
        assert (asked(site), rows()) == (none, prices)
        # Other rules; and tables that begin anew with every round.
        place.write(text.replace("ARCHIVE", ", archive: true"))
        for _ in range(2):
            serve(site, prices, set())
            place.crawl("site.yaml")
            assert (asked(site), rows()) == (none, prices)
        # The group is dropped, and its rows are not.
        place.write(text.replace("ARCHIVE", ""))
        serve(site, prices, set())
        place.crawl("site.yaml")
        place.run("group", "drop", "shop", "--yes")
        serve(site, prices, set())
        place.crawl("site.yaml")
        assert (asked(site), rows()) == (none, prices)
        # So many are kept.
        place.environ["GOSSAMER_CONDITIONAL_PAGES"] = "2"
        serve(site, prices, every)
        place.crawl("site.yaml")
        serve(site, prices, set())
        place.crawl("site.yaml")
        assert sum("If-None-Match" in visit.headers for visit in site.visits) == 2
        assert rows() == prices
        # A list that has not changed leads to a page that is to be fetched once, and failed.
        del place.environ["GOSSAMER_CONDITIONAL_PAGES"]
        once = (
            text.replace("site: shop", "site: once").replace("^/item/, seen: round", "^/item/").replace("ARCHIVE", "")
        )
        place.write(once.replace("conditional: true", "conditional: true, retries: 0"), "once.yaml")
        for failing, tag, wanted in ((2, None, PAGES), (0, '"list"', 1), (0, '"list"', 0)):
            serve(site, prices, set())
            if tag:
                site.on("/list", Reply(304, body=""))
            if failing:
                site.on(f"/item/{failing}", Reply(500))
            place.crawl("once.yaml")
            assert [visit.headers.get("If-None-Match") for visit in site.visits if visit.path == "/list"] == [tag]
            assert len(site.visits) == 1 + wanted


def test_rules_that_come_back_take_no_page_for_unchanged_that_they_read_before(place: Place) -> None:
    """As after `site rollback`. Meanwhile other rules have written the rows: in the same layer, in another one, or from other pages."""
    prices = {number: 100 + number for number in range(PAGES)}
    with Site() as site:
        first = (
            FILE.replace("SITE", site.url)
            .replace("HOST", site.host)
            .replace("ARCHIVE", "")
            .replace("css: a,", "css: a.item,")
        )
        wrong = first.replace("css: b", "css: i")
        whole = wrong.replace("conditional: true", "conditional: false")
        renamed = wrong.replace("item:", "thing:").replace("to: item", "to: thing")
        moved = first.replace("css: a.item,", "css: a.moved,").replace("^/item/", "^/moved/")
        listed = "".join(f"<a class=item href=/item/{n}>1</a><a class=moved href=/moved/{n}>1</a>" for n in prices)
        site.on("/list", Reply(body=listed))
        for n, price in prices.items():
            site.on(f"/item/{n}", Reply(body=f"<b>{price}</b><i>7</i>", headers={"ETag": f'"{n}"'}))
            site.on(f"/moved/{n}", Reply(body="<b>7</b>", headers={"ETag": f'"{n}"'}))
        for text in (first, wrong, first, whole, first, renamed, first, moved, first):
            site.visits.clear()
            place.write(text)
            place.crawl("site.yaml")
            assert set(asked(site).values()) == {None}
            assert dict(place.rows("select id, price from items")) == (
                prices if text == first else dict.fromkeys(prices, 7)
            )


def test_what_a_row_has_from_elsewhere_than_its_page_is_never_old(place: Place) -> None:
    """The list passes something else to a page that has not changed; a key with the round wants a row of each."""
    text = """
site: shop
seeds: [SITE/list]
politeness: {robots: ignore}
seen: round
request: {conditional: true}
layers:
  list: {match: ^/list, records: li, fields: {_price: b}, follow: [{css: a.item, to: item, pass: {price: _price}}, {css: a.daily, to: day}]}
  item: {match: ^/item/, fields: {name: h1, price: {from: parent.price, type: int}}}
  day: {match: ^/day/, fields: {name: h1}}
store:
  item: {table: items, key: [name]}
  day: {table: days, key: [name, round], add: round}
"""
    with Site() as site:
        place.write(text.replace("SITE", site.url))
        prices = {1: 10, 2: 20}
        for number, path in ((1, "/item/1"), (2, "/item/2"), (3, "/day/3")):
            site.on(path, Reply(body=f"<h1>{number}</h1>", headers={"ETag": f'"{number}"'}))
        for round in range(4):
            if round == 2:
                prices[2] = 25  # The other one has not changed, and is not sent again.
            listed = "".join(
                f"<li><b>{price}</b><a class=item href=/item/{one}>x</a></li>" for one, price in prices.items()
            )
            site.on("/list", Reply(body=f"{listed}<li><a class=daily href=/day/3>x</a></li>"))
            site.visits.clear()
            place.crawl("site.yaml")
            tags = {visit.path: visit.headers.get("If-None-Match") for visit in site.visits if visit.path != "/list"}
            item, other = '"1"' if round else None, '"2"' if round in (1, 3) else None
            assert tags == {"/item/1": item, "/item/2": other, "/day/3": None}
            assert dict(place.rows("select name, price from items")) == {"1": 10, "2": prices[2]}
            for path in ("/item/1", "/item/2"):
                site.on(
                    path,
                    Reply(304, body="")
                    if round != 1 or path == "/item/1"
                    else Reply(body="<h1>2</h1>", headers={"ETag": '"2"'}),
                )
        assert len(place.rows("select * from days")) == 4


def test_a_server_that_says_unchanged_without_being_asked_loses_no_page(place: Place) -> None:
    with Site() as site:
        place.write(FILE.replace("SITE", site.url).replace("HOST", site.host).replace("ARCHIVE", ""))
        serve(site, {1: 10, 2: 20}, {1})
        [told] = place.crawl("site.yaml")["sites"]
        assert (told["dead"], place.rows("select id from items")) == (1, [(2,)]), "a page that was never read is told"
        assert "status 304" in place.run("dead", "list")
        # One that answers for another version than was asked about: the page is fetched whole. The same tag in another dress is the same.
        serve(site, {1: 10, 2: 20}, set())
        place.crawl("site.yaml")
        site.on("/item/1", Reply(304, body="", headers={"ETag": '"1-99"'}, times=1), Reply(body="<b>12</b>"))
        site.on("/item/2", Reply(304, body="", headers={"ETag": 'W/"2-20-gzip"'}))
        place.crawl("site.yaml")
        assert dict(place.rows("select id, price from items")) == {1: 12, 2: 20}
        assert site.paths().count("/item/2") == 2
