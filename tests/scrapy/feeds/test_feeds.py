"""`-O`, `-o` and FEEDS of a fleet: one file, every item of the round once, whoever is killed, stopped or started again."""

from __future__ import annotations

import csv
import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.scrapy.process.test_rounds import Project
from tests.support import fork_server
from tests.support.site import Reply, Site, links

from gossamer.frontier import item_stream
from gossamer.testing.process import free_port, wait_until
from gossamer.testing.servers import Server

SPIDER = """
import json
import os
import time

import scrapy
from scrapy.exporters import BaseItemExporter


class Whole(BaseItemExporter):
    # Writes nothing before its end, as those of workbooks.
    def __init__(self, file, **more):
        super().__init__(**more)
        self.file, self.items = file, []

    def export_item(self, item):
        self.items.append({"url": item["url"].rpartition("/")[2]})

    def finish_exporting(self):
        time.sleep(float(os.environ.get("SLOW_END", "0")))
        self.file.write(json.dumps(self.items).encode())


class Page(scrapy.Item):
    title = scrapy.Field()
    url = scrapy.Field(serializer=lambda url: url.rpartition("/")[2])


class Shop(scrapy.Spider):
    name = "shop"

    async def start(self):
        yield scrapy.Request(self.site + "/list")

    def parse(self, response):
        yield Page(url=response.url)
        yield from response.follow_all(css="a")


class Other(Shop):
    name = "other"
"""
PAGES = [f"/{number}" for number in range(30)]
EVERY = Counter(["list", *(path[1:] for path in PAGES)])
FEEDS = {
    "made/%(name)s.csv": {"format": "csv", "overwrite": True},
    "all.jl": {"format": "jsonlines", "overwrite": False},
    "whole.json": {"format": "whole", "overwrite": True},
}


@pytest.fixture
def project(tmp_path: Path, site: Site, valkey_server: Server, crawl_name: str) -> Project:
    site.on("/list", links(*PAGES))
    made = Project(tmp_path, site, valkey_server, crawl_name)
    (tmp_path / "shop_spiders.py").write_text(SPIDER)
    return made


def in_json(file: Path) -> Counter[str]:
    return Counter(item["url"] for item in json.loads(file.read_text()))


def in_lines(file: Path) -> Counter[str]:
    return Counter(json.loads(line)["url"] for line in file.read_text().splitlines())


@pytest.mark.timeout(400)
def test_one_file_has_every_item_once(project: Project) -> None:
    """Two workers, of which one is killed and the other stopped; then one goes on, and a last one crawls again."""
    folder, site = project.folder, project.site
    with (folder / "shop_settings.py").open("a") as settings:
        settings.write(f"FEEDS = {FEEDS!r}\nFEED_EXPORTERS = {{'whole': 'shop_spiders.Whole'}}\n")
    (folder / "all.jl").write_text('{"url": "old"}\n')
    out, table, lines = folder / "out.json", folder / "made" / "shop.csv", folder / "all.jl"
    words = (
        "scrapy",
        "crawl",
        "shop",
        "-O",
        "out.json",
        "-s",
        "DOWNLOAD_DELAY=0.2",
        "-s",
        "RANDOMIZE_DOWNLOAD_DELAY=0",
    )
    with project.start(*words) as first, project.start(*words) as second:
        wait_until(lambda: lines.read_text().count("\n") > 4, "some items to be in the file")
        first.kill()
        first.communicate(timeout=60)
        size = lines.stat().st_size
        wait_until(lambda: lines.stat().st_size > size, "the other to go on")
        second.send_signal(signal.SIGTERM)
        said = second.communicate(timeout=60)[1]
    assert "Spider closed (shutdown)" in said
    some = in_json(out)
    assert 4 <= some.total() < EVERY.total(), said
    assert max(some.values()) == 1
    assert in_lines(lines) == some + Counter(["old"])
    assert in_json(folder / "whole.json") == some, said

    said = project.crawl("-O", "out.json")
    assert "goes on: it has items of round 0 already" in said
    assert in_json(out) == EVERY, said
    assert in_lines(lines) == EVERY + Counter(["old"])
    assert in_json(folder / "whole.json") == EVERY
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert Counter(row["url"] for row in rows) == EVERY
    assert set(rows[0]) == {"title", "url"}, "columns are all fields of the item's class, as in Scrapy"
    said = project.crawl("-O", "out.json", "-s", "GOSSAMER_ROUND=join")
    assert in_json(out) == EVERY, "a worker that comes late empties nothing"
    assert in_json(folder / "whole.json") == EVERY
    with project.frontier() as frontier:
        assert item_stream.consumers(frontier, "shop") == {}, "nobody has to keep anything for these files"
        assert frontier.counts("shop").groups[0].items_waiting == 0

    site.on("/list", links("/0", "/new"))
    project.environ["SLOW_END"] = "4"  # longer than anybody waits for what does not come on
    said = project.run("gossamer", "crawl", "shop", "-w", "2", "-O", "out.json", "-s", "GOSSAMER_CLOSE_SECONDS=2")
    assert "each of the" not in said
    assert in_json(out) == Counter(["list", "0", "new"]), "a new round begins the file anew"
    assert in_json(folder / "whole.json") == Counter(["list", "0", "new"])
    assert in_lines(lines) == EVERY + Counter(["old", "list", "0", "new"]), "and goes on with one that is added to"


