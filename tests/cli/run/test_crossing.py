"""Links that cross sites: one site scans lists, another crawls the details, each with its own rounds, memory and workers."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site

from gossamer.cli import exit_codes
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

LISTS = """
site: lists
seeds: ['SITE/list/[1-3]']
politeness: {robots: ignore}
limits: {depth: 1}
layers:
  list:
    match: '^/list/'
    seen: round
    fields: {page: {from: url, regex: '\\d+$'}}
    follow: [{css: a, to: details.post, pass: [page]}]
"""
DETAILS = """
site: details
politeness: {robots: ignore}
identity: {drop: [sid]}
layers:
  post:
    fields: {id: {from: url, regex: '/post/(\\d+)'}, list: {from: parent.page}}
    follow: [{css: a.more, to: comments}]
  comments:
    fields: {text: p}
store:
  post: {table: posts, key: [id], add: [parent, round]}
  comments: {table: comments}
"""


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


@pytest.fixture
def shop(site: Site) -> Site:
    """Three lists of four posts each; the last of a list is also the first of the next. Every link has another session in it."""
    for number in (1, 2, 3):
        posts = range(3 * number, 3 * number + 4)
        site.on(f"/list/{number}", Reply(body="".join(f'<a href="/post/{n}?sid={number}{n}">p</a>' for n in posts)))
    for number in range(3, 13):
        site.on(f"/post/{number}", Reply(body=f'<a class="more" href="/comments/{number}">c</a>'))
        site.on(f"/comments/{number}", Reply(body=f"<p>to {number}</p>"))
    return site


def written(place: Place, site: Site) -> None:
    place.write(LISTS.replace("SITE", site.url), "lists.yaml")
    place.write(DETAILS, "details.yaml")


def posts_of(place: Place) -> list[tuple[str, str]]:
    return place.rows("select id, list from posts order by cast(id as integer)")


def test_both_are_crawled_together_and_each_remembers_its_own_pages(place: Place, shop: Site) -> None:
    written(place, shop)
    released = 0.0
    for number, path in ((1, "/list/2"), (2, "")):
        if path:
            # The details are all done, and their round is not over: more may come.
            shop.hold(path)
            running = place.start("crawl", "lists.yaml", "details.yaml", "-w", "2")
            shop.wait(lambda paths: sum(one.startswith("/comments/") for one in paths) >= 7, "the other comments")
            released = time.time()
            shop.release(path)
            assert running.wait(120) == 0
        else:
            told = json.loads(place.run("crawl", "lists.yaml", "details.yaml", "-w", "2", "--json"))
            assert all(site["drained"] and not site["left"] and not site["dead"] for site in told["sites"])
        lists, details = shop.paths().count("/list/1"), [one for one in shop.paths() if "/list/" not in one]
        # Lists have a memory of each round, details one of all rounds, in which ?sid= does not count.
        assert (lists, len(details), len(set(details))) == (number, 20, 20)
        assert [int(id) for id, _ in posts_of(place)] == list(range(3, 13))
        assert {int(id): int(page) for id, page in posts_of(place) if int(id) % 3} == {
            n: n // 3 for n in range(3, 12) if n % 3
        }
        assert place.rows("select text from comments order by url")[0] == ("to 10",)
        with place.frontier() as frontier:
            # One round each time. That of the details is over when no list can lead to more of them.
            [over, *_] = frontier.rounds("details", 9)
            assert (over.round, (over.ended or 0.0) >= released) == (number - 1, True)
    assert {row[0].rpartition("/")[0] for row in place.rows("select parent from posts")} == {f"{shop.url}/list"}


def test_workers_of_one_site_alone_leave_the_pages_to_those_of_the_other(place: Place, shop: Site) -> None:
    written(place, shop)
    place.run("site", "push", "lists.yaml")
    # Nothing is lost: without the other site, this one is not begun.
    place.run("work", "--sites", "lists", "--drained", code=exit_codes.MISUSED)
    assert not shop.visits
    place.run("crawl", "lists.yaml", code=exit_codes.MISUSED)
    place.run("site", "push", "details.yaml")
    place.run("work", "--sites", "lists", "--drained")
    assert sorted(shop.paths()) == ["/list/1", "/list/2", "/list/3"]
    with place.frontier() as frontier:
        [row] = [row for row in frontier.counts().groups if row.group == "details"]
        assert (row.open, row.pages) == (10, 0)
    place.run("work", "--sites", "details", "--drained")
    assert len(posts_of(place)) == 10
    assert len(shop.paths()) == len(set(shop.paths())) == 23
