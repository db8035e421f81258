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
    lists = [visit.headers.get("If-None-Match") for visit in site.visits if visit.path == "/list"]
    assert lists == [None], "what it leads to may have changed, so it is fetched whole"
    return {
        int(visit.path.rpartition("/")[2]): visit.headers.get("If-None-Match")
        for visit in site.visits
        if visit.path != "/list"
    }


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
        assert sum(tag is not None for tag in asked(site).values()) == 2
        assert rows() == prices
        # A list that leads to pages that are fetched once is not sent again, unless one of these has failed.
        del place.environ["GOSSAMER_CONDITIONAL_PAGES"]
        once = (
            text.replace("site: shop", "site: once").replace("^/item/, seen: round", "^/item/").replace("ARCHIVE", "")
        )
        place.write(once.replace("conditional: true", "conditional: true, retries: 0"), "once.yaml")
        for failing, tag in ((2, None), (0, None), (0, '"list"')):
            serve(site, prices, set())
            if failing:
                site.on(f"/item/{failing}", Reply(500))
            place.crawl("once.yaml")
            assert [visit.headers.get("If-None-Match") for visit in site.visits if visit.path == "/list"] == [tag]
            wanted = 0 if tag else PAGES if failing else 1
            assert len(site.visits) == 1 + wanted


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