@pytest.mark.timeout(200)
def test_what_the_fleet_cannot_write_is_refused(project: Project) -> None:
    gz = json.dumps({"out.jl.gz": {"format": "jl", "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"]}})
    said = project.crawl("-s", f"FEEDS={gz}", code=1)
    assert "The feed out.jl.gz cannot be written by the fleet as a whole: it has postprocessing." in said
    said = project.run("gossamer", "crawl", "shop", "-O", "out.txt", code=2)
    assert "The feed out.txt has the format 'txt', which no exporter has." in said
    said = project.run("gossamer", "crawl", "shop", "-o", "-:jl", code=2)
    assert "writes to standard output is in its log" in said
    for feeds, why in (
        (["out.jl", "./out.jl"], "The feeds out.jl and ./out.jl are one file, "),
        (["%(absent)s.jl"], "The feed %(absent)s.jl has no name: KeyError: 'absent'."),
        (["/dev/null"], "The feed /dev/null is not a file that can be cut and added to."),
        (["/dev/stdout"], "The feed /dev/stdout is not a file that can be cut and added to."),
    ):
        said = project.crawl("-s", f"FEEDS={json.dumps({uri: {'format': 'jl'} for uri in feeds})}", code=1)
        assert why in said
        assert "Traceback" not in said
    own = json.dumps({"%(worker)s.jl": {"format": "jl"}})
    said = project.crawl("-s", f"FEEDS={own}", "-s", "GOSSAMER_FEEDS=worker")
    assert "Each worker writes FEEDS by itself" in said
    [file] = project.folder.glob("*-*.jl")
    assert in_lines(file) == EVERY, "nothing of the round was spent on feeds that were refused"


@pytest.mark.timeout(400)
def test_a_file_is_of_its_crawl_and_says_if_it_is_not_whole(project: Project) -> None:
    out = project.folder / "out.jl"
    project.crawl("-O", "out.jl")
    assert in_lines(out) == EVERY
    (project.folder / "out.jl.position").unlink()
    said = project.crawl("-O", "out.jl", "-s", "GOSSAMER_ROUND=join")
    assert in_lines(out) == EVERY, "a late worker finds nothing to write, and leaves what is there"
    assert "out.jl stays as it is: the items of round 0 had been read" in said
    project.run("gossamer", "crawl", "shop", "--fresh", "--yes", "-O", "out.jl")
    project.run("gossamer", "crawl", "shop", "--fresh", "--yes", "-O", "out.jl")
    assert in_lines(out) == EVERY, "round 0 of another crawl"
    (project.folder / "file").write_text("")
    said = project.crawl("-O", "file/out.jl", code=1)
    assert (
        f"The feeds could not be written to their end: [Errno 17] File exists: '{project.folder}/file'. The crawl"
        in said
    )
    assert "Traceback" not in said


