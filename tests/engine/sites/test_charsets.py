"""Pages in legacy character sets, unlabelled or wrongly labelled: the rows are what the pages say, and what was guessed is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

TITLES = {
    "gb18030": "编译器把源代码翻译成目标程序，论坛里的用户讨论了这个问题。",
    "shift_jis": "昨日の夜、掲示板で利用者がこの問題について話し合いました。",
    "euc-kr": "어제 저녁 게시판에서 사용자들이 이 문제에 대해 이야기했습니다.",
    "big5": "編譯器把原始碼翻譯成目的程式，論壇裡的使用者討論了這個問題。",
    "windows-1251": "Вчера вечером пользователи форума обсудили этот вопрос.",
    "iso-8859-2": "Wczoraj wieczorem użytkownicy forum omówili to zagadnienie: książę śpi.",
}


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        yield one


@pytest.fixture
def place(valkey_server: Server, crawl_name: str, tmp_path: Path) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


@pytest.mark.parametrize("engine", ["native", "scrapy"])
def test_legacy_pages_are_read_right_and_those_that_were_guessed_are_named(
    engine: str, site: Site, place: Place
) -> None:
    for name, title in TITLES.items():
        page = f"<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>".encode(name)
        plain = {"Content-Type": "text/html"}
        site.on(f"/none/{name}", Reply(body=page, headers=plain))
        site.on(f"/wrong/{name}", Reply(body=page.replace(b"<head>", b"<head><meta charset=utf-8>"), headers=plain))
        site.on(f"/named/{name}", Reply(body=page, headers={"Content-Type": "text/html; charset=utf-8"}))
        site.on(f"/said/{name}", Reply(body=page, headers={"Content-Type": f"text/html; charset={name}"}))
    site.on("/said/damaged", Reply(body="<h1>é ü ñ".encode() + b"\xff</h1>"))
    file = place.write(f"""
    site: old
    engine: {engine}
    params: {{enc: [{", ".join(TITLES)}]}}
    seeds:
      - '{site.url}/none/{{enc}}'
      - '{site.url}/wrong/{{enc}}'
      - {{url: '{site.url}/named/{{enc}}', pass: {{enc: '{{enc}}'}}}}
      - '{site.url}/said/{{enc}}'
      - '{site.url}/said/damaged'
    politeness: {{robots: ignore, concurrency: 8}}
    layers:
      none: {{match: ^/none, fields: {{title: h1}}}}
      wrong: {{match: ^/wrong, fields: {{title: h1}}}}
      named: {{match: ^/named, encoding: '{{enc}}', fields: {{title: h1}}}}
      said: {{match: ^/said, fields: {{title: h1}}}}
    store:
      {{none: {{table: none}}, wrong: {{table: wrong}}, named: {{table: named}}, said: {{table: said}}}}
    """)
    out, said = place.said("crawl", file, "-w", "1", "--json")
    for table in ("none", "wrong", "named", "said"):
        rows = place.rows(f"select url, title from {table} where url not like '%damaged'")
        assert {url.rpartition("/")[2]: title for url, title in rows} == TITLES, table
    [counts] = json.loads(out)["sites"]
    assert counts["charset_guessed"] == {"none": 6, "wrong": 6}
    assert counts["charset_replaced"] == {"said": 1}
    assert counts["unreadable"] == {}
    assert [line.partition(";")[0] for line in said.splitlines() if "old: " in line] == [
        "old: the character set of 6 pages of none was guessed, or is another than they say",
        "old: the character set of 6 pages of wrong was guessed, or is another than they say",
        "old: on 1 page of said, bytes that are no characters were replaced",
    ]
    assert "pages with characters that were replaced" in place.run("report", "left-out")
    tried = place.run("site", "try", f"{site.url}/none/big5", "--file", file)
    assert "big5hkscs (a guess)" in tried
