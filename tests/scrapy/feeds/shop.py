"""A project whose spider crawls a shop of thirty pages, for tests of its feeds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.scrapy.process.test_rounds import Project
from tests.support.site import Site, links

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


def workers_say(project: Project) -> list[str]:
    with project.frontier() as frontier:
        return [worker.info.get("items", "") for worker in frontier.workers()]
