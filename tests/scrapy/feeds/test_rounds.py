"""Feeds over rounds: files that go on, come late, or are left behind by a worker."""

from __future__ import annotations

import signal
from collections import Counter

import pytest
from tests.scrapy.feeds.shop import EVERY, PAGES, SPIDER, in_json, in_lines, workers_say
from tests.scrapy.feeds.shop import project as project
from tests.scrapy.process.test_rounds import Project
from tests.support import fork_server
from tests.support.site import Reply, links

from gossamer.frontier import item_stream
from gossamer.testing.process import free_port, wait_until
from gossamer.testing.servers import Server


@pytest.mark.timeout(200)
def test_a_worker_that_waits_for_more_begins_a_file_with_each_round(project: Project) -> None:
    crawl = ("scrapy", "crawl", "shop", "-s", "GOSSAMER_MODE=forever", "-o", "%(time)s.jl")

    def files() -> list[Counter[str]]:
        return [in_lines(file) for file in sorted(project.folder.glob("20*.jl"))]

    with project.start(*crawl) as worker:
        wait_until(lambda: files() == [EVERY], "the first round to be in its file")
        with project.frontier() as frontier:
            frontier.new_round("shop", 1)
        wait_until(lambda: files() == [EVERY, EVERY], "the second round to be in a file of its own")
        worker.send_signal(signal.SIGTERM)
        said = worker.communicate(timeout=60)[1]
    assert files() == [EVERY, EVERY], said


SLOW = ("-s", "CONCURRENT_REQUESTS=1")
STOPS = "shutting down gracefully"
KEEPS = """

    @classmethod
    def from_crawler(cls, crawler, *words, **more):
        spider = super().from_crawler(crawler, *words, **more)
        spider.waits = ["/late", "/later"]
        crawler.signals.connect(spider.idle, scrapy.signals.spider_idle)
        return spider

    def idle(self):
        if self.waits:
            from twisted.internet import reactor
            reactor.callLater(0.5, self.more)
            raise scrapy.exceptions.DontCloseSpider

    def more(self):
        while self.waits:
            self.crawler.engine.crawl(scrapy.Request(self.site + self.waits.pop()))
"""


@pytest.mark.timeout(200)
def test_a_spider_that_is_kept_open_and_goes_on_is_not_at_the_end_of_its_round(project: Project) -> None:
    site, out = project.site, project.folder / "out.jl"
    (project.folder / "shop_spiders.py").write_text(SPIDER.partition("class Other")[0].rstrip() + KEEPS)
    site.on("/list", links("/0"))
    site.hold("/late")
    with project.start("scrapy", "crawl", "shop", "-O", "out.jl", *SLOW) as worker:
        site.reached("/late")
        worker.send_signal(signal.SIGTERM)
        site.release("/late")
        said = worker.communicate(timeout=60)[1]
    assert "The round is not over: the rest of its items wait on the server for this file" in said
    assert "Round 0 of shop is over" not in said
    said = project.crawl("-O", "out.jl")
    assert in_lines(out) >= Counter(["list", "0", "late", "later"]), said


@pytest.mark.timeout(300)
def test_a_feed_that_comes_too_late_says_what_it_lacks(project: Project) -> None:
    """And the one that was left behind keeps nothing on the server when its round is over."""
    site, late = project.site, project.folder / "late.jl"
    site.hold("/1")  # the last page but one
    with project.start("scrapy", "crawl", "shop", "-O", "early.jl", *SLOW) as first:
        site.reached("/1")
        first.send_signal(signal.SIGTERM)
        site.release("/1")
        first.communicate(timeout=60)
    with project.frontier() as frontier:
        [left] = item_stream.consumers(frontier, "shop")
    assert "early.jl" in left, "people see which file it is"
    command(project, "items", "drop", "shop", "--yes")
    crawl = ("gossamer", "crawl", "shop", "-w", "1", "-O", "late.jl", "--log", "-")
    said = project.run(*crawl, code=4)
    assert "late.jl begins in the middle of round 0: 30 items" in said
    assert "late.jl is not whole: it lacks 30 of the 31 items of round 0" in said
    assert in_lines(late) == Counter(["0"])
    said = project.crawl("-O", "late.jl", "-s", "GOSSAMER_ROUND=join")
    assert "lacks 30 of the 31 items of round 0" in said, (
        "a worker that is started again for its failure does not fail again"
    )
    said = project.run(*crawl)
    assert in_lines(late) == EVERY
    assert "'feedexport/success_count/FileFeedStorage': 1" in said
    with project.frontier() as frontier:
        assert item_stream.consumers(frontier, "shop") == {}


