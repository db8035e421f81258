"""How a worker in Scrapy ends when it is asked to, and what its command says by its exit code."""

from __future__ import annotations

import json
import os
import signal
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support import fork_server
from tests.support.fork_server import Started
from tests.support.site import Site, links
from tests.support.workers.variants import FIRST, LAST, Variant, some

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Token
from gossamer.settings import load
from gossamer.testing.process import free_port, hold_port, wait_until
from gossamer.testing.servers import SentinelPair, Server

pytestmark = pytest.mark.timeout(300)
SPIDER = """
    import asyncio, scrapy, urllib.request
    from gossamer.scrapy.process.reactor import in_thread
    from scrapy.utils.defer import deferred_from_coro

    class Last:
        def close_spider(self, spider):
            urllib.request.urlopen("SITE/closing").read()

    class LastBeside:
        def close_spider(self, spider):
            return deferred_from_coro(in_thread(lambda: Last().close_spider(spider)))

    class First:
        def open_spider(self, spider=None):
            return deferred_from_coro(in_thread(lambda: urllib.request.urlopen("SITE/opening").read()))

        def process_item(self, item, spider=None):
            return item

        def close_spider(self, spider=None):
            open("closed", "w").close()

    class LastWord:
        def __init__(self, crawler):
            self.crawler = crawler
            crawler.signals.connect(self.end, scrapy.signals.spider_closed)

        from_crawler = classmethod(lambda cls, crawler: cls(crawler))

        async def end(self):
            stop = getattr(self.crawler, "stop_async", None) or self.crawler.stop
            await stop()

    class LastStop(LastWord):
        def end(self):
            self.crawler.engine.stop()

    class Slow(scrapy.Spider):
        name = "slow"

        async def start(self):
            yield scrapy.Request("SITE/list")

        async def parse(self, response):
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, callback=self.page)

        async def page(self, response):
            if response.url.endswith("/waits") and not response.meta.get("again"):
                open("waiting", "w").close()
                if WAITS:
                    await asyncio.sleep(600)
            yield {"url": response.url}
"""
VARIANTS = some((FIRST, "asyncio"), (FIRST, "select"), (LAST, "uvloop"), (LAST, "select"), (LAST, "reactorless"))


class Project:
    """A Scrapy project with one spider, run by Scrapy's own command."""

    def __init__(self, folder: Path, site: Site, variant: Variant, waits: bool = False, **settings: Any) -> None:
        self.folder = folder
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = slow_settings\n")
        given = {
            "SPIDER_MODULES": ["slow_spiders"],
            "ADDONS": {"gossamer.Addon": 100},
            "GOSSAMER_LEASE_SECONDS": 60,
            "DOWNLOAD_TIMEOUT": 600,
            "FEEDS": {"items.json": {"format": "json"}},
            **variant.settings,
            **settings,
        }
        (folder / "slow_settings.py").write_text("".join(f"{name} = {value!r}\n" for name, value in given.items()))
        text = textwrap.dedent(SPIDER).replace("SITE", site.url).replace("WAITS", repr(waits))
        (folder / "slow_spiders.py").write_text(text)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GOSSAMER_", "SCRAPY_"))}
        self.environ, self._path = kept, variant.path()
        self.log = folder / "log"

    def start(self, *words: str) -> Started:
        module, *arguments = words or ("scrapy", "crawl", "slow")
        self.log.unlink(missing_ok=True)
        return fork_server.start(
            module, arguments, environ=self.environ, directory=self.folder, stdout=self.log, path=[self._path]
        )

    def run(self, *words: str) -> int:
        return self.start(*words).wait(120)


