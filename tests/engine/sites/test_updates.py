"""Site files that change while workers of the native engine serve them: what is under way ends as it began, what was learned
stays learned, and no change is missed."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.native_crawl import Crawl, until, working
from tests.support.site import Reply, Site, links

from gossamer.engine.job import NativeJob
from gossamer.engine.page import unserved_lanes
from gossamer.engine.page.payload import pack
from gossamer.engine.sites import ServedSite
from gossamer.engine.sites.files import SiteFiles
from gossamer.engine.worker import NativeWorker
from gossamer.errors import FrontierUnavailable, StoreUnavailable
from gossamer.frontier.contract import Frontier
from gossamer.frontier.server import keys
from gossamer.model import GroupPolicy, LanePolicy, RecordPolicy, RevisitRules
from gossamer.model.page import PageRequest
from gossamer.registry import Registry
from gossamer.testing.servers import Server

SITE = """
    site: pages
    seeds: [SITE/page/1]
    politeness: {robots: ignore}
    layers:
      page: {match: '^/page/', fields: {title: title}}
"""
STORED = SITE + "    store: {page: {table: pages, key: [url], add: [url]}}\n"


async def changed(crawl: Crawl, text: str) -> None:
    """Push another version and wait until a worker serves it, which is seen by a limit."""
    crawl.push(text + "    limits: {pages: 1000}\n")
    await until(lambda: _policy(crawl)["max_pages"] == 1000)


def _policy(crawl: Crawl) -> Any:
    with crawl.frontier() as frontier:
        return frontier.counts("pages").group_policies["pages"]


def next_round(crawl: Crawl) -> None:
    with crawl.frontier() as frontier:
        frontier.new_round("pages", 1)


async def test_a_page_is_stored_where_its_own_version_says(crawl: Crawl, site: Site) -> None:
    site.on("/page/1", Reply(body="<title>x</title>"))
    site.hold("/page/1")
    crawl.push(STORED)
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))):
        await asyncio.to_thread(site.reached, "/page/1")
        elsewhere = f"    database: sqlite:///{crawl.folder}/other.db\n"
        await changed(crawl, STORED.replace("table: pages", "table: others") + elsewhere)
        site.release("/page/1")
        await until(lambda: _drained(crawl))
    assert crawl.dead("pages") == []
    with closing(sqlite3.connect(crawl.folder / "items.db")) as database:
        assert database.execute("select title from pages").fetchall() == [("x",)]


def _drained(crawl: Crawl) -> bool:
    with crawl.frontier() as frontier:
        return frontier.drained("pages").drained


async def test_a_proxy_that_rests_does_so_after_a_change(crawl: Crawl) -> None:
    with Site() as gone:
        proxy = gone.host
    asking = (
        f"    request: {{proxy: p, retries: 0}}\n    proxies: {{p: {{urls: ['http://{proxy}'], fails: 1, rest: 1h}}}}\n"
    )
    crawl.push(SITE + asking)
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))):
        await until(lambda: ["cannot be reached" in detail for _, detail in crawl.dead("pages")] == [True])
        await changed(crawl, SITE + asking)
        next_round(crawl)
        # The end of the round takes the dead letter of the one before.
        await until(lambda: any("rest after failures" in detail for _, detail in crawl.dead("pages")))


STAGED = """
site: pages
seeds: [SITE/list]
politeness: {robots: ignore}
layers:
  list: {match: ^/list, follow: [{css: a, to: page}]}
  page: {match: ^/page/, stage: details, fields: {title: title}}
