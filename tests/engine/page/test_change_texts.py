"""Lists that say when their threads changed, crawled from the command line: what is fetched, and what the tables have, against a model.
MACHINE_FACTOR: an eighth of it is how many boards more are crawled."""

from __future__ import annotations

import hashlib
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site, Visit

from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

ON_A_PAGE = 3
BOARDS = range(1 + int(os.environ.get("MACHINE_FACTOR", "1")) // 8)
GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "crawl-a-forum-incrementally.md"
RECIPE = GUIDE.read_text("utf-8").partition("```yaml\n")[2].partition("```")[0]
SITE = """
site: forum
seeds: ["SITE/list/1", "SITE/list/2"]
politeness: {robots: ignore}
layers:
  list:
    match: ^/list/
    seen: round
    records: .thread
    fields: {thread: {css: a, attr: href}, at: time}
    follow: [{url: "{thread}", to: thread, changed: "{at}"}]
  thread:
    match: ^(/go)?/t/
    SEEN
    fields:
      id: {from: url, regex: '/t/(\\d+)', type: int}
      title: h1
      posts: {each: .p, fields: {id: {xpath: ./@id, type: int}, text: {xpath: .}}}
    follow:
    - {css: a.next, to: thread, pages: 0}
    - {css: a.user, to: user}
  user: {match: ^/u/, fields: {name: h1}}
store:
  thread: {table: threads, key: [id], children: {posts: {table: posts, key: [id]}}}
  user: {table: users, key: [url]}
"""
PYTHON = """
from gossamer import Page, Record, Site

forum = Site("forum", seeds=["SITE/list/1", "SITE/list/2"], politeness={"robots": "ignore"})


@forum.layer("list", match="^/list/", seen="round")
def threads(page: Page):
    for thread in page.css(".thread"):
        yield page.follow(thread.css("a")[0], "thread", changed=thread.css("time::text").get())


@forum.layer("thread", match="^/t/", record={"id": int, "title": str}, table="threads", key=["id"])
def thread(page: Page):
    number = int(page.url.split("/t/")[1].split("/")[0])
    if not page.turn:
        yield {"id": number, "title": page.css("h1::text").get()}
    for post in page.css(".p"):
        yield Record("post", {"id": int(post.attrib["id"]), "parent_id": number, "text": post.css("::text").get()})
    for link in page.css("a.next"):
        yield page.follow(link)
    for link in page.css("a.user"):
        yield page.follow(link, "user")


@forum.layer("post", record={"id": int, "parent_id": int, "text": str}, table="posts", key=["id"])
def nothing(page: Page) -> None:
    return None


@forum.layer("user", match="^/u/", record={"url": str}, table="users", key=["url"])
def user(page: Page):
    yield {"url": page.url}
"""


class Board:
    """A forum: threads with a title, posts on pages of three, and when they changed; lists that show some of them."""

    def __init__(self, site: Site, seed: int, threads: int = 8) -> None:
        self.site, self.random, self.next_post = site, random.Random(seed), 1000
        self.deletes = True
        """Whether posts are deleted, too."""
        self.renamed: set[int] = set()
        """Threads whose URL redirects to another one."""
        self.during: list[int] = []
        """Threads that change while the next list is read."""
        self.base = "/t"
        """Where its threads are."""
        self.titles = {number: f"Thread {number}" for number in range(1, threads + 1)}
        self.posts: dict[int, dict[int, str]] = {number: {} for number in self.titles}
        self.at = dict.fromkeys(self.titles, 1)
        self.listed: list[list[int]] = [[], []]
        for number in self.titles:
            self.reply(number, self.random.randint(1, 8))
        self.show()
        site.answer(self.page)

    def reply(self, number: int, count: int = 1) -> None:
        for _ in range(count):
            self.next_post += 1
            self.posts[number][self.next_post] = f"text {self.next_post}"

    def show(self) -> None:
        """Threads move between the lists; some are on both, some on neither."""
        numbers = [*self.titles]
        self.random.shuffle(numbers)
        some = numbers[: -len(numbers) // 4] or numbers
        at = self.random.randint(1, len(some))
        self.listed = [some[:at], some[at - 1 :]]

    def change(self) -> set[int]:
        """What happens between two rounds; the threads that changed."""
        changed = set()
        for number in self.titles:
            if self.random.random() < 0.5:
                changed.add(number)
                self.at[number] += 1
                self.alter(number)
        self.show()
        return changed

    def alter(self, number: int) -> None:
        what = self.random.choice(["title", "reply", "reply", "edit", "delete"])
        posts = self.posts[number]
        if what == "title":
            self.titles[number] += "!"
        elif what == "reply":
            self.reply(number, self.random.randint(1, 5))
        elif what == "edit":
            posts[self.random.choice([*posts])] += "*"
        elif self.deletes and len(posts) > 1:
            del posts[self.random.choice([*posts])]

    def pages_of(self, number: int) -> list[str]:
        first = [f"/go{self.base}/{number}"] if number in self.renamed else []
        return first + [self.path(number, page) for page in range(1, self.count(number) + 1)]

    def count(self, number: int) -> int:
        return max(1, -(-len(self.posts[number]) // ON_A_PAGE))

    def path(self, number: int, page: int) -> str:
        return f"{self.base}/{number}/{page}" if page > 1 else f"{self.base}/{number}"

    def page(self, visit: Visit) -> Reply:
        reply = self.answer(visit)
        tag = f'"{hashlib.sha256(str(reply.body).encode()).hexdigest()[:16]}"'
        if visit.headers.get("If-None-Match") == tag:
            return Reply(status=304, body="", headers={"ETag": tag})
        return Reply(reply.status, reply.body, {**reply.headers, "ETag": tag})

    def answer(self, visit: Visit) -> Reply:
        _, kind, *rest = visit.path.split("/")
        if kind == "go":
            return Reply(status=301, headers={"Location": visit.path.removeprefix("/go")})
        if kind == "list":
            entries = "".join(
                f'<li class=thread><a href="{self.pages_of(number)[0]}">x</a><time datetime=at-{self.at[number]}>{self.at[number]}</time></li>'
                for number in ([*self.listed, [], [], []][int(rest[0]) - 1])
            )
            return Reply(body=f"<html>{entries}</html>")
        if f"/{kind}" != self.base:
            return Reply(body=f"<html><h1>{visit.path}</h1></html>")
        number, page = int(rest[0]), int(rest[1]) if len(rest) > 1 else 1
        posts = [*self.posts[number].items()][(page - 1) * ON_A_PAGE : page * ON_A_PAGE]
        body = "".join(
            f'<div class="p post" id={post}><p>{text}</p></div><a class=user href="/u/{post % 7}">u</a>'
            for post, text in posts
        )
        more = page < self.count(number)
        following = f'<a class=next href="{self.path(number, page + 1)}">next</a>' if more else ""
        return Reply(body=f"<html><h1>{self.titles[number]}</h1>{body}{following}</html>")


class Model:
    """What a crawler knows that fetches a thread whenever a list says something else of it."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.known: dict[int, int] = {}
        self.titles: dict[int, str] = {}
        self.posts: dict[int, dict[int, str]] = {}

    def round(self) -> list[str]:
        """The pages of threads that are to be fetched now, sorted."""
        fetched = []
        for number in sorted({number for some in self.board.listed for number in some}):
            if self.known.get(number) != self.board.at[number]:
                self.known[number] = self.board.at[number]
                self.titles[number] = self.board.titles[number]
                self.posts[number] = dict(self.board.posts[number])
                fetched += self.board.pages_of(number)
        return sorted(fetched)

    def rows(self) -> tuple[list[tuple[int, str]], list[tuple[int, int, str]]]:
        posts = [(number, post, text) for number, of in self.posts.items() for post, text in of.items()]
        return sorted(self.titles.items()), sorted(posts)


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


def stored(place: Place) -> tuple[list[tuple[int, str]], list[tuple[int, int, str]]]:
    titles = place.rows("select id, title from threads order by id")
    return titles, place.rows("select parent_id, id, text from posts order by 1, 2")


SEEN = {
    "exact": "seen: forever",
    "hits": "seen: {policy: hits, rounds: 8}",
    "records": "page_records: {age: 90d}",
    "visits": "revisit: {every: 7d}",
    "conditional": "request: {conditional: true}",
}


def threads_of(site: Site) -> list[str]:
    """The pages of threads that were asked for, sorted."""
    return sorted(path for path in site.paths() if "/t/" in path or "/thread/" in path)


@pytest.mark.parametrize("number", BOARDS)
@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
def test_threads_are_fetched_when_their_lists_say_so(place: Place, site: Site, seen: str, number: int) -> None:
    board = Board(site, seed=1 + number)
    board.renamed = {3, 6}
    model = Model(board)
    place.write(SITE.replace("SITE", site.url).replace("SEEN", seen))
    for round in range(4):
        if round:
            board.change()
        site.visits.clear()
        wanted = model.round()
        done = place.crawl("site.yaml")
        assert threads_of(site) == wanted, f"round {round}"
        assert stored(place) == model.rows(), f"round {round}"
        assert done["sites"][0]["failed"] == 0
        assert max(Counter(path for path in site.paths() if path.startswith("/u/")).values(), default=0) <= 1


@pytest.mark.parametrize("number", BOARDS)
def test_functions_say_so_too(place: Place, site: Site, number: int) -> None:
    board = Board(site, seed=2 + number)
    board.deletes = False  # What a function yields for a table is added; rows that are gone stay.
    model = Model(board)
    place.write(PYTHON.replace("SITE", site.url), "forum.py")
    for round in range(3):
        if round:
            board.change()
        site.visits.clear()
        wanted = model.round()
        place.crawl("forum.py")
        assert threads_of(site) == wanted, f"round {round}"
        assert stored(place) == model.rows(), f"round {round}"


@pytest.mark.parametrize("number", BOARDS)
@pytest.mark.parametrize("seen", ["recipe", SEEN["exact"], SEEN["visits"]], ids=["recipe", "exact", "visits"])
def test_workers_are_killed_in_each_round(
    tmp_path: Path, valkey_server: Server, crawl_name: str, seen: str, number: int
) -> None:
    """Also of the first site file of the guide."""
    place = Place(tmp_path, valkey_server, crawl_name, GOSSAMER_LEASE_SECONDS="3")
    place.settings["GOSSAMER_LEASE_SECONDS"] = "3"
    chance = random.Random(f"{crawl_name} {number}")
    with Site() as site:
        board = Board(site, seed=chance.randrange(1000), threads=12)
        text = SITE.replace("SITE", site.url).replace("SEEN", seen)
        if seen == "recipe":
            board.base = "/thread"
            text = RECIPE.replace("https://forum.example", site.url).replace("{delay: 1s}", "{robots: ignore}")
            assert site.url in text
            assert "delay" not in text
        model = Model(board)
        place.write(text)
        for round in range(5):
            if round:
                board.change()
            site.visits.clear()
            wanted = model.round()
            with place.start("crawl", "site.yaml", "-w", "2") as crawl:
                asked = chance.randrange(1, 4 + len(wanted))
                wait_until(lambda asked=asked: len(site.visits) >= asked or crawl.poll() is not None, "pages", 60)  # type: ignore[misc]
                kill_one(place, chance)
                assert crawl.wait(180) == 0, place.logs()
            fetched = threads_of(site)
            assert sorted(set(fetched)) == wanted, f"round {round}: nothing is missed, and nothing else is fetched"
            assert stored(place) == model.rows(), f"round {round}"


def kill_one(place: Place, chance: random.Random) -> None:
    with place.frontier() as frontier:
        busy = [int(worker.info["pid"]) for worker in frontier.workers() if worker.held and not worker.closed]
    if busy:
        with suppress(ProcessLookupError):
            os.kill(chance.choice(busy), signal.SIGKILL)


def test_a_thread_that_changes_while_its_pages_are_read(place: Place, site: Site) -> None:
    """Its second page is under way when another list says that it has changed since."""
    board = Board(site, seed=6, threads=1)
    board.posts[1] = {post: f"text {post}" for post in range(1, 6)}
    board.listed = [[1], [1]]

    def answer(visit: Visit) -> Reply:
        if visit.path == "/list/2" and "/t/1/2" not in site.paths():
            return Reply(status=503, headers={"Retry-After": "1"})
        reply = board.page(visit)
        if visit.path == "/t/1/2" and board.at[1] == 1:
            # The next visitor sees another thread.
            board.at[1], board.titles[1] = 2, "Changed"
            board.posts[1] = {post: f"new {post}" for post in (1, 2, 3, 5, 6, 7, 8)}
        return reply

    site.answer(answer)
    site.hold("/t/1/2")
    text = SITE.replace("SITE", site.url).replace("SEEN", "seen: forever")
    place.write(text.replace("robots: ignore", "robots: ignore, concurrency: 4") + "request: {retries: 30}\n")
    with place.start("crawl", "site.yaml", "-w", "1") as crawl:
        try:
            site.reached("/t/1", times=2)
        finally:
            site.release("/t/1/2")
        assert crawl.wait(120) == 0, place.logs()
    assert threads_of(site) == ["/t/1", "/t/1", "/t/1/2", "/t/1/2", "/t/1/3"]
    assert stored(place) == ([(1, "Changed")], [(1, post, f"new {post}") for post in (1, 2, 3, 5, 6, 7, 8)])


def test_a_site_that_begins_to_say_so_fetches_what_is_listed_once(place: Place, site: Site) -> None:
    """What changed since the last fetch is not known."""
    board = Board(site, seed=3)
    text = SITE.replace("SITE", site.url).replace("SEEN", "seen: forever")
    model = Model(board)
    place.write(text.replace(', changed: "{at}"', ""))
    model.round()
    place.crawl("site.yaml")
    assert stored(place) == model.rows()
    board.change()
    site.visits.clear()
    place.crawl("site.yaml")
    place.write(text)
    board.change()
    site.visits.clear()
    model.known.clear()
    wanted = model.round()
    place.crawl("site.yaml")
    assert threads_of(site) == wanted
    site.visits.clear()
    place.crawl("site.yaml")
    assert threads_of(site) == []
    titles, posts = stored(place)
    assert set(model.rows()[0]) <= set(titles)
    assert set(model.rows()[1]) <= set(posts)


def test_an_empty_text_fetches_new_pages_only_and_is_said(place: Place, site: Site) -> None:
    board = Board(site, seed=4)
    place.write(SITE.replace("SITE", site.url).replace("SEEN", "seen: forever").replace("at: time", "at: .no-such"))
    place.run("crawl", "site.yaml")
    board.change()
    site.visits.clear()
    _, said = place.said("crawl", "site.yaml")
    assert (
        "list.follow[0] has links on 2 pages for which changed is empty: of their pages only new ones are fetched"
        in said
    )


def test_what_an_export_knows_is_not_fetched_again(
    place: Place, site: Site, tmp_path: Path, valkey_server: Server
) -> None:
    board = Board(site, seed=5)
    model = Model(board)
    place.write(SITE.replace("SITE", site.url).replace("SEEN", "seen: forever"))
    model.round()
    place.crawl("site.yaml")
    place.run("export", "crawl.jsonl")
    other = Place(tmp_path, valkey_server, f"{place.settings['GOSSAMER_CRAWL']}-two")
    other.run("import", "crawl.jsonl")
    board.change()
    site.visits.clear()
    wanted = model.round()
    other.crawl("site.yaml")
    assert threads_of(site) == wanted
    assert stored(other) == model.rows()
