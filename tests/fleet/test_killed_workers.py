"""Slots of hosts that killed workers had are others' long before their leases run out, and those of living ones stay theirs."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.fork_server import Started
from tests.support.site import Site, links

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import WorkerInfo
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

PAGES = [f"/page/{number}" for number in range(12)]
SLOTS = 4
LEASE_SECONDS = 3000
FILE = """
site: held
seeds: [{{url: "{url}/list", layer: list}}]
politeness: {{robots: ignore, concurrency: {slots}}}
layers:
  list: {{follow: [{{css: a, to: page}}]}}
  page: {{fields: {{title: title}}}}
store: {{page: {{table: page, key: [url]}}}}
"""
SPIDER = """
import scrapy

class Held(scrapy.Spider):
    name = "held"
    custom_settings = {{"ROBOTSTXT_OBEY": False, "CONCURRENT_REQUESTS_PER_DOMAIN": {slots}}}
    start_urls = ["{url}/list"]

    def parse(self, response):
        yield from response.follow_all(css="a", callback=self.page)

    def page(self, response):
        yield {{"title": response.css("title::text").get()}}
"""


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str, site: Site) -> Place:
    site.on("/list", links(*PAGES))
    site.hold(*PAGES)
    times = {"GOSSAMER_LEASE_SECONDS": str(LEASE_SECONDS), "GOSSAMER_SEND_SECONDS": "2"}
    return Place(tmp_path, valkey_server, crawl_name, **times)


@contextmanager
def running(place: Place, *words: str) -> Iterator[Started]:
    process = place.start(*words)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def holders(frontier: ValkeyFrontier) -> list[WorkerInfo]:
    return sorted((each for each in frontier.workers() if each.held), key=lambda worker: -worker.held)


def in_flight(site: Site) -> Counter[str]:
    return Counter(path for path in site.paths() if path != "/list")


@pytest.mark.parametrize("engine", ["sites", "scrapy"])
def test_its_supervisor_gives_the_slots_of_a_killed_worker_to_others_at_once(
    place: Place, site: Site, engine: str
) -> None:
    """Though no other worker may judge: `GOSSAMER_GONE_SECONDS` is 0. Not one request more is in flight than the host allows."""
    place.environ["GOSSAMER_GONE_SECONDS"] = "0"
    name = "site.yaml" if engine == "sites" else "spider.py"
    file = place.write((FILE if engine == "sites" else SPIDER).format(url=site.url, slots=SLOTS), name)
    with running(place, "crawl", file, "-w", "2") as process, place.frontier() as frontier:
        site.wait(lambda _: in_flight(site).total() == SLOTS, "all slots to be taken")
        wait_until(lambda: sum(each.held for each in holders(frontier)) >= SLOTS, "leases")
        before = in_flight(site)
        killed = holders(frontier)[0]
        os.kill(int(killed.info["pid"]), signal.SIGKILL)
        site.wait(lambda _: in_flight(site).total() > SLOTS, "its slots to be others'")
        # Whatever the killed one had in flight, its connections are closed: no other page of the site takes a slot beside the rest.
        wait_until(
            lambda: sum(each.held for each in holders(frontier) if each.incarnation != killed.incarnation), "leases"
        )
        assert in_flight(site).total() - SLOTS <= killed.held
        assert set(in_flight(site)) == set(before), "what was lost goes ahead of other work"
        site.release(*PAGES)
        assert process.wait(120) == 0
    assert set(in_flight(site)) == set(PAGES)
    assert max(in_flight(site).values()) <= 2
    if engine == "sites":
        assert len(place.rows("select url from page")) == len(PAGES)


def test_others_see_that_a_worker_is_gone_while_they_have_enough_to_do(place: Place, site: Site) -> None:
    """Nobody saw it die, and the other one has no room for more."""
    place.environ["GOSSAMER_ENGINE_CONCURRENCY"] = "2"
    place.run("site", "push", place.write(FILE.format(url=site.url, slots=len(PAGES))))
    with ExitStack() as stack, place.frontier() as frontier:
        workers = [stack.enter_context(running(place, "work", "--drained")) for _ in range(2)]
        site.wait(lambda _: in_flight(site).total() == 4, "two pages of each")
        wait_until(
            lambda: [bool(each.info.get("connection")) for each in holders(frontier)] == [True, True],
            "both to be known",
        )
        killed = next(each for each in holders(frontier) if int(each.info["pid"]) == workers[0].pid)
        workers[0].kill()
        wait_until(
            lambda: not next(each for each in frontier.workers() if each.incarnation == killed.incarnation).held,
            "what it held to be taken back",
        )
        site.release(*PAGES)
        assert workers[1].wait(120) == 0
    assert set(in_flight(site)) == set(PAGES)


def test_a_worker_whose_connection_was_cut_is_not_gone(place: Place, site: Site) -> None:
    """It holds nothing but slow pages, and so it calls every five seconds alone."""
    place.environ["GOSSAMER_GONE_SECONDS"] = "2.5"
    place.run("site", "push", place.write(FILE.format(url=site.url, slots=SLOTS)))
    with ExitStack() as stack, place.frontier() as frontier:
        workers = [stack.enter_context(running(place, "work", "--drained")) for _ in range(2)]
        site.wait(lambda _: in_flight(site).total() == SLOTS, "all slots to be taken")

        def connections() -> dict[str, str]:
            return {each.incarnation: each.info.get("connection", "") for each in frontier.workers()}

        def changed(before: Mapping[str, str]) -> bool:
            return not {*connections().values()} & {*before.values()}

        wait_until(lambda: len(connections()) == 2 and all(connections().values()), "both to be known")
        for _ in range(3):
            before = connections()
            for name in before.values():
                frontier.connection.execute("CLIENT", "KILL", "ID", name.partition(":")[2])
            wait_until(partial(changed, before), "new connections")
        site.release(*PAGES)
        assert [worker.wait(120) for worker in workers] == [0, 0]
    assert in_flight(site) == Counter(PAGES)


EACH_KILLS_ONCE = """
import os, signal

def kill(page):
    mark = "killed" + page.url.rpartition("/")[2]
    if not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return page
"""


def test_deaths_between_which_something_was_settled_are_not_in_a_row(place: Place, site: Site) -> None:
    """More than a place may have in a row, each within a minute."""
    place.environ |= {"GOSSAMER_ALLOWED_MODULES": "killhook", "GOSSAMER_LEASE_SECONDS": "20"}
    place.write(EACH_KILLS_ONCE, "killhook.py")
    file = FILE.replace("concurrency: {slots}", "concurrency: 1, delay: 500ms").replace(
        "page: {{fields", 'page: {{hooks: {{after_download: "killhook:kill"}}, fields'
    )
    site.on("/list", links(*PAGES[:8]))
    site.release(*PAGES)
    place.crawl(place.write(file.format(url=site.url)), "-w", "1")
    assert len(place.rows("select url from page")) == 8
    assert in_flight(site) == Counter(dict.fromkeys(PAGES[:8], 2))
