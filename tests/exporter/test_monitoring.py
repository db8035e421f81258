"""What is told of a real crawl, by Scrapy workers and by native ones alike: every panel and alert has figures, items count whoever
keeps them, and a worker of many sites is a worker of each."""

from __future__ import annotations

import json
import sqlite3
import textwrap
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.deploy.test_deploy import NAMES, QUERIES, RULES, concrete
from tests.support import fork_server
from tests.support.busy_crawl import environment, run, settings_for
from tests.support.servers.prometheus import Prometheus, scraping

from gossamer.exporter import serve
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy
from gossamer.testing import process
from gossamer.testing.process import free_port
from gossamer.testing.server_process import QuietHandler, ThreadedServer
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(400)
SPIDER = """
    import scrapy

    class Tree(scrapy.Spider):
        name = "tree"
        custom_settings = SETTINGS

        async def start(self):
            yield scrapy.Request("SITE/1")

        def parse(self, response):
            yield {"url": response.url}
            yield from response.follow_all(css="a")
"""
TREE = """
    site: NAME
    seeds: ["SITE/1"]
    politeness: {robots: ignore, delay: 0.02, adaptive: false, hosts: {HOST: {concurrency: 4}}}
    request: {retries: 1}
    layers:
      page:
        match: '^/\\d+$'
        fields: {number: {from: url, regex: '(\\d+)$', type: int}}
        follow: [{css: a, to: page}]
"""
STORE = "    store: {page: {table: pages, key: [number]}}\n"
BY_HAND = {
    # What comes of what an operator or a producer does: test_deploy has it.
    "Tasks and seen": "gossamer_tasks",
    "Hosts blocked, seconds left": "gossamer_host",
    "Memory of the frontier": "gossamer_frontier_memory_max",
    "Paused": " == 1",
}


class Tree:
    """Pages without end: n links to 2n, 2n + 1 and, but for the first, itself. Every seventh fails, every eleventh is gone, of every thirteenth the
    answer breaks off."""

    def __init__(self, last: int = 0) -> None:
        class Handler(QuietHandler):
            def do_GET(self) -> None:
                number = int(self.path.strip("/")) if self.path.strip("/").isdigit() else 0
                status = 404 if not number or number % 11 == 0 else 500 if number % 7 == 0 else 200
                ways = [max(2, number), 2 * number, 2 * number + 1]
                page = "".join(f'<a href="/{n}">{n}</a>' for n in ways if not last or n <= last).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(page) + (99 if number and number % 13 == 0 else 0)))
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page)
                self.close_connection = number % 13 == 0

        self.server = ThreadedServer(Handler)

    @staticmethod
    def good(last: int) -> list[int]:
        """The pages up to `last` that bring an item: a page that fails leads nowhere."""
        good, ways = [], [1]
        while ways:
            number = ways.pop()
            if number % 11 and number % 7 and number % 13:
                good.append(number)
                ways += [n for n in (2 * number, 2 * number + 1) if n <= last]
        return sorted(good)


GOOD = Tree.good(60)


@pytest.fixture
def tree() -> Iterator[Tree]:
    tree = Tree(last=60)
    tree.server.start()
    yield tree
    tree.server.close()


def site(tree: Tree, name: str, *, stored: bool, host: str = "127.0.0.1") -> str:
    text = textwrap.dedent(TREE + (STORE if stored else ""))
    url = f"http://{host}:{tree.server.port}"
    return text.replace("NAME", name).replace("SITE", url).replace("HOST", url.removeprefix("http://"))


def spider(tree: Tree, folder: Path, **settings: Any) -> Path:
    text = textwrap.dedent(SPIDER).replace("SITE", tree.server.url)
    settings = {"RETRY_TIMES": 1, "ROBOTSTXT_OBEY": False, "GOSSAMER_FAILURES": "done", **settings}
    (folder / "tree.py").write_text(text.replace("SETTINGS", repr(settings)))
    return folder / "tree.py"


class Told(NamedTuple):
    prometheus: Prometheus
    groups: list[str]


