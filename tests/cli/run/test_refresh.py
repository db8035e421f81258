"""`refresh`: the comments of stored posts that are young enough, again, without the lists above them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site, data, links

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

FORUM = """
site: forum
seeds: [SITE/list]
politeness: {robots: ignore, hosts: {HOST: {concurrency: 8}}}
layers:
  list: {match: ^/list, seen: round, follow: [{css: a, to: post}]}
  post:
    match: ^/post/
    fields: {number: {from: url, regex: '(\\d+)$', type: int}, written: {css: time, type: datetime}, closed: {css: i}}
    follow: [{url: '/api/{number}', to: comment, pass: [number]}]
  comment:
    match: ^/api/
    format: json
    records: {jmespath: items}
    fields: {id: {jmespath: id, type: int}, post: {from: parent.number, type: int}, text: {jmespath: text}}
    follow: [{jmespath: 'pages[]', pages: 0}]
store:
  post: {table: posts, key: [number], columns: {number: id}, add: [url]}
  comment: {table: comments, key: [id], add: [parent]}
"""
REFRESH = """
refresh:
  table: posts
  where: {written: {newer: 3d}, closed: null}
  layer: comment
  url: '/api/{number}'
"""
BESIDE = """
site: comments
politeness: {robots: ignore}
refresh: {table: posts, where: {id: {min: 3}}, layer: talk, url: 'SITE/api/{id}', pass: {number: id}}
layers:
  talk:
    match: ^/api/
    format: json
    records: {jmespath: items}
    fields: {id: {jmespath: id, type: int}, post: {from: parent.number, type: int}, text: {jmespath: text}}
    follow: [{jmespath: 'pages[]', pages: 0}]
store:
  talk: {table: comments, key: [id]}
"""


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


def serve(site: Site, ages: list[int], word: str) -> dict[int, tuple[int, str]]:
    """Posts of these ages in days, the second one closed, each with two comments, on two pages that link each other. Returns what the table should have."""
    site.visits.clear()
    site.on("/list", links(*(f"/post/{number}" for number in range(len(ages)))))
    for number, age in enumerate(ages):
        written = (datetime.now(UTC) - timedelta(days=age, minutes=1)).isoformat()
        site.on(f"/post/{number}", Reply(body=f"<time>{written}</time>{'<i>closed</i>' if number == 1 else ''}"))
        comments = [{"id": number * 10 + one, "text": f"{word} {number}.{one}"} for one in range(2)]
        paths = [f"/api/{number}", f"/api/{number}/2"]
        for path, comment in zip(paths, comments, strict=True):
            site.on(path, data({"items": [comment], "pages": paths}))
    return {number * 10 + one: (number, f"{word} {number}.{one}") for number in range(len(ages)) for one in range(2)}


def test_comments_of_young_posts_are_fetched_again(place: Place) -> None:
    ages = [0, 1, 2, 5, 30]

    def comments() -> dict[int, tuple[int, str]]:
        return {id: (post, text) for id, post, text in place.rows("select id, post, text from comments")}

    with Site() as site:
        text = FORUM.replace("SITE", site.url).replace("HOST", site.host)
        place.write(text)
        first = serve(site, ages, "first")
        place.crawl("site.yaml")
        assert comments() == first
        # Posts and comments were seen for good; the open posts of the last three days ask for their comments again.
        place.write(text + REFRESH)
        later = serve(site, ages, "later")
        place.crawl("site.yaml")
        assert sorted(site.paths()) == ["/api/0", "/api/0/2", "/api/2", "/api/2/2", "/list"]
        assert comments() == {id: later[id] if later[id][0] in (0, 2) else first[id] for id in first}
        assert place.rows("select distinct parent from comments where id = 20") == [(f"{site.url}/post/2",)]
        # That layer alone, without the list.
        serve(site, ages, "alone")
        place.crawl("site.yaml", "--layer", "comment")
        assert sorted(site.paths()) == ["/api/0", "/api/0/2", "/api/2", "/api/2/2"]
        # A site of its own, with its own rounds, by the same table.
        place.write(BESIDE.replace("SITE", site.url), "beside.yaml")
        beside = serve(site, ages, "beside")
        place.crawl("beside.yaml")
        assert sorted(site.paths()) == ["/api/3", "/api/3/2", "/api/4", "/api/4/2"]
        found = comments()
        assert {id: found[id] for id in found if found[id][0] > 2} == {id: beside[id] for id in beside if id >= 30}
        # A table that is not there.
        place.write(BESIDE.replace("SITE", site.url).replace("table: posts", "table: nowhere"), "beside.yaml")
        place.run("crawl", "beside.yaml")
        assert "there is no table nowhere" in place.run("dead", "list", "--group", "comments", "--json")
        place.write(BESIDE.replace("SITE", site.url), "beside.yaml")
        # Pushed by anybody, it must not read tables.
        said = place.run("site", "check", "beside.yaml", "--pushed", code=2)
        assert "GOSSAMER_SITE_TABLES=posts" in said