@pytest.mark.parametrize("variant", some((FIRST, "asyncio"), (LAST, "uvloop"), (LAST, "reactorless")), ids=str)
@pytest.mark.parametrize("url", ["redis://127.0.0.1:PORT", "redis://nobody:wrong@SERVER", "ftp://nowhere"])
def test_a_worker_that_cannot_join_exits_with_an_error(
    variant: Variant, url: str, site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    url = url.replace("PORT", str(free_port())).replace("SERVER", valkey_server.url.removeprefix("redis://"))
    given: dict[str, Any] = {"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_OUTAGE_SECONDS": 1}
    project = Project(tmp_path, site, variant, **given)
    assert project.run() == 1, project.log.read_text()
    assert site.paths() == []
    if variant.version == LAST and variant.loop == "uvloop":
        assert project.run("gossamer", "work", "slow") not in (0, None)


def test_a_worker_whose_group_is_anothers_exits_with_an_error(
    site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}
    project = Project(tmp_path, site, Variant(LAST, "uvloop"), **given)
    with ValkeyFrontier.open(load(given)) as frontier:
        frontier.define("slow", {"default": LanePolicy()})
        frontier.exchange(Token.fresh(), info={"group": "slow", "spider": "another.Spider", "host": "h", "pid": "1"})
    assert project.run() == 1
    assert "is worked on by another.Spider" in project.log.read_text()


@pytest.mark.parametrize("variant", some((FIRST, "select"), (LAST, "uvloop")), ids=str)
def test_a_worker_whose_server_is_replaced_after_it_said_drained_exits_with_an_error(
    variant: Variant, site: Site, crawl_name: str, tmp_path: Path
) -> None:
    """And `gossamer crawl` replaces it, and goes on."""
    words = ("gossamer", "crawl", "slow", "-w", "1", "--log", "-") if variant.version == LAST else ()
    site.on("/list", links("/a", "/b"))
    with SentinelPair() as pair, hold_port(free_port()) as nobody:
        given: dict[str, Any] = {"GOSSAMER_URL": pair.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_LEASE_SECONDS": 5}
        project = Project(tmp_path, site, variant, ITEM_PIPELINES={"slow_spiders.Last": 1}, **given)
        site.hold("/a", "/closing")
        with project.start(*words) as process:
            site.reached("/a")
            pair.wait_ok()
            pair.replica.call("REPLICAOF", "127.0.0.1", nobody.getsockname()[1])
            site.release("/a")
            # It is closing: somebody has said drained.
            site.reached("/closing")
            # A server that is gone is known to be another one by the last words; one that is not goes on answering.
            pair.failover(kill=bool(words))
            site.release("/closing")
            assert process.wait(120) == (0 if words else 1), project.log.read_text()
        said = project.log.read_text()
        assert "Start a worker of slow again: its server was replaced" in said
        if words:
            assert "worker 1 ended with exit code 5; another takes its place" in said
        else:
            assert project.run() == 0, project.log.read_text()
        with ValkeyFrontier.open(load(given)) as frontier:
            assert frontier.drained("slow").drained
    assert site.paths().count("/a") == 2


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("pipeline", ["Last", "LastBeside"])
def test_a_signal_while_the_spider_closes_does_not_cut_that_off(
    pipeline: str, variant: Variant, site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    """Scrapy itself does not wait for a close that has begun: its process would end here, with exit code 0 and no feed."""
    site.on("/list", links("/a", "/b"))
    site.hold("/closing")
    given: dict[str, Any] = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}
    project = Project(tmp_path, site, variant, ITEM_PIPELINES={f"slow_spiders.{pipeline}": 1}, **given)
    with project.start() as process:
        site.reached("/closing")
        process.send_signal(signal.SIGTERM)
        if pipeline == "LastBeside":
            wait_until(lambda: "shutting down gracefully" in project.log.read_text(), "the signal to be noticed")
        site.release("/closing")
        assert process.wait(120) == 0, project.log.read_text()
    said = project.log.read_text()
    assert "shutting down gracefully" in said
    assert "Spider closed (finished)" in said
    assert {Path(item["url"]).name for item in json.loads((tmp_path / "items.json").read_text())} == {"a", "b"}
    with ValkeyFrontier.open(load(given)) as frontier:
        assert not frontier.workers(), "it has told the frontier that it ends"


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_signal_while_the_spider_opens_closes_it(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    site.on("/list", links("/a", "/b"))
    site.hold("/opening")
    given: dict[str, Any] = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}
    project = Project(tmp_path, site, variant, ITEM_PIPELINES={"slow_spiders.First": 1}, **given)
    with project.start() as process:
        site.reached("/opening")
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "shutting down gracefully" in project.log.read_text(), "the signal to be noticed")
        site.release("/opening")
        assert process.wait(120) == 0, project.log.read_text()
    assert "Spider closed (shutdown)" in project.log.read_text()
    assert (tmp_path / "closed").exists(), "the pipeline was closed"
    assert site.paths() == ["/opening"], "it was closed before it did anything"
    with ValkeyFrontier.open(load(given)) as frontier:
        assert not frontier.workers(), "it has told the frontier that it ends"
        assert [row.start for row in frontier.counts("slow").groups] != ["leased"]
    assert project.run() == 0
    assert {Path(item["url"]).name for item in json.loads((tmp_path / "items.json").read_text())} == {"a", "b"}


def test_a_spider_that_does_not_open_is_closed_in_time(
    site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    site.on("/list", links("/a", "/b"))
    site.hold("/opening")
    given: dict[str, Any] = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}
    project = Project(
        tmp_path,
        site,
        Variant(LAST, "uvloop"),
        ITEM_PIPELINES={"slow_spiders.First": 1},
        GOSSAMER_STOP_SECONDS=1,
        **given,
    )
    with project.start() as process:
        site.reached("/opening")
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "Spider closed (shutdown)" in project.log.read_text(), "the spider to be closed")
        site.release("/opening")
        process.wait(120)
    assert "The spider was not opened in time" in project.log.read_text()
    with ValkeyFrontier.open(load(given)) as frontier:
        assert not frontier.workers()
        assert [row.start for row in frontier.counts("slow").groups] == ["owed"]


