"""`gossamer crawl` and `gossamer work`: spiders of a project or a file as a fleet, from the command line."""

from __future__ import annotations

import json
import os
import signal
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support import fork_server
from tests.support.fork_server import Started
from tests.support.workers.variants import FIRST, LAST, Variant, some

from gossamer.cli import exit_codes
from gossamer.frontier.codec import decode
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.forum import Forum, Layout
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

SPIDER = """
import scrapy


class Shop(scrapy.Spider):
    name = "shop"
    lanes = ["list", "post"]

    def __init__(self, site="", broken="", **more):
        super().__init__(**more)
        if broken:
            raise ValueError(broken)
        self.site = site

    async def start(self):
        yield scrapy.Request(self.site, meta={"lane": "list"})

    def parse(self, response):
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, meta={"lane": "post" if "/post/" in link else "list"})
"""
SECONDS = 200


class Place:
    """A directory with a spider in a Scrapy project and in a file, a site to crawl, and commands that run there."""

    def __init__(self, directory: Path, site: Forum, settings: dict[str, str]) -> None:
        self.directory, self.site, self.settings = directory, site, settings
        (directory / "project").mkdir()
        (directory / "project" / "scrapy.cfg").write_text("[settings]\ndefault = shop_settings\n")
        (directory / "project" / "shop_settings.py").write_text("SPIDER_MODULES = ['shop_spiders']\n")
        for file in (directory / "project" / "shop_spiders.py", directory / "one.py"):
            file.write_text(textwrap.dedent(SPIDER))
        # It must not be taken for the module of that name.
        (directory / "queue.py").write_text("raise RuntimeError('the wrong queue')\n")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GOSSAMER_", "SCRAPY_"))}
        self.environ = {**kept, **settings, "PYTHONUNBUFFERED": "1"}
        self.path = ""
        """Where another Scrapy is."""

    def start(self, *words: str, log: Path) -> Started:
        log.unlink(missing_ok=True)
        return fork_server.start(
            "gossamer",
            words,
            environ=self.environ,
            directory=self.directory,
            stdout=log,
            path=[self.path],
            options=["-P"],
        )

    def run(self, *words: str, code: int = 0) -> tuple[str, str]:
        done = fork_server.run(
            "gossamer", words, self.environ, self.directory, SECONDS, path=[self.path], options=["-P"]
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout, done.stderr

    def crawl(self, spider: str, *words: str, code: int = 0) -> tuple[dict[str, Any], str]:
        out, err = self.run("crawl", spider, "-a", f"site={self.site.url}", "--json", *words, code=code)
        return json.loads(out), err

    def frontier(self) -> ValkeyFrontier:
        return ValkeyFrontier.open(load(self.settings, {}))

    def items(self) -> Counter[str]:
        with self.frontier() as frontier:
            return Counter(decode(data)["url"] for _, data in frontier.read_items("shop", 0, "0-0", 10_000))

    def visits(self) -> Counter[str]:
        return Counter(f"http://{arrival.host}{arrival.path}" for arrival in self.site.arrivals())

    def reach(self, pages: int, process: Started) -> None:
        """Wait until the site was asked for so many pages, by a process that still runs."""

        def enough() -> bool:
            assert process.poll() is None, f"it ended with {process.returncode}"
            return len(self.site.arrivals()) >= pages

        wait_until(enough, f"{pages} pages to be asked for", SECONDS)

    @property
    def all(self) -> Counter[str]:
        return Counter(self.site.expected_pages())


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Iterator[Place]:
    settings = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_LEASE_SECONDS": "3"}
    with Forum(Layout(boards=2, lists=2, posts=5, comments=1)) as site:
        yield Place(tmp_path, site, settings)


def slow(delay: float) -> Sequence[str]:
    return ("-s", f"DOWNLOAD_DELAY={delay}", "-s", "RANDOMIZE_DOWNLOAD_DELAY=0")


@pytest.mark.timeout(600)
def test_a_project_is_crawled_round_after_round(place: Place) -> None:
    answer, said = place.crawl("shop", "-w", "2", "--project", "project")
    assert place.visits() == place.items() == place.all
    assert (answer["drained"], answer["round"], answer["pages"], answer["left"]) == (True, 0, place.all.total(), 0)
    assert [(worker["code"], worker["restarts"]) for worker in answer["workers"]] == [(0, 0)] * 2
    assert "starting 2 workers for shop; logs in .gossamer/log" in said
    for worker in answer["workers"]:
        log = (place.directory / "project" / worker["log"]).read_text()
        assert "Spider closed (finished)" in log
        assert "DEBUG" not in log
    _, said = place.run("crawl", "shop", "--resume", "--project", "project")
    assert said == "nothing is left of shop; without --resume a new round begins\n"
    answer, said = place.crawl("shop", "-w", "1", "--project", "project", "--log", "all.log", *slow(0))
    assert "round 1 of shop begins" in said
    assert (answer["drained"], answer["round"], answer["pages"]) == (True, 1, place.all.total())
    assert place.visits() == place.all + place.all
    assert (
        " worker 1 [scrapy.core.engine] INFO: Spider closed (finished)"
        in (place.directory / "project" / "all.log").read_text()
    )


@pytest.mark.timeout(600)
def test_a_dropped_group_is_crawled_from_its_beginning(place: Place) -> None:
    """With a memory for good, so that a second crawl alone fetches nothing but its start."""
    for times in (1, 2):
        answer, _ = place.crawl("one.py", "-w", "1", "-s", "GOSSAMER_SEEN_SCOPE=forever")
        assert (answer["drained"], answer["round"], answer["pages"]) == (True, 0, place.all.total())
        assert place.visits().total() == times * place.all.total()
        place.run("group", "drop", "shop", "--yes")


@pytest.mark.timeout(600)
def test_ctrl_c_keeps_what_is_left_for_a_resume(place: Place) -> None:
    log = place.directory / "said"
    words = ["crawl", "one.py", "-w", "2", "-a", f"site={place.site.url}", *slow(0.1)]
    with place.start(*words, log=log) as process:
        place.reach(5, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == exit_codes.INTERRUPTED, log.read_text()
    asked = place.visits()
    assert 5 <= asked.total() < place.all.total()
    assert place.items() == asked, "pages in progress were finished"
    again = f"stopped; go on with: gossamer crawl one.py --resume -a site={place.site.url} -s DOWNLOAD_DELAY=0.1"
    assert again in log.read_text()
    assert log.read_text().endswith("interrupted\n")
    answer, said = place.crawl("one.py", "-w", "1", "--resume")
    assert "going on with round 0 of shop: " in said
    assert answer["pages"] == place.all.total() - asked.total()
    assert place.visits() == place.items() == place.all
    place.run("round", "new", "shop", "--yes")
    assert "round 1 of shop begins\n" in place.crawl("one.py", "-w", "1")[1], "nothing of it is left: it has not begun"


@pytest.mark.timeout(600)
def test_a_killed_worker_is_replaced_and_nothing_is_missing(place: Place) -> None:
    log = place.directory / "said"
    words = ["crawl", "one.py", "-w", "2", "--log", "-", "-a", f"site={place.site.url}", *slow(0.1)]
    with place.start(*words, log=log) as process, place.frontier() as frontier:
        place.reach(5, process)
        victim = wait_until(lambda: [each for each in frontier.workers() if each.held], "a worker to hold something")[0]
        os.kill(int(victim.info["pid"]), signal.SIGKILL)
        assert process.wait(SECONDS) == exit_codes.OK, log.read_text()
    text = log.read_text()
    assert "was killed by SIGKILL; another takes its place" in text
    assert "worker 1 [" in text
    assert "worker 2 [" in text
    assert place.items() == place.all
    assert set(place.visits()) == set(place.all)


@pytest.mark.timeout(600)
def test_workers_that_fail_are_named(place: Place) -> None:
    answer, said = place.crawl("one.py", "-w", "1", "-a", "broken=on purpose", code=exit_codes.FAILED)
    why = "error: The spider could not be run: ValueError: on purpose."
    assert f"worker 1 ended with exit code 1: {why}\n" in said
    assert "1 of 1 workers failed; see .gossamer/log/shop-1.log\n" in said
    assert answer["drained"] is False
    answer, said = place.crawl("one.py", "-w", "1", "-s", "CLOSESPIDER_PAGECOUNT=3", *slow(0.1), code=exit_codes.FAILED)
    assert "The spider was closed before its group was drained: closespider_pagecount." in said
    assert answer["left"] > 0
    assert "--resume" in said.splitlines()[-1]


@pytest.mark.timeout(600)
def test_one_worker_serves_the_lanes_it_is_told_until_it_is_stopped(place: Place) -> None:
    site = ("-a", f"site={place.site.url}")
    log = place.directory / "said"
    words = ["work", "shop", "--project", "project", "--lanes", "list", "--forever", *site]
    lists = {url for url in place.all if "/post/" not in url}
    with place.start(*words, log=log) as process:
        wait_until(lambda: set(place.items()) == lists, "all lists to be crawled", SECONDS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == exit_codes.OK, log.read_text()
    assert "Spider closed (shutdown)" in log.read_text()
    assert set(place.visits()) == lists
    with place.start("work", "shop", "--project", "project", *site, *slow(0.1), log=log) as process:
        place.reach(len(lists) + 3, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == exit_codes.INTERRUPTED, log.read_text()
    place.run("work", "shop", "--project", "project", *site)
    assert place.visits() == place.items() == place.all


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "variant", some((FIRST, "uvloop"), (FIRST, "select"), (LAST, "select"), (LAST, "reactorless")), ids=str
)
def test_one_worker_on_every_scrapy_and_loop(variant: Variant, place: Place) -> None:
    place.path = variant.path()
    words = [word for name, value in variant.settings.items() for word in ("-s", f"{name}={value}")]
    log = place.directory / "said"
    words += ["-a", f"site={place.site.url}", "-s", f"USER_AGENT={variant}"]
    with place.start("work", "one.py", *words, *slow(0.1), log=log) as process:
        place.reach(3, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == exit_codes.OK, log.read_text()
    assert f"Scrapy {variant.version} started" in log.read_text()
    assert place.items() == place.visits()
    place.run("work", "one.py", *words)
    assert place.items() == place.visits() == place.all
    _, said = place.run("work", "one.py", *words, "-a", "broken=on purpose", code=exit_codes.FAILED)
    assert said.endswith("error: The spider could not be run: ValueError: on purpose.\n")


@pytest.mark.timeout(300)
def test_another_spider_of_the_same_name_is_refused_while_one_works(place: Place) -> None:
    log = place.directory / "said"
    with place.start("work", "one.py", "-a", f"site={place.site.url}", "--forever", log=log) as process:
        place.reach(1, process)
        _, said = place.run("work", "shop", "--project", "project", code=exit_codes.FAILED)
        last = said.splitlines()[-1]
        assert last.startswith("error: The group shop is worked on by one.Shop")
        assert "AttributeError" not in said, "it leaves in good order"
        process.terminate()
        assert process.wait(SECONDS) == exit_codes.OK


@pytest.mark.timeout(400)
def test_what_cannot_be_run_is_said_in_a_line(place: Place) -> None:
    (place.directory / "bad.py").write_text("def (\n")
    (place.directory / "none.py").write_text("import scrapy\n")
    for words, why in [
        (
            ["work", "nobody", "--project", "project"],
            "error: there is no spider 'nobody' in this project; it has shop.",
        ),
        (["work", "nobody"], "error: there is no spider 'nobody': this directory is in no Scrapy project"),
        (["crawl", "absent.py"], "error: there is no file absent.py."),
        (["crawl", "bad.py"], "error: bad.py cannot be imported: SyntaxError: "),
        (["crawl", "none.py"], "error: there is neither a spider nor a site in none.py: "),
        (["crawl", "one.py", "--project", "nowhere"], "error: Invalid value: --project nowhere is not a directory."),
        (["crawl", "one.py", "-a", "site"], "error: Invalid value: 'site' after -a is not of the form NAME=VALUE."),
        (["crawl", "one.py", "-s", "GOSSAMER_MODE=slow"], "error: GOSSAMER_MODE from Scrapy settings: 'slow'"),
        (
            ["work", "one.py", "-s", "SCHEDULER=scrapy.pqueues.ScrapyPriorityQueue"],
            "error: SCHEDULER is scrapy.pqueues",
        ),
        (["crawl", "one.py", "--resume"], "error: there is nothing of shop to resume in crawl "),
    ]:
        out, said = place.run(*words, code=exit_codes.MISUSED)
        assert (out, said.count("\n")) == ("", 1)
        assert said.startswith(why)
    out, said = place.run("work", "one.py", "--url", "redis://127.0.0.1:1", code=exit_codes.FRONTIER)
    assert (out, said.count("\n")) == ("", 1)
    assert place.visits().total() == 0


@pytest.mark.timeout(600)
def test_fresh_begins_anew_when_the_question_is_answered(place: Place) -> None:
    place.crawl("shop", "-w", "1", "--project", "project")
    _, said = place.run("crawl", "shop", "--fresh", "--project", "project", code=1)
    assert f"Start shop over? 0 open requests, {place.all.total()} items, 0 dead letters" in said
    assert "nothing was changed" in said
    assert place.items() == place.all
    answer, said = place.crawl("shop", "-w", "1", "--fresh", "--yes", "--project", "project")
    assert "shop starts over" in said
    assert (answer["round"], answer["pages"], answer["drained"]) == (0, place.all.total(), True)
    assert place.items() == place.all, "the old items are gone"
    assert "give one of them" in place.run("crawl", "shop", "--fresh", "--resume", "--project", "project", code=2)[1]
