"""Sites that want a login: one for all workers, again when the session is over, and a wrong password stops the site."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site

from gossamer.cli import exit_codes
from gossamer.testing.server_process import QuietHandler, ThreadedServer
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

PASSWORD = 'a{b}c ${HOME} "&=ü'
PAGES = 40
SITE = """
site: members
engine: ENGINE
seeds: ['SITE/page/[1-40]']
politeness: {robots: ignore, concurrency: 4}
login:
  url: SITE/session
  page: SITE/login
  fields: {_token: {css: 'input[name=csrf]', attr: value}}
  form: {user: "${SITE_USER}", password: "${SITE_PASSWORD}", csrf: '{_token}'}
  check: {css: a.logout}
  expires: {redirect: '/login$', contains: Please log in}
request: {retries: 2}
layers:
  page: {match: '^/page/', fields: {text: p}}
store:
  page: {table: pages}
"""


class Members:
    """Pages for those who are logged in. A session ends after `lasts` pages: then pages lead to the login, or ask for it."""

    def __init__(self, lasts: int) -> None:
        self.logins: list[str] = []
        self.refused = 0
        self.pages: list[str] = []
        self.asked: list[float] = []
        self.sent: list[float] = []
        """When the form was asked for, and when it was sent."""
        self._lasts, self._sessions, self._tokens = lasts, dict[str, int](), set[str]()
        self._lock = threading.Lock()
        members = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                members._get(self)

            def do_POST(self) -> None:
                members._post(self)

        self.server = ThreadedServer(Handler)

    def _get(self, handler: QuietHandler) -> None:
        path = urlsplit(handler.path).path
        session = SimpleCookie(handler.headers.get("Cookie", "")).get("session")
        with self._lock:
            body, more = self._page(path, session.value if session else "")
        self._answer(handler, body, **more)

    def _page(self, path: str, session: str) -> tuple[str, dict[str, Any]]:
        if path == "/login":
            self.asked.append(time.monotonic())
            token = secrets.token_hex(8)
            self._tokens.add(token)
            return f'Please log in <form><input name=csrf value="{token}"></form>', {"cookie": f"before={token}"}
        left = self._sessions.get(session, 0)
        if left == 0 and int(path.rpartition("/")[2]) % 2:
            return "", {"status": 302, "location": "/login"}
        if left == 0 and int(path.rpartition("/")[2]) % 4:
            return "<form method=post><input name=p\ntype='Password'></form>", {}
        if left == 0:
            return "Please log in", {}
        if path.startswith("/page/"):
            self._sessions[session] = left - 1
            self.pages.append(path)
        return f"<p>text of {path}</p><a class=logout>out</a>", {}

    def _post(self, handler: QuietHandler) -> None:
        form = parse_qs(handler.rfile.read(int(handler.headers["Content-Length"])).decode())
        [token], cookie = form["csrf"], SimpleCookie(handler.headers.get("Cookie", "")).get("before")
        right = (form["user"], form["password"]) == (["crawler"], [PASSWORD])
        with self._lock:
            self.sent.append(time.monotonic())
            if not right or token not in self._tokens or cookie is None or cookie.value != token:
                self.refused += 1
                self._answer(handler, "<p>Wrong user or password</p>")
                return
            session = secrets.token_hex(8)
            self._sessions[session] = self._lasts
            self.logins.append(session)
        self._answer(handler, "", 303, location="/welcome", cookie=f"session={session}; HttpOnly")

    def _answer(
        self, handler: QuietHandler, body: str, status: int = 200, *, location: str = "", cookie: str = ""
    ) -> None:
        data = f"<html>{body}</html>".encode()
        handler.send_response(status)
        for name, value in (("Location", location), ("Set-Cookie", cookie), ("Content-Type", "text/html")):
            if value:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


class Gated(Members):
    """Members whose pages do not lead to the login page at once when a session is over, but all by way of one URL, or by a meta refresh."""

    def _page(self, path: str, session: str) -> tuple[str, dict[str, Any]]:
        number, is_over = path.rpartition("/")[2], not self._sessions.get(session, 0)
        if path == "/list":
            return "".join(f"<a href=/page/{one}>x</a>" for one in range(1, PAGES + 1)), {}
        if path == "/gate":
            return "", {"status": 302, "location": "/login" if is_over else "/welcome"}
        if path.startswith("/page/") and is_over and int(number) % 2:
            return "", {"status": 302, "location": "/gate"}
        if path.startswith("/page/") and is_over:
            return "<meta http-equiv=refresh content='0; url=/login'>", {}
        if path.startswith("/page/") and path.count("/") == 2 and int(number) % 5 == 0:
            return "", {"status": 301, "location": f"/page/new/{number}"}
        return super()._page(path, session)


class Moved(Gated):
    """Members whose pages with a new URL end the session when they are asked for the second time there."""

    def _page(self, path: str, session: str) -> tuple[str, dict[str, Any]]:
        if path.startswith("/page/new/") and self.pages.count(path) == 1:
            self.pages.append(path)
            self._sessions[session] = 0
        return super()._page(path, session)


@pytest.fixture
def members() -> Iterator[Members]:
    made = Members(lasts=25)
    made.server.start()
    yield made
    made.server.close()


def place_of(tmp_path: Path, server: Server, crawl_name: str, password: str = PASSWORD) -> Place:
    return Place(tmp_path, server, crawl_name, SITE_USER="crawler", SITE_PASSWORD=password)


def write(place: Place, members: Members, engine: str = "native") -> None:
    place.write(SITE.replace("SITE/", f"{members.server.url}/").replace("ENGINE", engine))


@pytest.mark.parametrize("engine", ["native", "scrapy"])
def test_one_login_serves_all_workers_and_is_made_again_when_it_is_over(
    tmp_path: Path, valkey_server: Server, crawl_name: str, members: Members, engine: str
) -> None:
    place = place_of(tmp_path, valkey_server, crawl_name)
    write(place, members, engine)
    told = place.crawl("site.yaml")
    [site] = told["sites"]
    assert (site["drained"], site["dead"], site["left"]) == (True, 0, 0)
    assert sorted(place.rows("select text from pages")) == sorted((f"text of /page/{n}",) for n in range(1, PAGES + 1))
    # Two sessions of 25 pages each for 40 pages, whatever the number of workers.
    assert (len(members.logins), members.refused, len(members.pages)) == (2, 0, PAGES)
    place.run("export", "crawl.jsonl")
    everything = "".join(
        path.read_text("utf-8", "replace") for path in tmp_path.rglob("*") if path.suffix in (".log", ".jsonl")
    )
    for secret in (PASSWORD, json.dumps(PASSWORD)[1:-1], *members.logins):
        assert secret not in everything


@pytest.mark.parametrize("kind", [Gated, Moved])
def test_pages_that_lead_to_the_login_by_way_of_others_are_read_after_it(
    tmp_path: Path, valkey_server: Server, crawl_name: str, kind: type[Gated]
) -> None:
    """Many of them lead to one URL, which is none of them; some redirect in the session, too."""
    members = kind(lasts=12)
    members.server.start()
    place = place_of(tmp_path, valkey_server, crawl_name)
    text = SITE.replace("SITE/page/[1-40]", "SITE/list").replace("retries: 2", "retries: 9")
    text = text.replace(
        "layers:", "layers:\n  list: {match: '^/list', follow: [{css: a, to: page}]}\n  hall: {match: '^/welcome'}"
    )
    place.write(text.replace("SITE/", f"{members.server.url}/").replace("ENGINE", "native"))
    try:
        told = place.crawl("site.yaml")
    finally:
        members.server.close()
    [site] = told["sites"]
    assert (site["drained"], site["dead"], site["left"]) == (True, 0, 0)
    paths = [f"/page/new/{n}" if n % 5 == 0 else f"/page/{n}" for n in range(1, PAGES + 1)]
    assert sorted(place.rows("select text from pages")) == sorted((f"text of {path}",) for path in paths)
    assert len(members.logins) > 2
    assert set(members.pages) == set(paths)


def test_a_wrong_password_stops_the_site_and_burns_nothing(
    tmp_path: Path, valkey_server: Server, crawl_name: str, members: Members
) -> None:
    place = place_of(tmp_path, valkey_server, crawl_name, "wrong")
    write(place, members)
    place.write((tmp_path / "site.yaml").read_text("utf-8").replace("concurrency: 4", "concurrency: 4, delay: 0.05s"))
    tried = place.run("site", "try", f"{members.server.url}/page/1", "--file", "site.yaml", code=exit_codes.FAILED)
    assert "login failed: " in tried
    assert members.refused == 3
    _, told = place.said("crawl", "site.yaml", "-w", "2", code=exit_codes.FAILED)
    assert "members: its login failed: " in told
    # Logins are as polite as pages.
    gaps = [sent - asked for asked, sent in zip(members.asked[3:], members.sent[3:], strict=True)]
    assert len(gaps) == 3
    assert min(gaps) >= 0.05
    # Three tries in all, however many workers and pages there are.
    assert (members.refused, members.pages) == (6, [])
    with place.frontier() as frontier:
        [row] = frontier.counts("members").groups
        assert (row.open, row.dead) == (PAGES, 0)
        assert (
            row.paused
            == f"login failed: {members.server.url}/session: nothing on the page is a.logout (login.check.css)"
        )
    with Site() as asked, Site("127.0.0.2") as other:
        asked.on("/session", Reply(status=307, headers={"Location": f"{other.url}/session"}))
        text = (tmp_path / "site.yaml").read_text("utf-8")
        place.write(text.replace(f"{members.server.url}/session", f"{asked.url}/session"), "sent_on.yaml")
        tried = place.run(
            "site", "try", f"{members.server.url}/page/1", "--file", "sent_on.yaml", code=exit_codes.FAILED
        )
        assert "it sends the form on to 127.0.0.2" in tried
        assert len(asked.visits) == 3
        assert other.visits == []
    place.environ["SITE_PASSWORD"] = PASSWORD
    assert "text of /page/2" in place.run("site", "try", f"{members.server.url}/page/2", "--file", "site.yaml")
    place.run("crawl", "site.yaml", "-w", "2")
    assert len(place.rows("select text from pages")) == PAGES