@pytest.mark.timeout(300)
def test_a_machine_that_comes_late_to_a_feed_of_all_machines_does_not_fail(
    project: Project, valkey_server: Server, crawl_name: str
) -> None:
    """As with FEEDS in the settings of a project that runs in containers."""
    site, here = project.site, project.folder / "out.jl"
    there = project.folder / "there"
    there.mkdir()
    other = Project(there, site, valkey_server, crawl_name)
    (there / "shop_spiders.py").write_text(SPIDER)
    crawl = ("scrapy", "crawl", "shop", "-O", "out.jl", *SLOW)
    site.hold("/1")
    with project.start(*crawl) as first:
        site.reached("/1")
        with project.frontier() as frontier:
            wait_until(lambda: in_lines(here).total() > 10, "most items to be in the file")
            frontier.drop_items("shop", item_stream.ends(frontier, "shop"))
            with other.start(*crawl) as late:
                wait_until(lambda: len(item_stream.consumers(frontier, "shop")) == 2, "both files to wait for items")
                site.release("/1")
                said = late.communicate(timeout=60)[1]
        assert late.returncode == 0, said
        assert first.wait(60) == 0
    assert in_lines(here) == EVERY
    assert in_lines(there / "out.jl").total() < EVERY.total()
    assert "Another machine has had the feed before (consumer feed-r0-" in said
    said = other.crawl("-O", "out.jl", "-s", "GOSSAMER_ROUND=join")
    assert "WARNING: The feed" in said
    assert "is not whole: it lacks" in said
    command(other, "items", "drop", "shop", "--yes")
    (there / "out.jl").unlink()
    (there / "out.jl.position").unlink(missing_ok=True)
    other.crawl("-O", "out.jl", "-s", "GOSSAMER_ROUND=join", code=1)
    other.environ["GOSSAMER_ROUND"] = "join"
    said = other.crawl("-O", "out.jl")
    assert "lacks 31 of the 31 items of round 0" in said, "who would only be started again for a failure does not fail"


@pytest.mark.timeout(300)
def test_two_spiders_may_add_to_one_file_but_not_at_once(project: Project) -> None:
    site, out = project.site, project.folder / "all.jl"
    site.hold(PAGES[-1])
    with project.start("scrapy", "crawl", "shop", "-o", "all.jl", *SLOW) as first:
        site.reached(PAGES[-1])
        wait_until(lambda: out.exists() and in_lines(out).total() == 1, "an item to be in the file")
        # Its second page is held as well: it gives it back soon.
        said = project.run("scrapy", "crawl", "other", "-o", "all.jl", *SLOW, "-s", "GOSSAMER_STOP_SECONDS=2", code=1)
        assert "all.jl is being written for group shop of crawl" in said
        first.send_signal(signal.SIGTERM)
        site.release(PAGES[-1])
        first.communicate(timeout=60)
    project.run("scrapy", "crawl", "other", "-o", "all.jl")
    project.crawl("-o", "all.jl")
    assert in_lines(out) == EVERY + EVERY


def add_pipeline(project: Project) -> None:
    with (project.folder / "shop_spiders.py").open("a") as code:
        code.write("\n\nclass Keeps:\n    def process_item(self, item):\n        return item\n")
    with (project.folder / "shop_settings.py").open("a") as settings:
        settings.write("ITEM_PIPELINES = {'shop_spiders.Keeps': 1}\n")


