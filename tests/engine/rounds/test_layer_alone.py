"""`gossamer crawl FILE --layer NAME`: a round of one layer alone, which begins with the seeds of that layer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site, links

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

FILE = """
site: shop
seeds: [SITE/list]
seen: round
politeness: {robots: ignore, hosts: {HOST: {concurrency: 8}}}
request: {retries: 0}
layers:
  list: {match: ^/list, follow: [{css: a, to: item}]}
  item: {match: ^/item/, fields: {title: title}}
store: {item: {table: items, key: [url], archive: true}}
"""


def test_a_layer_without_a_seed_spends_no_round_and_archives_no_table(
    valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, valkey_server, crawl_name)

    def state() -> tuple[int, list[str], int]:
        with place.frontier() as frontier:
            rounds = [row.round for row in frontier.counts("shop").groups if row.group == "shop"]
        tables = place.rows("select name from sqlite_master where type = 'table' order by 1")
        return rounds[0], [name for (name,) in tables], len(place.rows("select * from items"))

    with Site() as site:
        text = FILE.replace("SITE", site.url).replace("HOST", site.host)
        place.write(text)
        site.on("/list", links("/item/1", "/item/2"))
        refusal = "no seed of the site shop is a page of the layer item"
        assert refusal in place.said("crawl", "site.yaml", "--layer", "item", code=2)[1]
        with place.frontier() as frontier:
            assert not frontier.counts("shop").groups, "nothing has begun"
        place.crawl("site.yaml")
        before = state()
        assert before[2] == 2
        for words in ((), ("--fresh", "--yes")):
            assert refusal in place.said("crawl", "site.yaml", "--layer", "item", *words, code=2)[1]
            assert state() == before
        # One that a seed names has a round of its own.
        place.write(text.replace(f"[{site.url}/list]", f"[{site.url}/item/1]"))
        site.on("/item/1", Reply(body="<title>later</title>"))
        place.crawl("site.yaml", "--layer", "item")
        assert place.rows("select title from items") == [("later",)]


def test_what_a_round_brought_is_put_aside_by_its_number(
    valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    """Also when rounds count from 0 again. A round of one layer leaves the tables of others alone."""
    place = Place(tmp_path, valkey_server, crawl_name)

    def items(table: str) -> list[str]:
        return [url.rpartition("/")[2] for (url,) in place.rows(f"select url from {table} order by url")]

    with Site() as site:
        text = FILE.replace("SITE", site.url).replace("HOST", site.host).replace("[url]", "[url], add: [round]")
        text = text.replace("archive: true}}", "archive: true}, list: {table: lists, key: [n], archive: true}}")
        place.write(text.replace("follow:", "fields: {n: i}, follow:"))
        for number, words in enumerate([(), ("--layer", "list"), (), ("--fresh", "--yes"), ()]):
            body = f"<i>{number}</i><a href=/item/{number}a>x</a><a href=/item/{number}b>x</a>"
            site.on("/list", Reply(body=body))
            place.crawl("site.yaml", *words)
            assert place.rows("select n from lists") == [(str(number),)]
            assert items("items") == ([f"{number}a", f"{number}b"] if number != 1 else ["0a", "0b"])
    assert [items(f"items_{end}") for end in ("r0", "r2", "r0_2")] == [["0a", "0b"], ["2a", "2b"], ["3a", "3b"]]
    assert [place.rows(f"select n from lists_{end}") for end in ("r0", "r1", "r2", "r0_2")] == [
        [("0",)],
        [("1",)],
        [("2",)],
        [("3",)],
    ]
    assert place.rows("select distinct round from items_r2") == [(2,)]
