"""Every command of Scrapy in a project on the fleet: those that crawl take part, all others are as without Gossamer, and leave
nothing behind: no key, no server, no folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support import fork_server
from tests.support.fork_server import Program
from tests.support.site import Reply, Site
from tests.support.workers.variants import FIRST, LAST, Variant

from gossamer.testing.servers import Server

SETTINGS = """
import os
BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
NEWSPIDER_MODULE = "shop.spiders"
COMMANDS_MODULE = "shop.commands"
LOG_LEVEL = "INFO"
TELNETCONSOLE_ENABLED = False
ADDONS = {"gossamer.Addon": 100} if "WITH_ADDON" in os.environ else {}
"""
SPIDER = """
import scrapy

class One(scrapy.Spider):
    name = "one"
    start_urls = ["SITE/"]

    def parse(self, response):
        \"\"\"Fails: the page has two links.

        @url SITE/
        @returns requests 5 5
        \"\"\"
        yield from response.follow_all(css="a", callback=self.parse_page)
        yield {"url": response.url}

    def parse_page(self, response):
        yield {"url": response.url}
"""
FED = """
from gossamer.scrapy_redis.spiders import RedisSpider

class Fed(RedisSpider):
    name = "fed"

    def parse(self, response):
        \"\"\"Passes.

        @url SITE/a
        @returns items 1 1
        \"\"\"
        yield {"url": response.url}
"""
CRAWL_ALL = """
from scrapy.commands import ScrapyCommand

class Command(ScrapyCommand):
    requires_project = True

    def short_desc(self):
        return "Crawl with all spiders"

    def run(self, args, opts):
        for name in self.crawler_process.spider_loader.list():
            self.crawler_process.crawl(name)
        self.crawler_process.start()
"""
PEEK = """
from scrapy.commands.fetch import Command as Fetch

class Command(Fetch):
    def short_desc(self):
        return "Fetch, by the project's own command"
