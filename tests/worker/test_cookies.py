"""Cookies belong to the crawl: what one worker gets, all send, each jar for itself."""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO, StringIO

import pytest
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from tests.worker.courier_sim import SimLink
from tests.worker.harness.site import Reply, Site
from tests.worker.harness.variants import LAST, Variant, some
from tests.worker.harness.workers import Workers
from tests.worker.spiders.members import PAGES, Members

from gossamer.errors import FrontierUnavailable
from gossamer.frontier.export import Export
from gossamer.frontier.restore import Restore, Source
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.servers import Server
from gossamer.worker.cookies import AGAIN, Cookies

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
        assert fetched > PAGES
        assert calls["put_cookies"] == 2
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
        Restore(frontier, Source("file", BytesIO(out.getvalue().encode()))).run()
        assert workers.start(Members, site=site.url).reason() == "finished"
    sent = {visit.path: visit.headers.get("Cookie") for visit in site.visits[before:]}
    members = {f"/{jar}/{number}": f"session=of-{jar}" for jar in (1, "b") for number in range(PAGES)}
    assert {path: sent[path] for path in members} == members
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
    shared = Cookies(CookiesMiddleware(), link, "shop", 10, lambda: woken.append(1))
    assert shared.behind(3)
    link.calls.pop().done(None, FrontierUnavailable("away"))
    assert woken == [1], "what was leased is sent without them"
    assert not shared.behind(3)
    link.pass_time(AGAIN)
    assert shared.behind(3), "asked again, though no newer version is known"
    [asked] = link.calls
    asked.done((3, {}), None)
    assert not shared.behind(3)
