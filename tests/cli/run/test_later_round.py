"""What commands say of a site that was crawled before and whose records are in SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import fork_server
from tests.support.example_sites import SECONDS, Place
from tests.support.site import Reply, Site, links

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

FILE = """
site: shop
seeds: [SITE/list]
politeness: {robots: ignore}
layers:
  list: {match: ^/list, follow: [{css: a, to: item}]}
  item: {match: ^/item/, SEENfields: {price: {css: b, type: int}}}
store:
  item: {table: items}
"""


def test_a_later_round_says_what_it_leaves_out_and_an_export_where_records_are(
    tmp_path: Path, valkey_server: Server, crawl_name: str
) -> None:
    place = Place(tmp_path, valkey_server, crawl_name)

    def said(*words: str) -> str:
        done = fork_server.run("gossamer", words, place.environ, place.directory, SECONDS, options=["-P"])
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{place.logs()}"
        return done.stderr

    with Site() as site:
        site.on("/list", links("/item/1", "/item/2"))
        site.on("/item/1", Reply(body="<b>1</b>"))
        site.on("/item/2", Reply(body="<b>2</b>"))
        text = FILE.replace("SITE", site.url)
        file = place.write(text.replace("SEEN", ""))
        said("crawl", file, "-w", "1")
        told = said("crawl", file, "-w", "1")
        assert (
            "pages of list, item that an earlier round has fetched are not fetched again, unless they are seeds" in told
        )
        assert "or a link says with `changed` that they changed" in told
        assert sorted(site.paths()) == ["/item/1", "/item/2", "/list", "/list"]
        place.write(text.replace("SEEN", "seen: round, "))
        assert "pages of list that an earlier round" in said("crawl", file, "-w", "1")
        assert len(site.paths()) == 7
        place.write(text.replace("SEEN", "revisit: 1d, "))
        told = said("crawl", file, "-w", "1")
        assert "pages of list that an earlier round" in told
        assert (
            "shop: pages of item are fetched again when they are due (`revisit`), but only while a worker runs" in told
        )
    notice = said("items", "export", "shop", "out.jsonl")
    assert "records of layers under `store:` are rows in its database" in notice
    assert "ITEM_PIPELINES" not in notice
