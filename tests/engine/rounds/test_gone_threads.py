"""`gone: true` for what functions yield on the pages of threads that lists say have changed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from sqlalchemy import text as statement
from tests.engine.rounds.test_gone_model import postgresql, url
from tests.engine.rounds.test_gone_rows import place
from tests.support.example_sites import Place
from tests.support.site import Reply, Site, Visit

from gossamer.store.database.url import database_of
from gossamer.testing.servers import Server

__all__ = ["place", "postgresql", "url"]

pytestmark = pytest.mark.timeout(300)

SEEDS = range(1 + int(os.environ.get("MACHINE_FACTOR", "1")) // 2)
ROUNDS, THREADS, POSTS = 5, "uvwxyz", "abcdefgh"
FORUM = """
from gossamer import Page, Record, Site

forum = Site("forum", seeds=["SITE/list"], politeness={"robots": "ignore"}, request={"retries": 0, "conditional": CONDITIONAL},
    store={"thread": {"table": "threads", "key": ["id"], "gone": True}, "post": {"table": "posts", "key": ["id"], "gone": True}})


@forum.layer("list", match="^/list", seen="round")
def listed(page: Page):
    for one in page.css("p"):
        yield page.follow(one.css("a")[0], "thread", changed=one.css("i::text").get())


@forum.layer("thread", match="^/t/", record={"id": str})
def thread(page: Page):
    if not page.turn:
        yield {"id": page.css("h1::text").get()}
    for post in page.css("b::text").getall():
        yield Record("post", {"id": post})
    for link in page.css("a"):
        yield page.follow(link, "thread")


@forum.layer("post", record={"id": str})
def post(page: Page):
    yield None
"""


class Forum:
    """Threads, each with the posts of its pages."""

    def __init__(self, site: Site) -> None:
        self.threads: dict[str, list[str]] = {}
        self.at: dict[str, int] = {}
        self.status: dict[str, int] = {}
        self.moved: set[str] = set()
        """Threads that the list names by a URL that redirects."""
        self.hops = 1
        """How often it does."""
        site.answer(self._answer)

    def change(self, name: str, *pages: str) -> None:
        self.threads[name] = list(pages)
        self.at[name] = self.at.get(name, 0) + 1

    def link(self, name: str) -> str:
        return f"/t{'/go' * self.hops if name in self.moved else ''}/{name}"

    def _answer(self, visit: Visit) -> Reply:
        if visit.path == "/list":
            return Reply(body="".join(f"<p><a href={self.link(n)}>x</a><i>{at}</i></p>" for n, at in self.at.items()))
        if visit.path.startswith("/t/go/"):
            return Reply(301, headers={"Location": visit.path.replace("/go", "", 1)})
        _, _, name, *more = visit.path.split("/")
        number, pages = int(more[0]) if more else 0, self.threads[name]
        if visit.path in self.status or number >= len(pages):
            return Reply(self.status.get(visit.path, 404))
        further = f"<a href=/t/{name}/{number + 1}>next</a>" if number + 1 < len(pages) else ""
        body = f"<h1>{name}</h1>" + "".join(f"<b>{name}{post}</b>" for post in pages[number]) + further
        tag = f'"{hash(body)}"'
        unchanged = visit.headers.get("If-None-Match") == tag
        return Reply(304 if unchanged else 200, "" if unchanged else body, {"ETag": tag})


def posts(place: Place, *, gone: bool) -> set[str]:
    return {name for name, at in place.rows("select id, gone_at from posts") if (at is not None) is gone}


@pytest.mark.parametrize("conditional", [False, True])
def test_posts_that_no_page_of_a_thread_has_any_more_are_gone(place: Place, conditional: bool) -> None:
    with Site() as site:
        forum = Forum(site)
        place.write(FORUM.replace("SITE", site.url).replace("CONDITIONAL", str(conditional)), "forum.py")
        forum.change("x", "abc", "def", "gh")
        forum.change("y", "a")
        place.crawl("forum.py")
        assert posts(place, gone=True) == set()
        # Two posts are deleted: the others move up, and the last page is no more.
        forum.change("x", "acd", "fgh")
        place.crawl("forum.py")
        assert posts(place, gone=True) == {"xb", "xe"}
        # A page turn fails: what the thread has is unknown, until it is read again.
        forum.change("x", "acd", "fg", "ij")
        forum.status["/t/x/2"] = 500
        place.crawl("forum.py")
        assert posts(place, gone=True) == {"xb", "xe"}
        forum.status.clear()
        place.crawl("forum.py")
        assert posts(place, gone=True) == {"xb", "xe", "xh"}
        # One page alone, by a URL that redirects twice, and back as it was.
        forum.change("x", "acd")
        forum.moved, forum.hops = {"x"}, 2
        place.crawl("forum.py")
        assert posts(place, gone=True) == {"xb", "xe", "xf", "xg", "xh", "xi", "xj"}
        forum.change("x", "acd", "fg", "ij")
        forum.moved = set()
        place.crawl("forum.py")
        assert posts(place, gone=True) == {"xb", "xe", "xh"}
        # The thread is gone as a whole.
        forum.change("x", "acd", "fg", "ij")
        forum.status["/t/x"] = 404
        place.crawl("forum.py")
        assert posts(place, gone=False) == {"ya"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_random_threads(seed: int, url: str, tmp_path: Path, valkey_server: Server, crawl_name: str) -> None:
    dice = random.Random(seed)
    place = Place(tmp_path, valkey_server, crawl_name, GOSSAMER_STORE_URL=url)
    engine = database_of(url).engine()
    gone: dict[str, bool] = {}
    with Site() as site:
        forum = Forum(site)
        place.write(FORUM.replace("SITE", site.url).replace("CONDITIONAL", str(seed % 2 == 1)), "forum.py")
        for number in range(ROUNDS):
            forum.status, forum.moved = {}, {name for name in THREADS if dice.random() < 0.3}
            forum.hops = dice.choice([1, 2])
            for name in THREADS:
                before = "".join(forum.threads.get(name, []))
                some = [post for post in POSTS if dice.random() < (0.9 if post in before else 0.3)] or ["a"]
                forum.change(name, *("".join(some[at : at + 3]) for at in range(0, len(some), 3)))
                if dice.random() < 0.3:
                    what = dice.choice([("", 404), ("", 500), ("/1", 500), ("/2", 500)])
                    forum.status[f"/t/{name}{what[0]}"] = what[1]
            place.crawl("forum.py")
            for name, pages in forum.threads.items():
                first, read, posts = forum.status.get(f"/t/{name}"), 0, ""
                while first is None and read < len(pages) and f"/t/{name}/{read}" not in forum.status:
                    posts, read = posts + pages[read], read + 1
                if first == 404 or read == len(pages):
                    gone |= {one: True for one in gone if one.startswith(name)}
                gone |= {name + post: False for post in posts}
            with engine.connect() as connection:
                found = connection.execute(statement("select id, gone_at from posts")).all()
            assert {one: at is not None for one, at in found} == gone, (number, forum.status, forum.moved)
    engine.dispose()