"""


@pytest.mark.parametrize("verb", ["documents_version", "document", "define"])
async def test_no_change_is_missed_although_the_frontier_was_away(crawl: Crawl, verb: str) -> None:
    class Unlucky(NativeWorker):
        """Cannot reach the frontier for this verb once, after it has begun."""

        left = 0

        async def ask(self, method: Any, /, *args: Any, **kwargs: Any) -> Any:
            if method.__name__ == verb and self.left:
                self.left -= 1
                raise FrontierUnavailable("It is away for a moment.")
            return await super().ask(method, *args, **kwargs)

    crawl.push(SITE)
    worker = Unlucky(crawl.settings, NativeJob(stage=None, forever=True))
    async with working(worker):
        await until(lambda: crawl.items("pages"))
        worker.left = 1
        await changed(crawl, SITE)
        assert worker.left == 0


async def test_a_server_that_went_back_gets_all_groups_again_as_the_files_say_now(
    crawl: Crawl, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """A site whose file has just changed, one whose group is being dropped, and one more."""

    class Recorded(NativeWorker):
        async def ask(self, method: Any, /, *args: Any, **kwargs: Any) -> Any:
            if method.__name__ == "define":
                defined.append((args[0], args[2].max_pages))
            found = await super().ask(method, *args, **kwargs)
            if method.__name__ == "counts" and not args and dropped.is_set():
                # It ends when this worker has just seen that it is under way.
                await asyncio.to_thread(sum, steps)
                asked.append(len(defined))
                dropped.clear()
            return found

    defined: list[tuple[str, int]] = []
    asked: list[int] = []
    dropped = asyncio.Event()
    site.hold("/page/1")
    for name in ("pages", "stuck", "tail"):
        crawl.push(SITE.replace("site: pages", f"site: {name}"), name)
    worker = Recorded(crawl.settings, NativeJob(stage=None, forever=True))
    async with working(worker):
        await asyncio.to_thread(site.reached, "/page/1", 3)
        with crawl.frontier() as frontier:
            steps = frontier.drop_group("stuck")
            next(steps)
            defined.clear()
            crawl.push(SITE + "    limits: {pages: 1000}\n", "pages")
            key = keys.meta(frontier.crawl)
            frontier.connection.execute("HSET", key, "run", "another", key=key)
            await until(lambda: ("tail", 0) in defined)
            assert [most for name, most in defined if name == "pages"] == [1000], "and not as it was served before"
            site.release("/page/1")
            dropped.set()
            await until(lambda: asked and not worker._updates.busy)
            assert defined[asked[0] :] == [], "what an operator has dropped stays so"
    assert caplog.text.count("The site stuck is looked at again later") == 1


async def test_pages_that_cannot_be_kept_say_so_and_tables_that_two_sites_feed(
    crawl: Crawl, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    shared = "    store: {page: {table: all, key: [title], children: {c: {key: [t]}}}}\n"
    shared = SITE.replace("title: title", "title: title, c: {each: p, fields: {t: b}}") + shared
    for name in ("one", "two"):
        crawl.push(shared.replace("site: pages", f"site: {name}").replace("page/1", f"page/{name}"), name)
    (crawl.folder / "kept").write_text("no directory")
    kept = f"    archive_pages: {crawl.folder}/kept\n    request: {{retries: 0}}\n"
    crawl.push(SITE.replace("match:", "save: true, match:") + kept)
    await crawl.run()
    [(reason, detail)] = crawl.dead("pages")
    assert reason == "archive"
    assert "Make room" in detail
    assert caplog.text.count("the sites one and two both feed all: rows with the same title replace all_c of each") == 1


async def test_pages_that_wait_for_room_on_the_disk_are_told_of(
    crawl: Crawl, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    (crawl.folder / "kept").write_text("no directory")
    crawl.push(SITE.replace("match:", "save: files, match:") + f"    archive_pages: {crawl.folder}/kept\n")
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))):
        await until(lambda: "since it was not kept: Pages cannot be kept in" in caplog.text)
    assert crawl.dead("pages") == []


async def test_pages_of_a_layer_that_only_newer_code_has_wait_for_a_worker_that_has_it(
    crawl: Crawl, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read by the pattern that fits them here, they would be records of another layer; as dead letters they would be lost."""
    monkeypatch.setattr(unserved_lanes, "NEWER_PAUSE", 0.5)
    newer = SITE + "      more: {match: '^/page/2', HOW}\n"
    crawl.push(SITE)
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))):
        await until(lambda: crawl.items("pages"))
        crawl.push(newer.replace("HOW", "handler: 'tests.engine.nowhere:read'"))
        with crawl.frontier() as frontier:
            # As a worker does that has the code.
            frontier.define("pages", {name: LanePolicy() for name in ("page", "more")})
            page = PageRequest(f"{site.url}/page/2", layer="more", fingerprint=2)
            frontier.add([pack(page, "pages.more")])
            await until(lambda: any(row.lane == "pages.more" and row.retried > 1 for row in frontier.counts().lanes))
        assert (len(crawl.items("pages")), crawl.dead("pages")) == (1, [])
        crawl.push(newer.replace("HOW", "fields: {other: title}"))
        await until(lambda: len(crawl.items("pages")) > 1)
    assert crawl.items("pages")[1]["layer"] == "more"


