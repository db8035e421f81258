"""A site with `engine: scrapy` in a Scrapy project: its middlewares, pipelines, extensions and settings have their say."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from secrets import token_hex

import pytest
from tests.engine.conformance.conformance import Came, Case, crawled, once
from tests.support import fork_server
from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site, links

from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

SETTINGS = """
BOT_NAME = "shop"
ADDONS = {"gossamer.Addon": 100}
DOWNLOADER_MIDDLEWARES = {"shop.code.Mark": 543}
SPIDER_MIDDLEWARES = {"shop.code.Between": 543}
ITEM_PIPELINES = {"shop.code.Prices": 300}
EXTENSIONS = {"shop.code.Listening": 500}
DEFAULT_REQUEST_HEADERS = {"X-Project": "1"}
# What a site file says goes before these, and the frontier spaces requests.
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 60
REDIRECT_ENABLED = True
USER_AGENT = "project"
"""
CODE = """
from dataclasses import dataclass
from pathlib import Path

from scrapy import signals
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.http import HtmlResponse

def told(*said):
    with Path("told").open("a") as file:
        file.write(" ".join(map(str, said)) + "\\n")

class Mark:
    @classmethod
    def from_crawler(cls, crawler):
        made = cls()
        made.crawler = crawler
        return made

    def process_request(self, request, spider=None):
        request.headers["X-Mark"] = f"{self.crawler.spider.name} {request.meta['site']} {request.meta['layer']}"
        if request.url.endswith("/ignored"):
            raise IgnoreRequest("not this one")
        if request.url.endswith("/bug"):
            raise KeyError("a bug of the project")
        if request.url.endswith("/own"):
            return HtmlResponse(request.url, body=b"<h1>own answer</h1>")

    def process_response(self, request, response, spider=None):
        if response.css("h1::text").get() == "captcha":
            return request.replace(url=response.urljoin("/solved"), dont_filter=True)
        return response.replace(body=response.body.replace(b"gold", b"lead"))

class Between:
    async def process_spider_output(self, response, result, spider=None):
        told("between")
        async for one in result:
            yield one

    async def process_start(self, start):
        async for one in start:
            yield one

@dataclass
class Thing:
    layer: str
    url: str
    title: str
    priced: bool = True

class Prices:
    def process_item(self, item, spider=None):
        if item["title"] == "free":
            raise DropItem("costs nothing")
        if item["title"] == "broken":
            raise ValueError("no price")
        if item["layer"] == "kept":
            return {**item, "price": 5}
        return Thing(item["layer"], item["url"], item["title"])

class Listening:
    @classmethod
    def from_crawler(cls, crawler):
        made = cls()
        crawler.signals.connect(made.opened, signals.spider_opened)
        crawler.signals.connect(made.closed, signals.spider_closed)
        crawler.signals.connect(made.scraped, signals.item_scraped)
        crawler.signals.connect(made.dropped, signals.item_dropped)
        return made

    def opened(self, spider):
        told("opened", spider.name)

    def closed(self, spider, reason):
        told("closed", spider.name, reason)

    def scraped(self, item, spider):
        told("scraped", spider.name)

    def dropped(self, item, spider):
        told("dropped", spider.name)
"""
PROJECT = {
    "scrapy.cfg": "[settings]\ndefault = shop.settings\n",
    "shop/__init__.py": "",
    "shop/settings.py": SETTINGS,
    "shop/code.py": CODE,
}
SHOP = """
    seeds: [SITE/gold, SITE/ignored, SITE/bug, SITE/own, SITE/captcha, SITE/free, SITE/broken, SITE/moved]
    politeness: {robots: ignore}
    request: {retries: 1, user_agent: site}
    layers: {page: {fields: {title: h1}}}
"""
KEPT = """
    seeds: [SITE/one, SITE/free]
    politeness: {robots: ignore}
    layers: {kept: {fields: {title: h1, price: {value: 0, type: int}}}}
    store: {kept: {table: kept_things, key: [title]}}
