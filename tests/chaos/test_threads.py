"""A board behind a login, whose threads lie on several pages and change from round to round, some with their URLs. One is a seed with a
value of its own and linked, too; the list is counted from page 1, which is the seed. Threads that were deleted redirect to a list that
nothing else leads to, and has the last thread. The votes of a thread are asked for by a form. Without a session, some pages lead to the
login page by way of another one, which leads those who have one to the home of the board. Sessions end, pages fail, workers are killed: the
tables have what the board has, each comment once, and each thread the columns of its first page. FAULT_FACTOR: so many times as many
boards."""

from __future__ import annotations

import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.example_sites import Place
from tests.support.fork_server import Started
from tests.support.site import Reply, Site, Visit

from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

BOARDS = int(os.environ.get("FAULT_FACTOR", "1"))
THREADS, ON_A_PAGE, ON_A_LIST, KILLS, ROUNDS = 10, 3, 4, 1, 2
RENAMED = 3
"""The URL of every third thread changes."""
DELETED, ELSEWHERE = 900, 100
"""The numbers of threads that are gone, from here on, and the page of the list that they redirect to."""
FILE = """
site: board
seeds: ['SITE/list?page=1', {url: SITE/t/2, pass: {known: by its seed}}]
politeness: {robots: ignore, hosts: {HOST: {concurrency: 6}}}
request: {retries: 30, retry_status: [503]}
seen: round
login:
  url: SITE/login
  form: {user: '${SITE_USER}'}
  check: {contains: Log out}
layers:
  list: {match: ^/list, follow: [{css: a, to: thread}, {url: '/list?page={turn}', to: list, pages: 0}]}
  thread:
    match: ^/t/
    fields:
      id: {from: url, regex: '/t/(\\d+)', type: int}
      title: h1
      post: b
      known: {from: parent.known}
      comments: {each: p, fields: {id: {xpath: ./@id}}}
      places: {each: p, fields: {text: {xpath: .}}}
    follow: [{css: a.page, to: thread, pages: 0}, {css: a.file, to: file}, {url: /votes, form: {id: '{id}'}, to: votes}]
  votes: {fields: {id: {css: i, type: int}, votes: b}}
  file: {match: ^/f/, format: binary, save: files, fields: {id: {from: url, regex: '/f/(.*)'}}}
store:
  thread: {table: threads, key: [id], children: {comments: {table: comments, key: [id]}, places: {table: places}}}
  file: {table: files, key: [id], add: [file, round]}
  votes: {table: votes, add: [round], key: [id, round]}
"""


