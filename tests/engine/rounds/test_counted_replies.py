"""A thread whose list says how many replies it has: a number comes back after one was deleted, and its page turns are read again."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.support import fork_server
from tests.support.example_sites import SECONDS, Place
from tests.support.site import Reply, Site

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

FILE = """
site: forum
seeds: [SITE/list]
politeness: {robots: ignore}
layers:
  list:
    match: ^/list
    seen: round
    records: li
    fields: {_thread: {css: a, attr: href}, _replies: i}
    follow: [{url: "{_thread}", to: thread, changed: "{_replies}"}]
  thread:
    match: ^/t/
    fields:
      id: {from: url, regex: '/t/(\\d+)'}
      posts: {each: p, fields: {text: {xpath: string(.)}}}
    follow: [{css: .pages a, to: thread, pages: 0}]
store:
  thread: {table: threads, key: [id], GONE children: {posts: {table: posts, key: [text]}}}
"""
PAGES = '<div class="pages"><a href="/t/1">1</a><a href="/t/1/2">2</a></div>'


@pytest.mark.parametrize("gone", ["", "gone: true,"])
def test_page_turns_are_read_again_where_a_text_comes_back(
    tmp_path: Path, valkey_server: Server, crawl_name: str, gone: str
) -> None:
    place = Place(tmp_path, valkey_server, crawl_name)
    with Site() as site:
        file = place.write(FILE.replace("SITE", site.url).replace("GONE", gone))

        def crawl(first: str, second: str) -> tuple[list[str], list[str]]:
            """A round over this thread, two posts to a page: what was fetched, and the posts that there are."""
            before, turns = len(site.paths()), PAGES if second else ""
            site.on("/list", Reply(body=f'<li><a href="/t/1">x</a><i>{len(first + second)} replies</i></li>'))
            site.on("/t/1", Reply(body="".join(f"<p>{post}</p>" for post in first) + turns))
            reply = Reply(body="".join(f"<p>{post}</p>" for post in second) + turns)
            site.on("/t/1/2", reply if second else Reply(404))
            done = fork_server.run(
                "gossamer", ["crawl", file, "-w", "1"], place.environ, place.directory, SECONDS, options=["-P"]
            )
            assert done.returncode == 0, f"{done.stderr}\n{place.logs()}"
            [database] = tmp_path.rglob("items.db")
            with sqlite3.connect(database) as connection:
                rows = connection.execute(
                    f"select text from posts {'where gone_at is null' if gone else ''} order by text"
                )
                return sorted(site.paths()[before:]), [text for (text,) in rows]

        assert crawl("ab", "c") == (["/list", "/t/1", "/t/1/2"], ["a", "b", "c"])
        assert crawl("ab", "") == (["/list", "/t/1"], ["a", "b"])
        assert crawl("ab", "d") == (["/list", "/t/1", "/t/1/2"], ["a", "b", "d"])
        assert crawl("ab", "d") == (["/list"], ["a", "b", "d"])
        assert crawl("ab", "") == (["/list", "/t/1"], ["a", "b"])
        assert crawl("ab", "c") == (["/list", "/t/1", "/t/1/2"], ["a", "b", "c"])
