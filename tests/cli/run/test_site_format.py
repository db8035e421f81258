"""What a site file can say, crawled from the command line: what the pages have is what the tables have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site, data, links

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
      seen: {css: time, type: datetime, languages: [de, en]}
      sold: {css: .sold, type: int, when: "_mark == 'old'"}
    follow: {css: 'button.more', attr: onclick, regex: "'([0-9]+)'", clean: [{prefix: /more/}], to: more, when: _mark}
  more: {fields: {text: p}}
store: {found: {table: found, key: title}, more: {table: more}}
"""

FOUND = """<h1>Lamp</h1><b class=mark>new</b><time>vor 3 Stunden</time><i class=sold>many</i><button class=more onclick="show('7')">more</button>"""

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

COPIES = """
site: copies
seeds: [SITE/]
politeness: {robots: ignore}
identity: {drop: [sid], rewrite: [['/m/', '/']], canonical: true}
layers:
  start: {match: ^/$, follow: {css: a, to: page}}
  page: {fields: {title: h1}}
store: {page: {table: pages, add: fetched_url}}
"""

PAPERS = """
site: papers
seeds: [{feed: SITE/feed}]
politeness: {robots: ignore}
archive_pages: kept
layers:
  paper:
    match: ^/papers/
    format: binary
    save: files
    fields: {title: {from: parent.title}, at: {from: parent.date, type: datetime}}
store: {paper: {table: papers, add: file}}
"""
FEED = """<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><entry><title type="html">On &lt;i>Lamps&lt;/i></title>
<link href="/papers/on lamps.pdf"/><published>2024-05-17T10:00:00+02:00</published><updated>2024-06-01T00:00:00Z</updated></entry>
<entry><title>More</title><link href="/papers/more?id=2"/></entry><entry><title>Gone</title><link href="/papers/gone.pdf"/></entry></feed>"""


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
    [(seen,)] = place.rows("select seen from found")
    assert abs(datetime.now(UTC) - timedelta(hours=3) - datetime.fromisoformat(seen).replace(tzinfo=UTC)).seconds < 300
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


def test_copies_of_a_page_are_fetched_once_or_are_one_row(place: Place) -> None:
    with Site() as site:
        copies = ["/p/1?sid=1", "/p/1;jsessionid=A9", "/m/p/1", "/p/1;sid=2?sid=3", "/p/2?print=1", "/p/2", "/old"]
        site.on("/old", Reply(body="<base href=/deep/><META http-equiv=Refresh content='0; URL=new'>"))
        site.on("/deep/new", Reply(body="<h1>New</h1>"))
        site.on("/", links(*copies))
        site.on("/p/1", Reply(body="<h1>One</h1>"))
        for path in ("/p/2", "/p/2?print=1"):
            site.on(path, Reply(body="<head><link rel=canonical href=/p/2></head><h1>Two</h1>"))
        told = place.crawl(place.write(COPIES.replace("SITE", site.url)))
        asked = [visit.target for visit in site.visits if visit.path != "/"]
        tried = place.run("site", "try", f"{site.url}/p/2?print=1", "--file", "site.yaml", "--layer", "page")
        stored = f"stored as: {site.url}/p/2 (identity.canonical)"
    assert told["sites"][0]["dead"] == 0
    assert sorted(asked) == ["/deep/new", "/old", "/p/1?sid=1", "/p/2", "/p/2?print=1"]
    rows = place.rows("select title, url, fetched_url from pages order by title")
    assert [(title, url.removeprefix(site.url)) for title, url, _ in rows] == [
        ("New", "/deep/new"),
        ("One", "/p/1"),
        ("Two", "/p/2"),
    ]
    assert rows[1][2] == f"{site.url}/p/1?sid=1"
    assert stored in tried.splitlines()


def test_downloads_are_plain_files_and_feeds_say_what_pages_do_not(place: Place) -> None:
    with Site() as site:
        site.on("/feed", Reply(body=FEED, headers={"Content-Type": "application/atom+xml"}))
        site.on(
            "/papers/on%20lamps.pdf", Reply(body=b"%PDF\x00\xff lamps", headers={"Content-Type": "application/pdf"})
        )
        site.on("/papers/more", Reply(body="more", headers={"Content-Type": "text/plain; charset=utf-8"}))
        site.on("/papers/gone.pdf", Reply(status=404))
        told = place.crawl(place.write(PAPERS.replace("SITE", site.url)))
        folder = site.host.replace(":", "_")
    assert told["sites"][0]["dead"] == 0
    rows = place.rows("select title, at, file from papers order by title")
    assert [row[:2] for row in rows] == [("More", None), ("On Lamps", "2024-05-17 08:00:00.000000")]
    kept = sorted(path for path in (place.directory / "kept" / "files").rglob("*") if path.is_file())
    assert [str(path.relative_to(place.directory / "kept" / "files")) for path in kept] == [row[2] for row in rows]
    assert [path.read_bytes() for path in kept] == [b"more", b"%PDF\x00\xff lamps"]
    assert rows[0][2].startswith(f"{folder}/papers_more-")
    assert rows[0][2].endswith(".txt")
    assert rows[1][2].startswith(f"{folder}/papers_on_lamps-")
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
