"""Signals to a worker: the first ends it in good order, the second one always, whatever it is doing; and what becomes of its round when it
is killed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.fork_server import Started
from tests.support.site import Site

from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

FILE = """
site: stuck
seeds: [{url}/page]
politeness: {{robots: ignore}}
hooks: {{after_download: "stuckhook:wait"}}
layers: {{page: {{fields: {{title: h1}}}}}}
"""
BUSY = "import time\n\ndef wait(page):\n    open('reached', 'w').close()\n    time.sleep(600)\n"
THREAD = """
import asyncio, time

async def wait(page):
    open('reached', 'w').close()
    await asyncio.to_thread(time.sleep, 600)
"""
DEAF = """
import asyncio

async def wait(page):
    open('reached', 'w').close()
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue
"""
SPIDER = """
import time
import scrapy

class Stuck(scrapy.Spider):
    name = "stuck"
    custom_settings = {{"ROBOTSTXT_OBEY": False, "LOG_LEVEL": "ERROR"}}
    start_urls = ["{url}/page"]

    def parse(self, response):
        open("reached", "w").close()
        time.sleep(600)
"""


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name, GOSSAMER_ALLOWED_MODULES="stuckhook")


AFTER = """
import os, time

def wait(site, number):
    if os.path.exists("reached"):
        return open("again", "w").close()
    open("reached", "w").close()
    time.sleep(600)
"""


@contextmanager
def stuck(place: Place, *words: str) -> Iterator[Started]:
    """A worker in the middle of what never ends."""
    process = place.start(*words)
    try:
        wait_until(lambda: (place.directory / "reached").exists() or process.poll() is not None, "the page", 120)
        assert process.poll() is None, place.logs()
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("hook", [BUSY, THREAD, DEAF], ids=["busy", "thread", "deaf"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_the_second_ends_a_worker_that_is_stuck(place: Place, site: Site, hook: str, number: signal.Signals) -> None:
    place.write(hook, "stuckhook.py")
    place.run("site", "push", place.write(FILE.format(url=site.url)))
    with stuck(place, "work") as process:
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        process.send_signal(number)
        assert process.wait(60) in (0, 130, 128 + number)


def test_the_second_ends_a_scrapy_worker_that_is_stuck(place: Place, site: Site) -> None:
    place.write(SPIDER.format(url=site.url), "spider.py")
    with stuck(place, "work", "spider.py") as process:
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM


def test_the_second_ends_a_fleet_that_is_stuck(place: Place, site: Site) -> None:
    place.write(BUSY, "stuckhook.py")
    with stuck(place, "crawl", place.write(FILE.format(url=site.url)), "-w", "2") as process:
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_the_second_ends_a_worker_while_the_frontier_does_not_answer(place: Place, site: Site) -> None:
    site.hold("/page")
    with Server().start() as server:
        place.environ["GOSSAMER_URL"] = place.settings["GOSSAMER_URL"] = server.url
        place.run("site", "push", place.write(FILE.format(url=site.url).replace("hooks", "# hooks")))
        process = place.start("work")
        try:
            site.reached("/page")
            server.pause()
            process.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1.5)
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        finally:
            site.release("/page")
            server.resume()
            process.kill()
            process.wait()


def test_what_comes_after_a_round_is_done_by_another_soon_after_its_worker_was_killed(place: Place, site: Site) -> None:
    """With leases of a minute, and nothing left to be fetched."""
    place.environ |= {"GOSSAMER_LEASE_SECONDS": "60", "GOSSAMER_GONE_SECONDS": "1"}
    place.write(AFTER, "stuckhook.py")
    place.run("site", "push", place.write(FILE.format(url=site.url).replace("after_download", "after_round")))
    with stuck(place, "work") as first, place.frontier() as frontier:
        wait_until(lambda: any("connection" in each.info for each in frontier.workers()), "the first one to be known")
        second = place.start("work")
        try:
            wait_until(lambda: len(frontier.workers()) == 2, "the second one")
            first.kill()
            wait_until(lambda: (place.directory / "again").exists(), "the second one to end the round", 40)
        finally:
            second.kill()
            second.wait()
