"""Projects of scrapy-redis that do more than the usual, on the frontier; and one that is moved over in the middle of its crawl."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings as ScrapySettings
from tests.support import fork_server
from tests.support.scrapy_redis.example import PREFIX, Project
from tests.support.scrapy_redis.sides import SIDES
from tests.support.site import Site, links

from gossamer.frontier import item_stream
from gossamer.scrapy_redis.connection import from_settings
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

OLD, NEW = SIDES
PAGES = [f"/{n}" for n in range(8)]


@pytest.fixture
def site(site: Site) -> Site:
    return site.on("/", links(*PAGES))


@pytest.fixture
def project(server: Server, tmp_path: Path) -> Iterator[Project]:
    with Project(tmp_path, NEW, server.url, GOSSAMER_LEASE_SECONDS=4, MAX_IDLE_TIME_BEFORE_CLOSE=1) as made:
        yield made


def add(project: Project, code: str) -> None:
    """One more spider module."""
    (project.directory / "shop" / "spiders" / "more.py").write_text(PREFIX.sub(NEW, code))


PLAIN = """
import os
import scrapy

class Plain(scrapy.Spider):
    name = "plain"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(lambda: spider.logger.info("now it is idle"), scrapy.signals.spider_idle, weak=False)
        return spider

    async def start(self):
        yield scrapy.Request(os.environ["SITE"] + "/", dont_filter=True)

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)
"""


def test_a_spider_without_seeds_runs_once_for_all_workers_and_anew_each_time(project: Project, site: Site) -> None:
    project.environ["SITE"] = site.url
    add(project, PLAIN)
    site.hold("/")
    workers = [project.start("plain", SCHEDULER_PERSIST=False) for _ in range(2)]
    # One that comes when the other has ended begins anew.
    with project.frontier() as frontier:
        group = "plain"
        wait_until(
            lambda: [worker.info.get("group") for worker in frontier.workers()].count(group) == 2,
            "both to be there",
            60,
        )
    site.reached("/")
    site.release("/")
    for worker in workers:
        log = worker.ended()
        assert "Closing spider (finished)" in log
        assert log.count("now it is idle") == 1, "idle is who has nothing to do when nobody has"
    assert Counter(site.paths()) == Counter(["/", *PAGES])
    project.start("plain", SCHEDULER_PERSIST=False).ended()
    assert Counter(site.paths()) == Counter(["/", *PAGES] * 2), "a new crawl"
    project.start("plain", SCHEDULER_PERSIST=True).ended()
    project.start("plain", SCHEDULER_PERSIST=True).ended()
    assert Counter(site.paths())["/"] == 4, "starts are not filtered"
    assert Counter(site.paths())["/3"] == 3, "what was seen in the third crawl stays seen in the fourth"


def test_workers_may_have_different_arguments(project: Project, site: Site) -> None:
    project.environ["SITE"] = site.url
    add(project, PLAIN)
    site.hold("/3")
    first = project.start("plain", "-a", "worker=1", CONCURRENT_REQUESTS=2)
    site.reached("/3")
    second = project.start("plain", "-a", "worker=2", CONCURRENT_REQUESTS=2)
    second.said("start() of round 0 of plain ran with arguments worker (")
    site.release("/3")
    assert "runs its own" not in first.ended()
    second.ended()
    assert Counter(site.paths()) == Counter(["/", *PAGES]), "what both starts yield is queued once"


def test_workers_whose_requests_depend_on_their_arguments_each_run_their_start(
    project: Project, site: Site, server: Server
) -> None:
    """As with scrapy-redis; also one that was killed and is run again, and in the next round."""
    project.environ["SITE"] = site.url
    add(project, PARTS)
    site.hold("/1")
    first = project.start("parts", "-a", "part=/1", "-O", "parts.jsonl")
    site.reached("/1")
    site.hold("/2")
    second = project.start("parts", "-a", "part=/2")
    site.reached("/2")
    second.kill()
    site.release("/2")
    third = project.start("parts", "-a", "part=/2")
    third.said("runs its own")
    fourth = project.start("parts", "-a", "part=/3")
    site.reached("/3")
    site.release("/1")
    for worker in (first, third, fourth):
        worker.ended()
    assert set(site.paths()) == {"/1", "/2", "/3"}
    for part in ("/4", "/5"):
        project.start("parts", "-a", f"part={part}").ended()
    assert set(site.paths()) == {"/1", "/2", "/3", "/4", "/5"}
    with project.frontier() as frontier:
        # A page that the killed worker had is fetched again, and counts once.
        assert [info.pages for info in frontier.rounds("parts")] == [1, 1, 3]


SLOW_PARTS = """
import asyncio
import os
import urllib.request
import scrapy