@pytest.mark.timeout(300)
def test_workers_with_and_without_a_feed_agree_on_where_items_go(project: Project) -> None:
    """In a project with pipelines, a worker without a feed would not stream its items."""
    out, site = project.folder / "out.jl", project.site
    add_pipeline(project)
    site.hold("/list")
    with project.start("scrapy", "crawl", "shop", "-O", "out.jl", *SLOW) as with_feed:
        site.reached("/list")
        with project.start("scrapy", "crawl", "shop", *SLOW) as without:
            wait_until(lambda: sorted(workers_say(project)) == ["feed", "stream"], "both to stream")
            said = project.crawl("-s", "GOSSAMER_ITEMS=off", code=1)
            assert "GOSSAMER_ITEMS is off, but worker" in said
            site.release("/list")
            said = without.communicate(timeout=60)[1]
        assert without.returncode == 0, said
        assert "Items go into the stream besides ITEM_PIPELINES: worker" in said
        assert with_feed.wait(60) == 0
    assert in_lines(out) == EVERY

    site.hold("/list")
    with project.start("scrapy", "crawl", "shop", *SLOW) as without:
        site.reached("/list")
        wait_until(lambda: workers_say(project) == ["kept"], "it to be there")
        said = project.crawl("-O", "out.jl", code=1)
        assert "The feed would lack items: worker " in said
        assert in_lines(out) == EVERY, "one that may not join leaves the file as it is"
        site.release("/list")
        assert without.wait(60) == 0

    site.hold("/list")
    with project.frontier() as frontier:
        with project.start("scrapy", "crawl", "shop", "-O", "out.jl", *SLOW) as with_feed:
            wait_until(lambda: bool(item_stream.consumers(frontier, "shop")), "items to wait for the file")
            with_feed.send_signal(signal.SIGTERM)
            site.release("/list")
            with_feed.communicate(timeout=60)
        [left] = item_stream.consumers(frontier, "shop")
        said = project.crawl("-s", "GOSSAMER_ITEMS=off", code=1)
        assert (
            f"To give the file up, forget it and start this worker again: `gossamer items forget shop {left}`." in said
        )
        said = project.crawl("-s", "CLOSESPIDER_PAGECOUNT=1", *SLOW)
        assert f"a file that no worker writes now ({left}) waits for the items of this round" in said
        assert EVERY.total() < frontier.counts("shop").groups[0].items_waiting < 2 * EVERY.total()
        frontier.keep_items("shop", left, dict.fromkeys(range(frontier.partitions), "gone"))
        waited = frontier.counts("shop").groups[0].items_waiting
        project.crawl("-s", "GOSSAMER_ITEMS=off")
        assert frontier.counts("shop").groups[0].items_waiting == waited, "nobody streams for a file that was given up"


@pytest.mark.timeout(300)
def test_a_file_that_was_cut_short_gets_what_runs_without_it_scrape(project: Project) -> None:
    """In a project with pipelines, whose workers would not stream their items. And one that has nothing of its round says so."""
    site, out = project.site, project.folder / "out.json"
    add_pipeline(project)
    site.hold("/20")
    with project.start("gossamer", "crawl", "shop", "-w", "1", "-O", "out.json", *SLOW) as first:
        site.reached("/20")
        first.send_signal(signal.SIGINT)
        wait_until(lambda: "stopping: pages in progress are finished" in first.errors(), "the worker to be told")
        site.release("/20")
        said = first.communicate(timeout=60)[1]
    assert first.returncode == 130, said
    assert 0 < in_json(out).total() < 15

    site.hold("/10")
    with project.start("scrapy", "crawl", "shop", *SLOW) as second:
        site.reached("/10")
        second.send_signal(signal.SIGINT)
        wait_until(lambda: STOPS in second.errors(), "the worker to stop")
        site.release("/10")
        said = second.communicate(timeout=60)[1]
    assert "Items go into the stream besides ITEM_PIPELINES: a file that no worker writes now (feed-r0-" in said
    site.on("/0", Reply(500))
    said = project.run("gossamer", "crawl", "shop", "--resume", "-w", "2", "-s", "RETRY_TIMES=0")
    assert "a feed of shop is not complete, and this run has none" in said
    assert 0 < in_json(out).total() < 15
    rest = EVERY - Counter("0")
    with project.frontier() as frontier:
        assert frontier.counts("shop").groups[0].items_waiting == rest.total()
    command(project, "items", "export", "shop", "rest.jl")
    exported = in_lines(project.folder / "rest.jl")
    assert Counter(url.rpartition("/")[2] for url in exported.elements()) == rest
    said = project.run("gossamer", "crawl", "shop", "--resume", "-w", "2", "-O", "out.json")
    assert "nothing is left of shop but the items of a feed that was cut short" in said
    assert in_json(out) == rest

    assert command(project, "dead", "replay", "--all", "--group", "shop", "--reason", "http_500")
    said = project.crawl("-O", "other.jl", "-s", "RETRY_TIMES=0")
    assert "Going on with round 0" in said
    assert in_lines(project.folder / "other.jl") == rest, "the items of the round are there"


