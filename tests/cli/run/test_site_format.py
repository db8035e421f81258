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
store: {found: {table: found, key: title}}
"""


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


def test_a_token_is_sent_on_and_stored_nowhere(place: Place) -> None:
    with Site() as site:
        site.on("/", Reply(body="<input value=k9>")).on("/found", Reply(body="<h1>Lamp</h1><b class=mark>new</b>"))
        told = place.crawl(place.write(SEARCH.replace("SITE", site.url)))
        (asked,) = [visit for visit in site.visits if visit.path == "/found"]
    assert told["sites"][0]["dead"] == 0
    assert asked.body == b"token=k9&q=lamp"
    assert place.rows("select title, at from found") == [("Lamp", "Lamp new")]
    assert "_mark" not in [column for _, column, *_ in place.rows("pragma table_info(found)")]