class Board(Site):
    """`chance` says what happens; `threads` has the comments of each."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.threads: dict[int, list[str]] = {number: [] for number in range(1, THREADS + 1)}
        self.round = -1
        self._chance, self._sessions, self._logins = chance, set[str](), 0
        self._deciding = threading.Lock()

    def change(self) -> None:
        """Comments go, others come, and those behind move to other pages."""
        self.round += 1
        for number, comments in self.threads.items():
            kept = [one for one in comments if self._chance.random() > 0.25]
            # Those whose URLs change have more than one page, by which the new first page is known at once.
            least = ON_A_PAGE + 1 if number % RENAMED == 0 else 0
            new = [
                f"{number}-{self._chance.randrange(10**9)}" for _ in range(least + self._chance.randrange(7 - least))
            ]
            self.threads[number] = [*kept, *new]

    def _next(self, target: str, path: str) -> Reply:
        with self._deciding:
            return self._answer(target, path, self.visits[-1])

    def _answer(self, target: str, path: str, visit: Visit) -> Reply:
        if path == "/login":
            self._logins += 1
            self._sessions.add(session := f"s{self._logins}")
            return Reply(body="Log out", headers={"Set-Cookie": f"session={session}; Path=/"})
        if self._chance.random() < 0.01:
            self._sessions.clear()
        known = visit.headers.get("Cookie", "").partition("=")[2] in self._sessions
        if path == "/gate":
            return Reply(status=302, headers={"Location": "/home" if known else "/login"})
        if not known:
            return Reply(status=302, headers={"Location": self._chance.choice(["/login", "/gate"])})
        if self._chance.random() < 0.02:
            return Reply(status=503)
        page = int(parse_qs(urlsplit(target).query).get("page", ["1"])[0])
        if path == "/list":
            *listed, last = self.threads
            shown = [last] if page == ELSEWHERE else listed[(page - 1) * ON_A_LIST : page * ON_A_LIST]
            # As boards do: first the last page, then the first.
            linked = [
                path for number in shown for path in reversed(self._pages(number)[:: max(1, self._last(number) - 1)])
            ]
            if shown:
                linked.append(f"/t/{DELETED + page}")
            return Reply(body="".join(f'<a href="{path}">{path}</a>' for path in linked))
        if path == "/votes":
            [thread] = parse_qs(visit.body.decode())["id"]
            return Reply(body=f"<i>{thread}</i><b>{thread} in {self.round}</b>")
        if path.startswith("/f/"):
            return Reply(body=path, headers={"Content-Type": "application/pdf"})
        number = int(path.rpartition("/")[2].partition("-")[0])
        if number >= DELETED:
            return Reply(status=302, headers={"Location": f"/list?page={ELSEWHERE}"})
        comments = self.threads[number][(page - 1) * ON_A_PAGE : page * ON_A_PAGE]
        pager = "".join(f'<a class=page href="{other}">x</a>' for other in self._pages(number) if other != target)
        text = "".join(f'<p id="{one}">{one}<a class=file href="/f/{one}">x</a></p>' for one in comments)
        return Reply(body=f"<h1>{number} in {self.round}</h1><b>post {page}</b>{text}{pager}")

    def _last(self, number: int) -> int:
        return max(1, -(-len(self.threads[number]) // ON_A_PAGE))

    def _pages(self, number: int) -> list[str]:
        # Titles of some become shorter: the lower of two ranks is believed at once.
        slug = f"-{'x' * (ROUNDS - self.round)}" if number % RENAMED == 0 else ""
        return [f"/t/{number}{slug}", *(f"/t/{number}{slug}?page={page}" for page in range(2, self._last(number) + 1))]


def kill_one(place: Place, crawl: Started, board: Board, chance: random.Random) -> None:
    """One that has pages in progress, after some more pages."""
    asked = len(board.visits) + chance.randrange(5, 30)

    def busy() -> list[int]:
        with place.frontier() as frontier:
            return [int(worker.info["pid"]) for worker in frontier.workers() if worker.held and not worker.closed]

    wait_until(lambda: len(board.visits) >= asked or crawl.poll() is not None, "more pages", 60)
    if workers := busy():
        with suppress(ProcessLookupError):
            os.kill(chance.choice(workers), signal.SIGKILL)


@pytest.mark.timeout(200 + 200 * BOARDS)
@pytest.mark.parametrize("number", range(BOARDS))
def test_threads_are_as_the_board_has_them(tmp_path: Path, valkey_server: Server, crawl_name: str, number: int) -> None:
    chance = random.Random(f"{crawl_name} {number}")
    settings = {"SITE_USER": "somebody", "GOSSAMER_LEASE_SECONDS": "3"}
    place = Place(tmp_path, valkey_server, crawl_name, **settings)
    place.settings["GOSSAMER_LEASE_SECONDS"] = "3"
    with Board(chance) as board:
        place.write(FILE.replace("SITE/", f"{board.url}/").replace("HOST", board.host))
        for round in range(ROUNDS):
            board.change()
            with place.start("crawl", "site.yaml", "-w", "2") as crawl:
                for _ in range(KILLS):
                    kill_one(place, crawl, board, chance)
                assert crawl.wait(180) == 0, place.logs()
            comments = sorted((thread, one) for thread, found in board.threads.items() for one in found)
            assert sorted(place.rows("select parent_id, id from comments")) == comments
            assert sorted(place.rows("select parent_id, text from places")) == sorted(
                (t, f"{one}x") for t, one in comments
            )
            assert place.rows("select id, title, post, known from threads order by id") == [
                (thread, f"{thread} in {round}", "post 1", "by its seed" if thread == 2 else None)
                for thread in board.threads
            ]
            votes = place.rows(f"select id, votes from votes where round = {round} order by id")
            assert votes == [(thread, f"{thread} in {round}") for thread in board.threads]
            files = place.rows(f"select id, file from files where round = {round} order by id")
            assert [one for one, _ in files] == sorted(one for _, one in comments)
            folder = tmp_path / "data" / "pages" / "board" / "files"
            assert all((folder / file).read_text("utf-8") == f"/f/{one}" for one, file in files)
    with place.frontier() as frontier:
        assert list(frontier.dead_letters("board")) == []