async def test_pages_of_a_layer_and_a_pool_that_are_gone_are_fetched_by_workers_that_there_are(
    crawl: Crawl, site: Site
) -> None:
    """They waited for ever for a worker of the stage that no file names any more."""
    site.on("/list", links("/page/a", "/page/b"))
    crawl.push(STAGED)
    async with working(NativeWorker(crawl.settings, NativeJob(forever=True))):
        with crawl.frontier() as frontier:
            await until(lambda: sum(row.queued for row in frontier.counts().lanes if row.lane == "pages.page") == 2)
        crawl.push(STAGED.replace("page:", "leaf:").replace("to: page", "to: leaf").replace("stage: details, ", ""))
        await until(lambda: len(site.paths()) == 3)
    assert sorted(site.paths()) == ["/list", "/page/a", "/page/b"]


async def test_a_file_that_is_removed_while_it_is_read_is_no_error(
    crawl: Crawl, caplog: pytest.LogCaptureFixture
) -> None:
    """It was said to be empty, and its sites to be served as before."""
    crawl.push(SITE)
    with crawl.frontier() as frontier:

        async def ask(verb: Any, /, *given: Any, **more: Any) -> Any:
            if verb is Frontier.document:
                Registry(frontier).remove("site", who="me")
            return getattr(frontier, verb.__name__)(*given, **more)

        files = SiteFiles(ask, ())
        assert await files.changed() == (frozenset(), [], [])
        assert await files.is_outdated()
        assert await files.changed() == (frozenset(), [], [])
        assert not await files.is_outdated()
    assert not caplog.records


async def test_an_older_file_defines_nothing_over_what_a_newer_one_says(crawl: Crawl) -> None:
    """A worker that lacks the code of the newer one, when the server went back. Visits of a layer that it does not know would end for ever."""
    crawl.push(SITE.replace("match:", "revisit: 1h, match:"))
    worker = NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))
    async with working(worker):
        await until(lambda: crawl.items("pages"))
        crawl.push(SITE + "      more: {match: '^/page/2', handler: 'tests.engine.nowhere:read'}\n")
        visits = LanePolicy(records=RecordPolicy(revisit=RevisitRules(600, 600, 600)))
        with crawl.frontier() as frontier:
            # As a worker does that has the code.
            frontier.define("pages", {"page": visits, "more": visits}, GroupPolicy(max_pages=77))
            before = frontier.counts("pages")
            key = keys.meta(frontier.crawl)
            frontier.connection.execute("HSET", key, "run", "another", key=key)
            await until(lambda: worker._updates._behind_since and not worker._updates.busy)
            after = frontier.counts("pages")
            assert after.lane_policies == before.lane_policies
            assert after.group_policies == before.group_policies
            # What is not there can only be as this file says.
            await asyncio.to_thread(lambda: [*frontier.drop_lane("pages.page")])
            frontier.connection.execute("HSET", key, "run", "one more", key=key)
            await until(lambda: "pages.page" in {lane.lane for lane in frontier.counts("pages").lanes})
            assert frontier.counts("pages").lane_policies["pages.more"] == before.lane_policies["pages.more"]


async def test_rounds_begin_again_where_the_server_has_lost_that_a_file_is_drained(site: Site, tmp_path: Path) -> None:
    """The text is the one that was drained, and its sites are to be served as it says."""
    with Server("valkey").start() as server:
        crawl = Crawl(server, "drained", tmp_path, site)
        crawl.push(SITE.replace("page: {", "page: {seen: round, ") + "    schedule: {every: 1s}\n")
        worker = NativeWorker(crawl.settings, NativeJob(stage=None, forever=True, repeat=True))
        async with working(worker):
            await until(lambda: crawl.items("pages"))
            server.call("SAVE")
            with crawl.frontier() as frontier:
                Registry(frontier).drain("site", who="me")
            await until(lambda: worker._files.schedule("pages") is None)
            server.kill()
            server.restart()
            with crawl.frontier() as frontier:
                number = frontier.rounds("pages", 1)[0].round
                await until(lambda: frontier.rounds("pages", 1)[0].round > number + 1)


async def test_what_the_server_has_lost_is_defined_again_although_another_site_is_tried_meanwhile(crawl: Crawl) -> None:
    crawl.push(SITE + "    limits: {pages: 1000}\n")
    worker = NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))
    async with working(worker):
        await until(lambda: crawl.items("pages"))
        with crawl.frontier() as frontier:
            # As before the last definition.
            frontier.define("pages", {"page": LanePolicy()}, GroupPolicy(max_pages=5))
        updates = worker._updates
        updates._behind_since = asyncio.get_running_loop().time()
        async with updates._serving:
            repair = asyncio.ensure_future(updates._repair())
            await asyncio.wait([repair], timeout=0.5)
        await repair
        assert _policy(crawl)["max_pages"] == 1000