class SlowParts(scrapy.Spider):
    name = "slow_parts"

    async def start(self):
        if self.part == "/slow":
            await asyncio.to_thread(urllib.request.urlopen, os.environ["SITE"] + "/start")
        yield scrapy.Request(os.environ["SITE"] + self.part, dont_filter=True)

    def parse(self, response):
        yield {"url": response.url}
"""


def test_a_start_that_is_slow_is_of_the_round_that_has_begun_meanwhile_and_adds_nothing_twice(
    project: Project, site: Site, server: Server
) -> None:
    project.environ["SITE"] = site.url
    add(project, SLOW_PARTS)
    site.hold("/first")
    first = project.start("slow_parts", "-a", "part=/first")
    site.reached("/first")
    site.hold("/start")
    slow = project.start("slow_parts", "-a", "part=/slow")
    site.reached("/start")
    site.release("/first")
    first.ended()
    site.hold("/second")
    second = project.start("slow_parts", "-a", "part=/second", GOSSAMER_ROUND="new")
    site.reached("/second")
    site.release("/start")
    site.reached("/slow")
    site.release("/second")
    for worker in (slow, second):
        worker.ended()
    assert Counter(site.paths()) == Counter(["/first", "/second", "/slow", "/start", "/start"])
    with project.frontier() as frontier:
        assert [info.pages for info in frontier.rounds("slow_parts")] == [2, 1]


FED_PARTS = """
import os
import scrapy
from scrapy_redis.spiders import RedisSpider

class FedParts(RedisSpider):
    name = "fed"
    redis_key = "fed:start_urls"

    async def start(self):
        for part in self.part.split(","):
            yield scrapy.Request(os.environ["SITE"] + part, dont_filter=True)

    def parse(self, response):
        yield {"url": response.url}
"""


def test_a_spider_with_seeds_runs_its_start_for_each_set_of_arguments(
    project: Project, site: Site, server: Server
) -> None:
    """As with scrapy-redis, where each worker runs it; what several yield alike is queued once."""
    project.environ["SITE"] = site.url
    add(project, FED_PARTS)
    for day in (1, 2):
        server.call("LPUSH", "fed:start_urls", f"{site.url}/seed")
        workers = [
            project.start("fed", "-a", f"part=/shared,/{name}", MAX_IDLE_TIME_BEFORE_CLOSE=8)
            for name in ("lamps", "rugs", "rugs")
        ]
        for worker in workers:
            worker.ended()
        assert Counter(site.paths()) == Counter(dict.fromkeys(("/seed", "/shared", "/lamps", "/rugs"), day))


SCRIPT = """
import sys
from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings

process = CrawlerProcess(get_project_settings())
for part in sys.argv[1:]:
    process.crawl("parts", part=part)
process.start()
"""
PARTS = """
import os
import scrapy

class Parts(scrapy.Spider):
    name = "parts"

    async def start(self):
        yield scrapy.Request(os.environ["SITE"] + self.part, dont_filter=True)

    def parse(self, response):
        pass
