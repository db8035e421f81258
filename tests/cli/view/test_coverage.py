"""`gossamer report coverage`: which fields had a value, by round, summed over the fleet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

FILE = """
site: shop
seeds: ['SITE/item/[1-9]', SITE/list]
politeness: {robots: ignore, hosts: {HOST: {concurrency: 8}}}
seen: round
layers:
  item:
    match: ^/item/
    fields:
      id: {from: url, regex: '(\\d+)$'}
      name: h1
      price: {css: b, default: 0, type: int}
      sale: {css: s, when: price}
      parts: {each: {css: li}, fields: {text: {xpath: .}, code: i}}
  list: {match: ^/list, records: p, fields: {word: {css: i}}}
store: {item: {table: items}}
"""


def place_of(tmp_path: Path, server: Server, name: str) -> Place:
    return Place(tmp_path, server, name)


def serve(site: Site, priced: int) -> None:
    for number in range(1, 10):
        price = f"<b>{number}</b>" if number <= priced else ""
        site.on(f"/item/{number}", Reply(body=f"<h1>{number}</h1>{price}<li>a<i>x</i></li><li>b</li>"))
    site.on("/list", Reply(body="<p><i>a</i></p><p>b</p><p>c</p>"))


def test_each_round_has_the_share_of_each_field(tmp_path: Path, valkey_server: Server, crawl_name: str) -> None:
    place = place_of(tmp_path, valkey_server, crawl_name)
    with Site() as site:
        place.write(FILE.replace("SITE", site.url).replace("HOST", site.host))
        serve(site, 9)
        place.crawl("site.yaml", "--workers", "2")
        serve(site, 3)
        site.on("/item/9", Reply(body="<p>Just a moment</p>"))
        place.crawl("site.yaml", "--workers", "2")
    rows = json.loads(place.run("report", "coverage", "--json"))
    shares = {(row["layer"], row["field"], row["round"]): (row["found"], row["asked"]) for row in rows}
    assert shares == {
        ("item", "", 1): (8, 9), ("item", "", 0): (9, 9),
        ("item", "name", 1): (8, 9), ("item", "name", 0): (9, 9),
        ("item", "price", 1): (3, 9), ("item", "price", 0): (9, 9),
        ("item", "sale", 1): (0, 3), ("item", "sale", 0): (0, 9),
        ("item", "parts", 1): (8, 9), ("item", "parts", 0): (9, 9),
        ("item", "parts.text", 1): (16, 16), ("item", "parts.text", 0): (18, 18),
        ("item", "parts.code", 1): (8, 16), ("item", "parts.code", 0): (9, 18),
        ("list", "", 1): (1, 1), ("list", "", 0): (1, 1),
        ("list", "word", 1): (1, 3), ("list", "word", 0): (1, 3),
    }  # fmt: skip
    assert "33.3%" in place.run("report", "coverage")


LISTS = """
site: forum
seeds: [SITE/plain, SITE/helped]
politeness: {robots: ignore, hosts: {HOST: {concurrency: 8}}}
seen: round
layers:
  plain: {match: ^/plain, follow: [{css: a, to: item}]}
  helped:
    match: ^/helped
    records: li
    fields: {_link: {css: a, attr: href}, _at: {css: time, attr: datetime}}
    follow: [{url: "{_link}", to: item, changed: "{_at}"}]
  item: {match: ^/item, fields: {name: h1}}
"""


def test_lists_that_keep_no_records_count_by_their_links(
    tmp_path: Path, valkey_server: Server, crawl_name: str
) -> None:
    place = place_of(tmp_path, valkey_server, crawl_name)
    with Site() as site:
        place.write(LISTS.replace("SITE", site.url).replace("HOST", site.host))
        site.on("/item", Reply(body="<h1>a name</h1>"))
        for path in ("/plain", "/helped"):
            site.on(path, Reply(body='<li><a href="/item">a</a><time datetime="1">today</time></li>'))
        place.crawl("site.yaml")
        for path in ("/plain", "/helped"):
            site.on(path, Reply(body="<p>Please wait</p>"))
        place.run("crawl", "site.yaml")
    rows = json.loads(place.run("report", "coverage", "--json"))
    shares = {(row["layer"], row["round"]): (row["found"], row["asked"]) for row in rows if row["layer"] != "item"}
    assert shares == {("plain", 0): (1, 1), ("helped", 0): (1, 1), ("plain", 1): (0, 1), ("helped", 1): (0, 1)}