@pytest.fixture(scope="module", params=["scrapy", "native"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """A Prometheus that watches a crawl by real workers: a Scrapy spider whose items go to a file, or two sites served by one
    native worker, one of them with a database."""
    folder = tmp_path_factory.mktemp("told")
    tree = Tree()
    tree.server.start()
    with Server().start({"maxmemory": "256mb"}, fsync="everysec") as server:
        given = environment(GOSSAMER_URL=server.url, GOSSAMER_CRAWL="told", GOSSAMER_DATA_DIR=str(folder / "data"))
        settings = settings_for(server.url, "told")
        with ValkeyFrontier.open(settings) as frontier, serve(settings, port=0) as port:
            frontier.define("fed", {"a": LanePolicy()}, GroupPolicy(tasks=("fed:tasks",)))
            words: list[str] = []
            if request.param == "scrapy":
                words = [str(spider(tree, folder, DOWNLOAD_DELAY=0.02, FEEDS={"out.jsonl": {"format": "jsonlines"}}))]
                groups = ["tree"]
            else:
                frontier.put_document("site", "kept", site(tree, "kept", stored=True))
                frontier.put_document("site", "plain", site(tree, "plain", stored=False, host="localhost"))
                groups = ["kept", "plain"]
            log = folder / "log"
            worker = fork_server.start(
                "gossamer", ["work", *words], environ=given, directory=folder, stdout=log, options=["-P"]
            )
            try:
                with Prometheus(scraping(folder / "prometheus", port)) as prometheus:
                    wanted = [expr for title, expr in QUERIES if not _by_hand(title, expr)]

                    def shown() -> bool:
                        assert worker.poll() is None, log.read_text()
                        wanted[:] = [expr for expr in wanted if not _numbers(prometheus.query(concrete(expr, "told")))]
                        return not wanted

                    # Rates need several scrapes, one each second. What never comes is named by the tests.
                    with suppress(TimeoutError):
                        process.wait_until(shown, "the figures", 60, pause=0.5)
                    yield Told(prometheus, groups)
            finally:
                process.end(worker)
                tree.server.close()


def _by_hand(title: str, expr: str) -> bool:
    return title in BY_HAND and BY_HAND[title] in expr


def _numbers(rows: list[dict[str, Any]]) -> list[float]:
    return [float(row["value"][1]) for row in rows if row["value"][1] != "NaN"]


@pytest.mark.parametrize(("title", "expr"), [one for one in QUERIES if not _by_hand(*one)])
def test_every_panel_has_figures_of_both_kinds_of_crawl(told: Told, title: str, expr: str) -> None:
    assert _numbers(told.prometheus.query(concrete(expr, "told"))), f"{title}: {expr}"


@pytest.mark.parametrize(
    ("metric", "by"),
    [
        ("gossamer_pages_total", 'outcome="done"'),
        ("gossamer_items_total", ""),
        ("gossamer_requests_sent_total", ""),
        ("gossamer_request_bytes_total", ""),
        ("gossamer_response_bytes_total", ""),
        ("gossamer_responses_total", 'status="200"'),
        ("gossamer_responses_total", 'status="404"'),
        ("gossamer_responses_total", 'status="500"'),
        ("gossamer_download_errors_total", ""),
        ("gossamer_retries_total", ""),
        ("gossamer_filtered_total", ""),
        ("gossamer_fetch_latency_seconds_count", ""),
        ("gossamer_exchange_seconds_count", ""),
        ("gossamer_group_workers", ""),
    ],
)
def test_every_group_is_told(told: Told, metric: str, by: str) -> None:
    found = told.prometheus.query(f"sum by (group) ({metric}{{{by}}}) > 0")
    assert sorted(row["metric"]["group"] for row in found) == told.groups


def test_no_alert_that_works_fires_for_a_busy_crawl(told: Told) -> None:
    rules = {rule["alert"]: rule["expr"] for rule in RULES}
    assert told.prometheus.query("gossamer_open > 0")
    assert told.prometheus.query(rules["GossamerNoWorkers"]) == []
    assert told.prometheus.query(rules["GossamerFrontierDown"]) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_metric_of_an_alert_has_data(told: Told, rule: dict[str, Any]) -> None:
    for name in NAMES.findall(rule["expr"]):
        if name != "gossamer_host_blocked":  # only while a host is
            assert told.prometheus.query(name), f"{rule['alert']}: {name} is empty"


# Items, whoever keeps them.


def items_shown(folder: Path, group: str, **given: Any) -> list[int]:
    """In `status`, `round list` and the metrics."""
    shown = json.loads(run("status", "--json", cwd=folder, **given).stdout)
    [row] = [row for row in shown["groups"] if row["group"] == group]
    rounds = json.loads(run("round", "list", group, "--json", cwd=folder, **given).stdout)
    return [row["items"], *(each["items"] for each in (rounds["rounds"] if isinstance(rounds, dict) else rounds)[:1])]


@pytest.mark.parametrize("kept", ["feed", "pipeline", "stream", "redis"])
def test_items_of_a_spider_count_whoever_keeps_them(
    valkey_server: Server, crawl_name: str, tmp_path: Path, tree: Tree, kept: str
) -> None:
    given: dict[str, Any] = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}
    settings: dict[str, Any] = {"COOKIES_ENABLED": False}
    if kept == "feed":
        settings["FEEDS"] = {"out.jsonl": {"format": "jsonlines"}}
    elif kept == "pipeline":
        (tmp_path / "keeping.py").write_text("class Kept:\n    def process_item(self, item):\n        return item\n")
        settings["ITEM_PIPELINES"] = {"keeping.Kept": 300}
    elif kept == "redis":
        settings["ITEM_PIPELINES"] = {"gossamer.scrapy_redis.pipelines.RedisPipeline": 300}
        settings["REDIS_URL"] = valkey_server.url
        settings["REDIS_ITEMS_KEY"] = f"{crawl_name}:items"
    spider(tree, tmp_path, **settings)
    done = run("crawl", "tree.py", "-w", "1", "--json", cwd=tmp_path, PYTHONPATH=str(tmp_path), **given)
    assert json.loads(done.stdout)["items"] == len(GOOD)
    assert set(items_shown(tmp_path, "tree", **given)) == {len(GOOD)}


@pytest.mark.parametrize("stored", [True, False])
def test_records_of_a_site_count_whoever_keeps_them(
    valkey_server: Server, crawl_name: str, tmp_path: Path, tree: Tree, stored: bool
) -> None:
    given: dict[str, Any] = {
        "GOSSAMER_URL": valkey_server.url,
        "GOSSAMER_CRAWL": crawl_name,
        "GOSSAMER_DATA_DIR": str(tmp_path),
    }
    (tmp_path / "tree.yaml").write_text(site(tree, "tree", stored=stored))
    done = run("crawl", "tree.yaml", "-w", "1", "--json", cwd=tmp_path, **given)
    if stored:
        with closing(sqlite3.connect(tmp_path / "items.db")) as database:
            assert [n for (n,) in database.execute("select number from pages order by 1")] == GOOD
    assert json.loads(done.stdout)["sites"][0]["items"] == len(GOOD)
    assert set(items_shown(tmp_path, "tree", **given)) == {len(GOOD)}


def test_a_refused_connection_is_a_download_error(valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "GOSSAMER_URL": valkey_server.url,
        "GOSSAMER_CRAWL": crawl_name,
        "GOSSAMER_DATA_DIR": str(tmp_path),
    }
    (tmp_path / "tree.yaml").write_text(
        textwrap.dedent(TREE)
        .replace("NAME", "away")
        .replace("SITE", f"http://127.0.0.1:{free_port()}")
        .replace("HOST", "h")
    )
    # Its only seed could not be read.
    run("crawl", "tree.yaml", "-w", "1", cwd=tmp_path, code=1, **given)
    with ValkeyFrontier.find(settings_for(valkey_server.url, crawl_name)) as frontier:
        counters = frontier.counts("away").groups[0].counters
    assert (counters["gossamer/requests"], counters["gossamer/download_errors/connect"]) == (2, 2)
