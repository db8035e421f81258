"""`-O`, `-o` and FEEDS of a fleet: one file, every item of the round once, whoever is killed, stopped or started again."""

from __future__ import annotations

import csv
import json
import signal
from collections import Counter

import pytest
from tests.scrapy.feeds.shop import EVERY, PAGES, SPIDER, in_json, in_lines, workers_say
from tests.scrapy.feeds.shop import project as project
from tests.scrapy.feeds.test_rounds import command
from tests.scrapy.process.test_rounds import Project
from tests.support.site import links

from gossamer.frontier import item_stream
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

FEEDS = {
    "made/%(name)s.csv": {"format": "csv", "overwrite": True},
    "all.jl": {"format": "jsonlines", "overwrite": False},
    "whole.json": {"format": "whole", "overwrite": True},
}


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
        assert frontier.counts("shop").groups[0].items_waiting == EVERY.total(), "they stay"

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
    out.unlink()
    project.crawl("-O", "out.jl", "-s", "GOSSAMER_ROUND=join")
    assert in_lines(out) == EVERY, "the items of the round are there"
    (project.folder / "out.jl.position").unlink()
    project.crawl("-o", "out.jl", "-s", "GOSSAMER_ROUND=join")
    assert in_lines(out) == EVERY, "none is added twice"
    command(project, "items", "drop", "shop", "--yes")
    (project.folder / "out.jl.position").unlink(missing_ok=True)
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
