"""Cookies belong to the crawl: what one worker gets, all send, each jar for itself."""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO, StringIO

import pytest
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from tests.courier.simulation import Asked, SimLink
from tests.scrapy.spiders.members import PAGES, Members
from tests.support.site import Reply, Site
from tests.support.workers.variants import LAST, Variant, some
from tests.support.workers.workers import Workers

from gossamer.errors import FrontierUnavailable, MemoryLimitReached
from gossamer.frontier.snapshot.export import Export
from gossamer.frontier.snapshot.file import SnapshotFile
from gossamer.frontier.snapshot.restore import Restore
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.scrapy.download.cookies import _FIELDS, AGAIN, SharedCookies, _cookie
from gossamer.settings import load
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(120)


def prepared(site: Site) -> None:
    for jar in (1, "b"):
        cookie = {"Set-Cookie": f"session=of-{jar}; Path=/", "Location": f"/home-{jar}"}
        site.on(f"/login-{jar}", Reply(302, headers=cookie))
    site.on("/renewed", Reply(headers={"Set-Cookie": "session=another; Path=/"}))
    site.on("/logout", Reply(headers={"Set-Cookie": "session=; Path=/; Max-Age=0"}))


@pytest.mark.parametrize("variant", some((LAST, "select"), (LAST, "uvloop")), ids=str)
def test_who_logs_in_logs_in_for_all(variant: Variant, site: Site, valkey_server: Server, crawl_name: str) -> None:
    prepared(site)
    site.hold("/1/0", "/b/0")
    with Workers(valkey_server.url, crawl_name, variant) as workers:
        # The first one has both pages that are held in its hands, and no room for more.
        first = workers.start(Members, site=site.url, settings={"CONCURRENT_REQUESTS": 2})
        site.wait(lambda paths: {"/1/0", "/b/0"} <= set(paths), "both sessions")
        second = workers.start(Members, site=site.url)
        site.reached("/without")
        site.release("/1/0", "/b/0")
        assert [first.reason(), second.reason()] == ["finished", "finished"]
        sent = {visit.path: visit.headers.get("Cookie") for visit in site.visits}
        members = {f"/{jar}/{number}": f"session=of-{jar}" for jar in (1, "b") for number in range(PAGES)}
        assert {path: sent[path] for path in members} == members
        assert (sent["/home-1"], sent["/home-b"]) == ("session=of-1", "session=of-b")
        assert (sent["/with-another"], sent["/without"]) == ("session=another", None)
        with workers.frontier() as frontier:
            shared = {tuple(json.loads(name)): data for name, data in frontier.cookies(Members.name)[1].items()}
            assert {place[0]: bool(data) for place, data in shared.items()} == {1: True, "b": True, "c": False}
            frontier.new_round(Members.name, 1)
            assert frontier.cookies(Members.name)[1] == {}
        assert len(site.paths()) == len(set(site.paths()))
        fetched = sum(event.kind == "leased" for event in second.events)
        calls = Counter(second.calls())
        assert fetched > 3, "asking once for a page would show"
        assert 1 <= calls["put_cookies"] <= 2, "shared only when something changed"
        assert calls["cookies"] <= 3, "asked only when something was new"


def test_a_crawl_that_is_moved_is_still_logged_in(site: Site, valkey_server: Server, crawl_name: str) -> None:
    prepared(site)
    site.hold("/1/0", "/b/0")
    out = StringIO()
    with Workers(valkey_server.url, crawl_name) as workers:
        first = workers.start(Members, site=site.url, settings={"CONCURRENT_REQUESTS": 2})
        site.wait(lambda paths: {"/1/0", "/b/0"} <= set(paths), "both sessions")
        with workers.frontier() as frontier:
            Export(frontier, out).run()
        site.release("/1/0", "/b/0")
        assert first.reason() == "finished"
    before = len(site.visits)
    given = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": f"{crawl_name}-moved"}
    with Workers(valkey_server.url, f"{crawl_name}-moved") as workers, ValkeyFrontier.open(load(given, {})) as frontier:
        Restore(frontier, SnapshotFile("file", BytesIO(out.getvalue().encode()))).run()
        assert workers.start(Members, site=site.url).reason() == "finished"
    sent = {visit.path: visit.headers.get("Cookie") for visit in site.visits[before:]}
    members = {f"/{jar}/{number}": f"session=of-{jar}" for jar in (1, "b") for number in range(PAGES)}
    # The first worker may have done some while it waited for the second session.
    found = {path: cookie for path, cookie in sent.items() if path in members}
    assert found == {path: members[path] for path in found}
    assert {"/1/0", "/b/0"} <= found.keys()
    assert len(found) > PAGES
    assert not any(path.startswith("/login") for path in sent)


def test_each_worker_may_have_its_own(site: Site, valkey_server: Server, crawl_name: str) -> None:
    prepared(site)
    site.hold("/1/0", "/b/0")
    with Workers(valkey_server.url, crawl_name, GOSSAMER_COOKIES="worker") as workers:
        first = workers.start(Members, site=site.url, settings={"CONCURRENT_REQUESTS": 2})
        site.wait(lambda paths: {"/1/0", "/b/0"} <= set(paths), "both sessions")
        second = workers.start(Members, site=site.url)
        site.wait(lambda paths: "/without" in paths, "the second one")
        site.release("/1/0", "/b/0")
        assert [first.reason(), second.reason()] == ["finished", "finished"]
        assert any(
            visit.headers.get("Cookie") is None for visit in site.visits if visit.path.startswith(("/1/", "/b/"))
        )
        assert "put_cookies" not in first.calls()


