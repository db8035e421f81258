"""Workers of scrapy-redis and of ours on one queue: everything arrives, also what ours cannot read."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.scrapy_redis.sides import SIDES
from tests.support.scrapy_redis.style import Side
from tests.support.site import Site, links

from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

POSTS = [f"/post/{number}" for number in range(12)]


def crawl(side: Side, *more: str) -> str:
    """A worker that does one page at a time, on a queue of its own package."""
    name = side.package.partition(".")[0]
    given = f"SCHEDULER_QUEUE_CLASS={side.package}.queue.PriorityQueue -s USER_AGENT={name} -s CONCURRENT_REQUESTS=1"
    [ended] = side.run(" ".join([f"scrapy crawl shop -s {given} -s MAX_IDLE_TIME_BEFORE_CLOSE=12", *more]))
    assert (ended.code, ended.reason) == (0, "finished"), ended.log[-3000:]
    return ended.log


def test_an_old_and_a_new_worker_fill_items_of_one_queue(tmp_path: Path) -> None:
    with Server() as server, Site() as site:
        site.on("/list/1", links(*POSTS))
        site.hold(*POSTS)
        sides = []
        for package in SIDES:
            (tmp_path / package).mkdir()
            sides.append(Side(tmp_path / package, "details", package, server, site))
        old, new = sides
        with old.client as client, new.client, ThreadPoolExecutor(2) as pool:
            client.lpush("shop:start_urls", f"{site.url}/list/1")
            # What the old one finds, only old ones can read.
            logs = [pool.submit(crawl, old, "-a notes=yes"), pool.submit(crawl, new)]

            def at_work() -> set[str | None]:
                return {visit.headers.get("User-Agent") for visit in site.visits if visit.path in POSTS}

            try:
                wait_until(lambda: len(at_work()) == 2, "both workers to be at a page", 90)
            finally:
                site.release(*POSTS)
            for log in logs:
                log.result()
            items = [json.loads(data) for data in client.lrange("shop:items", 0, -1)]
            assert Counter(item["url"] for item in items) == Counter(f"{site.url}{path}" for path in POSTS)
            assert all(item["seller"][1:] == [f"{site.url}/list/1", item["comments"]] for item in items)
            assert client.zcard("shop:requests") == 0
            assert site.paths().count("/list/1") == 1
            by_new = [visit for visit in site.visits if visit.headers.get("User-Agent") == "gossamer"]
            assert by_new, "both took part"
