"""What a site file can say, crawled from the command line: what the pages have is what the tables have."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site

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
