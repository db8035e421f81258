"""What scrapy-redis gets wrong in a running crawl and ours does not; each on the example project with its prefix replaced."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.scrapy_redis.example import Project, Worker
from tests.support.scrapy_redis.sides import SIDES
from tests.support.site import Site, links

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

NEW = SIDES[1]
WIRE = {"SCHEDULER_QUEUE_CLASS": f"{NEW}.queue.PriorityQueue"}
PAGES = [f"/{n}" for n in range(12)]


@pytest.fixture
def site(site: Site) -> Site:
    return site.on("/", links(*PAGES))


@pytest.fixture
def project(server: Server, tmp_path: Path) -> Iterator[Project]:
    """Its workers wait for seeds until they are stopped: how long anything takes here depends on the machine."""
    with Project(tmp_path, NEW, server.url, GOSSAMER_LEASE_SECONDS=4, MAX_IDLE_TIME_BEFORE_CLOSE=0) as made:
        yield made


def reading(worker: Worker) -> Worker:
    worker.said("Spider opened")
    return worker


def items(there: Any) -> Counter[str]:
    found = [json.loads(data) for kind in ("page", "linked") for data in there.lrange(f"catalog:items:{kind}", 0, -1)]
    return Counter("/" + one["url"].rpartition("/")[2] for one in found)


def crawled(there: Any, *paths: str) -> None:
    """Wait until all these have given their item; then none has given two."""
    wait_until(lambda: set(items(there)) >= set(paths), f"the items of {len(paths)} pages", 90)


def finish(there: Any, worker: Worker, *paths: str) -> None:
    """Let a worker that would wait for more seeds end when these pages are through."""
    crawled(there, *paths)
    worker.stop()
    worker.ended()
    assert items(there) == Counter(paths)


def frontier(server: Server) -> ValkeyFrontier:
    return ValkeyFrontier.find(load({"GOSSAMER_URL": server.url}, environ={}))


def test_a_killed_worker_loses_no_page_and_no_item(project: Project, site: Site, there: Any) -> None:
    site.hold(*PAGES[4:])
    first = reading(project.start("catalog"))
    there.rpush("catalog:start_urls", f"{site.url}/")
    site.wait(lambda paths: len(set(paths) & set(PAGES[4:])) >= 4, "pages to be in progress")
    first.kill()
    site.release(*PAGES[4:])
    finish(there, project.start("catalog"), "/", *PAGES)


def test_a_seed_in_the_hands_of_a_killed_worker_is_not_lost(project: Project, site: Site, there: Any) -> None:
    site.hold("/slow")
    first = reading(project.start("catalog", CONCURRENT_REQUESTS=1))
    there.rpush("catalog:start_urls", *(f"{site.url}{path}" for path in ("/slow", *PAGES)))
    site.reached("/slow")
    first.kill()
    site.release("/slow")
    finish(there, project.start("catalog"), "/slow", *PAGES)


@pytest.mark.parametrize("settings", [{}, WIRE], ids=["frontier", "wire"])
def test_a_worker_that_ends_takes_nothing_from_the_others(
    settings: dict[str, str], project: Project, site: Site, there: Any
) -> None:
    site.hold(*PAGES)
    given = {"SCHEDULER_PERSIST": False, "CONCURRENT_REQUESTS": 2, "STATS_CLASS": f"{NEW}.stats.RedisStatsCollector"}
    first, second = (reading(project.start("catalog", **given, **settings)) for _ in range(2))
    there.rpush("catalog:start_urls", f"{site.url}/")
    site.wait(lambda paths: len(paths) >= 5, "both to be busy")
    first.stop()
    first.said("Closing spider (shutdown)")
    site.release(*PAGES)
    first.ended()
    finish(there, second, "/", *PAGES)
    assert there.exists("catalog:stats") == 0, "the last one has cleared up"


def test_the_last_worker_that_ends_without_persist_clears_up(
    project: Project, site: Site, there: Any, server: Server
) -> None:
    site.hold(*PAGES)
    worker = reading(project.start("catalog", SCHEDULER_PERSIST=False, CONCURRENT_REQUESTS=2))
    there.rpush("catalog:start_urls", f"{site.url}/")
    site.wait(lambda paths: len(paths) >= 3, "pages to be in progress")
    worker.stop()
    worker.said("Closing spider (shutdown)")
    site.release(*PAGES)
    worker.ended()
    with frontier(server) as found:
        assert sum(lane.queued for lane in found.counts("catalog").lanes) == 0
    there.rpush("catalog:start_urls", f"{site.url}/")
    again = project.start("catalog", SCHEDULER_PERSIST=False)
    crawled(there, "/", *PAGES)
    again.stop()
    again.ended()
    assert {path for path, count in Counter(site.paths()).items() if count == 2} >= {"/"}
    assert set(items(there)) == {"/", *PAGES}, "what was seen was forgotten, so all of it was crawled"


def test_what_was_seen_is_forgotten_without_persist_and_known_with_it(project: Project, site: Site, there: Any) -> None:
    for persist, times in ((False, 1), (False, 2), (True, 3), (True, 3)):
        there.rpush("catalog:start_urls", f"{site.url}/")
        project.start("catalog", SCHEDULER_PERSIST=persist, MAX_IDLE_TIME_BEFORE_CLOSE=1).ended()
        assert Counter(site.paths())["/3"] == times


@pytest.mark.parametrize("settings", [{}, WIRE], ids=["frontier", "wire"])
def test_seeds_are_taken_while_a_slow_page_is_awaited(
    settings: dict[str, str], project: Project, site: Site, there: Any
) -> None:
    site.hold("/slow")
    worker = reading(project.start("catalog", **settings))
    there.rpush("catalog:start_urls", f"{site.url}/slow")
    site.reached("/slow")
    there.rpush("catalog:start_urls", f"{site.url}/quick")
    site.reached("/quick")
    site.release("/slow")
    finish(there, worker, "/slow", "/quick")


@pytest.mark.parametrize("settings", [{}, WIRE], ids=["frontier", "wire"])
def test_a_bad_seed_neither_closes_the_worker_nor_takes_others_along(
    settings: dict[str, str], project: Project, site: Site, there: Any, server: Server
) -> None:
    bad = [b"no url", b"[1]", b'{"a": 1}', b'{"url": 5}', b"\xff"]
    there.rpush("catalog:start_urls", f"{site.url}/first", *bad, f"{site.url}/last")
    finish(there, project.start("catalog", **settings), "/first", "/last")
    if not settings:
        with frontier(server) as found:
            letters = found.dead_letters("catalog")
            assert len(letters) == len(bad)
            assert {found.dead_letter(one.partition, one.id).payload for one in letters} == set(bad)


def test_identical_seeds_are_all_fetched(project: Project, site: Site, there: Any) -> None:
    there.rpush("catalog:start_urls", *[f"{site.url}/same"] * 3)
    project.start("catalog", MAX_IDLE_TIME_BEFORE_CLOSE=1).ended()
    assert Counter(site.paths()) == {"/same": 3}


@pytest.mark.parametrize("settings", [{}, WIRE], ids=["frontier", "wire"])
@pytest.mark.parametrize(
    "client_settings",
    [
        {"REDIS_DECODE_RESPONSES": True},
        {"REDIS_PARAMS": '{"protocol": 3, "legacy_responses": false}'},
    ],
    ids=["decoding", "resp3"],
)
def test_any_kind_of_client_will_do(
    settings: dict[str, str], client_settings: dict[str, Any], project: Project, site: Site, there: Any
) -> None:
    there.rpush("catalog:start_urls", f"{site.url}/")
    log = project.start("catalog", MAX_IDLE_TIME_BEFORE_CLOSE=1, **settings, **client_settings).ended()
    assert "] ERROR: " not in log
    assert items(there) == Counter(["/", *PAGES])


def test_log_stats_and_the_dupefilter_may_be_left_at_their_defaults(project: Project, site: Site, there: Any) -> None:
    there.rpush("catalog:start_urls", f"{site.url}/")
    given = {"STATS_CLASS": f"{NEW}.stats.RedisStatsCollector", "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter"}
    given["RANDOMIZE_DOWNLOAD_DELAY"] = "1"
    log = project.start("catalog", MAX_IDLE_TIME_BEFORE_CLOSE=2, LOGSTATS_INTERVAL=1, **given).ended()
    assert "] ERROR: " not in log
    assert log.count("Delays are not varied at random") == 1
    assert "Crawled " in log
    assert items(there) == Counter(["/", *PAGES])


def test_a_page_that_outlasts_the_idle_time_does_not_end_the_worker(project: Project, site: Site, there: Any) -> None:
    """The seed is older than the idle time when its page is through; only from then on the worker is idle."""
    site.hold("/slow")
    there.rpush("catalog:start_urls", f"{site.url}/slow")
    worker = project.start("catalog", MAX_IDLE_TIME_BEFORE_CLOSE=3, LOG_LEVEL="DEBUG")
    site.reached("/slow")
    pushed = there.time()[0]
    wait_until(lambda: there.time()[0] - pushed >= 5, "the seed to grow older than the idle time")
    site.release("/slow")
    log = worker.ended()
    through, closed = (_second(log, text) for text in ("Scraped from", "Closing spider (finished)"))
    assert closed - through >= 2, "it waited for more, counted from the page and not from the seed"


def test_a_worker_that_waits_for_seeds_ends_by_the_settings_of_the_fleet(
    project: Project, site: Site, there: Any
) -> None:
    for name, value in (("GOSSAMER_IDLE_SECONDS", "1"), ("GOSSAMER_MODE", "drained")):
        there.rpush("catalog:start_urls", f"{site.url}/{name}")
        assert "Closing spider (finished)" in project.start("catalog", **{name: value}).ended()
        assert site.paths().count(f"/{name}") == 1


def _second(log: str, text: str) -> float:
    [line] = [line for line in log.splitlines() if text in line]
    return datetime.fromisoformat(line[:19]).timestamp()


def test_of_several_keys_the_first_is_served_first(project: Project, site: Site, there: Any) -> None:
    spider = project.directory / "shop" / "spiders" / "several.py"
    spider.write_text(
        "from shop.spiders.catalog import Catalog\n\n\nclass Several(Catalog):\n    name = 'several'\n"
        "    redis_key = ['high:%(name)s', 'low:%(name)s']\n"
    )
    there.rpush("low:several", *(f"{site.url}/low/{n}" for n in range(20)))
    there.rpush("high:several", *(f"{site.url}/high/{n}" for n in range(5)))
    project.start("several", CONCURRENT_REQUESTS=1, MAX_IDLE_TIME_BEFORE_CLOSE=1).ended()
    paths = site.paths()
    assert len(paths) == 25
    last_high = max(index for index, path in enumerate(paths) if path.startswith("/high"))
    assert last_high < 24, "low ones waited"
    assert sum(path.startswith("/low") for path in paths[:last_high]) <= 8, "but for those that were on their way"
