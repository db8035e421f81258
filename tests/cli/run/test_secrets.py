"""${NAME} in single requests: servers get the values, and nobody else does."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

KEY, WORD = 'k"{y} &=+ü${HOME}', "sesame open"
SITE = """
site: api
seeds:
  - {url: 'SITE/list?key=${SITE_KEY}&page=1', headers: {X-Word: 'w ${SITE_WORD}'}}
politeness: {robots: ignore}
request: {retries: 0}
layers:
  list:
    match: '^/list'
    identity: {canonical: true}
    fields: {q: i, next: {css: a.next, attr: href, type: url}}
    follow:
      - {css: a.next, to: list}
      - {url: 'SITE/made?key=${SITE_KEY}&q={q}', to: end}
      - {css: a.form, to: end, form: {key: '${SITE_KEY}', q: '{q}'}}
      - {css: a.json, to: end, json: {key: 'x${SITE_KEY}', q: '{q}'}}
      - {css: a.raw, to: end, method: PUT, body: 'raw ${SITE_KEY} {q}'}
      - {css: a.head, to: end, headers: {X-Word: '${SITE_WORD}'}, cookies: {w: '${SITE_KEY}x'}}
      - {css: a.plain, to: end}
      - {css: a.post, to: posted}
  end: {fields: {path: {from: url}}}
  posted: {request: {form: {word: '${SITE_WORD}', id: '{q}'}}, match: '^/posted/(?P<q>.*)', fields: {path: {from: url}}}
store:
  list: {table: lists}
  end: {table: ends}
"""


def test_values_are_sent_and_stand_nowhere_else(
    tmp_path: Path, valkey_server: Server, crawl_name: str, site: Site
) -> None:
    place = Place(tmp_path, valkey_server, crawl_name, SITE_KEY=KEY, SITE_WORD=WORD)
    with Site("127.0.0.2") as other:
        names = ("form", "json", "raw", "head", "post")
        links = "".join(f'<a class={name} href="/{name}{"ed/7" if name == "post" else ""}">x</a>' for name in names)
        # A page that would like to know: here, in what is filled in, and elsewhere.
        links += '<a class=plain href="/plain?v=${SITE_WORD}">x</a><i>${SITE_WORD}</i>'
        links += f'<a class=head href="{other.url}/head">x</a><a class=form href="{other.url}/form">x</a>'
        # A server that repeats the key.
        links += '<a class=next href="/list?key=k%22%7By%7D%20%26%3D%2B%C3%BC%24%7BHOME%7D&page=2">x</a>'
        own = "?key=k%22%7By%7D%20%26%3D%2B%C3%BC%24%7BHOME%7D"
        site.on(
            "/list",
            Reply(body=f"<html><head><link rel=canonical href='/list{own}&own=1'></head>{links}</html>", times=1),
            Reply(body="<html><i>2</i></html>"),
        )
        sent_on = f"<html><head><meta http-equiv=refresh content='0;url=/end{own}'></head></html>"
        site.on("/head", Reply(body=sent_on))
        site.on("/json", Reply(status=500))
        place.write(SITE.replace("SITE/", f"{site.url}/"))
        place.run("crawl", "site.yaml", "-w", "1")
        seen = {visit.path: visit for visit in site.visits if "page=1" not in visit.target}
        first, *_ = site.visits
        query = parse_qs(urlsplit(first.target).query)
        assert (query["key"], first.headers["X-Word"]) == ([KEY], f"w {WORD}")
        assert parse_qs(urlsplit(seen["/list"].target).query) == {"key": [KEY], "page": ["2"]}
        assert parse_qs(urlsplit(seen["/made"].target).query)["key"] == [KEY]
        assert parse_qs(seen["/form"].body.decode()) == {"key": [KEY], "q": ["${SITE_WORD}"]}
        assert json.loads(seen["/json"].body) == {"key": f"x{KEY}", "q": "${SITE_WORD}"}
        assert seen["/raw"].body.decode() == f"raw {KEY} ${{SITE_WORD}}"
        assert (seen["/head"].headers["X-Word"], seen["/head"].headers["Cookie"].encode("latin-1").decode()) == (
            WORD,
            f"w={KEY}x",
        )
        assert parse_qs(seen["/posted/7"].body.decode()) == {"word": [WORD], "id": ["7"]}
        assert "sesame" not in seen["/plain"].target
        # Elsewhere: without the header, and what cannot be sent without it is a dead letter.
        assert [(visit.path, visit.headers.get("X-Word"), visit.headers.get("Cookie")) for visit in other.visits] == [
            ("/head", None, None)
        ]
        with place.frontier() as frontier:
            assert sorted(letter.reason for letter in frontier.dead_letters("api")) == ["bad_request", "http_500"]
        urls, key = f"{site.url}/list?key=", "%24%7BSITE_KEY%7D"
        assert place.rows("select url, next from lists order by url") == [
            (f"{urls}{key}&own=1", f"{urls}${{SITE_KEY}}&page=2"),
            (f"{urls}{key}&page=2", None),
        ]
        assert parse_qs(urlsplit(seen["/end"].target).query) == {"key": [KEY]}
        place.run("export", "crawl.jsonl", "--secrets")
        everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        for value in (KEY, WORD, "sesame+open", "sesame%20open", json.dumps(KEY, ensure_ascii=False)[1:-1], "k%22%7By"):
            assert value.encode() not in everything, value
