"""What a site file can say, crawled from the command line: what the pages have is what the tables have."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site, data

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

SEARCH = """
site: search
seeds: [SITE/]
politeness: {robots: ignore}
layers:
  ask:
    match: ^/$
    fields: {_token: {css: input, attr: value}}
    follow: {url: /found, form: {token: '{_token}', q: lamp}, to: found, when: _token}
  found:
    fields:
      _mark: .mark
      title: h1
      at: {value: '{title} {_mark}'}
      sold: {css: .sold, type: int, when: "_mark == 'old'"}
    follow: {css: 'button.more', attr: onclick, regex: "'([0-9]+)'", clean: [{prefix: /more/}], to: more, when: _mark}
  more: {fields: {text: p}}
store: {found: {table: found, key: title}, more: {table: more}}
"""

FOUND = (
    """<h1>Lamp</h1><b class=mark>new</b><i class=sold>many</i><button class=more onclick="show('7')">more</button>"""
)

NUMBERED = """
site: numbered
seeds: [{url: SITE/shop, layer: shop}, {url: SITE/api?offset=0, layer: api}]
politeness: {robots: ignore}
layers:
  shop:
    records: li
    fields: {name: b}
    follow: {url: '/shop?page={turn+1}', to: shop, pages: 0}
  api:
    format: json
    fields: {items: {each: {jmespath: items}, fields: {id: {jmespath: id, type: int}}}, at: {from: url, regex: '\\d+$', type: int}}
    follow: {url: '/api?offset={turn*2}', to: api, pages: 0}
store: {shop: {table: shop, key: name}, api: {table: api, key: at, children: {items: {table: things}}}}
"""


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


def test_helpers_and_conditions_serve_fields_and_links(place: Place) -> None:
    with Site() as site:
        site.on("/", Reply(body="<input value=k9>")).on("/found", Reply(body=FOUND))
        site.on("/more/7", Reply(body="<p>bright</p>"))
        told = place.crawl(place.write(SEARCH.replace("SITE", site.url)))
        (asked,) = [visit for visit in site.visits if visit.path == "/found"]
    assert told["sites"][0]["dead"] == 0
    assert asked.body == b"token=k9&q=lamp"
    assert place.rows("select title, at, sold from found") == [("Lamp", "Lamp new", None)]
    assert place.rows("select text from more") == [("bright",)]
    assert "_mark" not in [column for _, column, *_ in place.rows("pragma table_info(found)")]


def test_pages_by_number_and_offset_end_where_they_are_empty_or_come_again(place: Place) -> None:
    with Site() as site:
        pages = ["<li><b>a</b></li><li><b>b</b></li>", "<li><b>c</b></li>"]
        site.on("/shop", Reply(body=pages[1])).on("/shop?page=2", Reply(body=pages[1])).on(
            "/shop?page=1", Reply(body=pages[0])
        )
        site.on("/api", data({"items": []})).on("/api?offset=2", data({"items": [{"id": 3}]}))
        site.on("/api?offset=0", data({"items": [{"id": 1}, {"id": 2}]}))
        told = place.crawl(place.write(NUMBERED.replace("SITE/shop", "SITE/shop?page=1").replace("SITE", site.url)))
        asked = sorted(visit.target for visit in site.visits)
    assert told["sites"][0]["dead"] == 0
    # The shop has two pages and shows the last one for any further number; the API has two and then none.
    assert asked == [
        "/api?offset=0", "/api?offset=2", "/api?offset=4", "/shop?page=1", "/shop?page=2", "/shop?page=3",
    ]  # fmt: skip
    assert place.rows("select name from shop order by name") == [("a",), ("b",), ("c",)]
    assert place.rows("select id from things order by id") == [(1,), (2,), (3,)]