LATE = """
# The thread of the feeds comes to its first look when the next round has begun.
from gossamer.scrapy.feeds.feeds import FleetFeedExporter

serve_on = FleetFeedExporter._serve_on


def late(self, *words):
    self._ended.wait()
    serve_on(self, *words)


FleetFeedExporter._serve_on = late
"""


@pytest.mark.timeout(200)
def test_a_worker_that_ends_and_begins_the_next_round_does_not_empty_its_file(
    project: Project, valkey_server: Server
) -> None:
    with (project.folder / "shop_settings.py").open("a") as settings:
        settings.write(f"SCHEDULER = 'gossamer.scrapy_redis.scheduler.Scheduler'\nREDIS_URL = {valkey_server.url!r}\n")
    for late in ("", LATE):
        (project.folder / "shop_spiders.py").write_text(SPIDER + late)
        project.site.on("/list", links(*PAGES, *(["/late"] if late else [])))
        said = project.crawl("-O", "out.jl")
        assert in_lines(project.folder / "out.jl") == EVERY + Counter(["late"] if late else []), said


@pytest.mark.parametrize("paths", [[], ["/0"]])
def test_a_crawl_that_is_over_before_its_feeds_are_looked_at_has_them(project: Project, paths: list[str]) -> None:
    """The thread that writes them looks for the first time when the round is over already."""
    looks = "from gossamer.scrapy.feeds import feeds\n\nfeeds.AGAIN = 3.0\n"
    (project.folder / "shop_spiders.py").write_text(looks + SPIDER)
    project.site.on("/list", links(*paths))
    said = project.crawl("-O", "out.jl")
    assert in_lines(project.folder / "out.jl") == Counter(["list", *(path[1:] for path in paths)]), said


def test_a_feed_that_is_not_stored_empty_is_not_counted(project: Project) -> None:
    with (project.folder / "shop_settings.py").open("a") as settings:
        feed = {"format": "jsonlines", "store_empty": False, "item_classes": ["scrapy.Request"]}
        settings.write(f"FEEDS = {{'none.jl': {feed!r}, 'all.jl': {{'format': 'jsonlines'}}}}\n")
    said = project.crawl()
    assert in_lines(project.folder / "all.jl") == EVERY
    assert not (project.folder / "none.jl").exists()
    assert "'feedexport/success_count/FileFeedStorage': 1" in said, said
    assert said.count("Stored feed") == 1


LATE_ADDON = """

class LateAddon:
    def update_settings(self, settings):
        settings["EXTENSIONS"]["scrapy.extensions.feedexport.FeedExporter"] = 0
"""


@pytest.mark.parametrize("writers", ["fleet", "worker"])
def test_an_addon_that_turns_scrapys_exporter_on_again_doubles_nothing(project: Project, writers: str) -> None:
    (project.folder / "shop_spiders.py").write_text(SPIDER + LATE_ADDON)
    with (project.folder / "shop_settings.py").open("a") as settings:
        settings.write("ADDONS['shop_spiders.LateAddon'] = 900\n")
    said = project.crawl("-o", "out.jl", "-s", f"GOSSAMER_FEEDS={writers}")
    assert in_lines(project.folder / "out.jl") == EVERY, said