def test_cookies_that_could_not_be_had_are_asked_for_again() -> None:
    link, woken = SimLink(), list[int]()
    shared = SharedCookies(CookiesMiddleware(), link, "shop", 10, lambda: woken.append(1))
    assert shared.behind(3)
    link.calls.pop().done(None, FrontierUnavailable("away"))
    assert woken == [1], "what was leased is sent without them"
    assert not shared.behind(3)
    link.pass_time(AGAIN)
    assert shared.behind(3), "asked again, though no newer version is known"
    [asked] = link.calls
    asked.done((3, {}, 0), None)
    assert not shared.behind(3)


@pytest.mark.parametrize("error", [FrontierUnavailable("away"), MemoryLimitReached("full")])
def test_cookies_that_could_not_be_told_are_told_again_and_no_page_waits_for_it(error: Exception) -> None:
    one, through = Member(), list[int]()
    one.set("a")
    one.shared.after(lambda: through.append(1))
    one.told().done(None, error)
    assert through == [1]
    one.link.pass_time(AGAIN)
    assert one.told().args == ("shop", stored("a"))


class Member:
    """The jars of one worker, and its calls, which the test answers."""

    def __init__(self) -> None:
        self.link, self.middleware = SimLink(), CookiesMiddleware()
        self.shared = SharedCookies(self.middleware, self.link, "shop", 10, lambda: None)

    def set(self, value: str) -> None:
        self.middleware.jars[None].jar.set_cookie(_cookie("shop.example", "/", "session", {**FIELDS, "value": value}))

    @property
    def has(self) -> list[str | None]:
        return [cookie.value for cookie in self.middleware.jars[None].jar]

    def told(self) -> Asked:
        """What is put next."""
        self.link.pass_time(1.0)
        [call] = [call for call in self.link.calls if call.verb == "put_cookies"]
        self.link.calls.remove(call)
        return call

    def asks(self) -> Asked:
        [call] = [call for call in self.link.calls if call.verb == "cookies"]
        self.link.calls.remove(call)
        return call


FIELDS: dict[str, object] = {**dict.fromkeys(_FIELDS), "version": 0, "rest": {}}
SESSION = json.dumps([None, "shop.example", "/", "session"])


def stored(value: str) -> dict[str, bytes]:
    return {SESSION: json.dumps({**FIELDS, "value": value}).encode()}


def test_a_login_of_the_next_round_is_told_again() -> None:
    """The same cookie is news in a round that began without any; what was put into the last round's jars meanwhile is put again."""
    one = Member()
    one.set("a")
    one.told().done((0, 5), None)
    one.set("a")
    one.link.pass_time(1.0)
    assert one.link.calls == [], "no news"
    assert one.shared.behind(7)
    one.asks().done((7, {}, 7), None)
    assert one.has == [], "as a new run has none"
    one.set("a")
    assert one.told().args == ("shop", stored("a"))
    late = Member()
    late.set("b")
    told = late.told()
    assert late.shared.behind(7)
    late.asks().done((7, {}, 7), None)
    told.done((5, 6), None)
    assert late.has == ["b"]
    assert late.told().args == ("shop", stored("b"))


@pytest.mark.parametrize(("version", "value"), [(4, "mine"), (3, "theirs")], ids=["told after", "told before"])
def test_of_two_that_are_told_at_once_the_later_one_counts(version: int, value: str) -> None:
    one = Member()
    one.set("mine")
    told = one.told()
    assert one.shared.behind(3)
    one.asks().done((3, stored("theirs"), 0), None)
    assert one.has == ["mine"]
    told.done((2, version), None)
    assert one.has == [value]


def test_what_a_server_has_forgotten_is_told_again_and_what_others_changed_is_not() -> None:
    one, other = Member(), Member()
    one.set("a")
    one.told().done((0, 5), None)
    assert other.shared.behind(5)
    other.asks().done((5, stored("a"), 0), None)
    done = list[str]()
    for member in (one, other):
        member.shared.rolled_back()
        assert member.shared.behind(1), "nothing is sent before it is known what the server has"
        member.shared.after(lambda: done.append("settled"))
        member.shared.recover()
        assert done == []
    asked = one.asks()
    assert asked.args == ("shop", 0)
    asked.done((2, stored("old"), 0), None)
    assert one.has == ["a"]
    told = one.told()
    assert told.args == ("shop", stored("a"))
    told.done((2, 6), None)
    assert done == ["settled"]
    other.asks().done((2, stored("old"), 0), None)
    assert (other.has, other.link.calls) == (["old"], [])
    other.shared.rolled_back()
    other.shared.recover()
    other.asks().done(None, FrontierUnavailable("away"))
    other.link.pass_time(AGAIN)
    other.asks().done((0, {}, 0), None)
    assert other.told().args == ("shop", stored("old")), "who told it may have ended"