"""


def test_crawls_of_one_process_with_different_arguments_all_run_their_start(
    project: Project, site: Site, server: Server
) -> None:
    add(project, PARTS)
    (project.directory / "script.py").write_text(SCRIPT)
    environ = {**os.environ, **project.environ, "SITE": site.url}
    for times in (1, 2):
        done = fork_server.run("script", ["/1", "/2", "/3"], environ, project.directory, 100)
        assert done.returncode == 0, done.stderr
        assert "runs its own" not in done.stderr
        assert Counter(site.paths()) == Counter(["/1", "/2", "/3"] * times)


def test_a_spider_without_seeds_may_wait_before_it_closes(project: Project, site: Site, there: Any) -> None:
    project.environ["SITE"] = site.url
    add(project, PLAIN)
    log = project.start("plain", SCHEDULER_IDLE_BEFORE_CLOSE=2).ended()
    assert "Closing spider (finished)" in log


def test_a_start_may_flush(project: Project, site: Site, there: Any) -> None:
    for flush, times in ((False, 1), (False, 1), (True, 2)):
        there.rpush("catalog:start_urls", f"{site.url}/")
        project.start("catalog", SCHEDULER_FLUSH_ON_START=flush).ended()
        assert Counter(site.paths())["/5"] == times


def test_a_flush_lets_unfiltered_starts_be_fetched_again(project: Project, site: Site) -> None:
    project.environ["SITE"] = site.url
    add(project, PLAIN)
    for times in (1, 2, 3):
        project.start("plain", SCHEDULER_PERSIST=True, SCHEDULER_FLUSH_ON_START=True).ended()
        assert Counter(site.paths()) == Counter(["/", *PAGES] * times)


def test_a_killed_worker_does_not_keep_later_starts_from_flushing(project: Project, site: Site) -> None:
    project.environ["SITE"] = site.url
    add(project, PLAIN)
    given = {"SCHEDULER_PERSIST": True, "SCHEDULER_FLUSH_ON_START": True, "GOSSAMER_LEASE_SECONDS": 60}
    site.hold("/3")
    killed = project.start("plain", **given)
    site.reached("/3")
    killed.kill()
    site.release("/3")
    before = Counter(site.paths())
    for times in (1, 2):
        log = project.start("plain", **given).ended()
        assert "nothing was cleared" not in log
        assert Counter(site.paths()) - before == Counter(["/", *PAGES] * times)


def test_a_start_that_would_flush_clears_nothing_beside_a_worker(project: Project, site: Site) -> None:
    project.environ["SITE"] = site.url
    add(project, PLAIN)
    site.hold("/3")
    first = project.start("plain", SCHEDULER_PERSIST=True)
    site.reached("/3")
    second = project.start("plain", SCHEDULER_PERSIST=True, SCHEDULER_FLUSH_ON_START=True)
    second.said("nothing was cleared, since other workers are there")
    site.release("/3")
    first.ended()
    second.ended()
    assert Counter(site.paths()) == Counter(["/", *PAGES])


def test_a_spider_may_decide_itself_when_it_is_closed(project: Project, site: Site, there: Any) -> None:
    add(
        project,
        """
from scrapy.exceptions import DontCloseSpider
from scrapy_redis.spiders import RedisSpider
from shop.spiders.catalog import Catalog

class Patient(Catalog):
    name = "patient"
    idles = 0

    def spider_idle(self):
        self.idles += 1
        self.logger.info("idle for the %d. time", self.idles)
        if self.idles < 3:
            raise DontCloseSpider
""",
    )
    there.rpush("patient:start_urls", f"{site.url}/")
    log = project.start("patient", MAX_IDLE_TIME_BEFORE_CLOSE=0).ended()
    assert "idle for the 3. time" in log
    assert Counter(site.paths()) == Counter(["/", *PAGES])


def test_a_spider_may_take_its_seeds_its_own_way(project: Project, site: Site, there: Any) -> None:
    add(
        project,
        """
from scrapy import Request
from shop.spiders.catalog import Catalog

class Own(Catalog):
    name = "own"

    def next_requests(self):
        while data := self.server.lpop("elsewhere"):
            yield Request(data.decode(), dont_filter=True)
""",
    )
    there.rpush("elsewhere", f"{site.url}/")
    project.start("own").ended()
    assert Counter(site.paths()) == Counter(["/", *PAGES])


def test_one_that_closes_without_seeds_waits_for_what_a_killed_worker_held(
    project: Project, site: Site, there: Any
) -> None:
    add(
        project,
        """
from shop.spiders.catalog import Catalog

class Closing(Catalog):
    name = "closing"

    def next_requests(self):
        found = list(super().next_requests())
        yield from found
        if not found:
            self.crawler.engine.close_spider(self, "no more seeds")
""",
    )
    site.hold("/")
    there.rpush("closing:start_urls", f"{site.url}/")
    first = project.start("closing")
    site.reached("/")
    second = project.start("closing")
    second.said("Spider opened")
    first.kill()
    site.release("/")
    assert "Closing spider (no more seeds)" in second.ended()
    assert Counter(site.paths()) == Counter(["/", "/", *PAGES])


def test_queue_and_filter_are_read_and_cleared_by_the_projects_own_code(
    project: Project, site: Site, there: Any
) -> None:
    add(
        project,
        """
from scrapy import Request, signals
from shop.spiders.catalog import Catalog

