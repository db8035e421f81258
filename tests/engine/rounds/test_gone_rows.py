"""`gone: true` from round to round: the column says which rows have no source any more, and only these."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site, links

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

SHOP = """
site: shop
seeds: [SITE/list]
politeness: {robots: ignore}
request: {retries: 0}
layers:
  list: {match: ^/list, seen: round, follow: [{css: a, to: item}, {css: a.next, to: list, pages: 0}]}
  item:
    match: ^/item/
    seen: round
    fields: {name: b, offers: {each: i, fields: {seller: {xpath: .}}}}
store:
  item: {table: items, gone: true, children: {offers: {table: offers, key: [seller]}}}
"""


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


def serve(site: Site, items: dict[str, str], **broken: int) -> None:
    """A list of items with the sellers of each; some answer with another status."""
    site.visits.clear()
    site.on("/list", links(*(f"/item/{name}" for name in items)))
    for name, sellers in items.items():
        body = f"<b>{name}</b>" + "".join(f"<i>{seller}</i>" for seller in sellers)
        site.on(f"/item/{name}", Reply(broken[name]) if name in broken else Reply(body=body))


def gone(place: Place, table: str = "items", column: str = "name") -> dict[str, bool]:
    return {name: at is not None for name, at in place.rows(f"select {column}, gone_at from {table}")}


def noted(place: Place, group: str = "shop") -> tuple[int | None, str]:
    with place.frontier() as frontier:
        [info] = frontier.rounds(group, 1)
    return info.gone, info.note


def test_rows_are_gone_when_their_page_is_or_when_a_whole_round_did_not_bring_them(place: Place) -> None:
    with Site() as site:
        place.write(SHOP.replace("SITE", site.url))
        serve(site, {"a": "xy", "b": "x", "c": "z", "d": ""})
        place.crawl("site.yaml")
        assert gone(place) == dict.fromkeys("abcd", False)
        assert noted(place) == (0, "")
        # One answers 404, one is not linked any more, one has lost a seller.
        serve(site, {"a": "x", "b": "x", "d": ""}, b=404)
        place.crawl("site.yaml")
        assert gone(place) == {"a": False, "b": True, "c": True, "d": False}
        offers = {
            (name, seller): at is not None
            for name, seller, at in place.rows("select substr(parent_url, -1), seller, gone_at from offers")
        }
        assert offers == {("a", "x"): False, ("a", "y"): True, ("b", "x"): True, ("c", "z"): True}
        assert noted(place) == (2, "")
        # All come back. One fails: the round says nothing of the one that is not linked.
        serve(site, {"a": "xy", "b": "x", "c": "z"}, a=500)
        place.crawl("site.yaml")
        assert gone(place) == dict.fromkeys("abcd", False)
        assert noted(place) == (0, "which rows are gone is unknown in item: 1 failed")
        serve(site, {"a": "xy", "c": "z"}, a=410)
        place.crawl("site.yaml")
        assert gone(place) == {"a": True, "b": True, "c": False, "d": True}


def crawl(place: Place, site: Site, items: dict[str, str], *words: str, file: str = "site.yaml", **broken: int) -> None:
    serve(site, items, **broken)
    place.crawl(file, *words)


def unknown(place: Place, group: str = "shop") -> str:
    """Why the last round says nothing of rows that it did not bring."""
    return noted(place, group)[1].removeprefix("which rows are gone is unknown in ")


def wait_for(line: str, place: Place, seconds: float = 60.0) -> None:
    """Return when a worker has logged a line."""
    deadline = time.monotonic() + seconds
    while line not in place.logs():
        assert time.monotonic() < deadline, place.logs()
        time.sleep(0.05)


def test_the_rounds_are_reported(place: Place) -> None:
    with Site() as site:
        place.write(SHOP.replace("SITE", site.url))
        crawl(place, site, {"a": "", "b": ""})
        serve(site, {"a": ""})
        assert json.loads(place.run("crawl", "site.yaml", "--json"))["sites"][0]["gone_rows"] == 1
        serve(site, {"a": ""}, a=500)
        told = place.said("crawl", "site.yaml")[1]
        assert "shop: round 2: which rows are gone is unknown in item: 1 failed" in told
        rounds = json.loads(place.run("report", "gone", "--json"))
        assert [(row["site"], row["round"], row["gone"], row["unknown"]) for row in rounds] == [
            ("shop", 2, 0, "in item: 1 failed"),
            ("shop", 1, 1, ""),
            ("shop", 0, 0, ""),
        ]
        assert [row["gone"] for row in json.loads(place.run("round", "list", "shop", "--json"))] == [0, 1, 0]
        assert place.run("report", "gone").splitlines()[2].split("\t")[-2:] == ["1", ""]


def test_rounds_that_left_something_out_say_nothing_of_what_they_did_not_bring(place: Place) -> None:
    """Each time the item b is linked no more, and must not be gone for it: the round was not whole."""
    both, one = {"a": "x", "b": "y"}, {"a": "x"}
    with Site() as site:
        text = SHOP.replace("SITE", site.url)
        place.write(text)
        crawl(place, site, both)
        # A limit.
        place.write(text.replace("to: item}", "to: item, limit: 1}"))
        crawl(place, site, both)
        assert gone(place) == dict.fromkeys("ab", False)
        assert unknown(place) == "item: links are beyond limit, pages or limits.depth (list)"
        # One layer only.
        place.write(text)
        crawl(place, site, one, "--layer", "list")
        assert gone(place) == dict.fromkeys("ab", False)
        assert unknown(place) == "item: a worker crawled one layer only"
        # robots.txt: what is forbidden may be there, and the rest is known.
        site.on("/robots.txt", Reply(body="User-agent: *\nDisallow: /item/b", headers={"Content-Type": "text/plain"}))
        place.write(text.replace("robots: ignore", "robots: obey"))
        crawl(place, site, {**both, "c": ""})
        crawl(place, site, both)
        assert gone(place) == {"a": False, "b": False, "c": True}
        # The seed does not exist, or is empty, or fails.
        place.write(text)
        for reply, code in ((Reply(404), 1), (Reply(body="<html><p>nothing</p></html>"), 0), (Reply(500), 1)):
            serve(site, one)
            site.on("/list", reply)
            place.run("crawl", "site.yaml", "-w", "1", code=code)
            assert gone(place) == {"a": False, "b": False, "c": True}
        crawl(place, site, one)
        assert gone(place) == {"a": False, "b": True, "c": True}


@pytest.mark.parametrize("changed", ["the site's file", "the code of the site's functions"])
def test_a_round_with_two_versions_of_the_rules_says_nothing_of_what_it_did_not_bring(
    place: Place, changed: str
) -> None:
    with Site() as site:
        text = SHOP.replace("SITE", site.url).replace("robots: ignore", "robots: ignore, concurrency: 1")
        text += 'hooks: {after_extract: "own:kept"}\n'
        place.write("def kept(response, reading):\n    return reading\n", "own.py")
        place.write(text)
        crawl(place, site, {"a": "", "b": "", "c": ""})
        serve(site, {"a": "", "b": ""})
        site.hold("/item/a", "/item/b")
        crawling = place.start("crawl", "site.yaml", "-w", "1")
        try:
            site.wait(lambda paths: len(paths) > 1, "an item to be asked for")
            crawling.send_signal(signal.SIGINT)
            wait_for("Stopping: pages in progress", place)
            site.release("/item/a", "/item/b")
            crawling.wait(120)
        finally:
            crawling.kill()
        assert len(site.paths()) == 2, "one item is left"
        if changed == "the site's file":
            place.write(text.replace("fields: {name: b", "fields: {again: b, name: b"))
        else:
            place.write("def kept(response, reading):\n    return reading._replace()\n", "own.py")
        place.crawl("site.yaml", "--resume")
        assert sorted(site.paths()) == ["/item/a", "/item/b", "/list"]
        assert gone(place) == dict.fromkeys("abc", False)
        assert unknown(place) == f"item: {changed} changed while it ran"
        crawl(place, site, {"a": "", "b": ""})
        assert gone(place) == {"a": False, "b": False, "c": True}


def test_a_round_that_began_before_the_file_said_gone_says_so(place: Place) -> None:
    """It is not taken for one of another crawl, of which nothing is known either."""
    with Site() as site:
        serve(site, {"1": "a", "2": "b"})
        text = SHOP.replace("SITE", site.url)
        place.write(text.replace("gone: true, ", ""))
        site.hold("/item/2")
        with place.start("crawl", "site.yaml", "-w", "1") as crawl:
            site.reached("/item/2")
            crawl.send_signal(signal.SIGTERM)
            crawl.send_signal(signal.SIGTERM)
            crawl.wait(60)
        site.release("/item/2")
        place.write(text)
        place.run("crawl", "site.yaml", "--resume")
        assert "it began when the site did not say gone" in noted(place)[1]
