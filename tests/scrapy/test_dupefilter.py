"""Plain Scrapy with a seen filter: real crawls in processes of their own, judged by the site and by Scrapy's own counters."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from tests.support import fork_server

from gossamer.errors import FrontierUnavailable, GossamerError
from gossamer.frontier.call import function_call
from gossamer.frontier.seen.memory import ValkeyMemory
from gossamer.frontier.server import keys
from gossamer.model import SeenKind
from gossamer.scrapy.dupefilter import SeenFilter
from gossamer.scrapy.seen.memory import memory_name, open_memory, policy_of
from gossamer.scrapy.speedups.fingerprint import Fingerprinter
from gossamer.settings import load
from gossamer.testing.server_process import QuietHandler, ThreadedServer
from gossamer.testing.servers import Cluster, Server

CRAWL = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Follow(scrapy.Spider):
    async def start(self):
        yield scrapy.Request(self.front, dont_filter=True)

    def start_requests(self):
        yield scrapy.Request(self.front, dont_filter=True)

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse)

class ByPath:
    def fingerprint(self, request):
        return request.url.partition("?")[0].encode()

wanted = json.loads(sys.argv[1])
process = CrawlerProcess({"LOG_LEVEL": "DEBUG", "TELNETCONSOLE_ENABLED": False, "RETRY_ENABLED": False, **wanted["settings"]})
crawlers = []
for name in wanted["spiders"]:
    spider = type(name, (Follow,), {"name": name, "front": wanted["front"].replace("NAME", name)})
    crawlers.append(process.create_crawler(spider))
    process.crawl(crawlers[-1])
process.start()
print(json.dumps({c.spidercls.name: c.stats.get_stats() for c in crawlers}, default=str))
"""

PAGES: dict[str, list[str]] = {
    "/": ["/a?x=1&y=2", "/a?y=2&x=1", "/b", "/b#top", "/old", "/busy"],
    "/a": ["/", "/b", "/c"],
    "/b": ["/a?x=1&y=2", "/c", "/old"],
    "/c": ["/a?x=1&y=2", "/b"],
    "/new": ["/c"],
}


EVERYTHING = {"/": 2, "/a?x=1&y=2": 1, "/b": 1, "/c": 1, "/old": 1, "/new": 1, "/busy": 1}
"""What one spider fetches: the front page also because another links to it, since Scrapy filters no start request."""
FILTERED = 15