class Looks(Catalog):
    name = "looks"
    steps = 0

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.look, signals.spider_idle)
        return spider

    def parse(self, response):
        scheduler = self.crawler.engine._slot.scheduler
        for act in (scheduler.queue.clear, scheduler.queue.pop):
            try:
                act()
            except Exception as error:
                self.logger.info("refused: %s", error)
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse_page)

    def parse_page(self, response):
        self.site = response.urljoin("/")
        self.logger.info("some wait: %s", len(self.crawler.engine._slot.scheduler.queue) > 0)

    def look(self):
        scheduler, page = self.crawler.engine._slot.scheduler, Request(self.site + "3", self.parse_page)
        self.steps += 1
        if self.steps > 3:
            return
        if self.steps == 3:
            scheduler.queue.push(page)
            return
        before = scheduler.df.request_seen(page)
        scheduler.df.clear() if self.steps == 1 else scheduler.flush()
        self.logger.info("known: %s, then %s; %d wait", before, scheduler.df.request_seen(page), len(scheduler.queue))
        self.crawler.engine.crawl(page)
""",
    )
    there.rpush("looks:start_urls", f"{site.url}/")
    log = project.start("looks", CONCURRENT_REQUESTS=1).ended()
    assert "The queue of looks cannot be cleared while 1 of its pages are in progress. Stop its workers" in log
    assert "cannot be popped" in log
    assert "some wait: True" in log
    assert log.count("known: True, then False; 0 wait") == 2
    assert Counter(site.paths()) == Counter(["/", *PAGES, "/3", "/3", "/3"])


def test_start_requests_of_ones_own_run_too(project: Project, site: Site, there: Any) -> None:
    project.environ["SITE"] = site.url
    add(
        project,
        """
import os
from scrapy import Request
from shop.spiders.catalog import Catalog

class Begins(Catalog):
    name = "begins"

    def start_requests(self):
        yield Request(os.environ["SITE"] + "/", dont_filter=True)
""",
    )
    there.rpush("begins:start_urls", f"{site.url}/seed")
    project.start("begins").ended()
    assert Counter(site.paths()) == Counter(["/", "/seed", *PAGES])


def test_everything_may_be_embedded(tmp_path: Path, site: Site) -> None:
    where = {"GOSSAMER_URL": "embedded:", "GOSSAMER_DATA_DIR": str(tmp_path / "data")}
    with (
        from_settings(ScrapySettings(where)) as own,
        Project(tmp_path, NEW, "", MAX_IDLE_TIME_BEFORE_CLOSE=1, **where) as made,
    ):
        del made.environ["REDIS_URL"]
        own.rpush("catalog:start_urls", f"{site.url}/")
        made.start("catalog").ended()
        assert own.llen("catalog:items:linked") == len(PAGES)
        assert int(own.hget("catalog:stats", "item_scraped_count")) == len(PAGES) + 1


def test_a_crawl_is_moved_over_in_its_middle(tmp_path: Path, site: Site, server: Server, there: Any) -> None:
    """Begun by scrapy-redis, imported, and ended by ours: every page once, every item once."""
    site.hold(*PAGES)
    there.rpush("catalog:start_urls", f"{site.url}/")
    with Project(tmp_path / "old", OLD, server.url, CONCURRENT_REQUESTS=2, MAX_IDLE_TIME_BEFORE_CLOSE=60) as old:
        first = old.start("catalog")
        site.wait(lambda paths: len(paths) >= 3, "pages to be in progress")
        first.stop()
        first.said("Closing spider (shutdown)")
        site.release(*PAGES)
        first.ended()
    assert there.zcard("catalog:requests") > 0
    there.rpush("catalog:start_urls", f"{site.url}/")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    words = ["import", "scrapy-redis", "catalog", "--allow-pickle", "--yes"]
    moved = fork_server.run("gossamer", words, {**kept, "GOSSAMER_URL": server.url}, tmp_path, 100)
    assert moved.returncode == 0, moved.stderr
    with Project(tmp_path / "new", NEW, server.url, MAX_IDLE_TIME_BEFORE_CLOSE=1) as new:
        log = new.start("catalog").ended()
    assert "Resuming crawl (" in log
    assert Counter(site.paths()) == Counter(["/", "/", *PAGES]), "the seed came twice, its links did not"
    found = [json.loads(data) for data in there.lrange("catalog:items:linked", 0, -1)]
    assert Counter(one["url"].removeprefix(site.url) for one in found) == Counter(PAGES)


def test_two_spiders_of_a_project_do_not_disturb_each_other(project: Project, site: Site, there: Any) -> None:
    site.on("/", links("/list/1", *PAGES))
    site.on("/list/1", links("/post/1", "/post/2"))
    there.rpush("catalog:start_urls", f"{site.url}/")
    there.sadd("rules:seeds", f"{site.url}/")
    for worker in [project.start("catalog"), project.start("rules")]:
        worker.ended()
    assert there.llen("rules:items:post") == 2
    wait_until(lambda: there.llen("catalog:items:linked") == 3 + len(PAGES), "the items of the other")


FAILING = """
from scrapy_redis.spiders import RedisSpider