"""


class Project:
    def __init__(self, folder: Path, site: Site, version: str = LAST, **settings: str) -> None:
        self.folder, self.version = folder, version
        site.on("/", Reply(body='<a href="/a">a</a> <a href="/b">b</a>'))
        self.file("scrapy.cfg", "[settings]\ndefault = shop.settings\n")
        told = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
        self.file("shop/settings.py", SETTINGS + told)
        self.file("shop/spiders/one.py", SPIDER.replace("SITE", site.url))
        self.file("shop/commands/crawlall.py", CRAWL_ALL)
        self.file("shop/commands/peek.py", PEEK)
        for package in ("shop", "shop/spiders", "shop/commands"):
            self.file(f"{package}/__init__.py", "")

    def file(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def begin(self, words: Sequence[str], addon: bool, within: str = "") -> Program:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
        environ |= {"EDITOR": "cat", "BROWSER": "true", "PYTHONDONTWRITEBYTECODE": "1"}
        environ |= {"WITH_ADDON": "1"} if addon else {}
        path = [Variant(self.version, "asyncio").path()]
        return Program("scrapy", words, environ, self.folder / within, path=path)

    def both(self, *words: str) -> list[tuple[int, str]]:
        """Exit code and output of a command: without the add-on, and with it."""
        running = [self.begin(words, addon) for addon in (False, True)]
        ended = []
        for process in running:
            out, said = process.communicate(timeout=60)
            assert words[0] == "check" or "Traceback" not in said, said
            ended.append((process.wait(), steady(out + verdict(said))))
        return ended

    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}


def steady(text: str) -> str:
    """Without what differs from run to run: times, and addresses of objects."""
    return re.sub(r"in [\d.]+s|0x[0-9a-f]+|'Date': \[[^]]*\]|Date: .*|/tmp/\S+", "", text)


def verdict(said: str) -> str:
    """What `check` says on standard error."""
    return "\n".join(line for line in said.splitlines() if re.match(r"Ran \d|OK|FAIL|FAILED|AssertionError", line))


@pytest.mark.parametrize("version", [FIRST, LAST])
def test_commands_that_do_not_crawl_are_as_without_gossamer(tmp_path: Path, site: Site, version: str) -> None:
    project = Project(tmp_path, site, version)
    before = project.files()
    page = f"{site.url}/"
    commands: dict[tuple[str, ...], tuple[int, str]] = {
        ("shell", "--nolog", page, "-c", "response.status, fetch('" + page + "a'), response.url"): (0, "/a"),
        ("fetch", "--nolog", page): (0, 'href="/b"'),
        ("parse", "--nolog", "--spider", "one", "-c", "parse", page): (0, "Scraped Items"),
        ("check",): (1, "Ran 1 contract "),
    }
    if version == LAST:
        commands[("peek", "--nolog", "--spider", "one", page)] = (0, 'href="/b"')
        commands[("view", "--nolog", page)] = (0, "")
    for words, (code, said) in commands.items():
        plain, fleet = project.both(*words)
        assert fleet == plain, words
        assert fleet[0] == code, words
        assert said in fleet[1], words
    assert project.files() == before


@pytest.mark.parametrize("version", [FIRST, LAST])
def test_a_setting_that_is_none_is_one_line(tmp_path: Path, site: Site, version: str) -> None:
    project = Project(tmp_path, site, version)
    crawling = project.begin(["crawl", "one", "-s", "GOSSAMER_LEASE=5"], addon=True)
    _, said = crawling.communicate(timeout=60)
    assert crawling.returncode == 1
    assert [line for line in said.splitlines() if "] INFO:" not in line and line] == [
        "error: GOSSAMER_LEASE from Scrapy settings is not a setting. Did you mean GOSSAMER_LEASE_SECONDS?"
    ]


def test_commands_that_make_no_crawler_leave_nothing_either(tmp_path: Path, site: Site) -> None:
    project = Project(tmp_path, site)
    before = project.files()
    commands = {
        ("list",): "one",
        ("edit", "one"): "class One",
        ("settings", "--get", "BOT_NAME"): "shop",
        ("version",): LAST,
        ("genspider", "-d", "basic"): "import scrapy",
        ("startproject", "--help"): "project_name",
    }
    for words, said in commands.items():
        out, log = project.begin(words, addon=True).communicate(timeout=60)
        assert said in out, log
    bench = project.begin(["bench", "-s", "CLOSESPIDER_TIMEOUT=0.5"], addon=True)
    assert "'finish_reason': 'closespider_timeout'" in bench.communicate(timeout=60)[1]
    assert project.files() == before


def test_what_was_looked_at_is_still_crawled_and_commands_that_crawl_take_part(tmp_path: Path, site: Site) -> None:
    project = Project(tmp_path, site)
    for words in (["parse", "--nolog", "--spider", "one", f"{site.url}/"], ["fetch", "--nolog", f"{site.url}/a"]):
        looking = project.begin(words, addon=True)
        looking.communicate(timeout=60)
        assert looking.returncode == 0
    site.visits.clear()
    ended = project.begin(["crawl", "one"], addon=True, within="shop/spiders")
    said = ended.communicate(timeout=60)[1]
    assert sorted(set(site.paths()) - {"/robots.txt"}) == ["/", "/a", "/b"], said
    assert "experimental" not in said, "the project did not choose the handler"
    assert (tmp_path / ".gossamer").is_dir(), "beside scrapy.cfg, wherever the command was run"
    assert not (tmp_path / "shop" / "spiders" / ".gossamer").exists()
    # A command of the project's own that crawls, a file, and a script that calls the command line: all are workers.
    script = "from scrapy.cmdline import execute; execute(['scrapy', 'crawl', 'one'])"
    project.file("main.py", script)
    site.visits.clear()
    for words in (["crawlall"], ["runspider", "shop/spiders/one.py"]):
        said = project.begin(words, addon=True).communicate(timeout=60)[1]
        assert "gossamer.scrapy.addon.Addon" in said, said
    environ = {**os.environ, "WITH_ADDON": "1"}
    done = fork_server.run("main", [], environ, tmp_path, 60)
    assert "gossamer.scrapy.addon.Addon" in done.stderr, done.stderr


def contents(there: Any) -> Mapping[bytes, bytes]:
    return {key: there.dump(key) for key in there.keys()}  # noqa: SIM118


def test_nothing_of_a_scrapy_redis_project_is_taken_by_looking(
    tmp_path: Path, site: Site, server: Server, there: Any
) -> None:
    project = Project(
        tmp_path, site, REDIS_URL=server.url, SCHEDULER="gossamer.scrapy_redis.scheduler.Scheduler",
        DUPEFILTER_CLASS="gossamer.scrapy_redis.dupefilter.RFPDupeFilter",
        STATS_CLASS="gossamer.scrapy_redis.stats.RedisStatsCollector",
    )  # fmt: skip
    project.file("shop/spiders/fed.py", FED.replace("SITE", site.url))
    there.rpush("fed:start_urls", f"{site.url}/b")
    before = contents(there)
    page = f"{site.url}/a"
    commands = {
        ("fetch", "--nolog", "--spider", "fed", page): "<",
        ("parse", "--nolog", "--spider", "fed", "-c", "parse", page): "Scraped Items",
        ("shell", "--nolog", "--spider", "fed", page, "-c", "fetch(request), response.status"): "200",
        ("check", "fed"): "",
    }
    for words, said in commands.items():
        ended = project.begin(list(words), addon=False)
        out, log = ended.communicate(timeout=60)
        assert ended.returncode == 0, log
        assert said in out
    assert contents(there) == before
    assert "/b" not in site.paths()