class Site:
    """A few pages that link to each other, one that moved and one that is too busy; it remembers who came."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        self.arrived: Callable[[str], object] = lambda path: None
        site = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                site.arrived(self.path)
                site.visits.append(self.path)
                status, links = site.page(self.path.partition("?")[0])
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", links[0])
                body = "".join(f'<a href="{link}">x</a>' for link in links).encode()
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadedServer(Handler)
        self.url = self._server.url
        self._server.start()

    def page(self, path: str) -> tuple[int, list[str]]:
        if path == "/old":
            return 302, ["/new"]
        if path == "/busy":
            return 503, []
        return (200, PAGES[path]) if path in PAGES else (404, [])

    def seen(self) -> Counter[str]:
        """How often each page was asked for since the last time."""
        found, self.visits = Counter(self.visits), []
        return found

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def site() -> Iterator[Site]:
    running = Site()
    yield running
    running.close()


Stats = dict[str, dict[str, Any]]


class Project:
    """Runs spiders in one CrawlerProcess each time, in the same directory."""

    def __init__(self, front: str, directory: Path, **settings: Any) -> None:
        self.front, self.directory = front, directory
        # A file: Scrapy reads the source of callbacks.
        (directory / "crawl.py").write_text(CRAWL)
        self.settings = {"DUPEFILTER_CLASS": "gossamer.scrapy.dupefilter.SeenFilter", **settings}

    def run(self, *spiders: str, front: str = "/", **settings: Any) -> tuple[Stats, str]:
        wanted = {
            "spiders": spiders or ("books",),
            "front": self.front + front,
            "settings": {**self.settings, **settings},
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
        done = fork_server.run("crawl", [json.dumps(wanted)], kept, self.directory, 100)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture
def project(site: Site, tmp_path: Path, valkey_server: Server, crawl_name: str) -> Project:
    return Project(site.url, tmp_path, GOSSAMER_URL=valkey_server.url, GOSSAMER_CRAWL=crawl_name)


def test_a_first_run_is_the_same_as_with_the_dupefilter_of_scrapy(site: Site, project: Project) -> None:
    ours, log = project.run(DUPEFILTER_DEBUG=True)
    visits = site.seen()
    theirs, _ = project.run(DUPEFILTER_CLASS="scrapy.dupefilters.RFPDupeFilter")
    assert visits == site.seen()
    assert ours["books"]["dupefilter/filtered"] == theirs["books"]["dupefilter/filtered"] == FILTERED
    assert log.count("Filtered duplicate request: <GET") == FILTERED
    assert "(referer: http" in log


def test_spiders_of_one_process_remember_apart_and_over_restarts(site: Site, tmp_path: Path) -> None:
    """With nothing set but DUPEFILTER_CLASS: the embedded server, no JOBDIR."""
    project = Project(site.url, tmp_path)
    stats, log = project.run("books", "films")
    assert site.seen() == {path: 2 * times for path, times in EVERYTHING.items()}
    assert {name: found["finish_reason"] for name, found in stats.items()} == {"books": "finished", "films": "finished"}
    assert {found["dupefilter/filtered"] for found in stats.values()} == {FILTERED}
    assert log.count("no more duplicates will be shown") == 2
    stats, _ = project.run("books", "films", "later")
    # Each fetches its front page again, which Scrapy does not filter, and what only said that it was too busy.
    assert site.seen() == {**EVERYTHING, "/": 2 + 2, "/busy": 3}
    assert stats["books"]["dupefilter/filtered"] == 5
    assert stats["books"]["dupefilter/forgotten"] == 1
    assert not list(tmp_path.rglob("requests.seen"))


def test_what_was_not_fetched_is_new_to_the_next_run(site: Site, project: Project) -> None:
    stats, log = project.run(CLOSESPIDER_PAGECOUNT=1, CONCURRENT_REQUESTS=1)
    assert stats["books"]["finish_reason"] == "closespider_pagecount"
    first = site.seen()
    assert stats["books"]["dupefilter/forgotten"] >= 2
    assert "so that the next run finds them new" in log
    project.run()
    assert set(first + site.seen()) == set(EVERYTHING)


def test_with_a_jobdir_the_queue_and_the_memory_stay_together(site: Site, project: Project) -> None:
    project.settings["JOBDIR"] = "job"
    stats, _ = project.run(CLOSESPIDER_PAGECOUNT=1, CONCURRENT_REQUESTS=1)
    assert "dupefilter/forgotten" not in stats["books"]
    stats, log = project.run()
    assert "Resuming crawl" in log
    assert site.seen() == {**EVERYTHING, "/": 3}


def test_a_page_is_new_again_when_its_window_has_passed(
    site: Site, project: Project, valkey_server: Server, crawl_name: str
) -> None:
    project.settings |= {"DUPEFILTER_CLASS": "gossamer.scrapy.dupefilter.RollingFilter"}
    project.settings |= {"GOSSAMER_SEEN_WINDOW_SECONDS": 3600}
    project.run()
    site.seen()
    project.run()
    assert site.seen() == {"/": 1, "/busy": 1}
    settings = load(project.settings, environ={})
    with open_memory("books", settings, SeenKind.ROLLING) as memory:
        base = keys.seen_base(memory_name(crawl_name, "books", policy_of(settings, SeenKind.ROLLING)))
        memory._function_client.ask([function_call("clock", base, {"by_ms": 4500 * 1000, "book": False})])
    project.run()
    assert site.seen()["/a?x=1&y=2"] == 1


def test_the_fingerprinter_of_the_project_decides(site: Site, project: Project) -> None:
    project.run(REQUEST_FINGERPRINTER_CLASS="__main__.ByPath", front="/?x=1")
    assert site.seen()["/a?x=1&y=2"] == 1
    project.run(REQUEST_FINGERPRINTER_CLASS="__main__.ByPath", front="/a?x=2")
    assert site.seen() == {"/a?x=2": 1}


def test_a_server_that_is_away_is_named_before_a_page_is_fetched(site: Site, tmp_path: Path) -> None:
    project = Project(site.url, tmp_path, GOSSAMER_URL="redis://127.0.0.1:1", GOSSAMER_OUTAGE_SECONDS=0)
    _, log = project.run()
    assert "gossamer.errors.FrontierUnavailable: " in log
    assert "127.0.0.1:1" in log
    assert not site.visits


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GOSSAMER_SEEN_KIND", "rolling", "set either GOSSAMER_SEEN_WINDOW_SECONDS or GOSSAMER_SEEN_WINDOW_COUNT"),
        ("GOSSAMER_SEEN_KNID", "exact", "is not a setting. Did you mean GOSSAMER_SEEN_KIND?"),
        ("GOSSAMER_SEEN_CACHE", "many", "GOSSAMER_SEEN_CACHE from Scrapy settings: 'many' cannot be used"),
    ],
)
def test_a_bad_setting_is_named_before_a_page_is_fetched(
    site: Site, project: Project, name: str, value: str, message: str
) -> None:
    _, log = project.run(**{name: value})
    assert "gossamer.errors.SettingError: " in log
    assert message in log
    assert not site.visits


def test_a_server_that_goes_away_for_long_closes_the_spider(site: Site, tmp_path: Path) -> None:
    with Server("valkey") as server:
        site.arrived = lambda path: server.kill() if server.running and path != "/" else None
        project = Project(site.url, tmp_path, GOSSAMER_URL=server.url, GOSSAMER_OUTAGE_SECONDS=0.2)
        stats, log = project.run(CONCURRENT_REQUESTS=1)
    assert stats["books"]["finish_reason"] == "seen_unavailable"
    assert log.count("The seen filter cannot be read, the spider closes: ") == 1
    assert "Requests that were not fetched and stay seen" in log
    assert stats["books"]["dupefilter/unavailable"] >= 1


def opened(url: str, crawl: str, kind: SeenKind = SeenKind.EXACT, **more: Any) -> SeenFilter:
    settings = load(
        {"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl, "GOSSAMER_SEEN_WINDOW_SECONDS": 3600, **more}, environ={}
    )
    policy = policy_of(settings, kind)
    made = SeenFilter(memory_name(crawl, "s", policy), policy, Fingerprinter().number, settings, keeps_queue=True)
    made.open()
    return made


@pytest.mark.parametrize("kind", list(SeenKind))
def test_each_kind_knows_what_it_was_shown_in_another_life(
    valkey_server: Server, crawl_name: str, kind: SeenKind
) -> None:
    requests = [Request(f"http://example.com/{number}") for number in range(300)]
    for _ in range(2):
        one = opened(valkey_server.url, crawl_name, kind)
        answers = [one.request_seen(request) for request in requests]
        again = [one.request_seen(request.copy()) for request in requests]
        one.close("finished")
        assert all(again)
    assert all(answers)


def test_a_cluster_will_do(cluster: Cluster, crawl_name: str) -> None:
    one = opened(cluster.url, crawl_name)
    assert [one.request_seen(Request("http://example.com/?b&a")) for _ in range(2)] == [False, True]
    one.close("finished")


@pytest.mark.parametrize(("size", "calls"), [(50_000, 1), (0, 3)])
def test_what_is_known_to_be_seen_costs_no_call(
    valkey_server: Server, crawl_name: str, monkeypatch: pytest.MonkeyPatch, size: int, calls: int
) -> None:
    one = opened(valkey_server.url, crawl_name, GOSSAMER_SEEN_CACHE=size)
    asked: list[int] = []
    mark = ValkeyMemory.mark

    def counted(memory: ValkeyMemory, numbers: Sequence[int]) -> list[bool]:
        asked.extend(numbers)
        return mark(memory, numbers)

    monkeypatch.setattr(ValkeyMemory, "mark", counted)
    assert [one.request_seen(Request("http://example.com/")) for _ in range(3)] == [False, True, True]
    one.close("finished")
    assert len(asked) == calls


def test_without_an_engine_to_stop_the_error_is_raised(crawl_name: str) -> None:
    with Server("valkey") as server:
        one = opened(server.url, crawl_name, GOSSAMER_OUTAGE_SECONDS=0)
        server.kill()
        with pytest.raises(FrontierUnavailable):
            one.request_seen(Request("http://example.com/"))
        one.close("finished")
    shut = SeenFilter(one.name, one.policy, lambda request: 1, one._settings)
    with pytest.raises(GossamerError, match="not open"):
        shut.request_seen(Request("http://example.com/"))