class Failing(RedisSpider):
    name = "failing"

    def parse(self, response):
        if response.url.endswith("/3"):
            raise KeyError("callback")
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)
"""


@pytest.mark.parametrize("count", [1, 3])
def test_workers_that_end_together_end_one_round_and_its_dead_letters_can_be_replayed(
    project: Project, site: Site, there: Any, count: int
) -> None:
    """Also without `SCHEDULER_PERSIST`: nothing was left in the queue, so nothing is thrown away."""
    add(project, FAILING)
    site.hold("/3")
    there.rpush("failing:start_urls", f"{site.url}/")
    workers = [project.start("failing", SCHEDULER_PERSIST=False) for _ in range(count)]
    for worker in workers:
        worker.said("Spider opened")
    site.reached("/3")
    site.release("/3")
    for worker in workers:
        worker.ended()
    with project.frontier() as frontier:
        assert [info.state for info in frontier.rounds("failing")] == ["ended"]
        [letter] = frontier.dead_letters("failing")
        assert frontier.replay(letter.partition, [letter.id]) == 1
    project.start("failing", SCHEDULER_PERSIST=False).ended()
    assert Counter(site.paths())["/3"] == 2


def test_a_crawl_that_has_ended_begins_again_when_it_is_run(project: Project, site: Site) -> None:
    """Not when it ends: until then nothing is owed, the next run is not of yesterday, and one that only joins does nothing."""
    project.environ["SITE"] = site.url
    add(project, PLAIN)
    given = {"SCHEDULER_PERSIST": False}
    project.start("plain", **given).ended()
    with project.frontier() as frontier:
        assert frontier.drained("plain").drained
        project.start("plain", GOSSAMER_ROUND="join", **given).ended()
        assert Counter(site.paths()) == Counter(["/", *PAGES])
        [first] = frontier.rounds("plain")
        now = frontier.counts("plain").now
        project.start("plain", **given).ended()
        again = frontier.rounds("plain")[0]
        assert (first.state, first.round, again.state, again.round) == ("ended", 0, "ended", 1)
        assert again.began is not None
        assert again.began > now
    assert Counter(site.paths()) == Counter(["/", *PAGES] * 2)


def test_workers_that_only_join_forget_what_was_seen_too(project: Project, site: Site, there: Any) -> None:
    for times in (1, 2):
        there.rpush("catalog:start_urls", f"{site.url}/")
        project.start("catalog", SCHEDULER_PERSIST=False, GOSSAMER_ROUND="join").ended()
        assert Counter(site.paths())["/3"] == times


SEEDED = """
from scrapy_redis.spiders import RedisSpider

class Seeded(RedisSpider):
    name = "seeded"
    custom_settings = {"ITEM_PIPELINES": {}}

    def parse(self, response):
        yield {"url": response.url}