"""


def shop(site: Site, _: Site) -> None:
    for title in ("gold", "captcha", "free", "broken", "one"):
        site.on(f"/{title}", Reply(body=f"<h1>{title}</h1>"))
    site.on("/solved", Reply(body="<h1>solved</h1>")).on("/moved", Reply(302, "", {"Location": "/there"}))
    site.on("/there", Reply(body="<h1>there</h1>"))


@pytest.fixture(scope="session")
def came(valkey_server: Server, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> dict[str, Came]:
    cases = [Case("shop", SHOP, shop, lambda came: None), Case("kept", KEPT, shop, lambda came: None)]

    def crawl() -> dict[str, Came]:
        folder = tmp_path_factory.mktemp("project")
        with crawled(valkey_server, f"c{token_hex(6)}", folder, "scrapy", cases, PROJECT) as found:
            return found

    return once(tmp_path_factory, worker_id, "project", crawl)


def test_downloader_middlewares_see_every_request_and_answer(came: dict[str, Came]) -> None:
    shop = came["shop"]
    assert {one.headers["x-mark"] for one in shop.asked} == {"shop shop page"}
    titles = sorted(item["title"] for item in shop.items)
    assert titles == ["lead", "own answer", "solved", "there"]
    assert "/own" not in shop.targets()


def test_a_request_that_a_middleware_ignores_is_left_out(came: dict[str, Came]) -> None:
    assert "/ignored" not in came["shop"].targets()
    assert came["shop"].counters["site/left_out"] == 1


def test_a_bug_of_the_project_is_a_dead_letter_with_its_traceback(came: dict[str, Came]) -> None:
    [detail] = [detail for reason, detail in came["shop"].dead if reason == "engine"]
    assert "a bug of the project" in detail
    assert "code.py" in detail


def test_pipelines_change_drop_and_fail(came: dict[str, Came]) -> None:
    shop = came["shop"]
    assert {item["priced"] for item in shop.items} == {True}
    assert {item["layer"] for item in shop.items} == {"page"}
    [detail] = [detail for reason, detail in shop.dead if reason == "pipeline"]
    assert "no price" in detail
    # Not tried again: the same item would fail the same way.
    assert shop.targets().count("/broken") == 1


def test_records_go_through_pipelines_before_they_are_stored(came: dict[str, Came]) -> None:
    assert came["kept"].rows("select title, price from kept_things") == [("one", 5)]


def test_what_the_site_file_says_goes_before_the_projects_settings(came: dict[str, Came]) -> None:
    asked = came["shop"].asked
    assert {(one.headers["user-agent"], one.headers["x-project"]) for one in asked} == {("site", "1")}
    assert "/robots.txt" not in came["shop"].targets()
    # A redirect is a page of the frontier, not of Scrapy's middleware.
    assert came["shop"].counters["gossamer/responses/302"] == 1


def test_extensions_hear_of_a_spider_for_each_site(came: dict[str, Came]) -> None:
    lines = (came["shop"].folder / "project" / "told").read_text().splitlines()
    for line in ("opened shop", "opened kept", "closed shop shutdown", "closed kept shutdown", "dropped kept"):
        assert lines.count(line) == 1
    assert (lines.count("scraped shop"), lines.count("scraped kept")) == (4, 1)
    # The one part of a project that has no say: there is no spider whose output it could see.
    assert "between" not in lines


BOTH = """
    site: NAME
    engine: ENGINE
    seeds: [SITE/NAME/list]
    politeness: {robots: ignore}
    layers:
      list: {match: '/list$', follow: [{css: a, to: post}]}
      post: {match: '/post', fields: {title: h1}}