def test_a_long_close_is_waited_for_with_a_word_and_cut_off_by_a_second_signal(
    site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    site.on("/list", links("/a", "/b"))
    site.hold("/closing")
    given: dict[str, Any] = {
        "GOSSAMER_URL": valkey_server.url,
        "GOSSAMER_CRAWL": crawl_name,
        "GOSSAMER_STOP_SECONDS": 1,
    }
    project = Project(tmp_path, site, Variant(LAST, "uvloop"), ITEM_PIPELINES={"slow_spiders.LastBeside": 1}, **given)
    with project.start() as process:
        site.reached("/closing")
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "They are waited for; a second signal cuts them off" in project.log.read_text(), "the word")
        assert "0 pages were" not in project.log.read_text()
        process.send_signal(signal.SIGTERM)
        site.release("/closing")
        process.wait(120)
    assert "forcing unclean shutdown" in project.log.read_text()


def test_a_handler_of_the_close_that_waits_for_the_stop_is_not_waited_for_without_end(
    site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    site.on("/list", links("/a", "/b"))
    given: dict[str, Any] = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}
    project = Project(
        tmp_path,
        site,
        Variant(LAST, "uvloop"),
        EXTENSIONS={"slow_spiders.LastWord": 1},
        GOSSAMER_STOP_SECONDS=1,
        **given,
    )
    assert project.run() == 1, project.log.read_text()
    assert "The spider's close was not through in time" in project.log.read_text()


@pytest.mark.parametrize("variant", some((LAST, "uvloop"), (LAST, "select")), ids=str)
def test_an_extension_that_stops_the_engine_when_the_spider_is_closed_leaves_no_error(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    site.on("/list", links("/a", "/b"))
    given: dict[str, Any] = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}
    project = Project(tmp_path, site, variant, EXTENSIONS={"slow_spiders.LastStop": 1}, **given)
    assert project.run() == 0, project.log.read_text()
    assert "Engine not running" not in project.log.read_text()


def test_a_worker_with_a_feed_ends_in_time_when_the_server_does_not_answer(
    site: Site, crawl_name: str, tmp_path: Path
) -> None:
    site.on("/list", links("/waits", "/a"))
    with Server() as server:
        given: dict[str, Any] = {"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_STOP_SECONDS": 4}
        project = Project(tmp_path, site, Variant(LAST, "uvloop"), **given)
        site.hold("/waits")
        with project.start() as process:
            site.reached("/waits")
            wait_until((tmp_path / "items.json.position").exists, "the feed to begin")
            os.kill(server.pid, signal.SIGSTOP)
            process.send_signal(signal.SIGTERM)
            try:
                # Without the limit it would wait for about a minute.
                process.wait(40)
            finally:
                os.kill(server.pid, signal.SIGCONT)
                process.kill()
        said = project.log.read_text()
        assert "The feeds are not written to their end: the server did not answer" in said
        for late in ("The last counters could not", "The end of this worker could not"):
            assert late not in said, "nothing is asked any more that would have to be waited for"
        site.release("/waits")
        assert project.run() == 0, project.log.read_text()
    assert {Path(item["url"]).name for item in json.loads((tmp_path / "items.json").read_text())} == {"a", "waits"}


@pytest.mark.parametrize(
    ("variant", "waits"),
    [
        (variant, waits)
        for variant in VARIANTS
        for waits in ("download", "callback")
        if waits == "download" or "select" not in variant.loop  # there callbacks cannot wait for asyncio
    ],
    ids=str,
)
def test_a_worker_that_is_stopped_waits_for_slow_pages_only_so_long(
    variant: Variant, waits: str, site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    site.on("/list", links("/waits", "/page/1"))
    if waits == "download":
        site.hold("/waits")
    given: dict[str, Any] = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}
    project = Project(tmp_path, site, variant, waits == "callback", GOSSAMER_STOP_SECONDS=3, **given)
    with project.start() as process:
        site.reached("/page/1")
        site.reached("/waits")
        if waits == "callback":
            deadline = time.monotonic() + 60
            while not (tmp_path / "waiting").exists():
                assert time.monotonic() < deadline
                time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        # Without the limit it would wait for 600 seconds.
        process.wait(90)
    text = project.log.read_text()
    assert "1 page was not through in time (GOSSAMER_STOP_SECONDS)" in text
    assert "Spider closed (shutdown)" in text
    assert "Traceback" not in text, text
    assert (tmp_path / "items.json").read_text().rstrip().endswith("]"), "feeds were closed in good order"
    with ValkeyFrontier.find(load(given)) as frontier:
        [lane] = frontier.counts("slow").lanes
        assert (lane.queued, lane.leased, lane.expired) == (1, 0, 0), "it was given back"
    if waits == "download":
        site.release("/waits")
    (tmp_path / "slow_spiders.py").write_text(
        (tmp_path / "slow_spiders.py").read_text().replace("if True:", "if False:")
    )
    assert project.run() == 0
    with ValkeyFrontier.find(load(given)) as frontier:
        assert frontier.drained("slow").drained
        assert frontier.counts("slow").groups[0].dead == 0
    assert sorted(set(site.paths()) - {"/robots.txt"}) == ["/list", "/page/1", "/waits"]
