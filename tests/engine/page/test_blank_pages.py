"""Pages on which nothing is that their layer reads: a failure, never a row."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site, data

WALL = Reply(body="<html><title>One moment</title><p>Checking your browser</p></html>")
FILE = """
    site: shop
    seeds: ['SITE/item/[0-3]']
    politeness: {robots: ignore}
    seen: round
    layers:
      item: {match: '^/item/', LAYER}
    database: 'sqlite:///FOLDER/rows.db'
    store: {item: {table: items, add: [round]}}
"""
FIELDS = "fields: {id: {from: url, regex: '(\\d+)$'}, kind: {value: lamp}, stock: {css: i, type: int, default: 0}, name: h1, price: b}"


def push(crawl: Crawl, layer: str) -> None:
    crawl.push(FILE.replace("LAYER", layer).replace("FOLDER", str(crawl.folder)))


def rows(crawl: Crawl, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(crawl.folder / "rows.db") as database:
        return database.execute(query).fetchall()


def serve(site: Site, *walls: int, body: str = "<h1>lamp {0}</h1><b>{0}9</b>") -> None:
    for number in range(4):
        site.on(f"/item/{number}", WALL if number in walls else Reply(body=body.format(number)))


def new_round(crawl: Crawl, number: int) -> None:
    with crawl.frontier() as frontier:
        frontier.new_round("shop", number)


async def test_over_three_rounds_a_wall_replaces_no_row(crawl: Crawl, site: Site) -> None:
    serve(site)
    push(crawl, FIELDS)
    await crawl.run()
    whole = [(f"lamp {number}", f"{number}9") for number in range(4)]
    assert rows(crawl, "select name, price from items order by id") == whole
    serve(site, 1, 2, body="<h1>lamp {0}</h1><b>new</b>")
    new_round(crawl, 1)
    await crawl.run()
    changed = [("lamp 0", "new"), *whole[1:3], ("lamp 3", "new")]
    assert rows(crawl, "select name, price from items order by id") == changed
    lack = "no field that is read from the page has a value (require: none lets it pass)"
    assert crawl.dead("shop") == [("lack", lack)] * 2
    serve(site, body="<h1>lamp {0}</h1><b>newest</b>")
    new_round(crawl, 2)
    await crawl.run()
    assert rows(crawl, "select price, round from items") == [("newest", 2)] * 4
    assert crawl.dead("shop") == []


@pytest.mark.parametrize(
    "layer",
    [
        f"require: none, {FIELDS}",
        "fields: {id: {from: url, regex: '(\\d+)$'}, kind: {value: lamp}, size: {from: headers.content-length}}",
        "fields: {kind: {from: parent.kind}, name: {css: h1, when: kind}}",
    ],
    ids=["require: none", "nothing read", "not asked"],
)
async def test_where_nothing_must_be_found_it_is_a_row(crawl: Crawl, site: Site, layer: str) -> None:
    serve(site, 0)
    push(crawl, layer)
    await crawl.run()
    assert len(rows(crawl, "select * from items")) == 4
    assert crawl.dead("shop") == []


@pytest.mark.parametrize(
    "layer",
    [
        "fields: {_all: {css: 'p, h1'}, name: {from: fields._all, regex: 'lamp .*'}}",
        "fields: {name: {css: h1, default: unknown}}",
        "fields: {size: {css: p, type: int}, name: h1}",
        "fields: {parts: {each: {css: 'p, h1'}, fields: {name: {css: b}, at: {from: url}}}, name: h1}",
        "fields: {one: {fields: {name: h1, at: {from: url}}}}",
        "require: [name], lacking: keep, fields: {name: h1, price: b}",
    ],
    ids=["by a helper", "default", "not of its type", "nested", "one nested", "lacking: keep"],
)
async def test_what_the_page_does_not_say_is_no_value(crawl: Crawl, site: Site, layer: str) -> None:
    serve(site, 0)
    push(crawl, layer)
    await crawl.run()
    assert len(rows(crawl, "select * from items")) == 3
    assert [reason for reason, _ in crawl.dead("shop")] == ["lack"]


async def test_zero_and_false_are_values(crawl: Crawl, site: Site) -> None:
    site.on("/item/0", data({"stock": 0})).on("/item/1", data({"sold": False})).on("/item/2", data({"error": "no"}))
    site.on("/item/3", data({"stock": None, "sold": None}))
    push(crawl, "format: json, fields: {stock: {jmespath: stock, type: int}, sold: {jmespath: sold, type: bool}}")
    await crawl.run()
    assert sorted(rows(crawl, "select stock, sold from items"), key=str) == [(0, None), (None, 0)]
    assert [reason for reason, _ in crawl.dead("shop")] == ["lack"] * 2


async def test_records_of_which_there_are_none_are_a_result(crawl: Crawl, site: Site) -> None:
    serve(site, 0)
    text = FILE.replace("LAYER", "records: h1, fields: {name: {xpath: .}}").replace("add: [round]", "key: [name]")
    crawl.push(text.replace("FOLDER", str(crawl.folder)))
    await crawl.run()
    assert crawl.dead("shop") == []
    assert len(rows(crawl, "select * from items")) == 3


async def test_a_thread_ends_with_the_first_page_turn_that_has_nothing(crawl: Crawl, site: Site) -> None:
    """That page is no row of its own, nor a failure; in the middle of pages that are linked it is one."""
    site.on("/item/0", Reply(body="<p>a</p><p>b</p>")).on("/item/0?page=1", Reply(body="<p>c</p>"))
    site.on("/item/0?page=2", Reply(body="<i>no more</i>"))
    site.on("/item/1", Reply(body="<p>x</p><a href='?page=9'>next</a>")).on("/item/1?page=9", Reply(body="<i>oh</i>"))
    counted = "follow: [{url: '/item/0?page={turn}', to: item, pages: 0}], fields: {texts: {css: p, all: true}}"
    crawl.push(
        FILE.replace("[0-3]", "0").replace("LAYER", counted).replace("FOLDER", str(crawl.folder)),
    )
    await crawl.run()
    assert site.visits[-1].target == "/item/0?page=2"
    assert (len(rows(crawl, "select * from items")), crawl.dead("shop")) == (2, [])
    linked = "follow: [{css: a, to: item, pages: 5}], fields: {texts: {css: p, all: true}}"
    crawl.push(FILE.replace("[0-3]", "1").replace("LAYER", linked).replace("FOLDER", str(crawl.folder)))
    new_round(crawl, 1)
    await crawl.run()
    assert [reason for reason, _ in crawl.dead("shop")] == ["lack"]


async def test_what_a_page_without_values_was_known_by_is_forgotten(crawl: Crawl, site: Site) -> None:
    """Its next visit has the page whole: the version with the wall is none."""
    serve(site)
    for number in range(4):
        site.on(f"/item/{number}", Reply(body=f"<h1>{number}</h1>", headers={"ETag": '"page"'}))
    push(crawl, f"request: {{conditional: true}}, {FIELDS}")
    await crawl.run()
    site.on("/item/0", Reply(body=WALL.body, headers={"ETag": '"wall"'}))
    new_round(crawl, 1)
    await crawl.run()
    site.visits.clear()
    new_round(crawl, 2)
    await crawl.run()
    asked = [visit.headers.get("If-None-Match") for visit in site.visits if visit.path == "/item/0"]
    assert asked == [None]


async def test_a_replayed_page_that_is_there_again_is_a_row(crawl: Crawl, site: Site) -> None:
    serve(site, 0, 1)
    push(crawl, FIELDS)
    await crawl.run()
    serve(site, 1)
    with crawl.frontier() as frontier:
        for letter in frontier.dead_letters("shop"):
            frontier.replay(letter.partition, [letter.id])
    await crawl.run()
    assert len(rows(crawl, "select * from items")) == 3
    assert len(crawl.dead("shop")) == 1