async def test_tasks_of_a_site_that_is_taken_away_wait_for_it(
    crawl: Crawl, site: Site, valkey_server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "gossamer.engine")
    key = f"{crawl_name}:tasks"
    fed = SITE.replace("[SITE/page/1]", f"[{{tasks: '{key}'}}]")
    crawl.push(fed)
    valkey_server.call("RPUSH", key, f"{site.url}/page/1")
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))):
        await asyncio.to_thread(site.reached, "/page/1")
        with crawl.frontier() as frontier:
            frontier.drop_document("site", "site")
        await until(lambda: "not served any more" in caplog.text)
        valkey_server.call("RPUSH", key, f"{site.url}/page/2")
        for _ in range(20):
            # As long as a worker would need to take it.
            assert crawl.dead("pages") == []
            await asyncio.sleep(0.1)
        crawl.push(fed)
        await asyncio.to_thread(site.reached, "/page/2")
    assert crawl.dead("pages") == []


async def test_tasks_are_taken_from_the_keys_that_a_file_names_now(
    crawl: Crawl, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    def fed(key: str) -> str:
        return SITE.replace("[SITE/page/1]", f"[{{tasks: '{crawl_name}:{key}'}}]")

    crawl.push(fed("old"))
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))):
        valkey_server.call("RPUSH", f"{crawl_name}:old", f"{site.url}/page/1")
        await asyncio.to_thread(site.reached, "/page/1")
        await changed(crawl, fed("new"))
        valkey_server.call("RPUSH", f"{crawl_name}:new", f"{site.url}/page/2")
        await asyncio.to_thread(site.reached, "/page/2")
        valkey_server.call("RPUSH", f"{crawl_name}:old", f"{site.url}/page/3")
        for _ in range(20):
            assert "/page/3" not in site.paths()
            await asyncio.sleep(0.1)
    assert valkey_server.call("LLEN", f"{crawl_name}:old") == 1


async def test_an_older_version_does_not_come_after_a_newer_one(crawl: Crawl) -> None:
    """One that waits for its database while another is pushed."""
    waits, goes_on, served = asyncio.Event(), asyncio.Event(), list[str | None]()

    class Slow(NativeWorker):
        """The first version finds no database, and then waits for it for long."""

        tries = 0

        async def _serve(self, site: ServedSite) -> None:
            title = site.compiled.site.title
            if site.name == "pages" and not title:
                self.tries += 1
                if self.tries == 1:
                    raise StoreUnavailable("It is away for a moment.")
                waits.set()
                await goes_on.wait()
            await super()._serve(site)
            if site.name == "pages":
                served.append(title)

    other = "    site: other\n    seeds: [SITE/other]\n    layers: {page: {}}\n"
    crawl.push(other, "other")  # A worker that could do nothing at all would say so.
    crawl.push(SITE)
    async with working(Slow(crawl.settings, NativeJob(stage=None, forever=True))):
        async with asyncio.timeout(60):
            await waits.wait()
        crawl.push(SITE + "    title: newer\n")
        # Long enough to be heard of and to be served, were there nobody else.
        with suppress(TimeoutError):
            await until(lambda: served, 8)
        goes_on.set()
        await until(lambda: len(served) == 2)
    assert served[-1] == "newer"


def calls(server: Server) -> int:
    """How often the server's functions were called."""
    fields = dict(field.split("=") for field in server.info("commandstats")["cmdstat_fcall"].split(","))
    return int(fields["calls"])


async def test_a_server_without_memory_ends_no_worker_that_takes_tasks(tmp_path: Path, site: Site) -> None:
    with Server().start() as server:
        crawl = Crawl(server, "small", tmp_path, site)
        crawl.push(SITE.replace("[SITE/page/1]", "[SITE/page/1, {tasks: tasks}]"))
        async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))):
            await asyncio.to_thread(site.reached, "/page/1")
            server.call("CONFIG", "SET", "maxmemory", "1mb")
            asked = calls(server)
            await until(lambda: calls(server) > asked + 5)
            server.call("CONFIG", "SET", "maxmemory", "0")
            server.call("RPUSH", "tasks", f"{site.url}/page/2")
            await asyncio.to_thread(site.reached, "/page/2")