"""


def given(crawl: Crawl) -> list[str]:
    return [word for name, value in crawl.given.items() for word in ("-s", f"{name}={value}")]


def test_one_crawl_has_sites_of_both_engines(valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    with Site() as site:
        crawl = Crawl(valkey_server, crawl_name, tmp_path, site)
        files = []
        for name, engine in (("quick", "native"), ("scrappy", "scrapy")):
            site.on(f"/{name}/list", Reply(body=f'<a href="/{name}/post/1">1</a><a href="/{name}/post/2">2</a>'))
            text = textwrap.dedent(BOTH).replace("SITE", site.url).replace("NAME", name).replace("ENGINE", engine)
            (tmp_path / f"{name}.yaml").write_text(text)
            files.append(f"{name}.yaml")
        words = ["crawl", *files, "--workers", "1", "--json", *given(crawl)]
        done = fork_server.run("gossamer", words, os.environ, tmp_path, 110, options=["-P"])
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert [(one["site"], one["pages"], one["drained"]) for one in said["sites"]] == [
            ("quick", 3, True),
            ("scrappy", 3, True),
        ]
        agents = {visit.path.split("/")[1]: visit.headers.get("Accept") for visit in site.visits}
        assert agents["quick"] == agents["scrappy"]


def test_a_project_that_cannot_be_imported_is_said(valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = nowhere.settings\n")
    with Site() as site:
        crawl = Crawl(valkey_server, crawl_name, tmp_path, site)
        crawl.push(BOTH.replace("NAME", "lost").replace("ENGINE", "scrapy"), "lost")
        words = ["work", "--drained", *given(crawl)]
        done = fork_server.run("gossamer", words, os.environ, tmp_path, 110, options=["-P"])
        assert done.returncode == 2, done.stderr
        assert "scrapy.cfg" in done.stderr
        assert "nowhere" in done.stderr
        assert site.visits == []


CLOSED = {
    "scrapy.cfg": PROJECT["scrapy.cfg"],
    "shop/__init__.py": "",
    "shop/settings.py": "CLOSESPIDER_PAGECOUNT = 2\n",
}


def test_a_spider_that_an_extension_closes_is_opened_again(
    valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    text = BOTH.partition("seeds:")[2].replace("SITE/NAME", "SITE")
    paths = [f"/post/{number}" for number in range(9)]

    def prepare(site: Site, _: Site) -> None:
        site.on("/list", links(*paths))
        for path in paths:
            site.on(path, Reply(body=f"<h1>{path}</h1>"))

    case = Case("closed", f"    seeds:{text}", prepare, lambda came: None)
    with crawled(valkey_server, crawl_name, tmp_path, "scrapy", [case], CLOSED) as found:
        came = found["closed"]
        assert sorted(came.targets()) == ["/list", *paths]
        assert (len(came.of("post")), came.dead) == (9, [])
        assert (tmp_path / "log").read_text().count("Spider closed (closespider_pagecount)") >= 1


def test_rounds_are_repeated_and_the_spider_of_a_removed_site_is_closed(
    valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    with Site() as site:
        crawl = Crawl(valkey_server, crawl_name, tmp_path, site)
        text = textwrap.dedent(BOTH).replace("NAME", "again").replace("ENGINE", "scrapy")
        crawl.push(
            text.replace("match: '/list$'", "match: '/list$', seen: round") + "schedule: {every: 0.5s}\n", "again"
        )
        log = tmp_path / "log"
        worker = fork_server.start(
            "gossamer", ["work", *given(crawl)], environ=os.environ, directory=tmp_path, stdout=log, options=["-P"]
        )
        try:
            site.reached("/again/list", 3)
            with crawl.frontier() as frontier:
                frontier.drop_document("site", "again")
            wait_until(lambda: "Spider closed (shutdown)" in log.read_text(), "the spider to be closed", 60)
            assert worker.poll() is None
        finally:
            worker.terminate()
            code = worker.wait(60)
        assert code == 0, log.read_text()
        with crawl.frontier() as frontier:
            assert {one.trigger for one in frontier.rounds("again") if one.round > 0} == {"schedule"}
