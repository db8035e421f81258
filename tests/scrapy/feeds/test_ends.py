"""Random ends of a worker with a feed: a signal comes while its project is in any of its places, from the spider's opening to its close. A
worker that exits with 0 has come to its end, and when it or the next run has finished the round, every item is in the file once."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.scrapy.process.test_rounds import PAGES, Project
from tests.support.site import Site, links

from gossamer.testing.servers import Server

FACTOR = int(os.environ.get("MACHINE_FACTOR", "1"))
SEEDS = range(8 * FACTOR)
SPIDER = """
import os
import urllib.request

import scrapy

from gossamer.scrapy.process.reactor import in_thread

PLACE, BESIDE = os.environ.get("PLACE"), os.environ.get("BESIDE")


class Places:
    # In one place of its life the project waits for the site, once, with or without holding up the event loop.
    site = waited = None

    @classmethod
    async def reach(cls, place):
        if place == PLACE and not cls.waited:
            cls.waited = True
            if BESIDE:
                await in_thread(cls.ask)
            else:
                cls.ask()

    @classmethod
    def ask(cls):
        urllib.request.urlopen(cls.site + "/place").read()


class Pipeline:
    async def open_spider(self):
        await Places.reach("open")

    async def process_item(self, item):
        await Places.reach("item")
        return item

    async def close_spider(self):
        await Places.reach("close")


class Shop(scrapy.Spider):
    name = "shop"
    custom_settings = {"ITEM_PIPELINES": {Pipeline: 1}}

    @classmethod
    def from_crawler(cls, crawler, *given, **named):
        spider = super().from_crawler(crawler, *given, **named)
        Places.site = spider.site
        crawler.signals.connect(spider.idle, scrapy.signals.spider_idle)
        crawler.signals.connect(spider.last, scrapy.signals.spider_closed)
        return spider

    def idle(self):
        if PLACE == "idle" and not Places.waited:
            Places.waited = True
            Places.ask()

    async def last(self):
        await Places.reach("closed")

    async def start(self):
        await Places.reach("start")
        yield scrapy.Request(self.site + "/list")
        await Places.reach("started")

    async def parse(self, response):
        await Places.reach("page")
        yield {"url": response.url}
        for link in response.css("a"):
            yield response.follow(link)
        await Places.reach("page's end")
"""
PLACES = ("open", "start", "started", "page", "page's end", "item", "idle", "close", "closed")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
EVERY = Counter(["list", *(path[1:] for path in PAGES)])


@pytest.fixture
def project(tmp_path: Path, site: Site, valkey_server: Server, crawl_name: str) -> Project:
    site.on("/list", links(*PAGES))
    made = Project(tmp_path, site, valkey_server, crawl_name)
    (tmp_path / "shop_spiders.py").write_text(SPIDER)
    return made


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_item_is_in_the_file_once_wherever_a_signal_comes(seed: int, project: Project) -> None:
    choice = random.Random(seed)
    # By turns, so that a few seeds have most places.
    place, number = PLACES[-1 - seed % len(PLACES)], choice.choice(SIGNALS if seed % 2 else SIGNALS[:2])
    beside, feed = choice.choice(("", "1")), (choice.choice(("-O", "-o")), "out.jl")
    project.environ |= {"PLACE": place, "BESIDE": beside}
    project.site.hold("/place")
    with project.start("scrapy", "crawl", "shop", *feed) as process:
        project.site.reached("/place")
        process.send_signal(number)
        time.sleep(choice.uniform(0.0, 0.3))  # before and after the signal is noticed
        project.site.release("/place")
        said = process.communicate(timeout=100)[1]
    story = f"{number.name} at {place}{', beside the event loop' if beside else ''}, {feed[0]}\n{said}"
    assert process.returncode == (-number if number == signal.SIGKILL else 0), story
    # Before an engine runs, there is nothing that it would have to close.
    assert number == signal.SIGKILL or place == "open" or "Spider closed (" in said, story
    if "Spider closed (finished)" not in said:
        story += project.run("gossamer", "crawl", "shop", "--resume", "-w", "1", "--log", "-", *feed)
    found = Counter(
        json.loads(line)["url"].rpartition("/")[2] for line in (project.folder / "out.jl").read_text().splitlines()
    )
    assert found == EVERY, story