@pytest.mark.timeout(300)
def test_projects_of_scrapy_redis_without_the_addon_have_feeds_of_the_fleet(
    project: Project, valkey_server: Server
) -> None:
    settings, site, out = project.folder / "shop_settings.py", project.site, project.folder / "out.json"
    settings.write_text(
        f"{settings.read_text()}\nADDONS = {{}}\nSCHEDULER = 'gossamer.scrapy_redis.scheduler.Scheduler'\n"
        f"REDIS_URL = {valkey_server.url!r}\n"
    )
    site.hold("/list")
    crawl = ("scrapy", "crawl", "shop", "-O", "out.json")
    with project.start(*crawl) as first, project.start(*crawl) as second:
        site.reached("/list")
        wait_until(lambda: workers_say(project) == ["feed", "feed"], "both to be there")
        site.release("/list")
        assert [worker.wait(60) for worker in (first, second)] == [0, 0]
    assert in_json(out) == EVERY

    queue = ("-s", "SCHEDULER_QUEUE_CLASS=gossamer.scrapy_redis.queue.FifoQueue", "-o", "%(worker)s.jl")
    said = project.crawl(*queue, "-s", "GOSSAMER_FEEDS=fleet", code=1)
    assert "GOSSAMER_FEEDS is fleet, but this project is on the queue of scrapy-redis" in said
    said = project.crawl(*queue)
    assert "Each worker writes FEEDS by itself" in said
    [file] = project.folder.glob("*-*.jl")
    assert in_lines(file) == EVERY


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
            wait_until(
                lambda: frontier.counts("shop").groups[0].items_waiting < 20, "most items to be in the file alone"
            )
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
            f"To give the file up, forget it and start this worker again: `gossamer items forget shop {left} --drop`."
            in said
        )
        said = project.crawl("-s", "CLOSESPIDER_PAGECOUNT=1", *SLOW)
        assert f"a file that no worker writes now ({left}) waits for the items of this round" in said
        assert 1 <= frontier.counts("shop").groups[0].items_waiting < EVERY.total()
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
        site.release("/20")
        said = first.communicate(timeout=60)[1]
    assert first.returncode == 130, said
    assert 0 < in_json(out).total() < 15

    site.hold("/10")
    with project.start("scrapy", "crawl", "shop", *SLOW) as second:
        site.reached("/10")
        second.send_signal(signal.SIGINT)
        site.release("/10")
        said = second.communicate(timeout=60)[1]
    assert "Items go into the stream besides ITEM_PIPELINES: a file that no worker writes now (feed-r0-" in said
    site.on("/0", Reply(500))
    said = project.run("gossamer", "crawl", "shop", "--resume", "-w", "2", "-s", "RETRY_TIMES=0")
    assert "a feed of shop is not complete, and this run has none" in said
    assert 0 < in_json(out).total() < 15
    rest = EVERY - Counter("0")
    with project.frontier() as frontier:
        assert in_json(out).total() + frontier.counts("shop").groups[0].items_waiting == rest.total()
    command(project, "items", "export", "shop", "rest.jl")
    exported = in_lines(project.folder / "rest.jl")
    assert in_json(out) + Counter(url.rpartition("/")[2] for url in exported.elements()) == rest
    said = project.run("gossamer", "crawl", "shop", "--resume", "-w", "2", "-O", "out.json")
    assert "nothing is left of shop but the items of a feed that was cut short" in said
    assert in_json(out) == rest

    assert command(project, "dead", "replay", "--all", "--group", "shop", "--reason", "http_500")
    said = project.crawl("-O", "other.jl", "-s", "RETRY_TIMES=0", code=1)
    assert "Going on with round 0" in said
    assert "other.jl is not whole: it lacks 30 of the 30 items of round 0" in said


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


def workers_say(project: Project) -> list[str]:
    with project.frontier() as frontier:
        return [worker.info.get("items", "") for worker in frontier.workers()]


AWAY = """
import threading
from dataclasses import replace

from gossamer.frontier.valkey import ValkeyFrontier

find = ValkeyFrontier.find


def away(settings):
    if threading.current_thread().name != "feeds":
        return find(settings)
    # The first time nobody is there.
    ValkeyFrontier.find = find
    return find(replace(settings, values={**settings.values, "GOSSAMER_URL": "redis://127.0.0.1:PORT"}))


ValkeyFrontier.find = away
"""


LATE = """
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
        settings.write(LATE)
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
    assert "nothing is left of shop; without --resume a new round begins" in again
    assert in_json(project.folder / "out.json") == EVERY


def test_a_server_that_is_away_when_the_feeds_begin_is_waited_for(project: Project) -> None:
    with (project.folder / "shop_settings.py").open("a") as settings:
        settings.write(AWAY.replace("PORT", str(free_port())))
    project.site.hold(PAGES[0])
    with project.start("scrapy", "crawl", "shop", "-O", "out.json") as process:
        project.site.reached(PAGES[0])
        wait_until((project.folder / "out.json.position").exists, "the feed to begin")
        project.site.release(PAGES[0])
        said = process.communicate(timeout=100)[1]
    assert process.returncode == 0, said
    assert "The feeds wait for the server" in said
    assert in_json(project.folder / "out.json") == EVERY