"""


@pytest.mark.parametrize("persist", [True, False])
def test_seeds_that_were_pushed_before_a_run_are_of_a_round_and_a_file_of_its_own(
    project: Project, site: Site, there: Any, persist: bool
) -> None:
    """As with scrapy-redis, whether the producer or the worker comes first."""
    add(project, SEEDED)
    for seed in ("/1", "/2", "/3"):
        there.rpush("seeded:start_urls", site.url + seed)
        project.start("seeded", "-O", "day.jsonl", SCHEDULER_PERSIST=persist).ended()
        lines = (project.directory / "day.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == [{"url": site.url + seed}]
    with project.frontier() as frontier:
        assert [info.state for info in frontier.rounds("seeded")] == ["ended"] * 3


def test_seeds_that_were_left_by_a_worker_that_was_stopped_are_of_its_round(
    project: Project, site: Site, there: Any
) -> None:
    add(project, SEEDED)
    site.hold("/2")
    given = {"SCHEDULER_PERSIST": True, "CONCURRENT_REQUESTS": 1}
    for seed in PAGES:
        there.rpush("seeded:start_urls", site.url + seed)
    worker = project.start("seeded", "-O", "day.jsonl", **given)
    site.reached("/2")
    worker.stop()
    site.release("/2")
    worker.ended()
    project.start("seeded", "-O", "day.jsonl", **given).ended()
    lines = (project.directory / "day.jsonl").read_text().splitlines()
    assert Counter(json.loads(line)["url"] for line in lines) == Counter(site.url + seed for seed in PAGES)


@pytest.mark.parametrize("again", ["new", "join"])
def test_a_crawl_that_is_stopped_throws_away_what_is_left_and_what_was_seen(
    project: Project, site: Site, there: Any, again: str
) -> None:
    add(project, FAILING)
    site.hold("/5")
    given = {"SCHEDULER_PERSIST": False, "CONCURRENT_REQUESTS": 2}
    there.rpush("failing:start_urls", f"{site.url}/")
    worker = project.start("failing", **given)
    site.reached("/5")
    worker.stop()
    site.release("/5")
    log = worker.ended()
    assert "Scheduler close failure" not in log
    assert "dropped from the queue of failing, since SCHEDULER_PERSIST is off" in log
    before = Counter(site.paths())
    there.rpush("failing:start_urls", f"{site.url}/")
    project.start("failing", GOSSAMER_ROUND=again, **given).ended()
    assert Counter(site.paths()) - before == Counter(["/", *PAGES])


STOPPED = """
from scrapy_redis.spiders import RedisSpider

class Stopped(RedisSpider):
    name = "stopped"
    custom_settings = {"ITEM_PIPELINES": {}}

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a", callback=self.parse)
"""


@pytest.mark.parametrize("how", ["-O", "-o"])
@pytest.mark.parametrize("persist", [True, False])
def test_the_feed_of_a_crawl_that_is_stopped_waits_for_the_rest_only_if_there_is_one(
    project: Project, site: Site, there: Any, persist: bool, how: str
) -> None:
    add(project, STOPPED)
    site.hold("/5")
    given = {"SCHEDULER_PERSIST": persist, "CONCURRENT_REQUESTS": 1}
    there.rpush("stopped:start_urls", f"{site.url}/")
    worker = project.start("stopped", how, "out.jsonl", **given)
    site.reached("/5")
    worker.stop()
    site.release("/5")
    assert ("The round is not over: the rest of its items wait" in worker.ended()) is persist
    with project.frontier() as frontier:
        assert bool(item_stream.consumers(frontier, "stopped")) is persist
    there.rpush("stopped:start_urls", f"{site.url}/")
    before = len((project.directory / "out.jsonl").read_text().splitlines())
    project.start("stopped", how, "out.jsonl", **given).ended()
    found = Counter(json.loads(line)["url"] for line in (project.directory / "out.jsonl").read_text().splitlines())
    every = Counter(site.url + path for path in ["/", *PAGES])
    if persist:
        assert found == every + Counter([f"{site.url}/"])
    else:
        assert found.total() == every.total() + (before if how == "-o" else 0)
        assert found >= every


def test_a_fleet_of_this_machine_crawls_again_each_time_on_the_server_of_the_project(
    project: Project, site: Site, there: Any
) -> None:
    """`gossamer crawl` sees what its workers do, whatever names the server; and what was pushed before it is of the next round."""
    add(project, SEEDED)
    environ = {**os.environ, **project.environ, "NO_COLOR": "1"}
    given = ["--workers", "2", "-O", "day.jsonl", "-s", "SCHEDULER_PERSIST=True", "-s", "MAX_IDLE_TIME_BEFORE_CLOSE=1"]
    for number, seed in enumerate(("/1", "/2")):
        there.rpush("seeded:start_urls", site.url + seed)
        done = fork_server.run("gossamer", ["crawl", "seeded", *given], environ, project.directory, 100)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"round {number} of seeded: 1 page in" in done.stdout
        lines = (project.directory / "day.jsonl").read_text().splitlines()
        assert [json.loads(line)["url"] for line in lines] == [site.url + seed]
    assert not (project.directory / ".gossamer" / "server.conf").exists(), "no server of its own was started"