@pytest.mark.timeout(200)
def test_a_file_of_a_group_that_is_dropped_is_ended(project: Project) -> None:
    out = project.folder / "out.json"
    with project.start("scrapy", "crawl", "shop", "-O", "out.json", "-s", "DOWNLOAD_DELAY=0.3") as worker:
        wait_until(lambda: out.exists() and out.stat().st_size > 20, "some items to be in the file")
        command(project, "group", "drop", "shop", "--yes")
        said = worker.communicate(timeout=60)[1]
    assert worker.returncode == 1, said
    assert 0 < in_json(out).total() < EVERY.total()
    project.crawl("-O", "out.json")
    assert in_json(out) == EVERY


@pytest.mark.timeout(200)
def test_a_feed_that_waits_for_the_end_of_its_round_does_not_keep_the_round_from_its_end(project: Project) -> None:
    out = project.folder / "out.whole"
    with (project.folder / "shop_settings.py").open("a") as settings:
        settings.write("FEED_EXPORTERS = {'whole': 'shop_spiders.Whole'}\n")
    said = project.crawl("-O", "out.whole", "-s", "GOSSAMER_ITEMS_MAX=3", "-s", "DOWNLOAD_DELAY=0.1", code=1)
    assert "Raise GOSSAMER_ITEMS_MAX and GOSSAMER_ITEMS_MAX_BYTES" in said
    project.crawl("-O", "out.whole", "-s", "GOSSAMER_ITEMS_MAX=0")
    assert in_json(out) == EVERY


def command(project: Project, *words: str) -> str:
    """What `gossamer` prints."""
    done = fork_server.run("gossamer", words, project.environ, project.folder, 60)
    assert done.returncode == 0, done.stderr
    return done.stdout


NO_SERVER = """
import threading
from dataclasses import replace

from gossamer.frontier.valkey import ValkeyFrontier

find = ValkeyFrontier.find


def nowhere(settings):
    if threading.current_thread().name != "feeds":
        return find(settings)
    # The first time nobody is there.
    ValkeyFrontier.find = find
    return find(replace(settings, values={**settings.values, "GOSSAMER_URL": "redis://127.0.0.1:PORT"}))


ValkeyFrontier.find = nowhere
"""
LATE_CONNECTION = """
import os
import threading
import time

from gossamer.frontier.valkey import ValkeyFrontier

find = ValkeyFrontier.find


def late(settings):
    while threading.current_thread().name == "feeds" and "LATE" in os.environ:
        time.sleep(1)
    return find(settings)


ValkeyFrontier.find = late
"""


def test_a_feed_whose_worker_was_killed_before_it_began_is_resumed(project: Project) -> None:
    with (project.folder / "shop_settings.py").open("a") as settings:
        settings.write(LATE_CONNECTION)
    feed = ("-o", "out.json")
    project.environ["LATE"] = "1"
    with project.start("scrapy", "crawl", "shop", *feed) as process:
        project.site.wait(lambda paths: set(paths) >= set(PAGES), "all pages to be asked for")
        with project.frontier() as frontier:
            wait_until(lambda: frontier.drained("shop").drained, "all pages to be done")
        process.kill()
    del project.environ["LATE"]
    assert not (project.folder / "out.json").exists()
    said = project.run("gossamer", "crawl", "shop", "--resume", "-w", "1", *feed)
    assert "nothing is left of shop but items on the server for a feed" in said
    assert in_json(project.folder / "out.json") == EVERY
    again = project.run("gossamer", "crawl", "shop", "--resume", "-w", "1", *feed)
    assert "nothing is left of shop but items on the server for a feed" in again
    assert in_json(project.folder / "out.json") == EVERY


def test_a_server_that_does_not_answer_when_the_feeds_begin_is_waited_for(project: Project) -> None:
    with (project.folder / "shop_settings.py").open("a") as settings:
        settings.write(NO_SERVER.replace("PORT", str(free_port())))
    project.site.hold(PAGES[0])
    with project.start("scrapy", "crawl", "shop", "-O", "out.json") as process:
        project.site.reached(PAGES[0])
        wait_until((project.folder / "out.json.position").exists, "the feed to begin")
        project.site.release(PAGES[0])
        said = process.communicate(timeout=100)[1]
    assert process.returncode == 0, said
    assert "The feeds wait for the server" in said
    assert in_json(project.folder / "out.json") == EVERY
