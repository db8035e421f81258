"""The exporter: what it tells, what it costs, and that it never falls over."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from tests.support.busy_crawl import GOSSAMER, Busy, environment, run, settings_for

from gossamer.exporter import Collector, families, serve
from gossamer.exporter.metrics import METRICS
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import CounterChange, Request, Token
from gossamer.status.overview import SILENT_SECONDS, overview
from gossamer.testing.servers import Cluster, Server

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def fetch(port: int, accept: str = "text/plain") -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as response:
        text: str = response.read().decode("utf-8")
    return text


def samples(text: str) -> Samples:
    found: Samples = {}
    for family in parse_text(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} is told twice"
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    [matching] = [v for (n, pairs), v in found.items() if n == name and labels.items() <= dict(pairs).items()]
    return matching


@pytest.fixture
def busy(valkey_server: Server, crawl_name: str) -> Iterator[Busy]:
    with ValkeyFrontier.open(settings_for(valkey_server.url, crawl_name)) as frontier:
        yield Busy(frontier)


def page_of(busy: Busy, server: Server, **others: object) -> Samples:
    with serve(settings_for(server.url, busy.frontier.crawl, **others), port=0) as port:
        return samples(fetch(port))


def test_the_page_tells_the_crawl(valkey_server: Server, busy: Busy) -> None:
    found = page_of(busy, valkey_server)
    expected = {
        ("gossamer_up",): 1,
        ("gossamer_tasks", "group=news", "state=waiting"): 2,
        ("gossamer_tasks", "group=news", "state=leased"): 1,
        ("gossamer_tasks_drain_seconds", "group=news"): float("inf"),
        ("gossamer_requests", "group=news", "lane=news.list", "state=queued"): 45,
        ("gossamer_requests", "lane=news.list", "state=leased"): 3,
        ("gossamer_requests", "lane=news.post", "state=delayed"): 1,
        ("gossamer_seen", "group=news", "policy=exact"): 51,
        ("gossamer_pages_total", "lane=news.list", "outcome=done"): 1,
        ("gossamer_pages_total", "lane=news.list", "outcome=failed"): 1,
        ("gossamer_duplicates_total", "lane=news.list"): 7,
        ("gossamer_filtered_total", "group=news"): 70,
        ("gossamer_responses_total", "group=news", "status=200"): 9,
        ("gossamer_responses_total", "group=news", "status=404"): 2,
        ("gossamer_response_bytes_total", "group=news"): 56000,
        ("gossamer_requests_sent_total", "group=news"): 12,
        ("gossamer_download_errors_total", "error=twisted.internet.error.TimeoutError"): 1,
        ("gossamer_items_total", "group=news"): 1,
        ("gossamer_dead_letters", "group=news"): 1,
        ("gossamer_hosts_blocked",): 2,
        ("gossamer_host_blocked", "host=blocked.example"): 1,
        ("gossamer_worker_up", "group=news", "worker=crawler-1"): 1,
        ("gossamer_worker_in_progress", "worker=crawler-1"): 3,
        ("gossamer_group_paused", "group=shop"): 1,
        ("gossamer_group_paused", "group=news"): 0,
        ("gossamer_exchange_seconds_sum", "group=news"): 0.5,
        ("gossamer_exchange_seconds_count", "group=news"): 40,
        ("gossamer_fetch_latency_seconds_bucket", "group=news", "le=0.1"): 6,
        ("gossamer_fetch_latency_seconds_bucket", "group=news", "le=1.0"): 10,
        ("gossamer_fetch_latency_seconds_bucket", "group=news", "le=+Inf"): 11,
        ("prices_total", "group=news", "currency=EUR"): 5,
        ("gossamer_export_skipped", "reason=name"): 1,
    }
    told = {key: value(found, key[0], **dict(pair.split("=") for pair in key[1:])) for key in expected}
    assert told == expected
    assert value(found, "gossamer_frontier_memory_bytes") > 0
    assert all(dict(pairs)["crawl"] == busy.frontier.crawl for _, pairs in found)


def test_every_declared_metric_can_be_told_and_no_other_is(valkey_server: Server, busy: Busy) -> None:
    page = families.families(overview(busy.frontier), 0.1, stats=["retry/*"])
    declared = {metric.name: metric for metric in METRICS}
    told = {family.name + ("_total" if family.type == "counter" else ""): family for family in page}
    assert set(told) - set(declared) == {"prices_total"}
    assert set(declared) - set(told) == set()
    for name, metric in declared.items():
        assert (told[name].type, told[name].documentation) == (metric.kind, metric.help)
        labels = {label for sample in told[name].samples for label in sample.labels} - {"le"}
        assert labels == {"crawl", *metric.labels}, name


def test_names_types_and_helps_follow_the_rules_of_prometheus() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"gossamer_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.help.endswith(".")
    families_named = [metric.name.removesuffix("_total") for metric in METRICS]
    assert len(families_named) == len(set(families_named)), "OpenMetrics has one family of a name"


def test_the_strict_parser_of_openmetrics_accepts_the_page(valkey_server: Server, busy: Busy) -> None:
    with serve(settings_for(valkey_server.url, busy.frontier.crawl), port=0) as port:
        text = fetch(port, OPENMETRICS)
    assert text.endswith("# EOF\n")
    assert "gossamer_pages" in {family.name for family in parse_openmetrics(text)}  # type: ignore[no-untyped-call]


def test_a_crawl_over_a_cluster_is_summed(cluster: Cluster, crawl_name: str) -> None:
    settings = settings_for(cluster.url, crawl_name, GOSSAMER_PARTITIONS=4)
    with ValkeyFrontier.open(settings) as frontier:
        Busy(frontier)
        with serve(settings, port=0) as port:
            found = samples(fetch(port))
    assert value(found, "gossamer_requests", lane="news.list", state="queued") == 45
    assert value(found, "gossamer_hosts_blocked") == 2
    assert value(found, "gossamer_tasks", state="waiting") == 2
    assert len([name for name, _ in found if name == "gossamer_frontier_memory_bytes"]) == 3


def test_blocked_hosts_are_named_up_to_a_limit_longest_first(valkey_server: Server, busy: Busy) -> None:
    for number in range(30):
        busy.frontier.block(f"b{number}.example", 100 + number)
    found = page_of(busy, valkey_server, GOSSAMER_EXPORT_HOSTS=3)
    named = {dict(pairs)["host"] for name, pairs in found if name == "gossamer_host_blocked"}
    assert named == {"blocked.example", "b29.example", "b28.example"}
    assert value(found, "gossamer_hosts_blocked") == 32
    unnamed = page_of(busy, valkey_server, GOSSAMER_EXPORT_HOSTS=0)
    assert not [name for name, _ in unnamed if name == "gossamer_host_blocked"]


def test_any_stat_is_exported_by_a_pattern_but_never_a_url(valkey_server: Server, busy: Busy) -> None:
    busy.exchange(
        counters=[CounterChange("news", "retry/reason/http://h/", 1), CounterChange("shop", "retry/max_reached", 2)]
    )
    assert not [name for name, _ in page_of(busy, valkey_server) if name == "gossamer_stat"]
    found = page_of(busy, valkey_server, GOSSAMER_EXPORT_STATS="retry/*, downloader/*_count")
    stats = {(dict(p)["group"], dict(p)["name"]): v for (name, p), v in found.items() if name == "gossamer_stat"}
    assert stats == {
        ("news", "retry/count"): 3,
        ("news", "downloader/request_count"): 12,
        ("news", "downloader/response_count"): 11,
        ("shop", "retry/max_reached"): 2,
    }
    assert value(found, "gossamer_export_skipped", reason="url") == 1


def test_a_worker_started_again_under_its_name_is_one_series(valkey_server: Server, busy: Busy) -> None:
    busy.frontier.exchange(Token.fresh(), info={"name": "crawler-1", "group": "news"})
    busy.frontier.exchange(Token.fresh(), info={"host": "m1", "pid": "7", "group": "shop"})
    busy.frontier.exchange(Token.fresh(), info={"name": "odd \x1b[31m\nname"})
    found = page_of(busy, valkey_server)
    assert value(found, "gossamer_worker_in_progress", worker="crawler-1") == 3
    assert value(found, "gossamer_worker_up", worker="m1:7", group="shop") == 1
    assert value(found, "gossamer_worker_up", worker="odd \x1b[31m\nname") == 1


def test_a_worker_that_fell_silent_is_down_and_later_not_told(busy: Busy) -> None:
    view = overview(busy.frontier)

    def told(after: float) -> dict[str, float]:
        page = families.families(view._replace(now=view.now + after), 0.0)
        return {
            sample.labels["worker"]: sample.value
            for family in page
            if family.name == "gossamer_worker_up"
            for sample in family.samples
        }

    assert told(0) == {"crawler-1": 1}
    assert told(SILENT_SECONDS + 1) == {"crawler-1": 0}
    assert told(families.GONE_SECONDS + 1) == {"crawler-1": 0}, "it still holds leases"
    idle = [worker._replace(held=0) for worker in view.workers]
    view = view._replace(workers=idle)
    assert told(families.GONE_SECONDS + 1) == {}


def test_while_the_frontier_is_away_the_page_says_so(crawl_name: str) -> None:
    with Server().start(fsync="always") as server:
        settings = settings_for(server.url, crawl_name)
        with ValkeyFrontier.open(settings) as frontier:
            frontier.add([Request(1, "h.example", "g.a", b"x")])
        collector = Collector(settings, fresh=0)
        try:
            assert up(collector) == 1
            server.kill()
            assert up(collector) == 0
            assert {family.name for family in collector.collect()} == {
                "gossamer_up",
                "gossamer_build_info",
                "gossamer_read_seconds",
            }
            server.restart()
            assert up(collector) == 1
        finally:
            collector.close()


def up(collector: Collector) -> float:
    [sample] = next(family for family in collector.collect() if family.name == "gossamer_up").samples
    return float(sample.value)


def test_a_crawl_that_does_not_exist_is_down_and_not_made(valkey_server: Server, crawl_name: str) -> None:
    settings = settings_for(valkey_server.url, crawl_name)
    collector = Collector(settings, fresh=0)
    try:
        assert up(collector) == 0
        assert valkey_server.call("KEYS", f"*{crawl_name}*") == []
        ValkeyFrontier.open(settings).close()
        assert up(collector) == 1
    finally:
        collector.close()


def test_many_scrapers_share_one_read(crawl_name: str) -> None:
    with Server() as server:
        settings = settings_for(server.url, crawl_name)
        with ValkeyFrontier.open(settings) as frontier:
            Busy(frontier)

        def asked() -> int:
            return int(server.info("commandstats")["cmdstat_fcall"].split(",")[0].removeprefix("calls="))

        now = 0.0
        collector = Collector(settings, fresh=2.0, clock=lambda: now)
        list(collector.collect())
        before = asked()
        now = 5.0
        with ThreadPoolExecutor(8) as threads:
            pages = list(threads.map(lambda _: len(list(collector.collect())), range(64)))
        first = asked() - before
        assert len(set(pages)) == 1
        assert first <= 5, "counts, tasks, memories, workers, hosts"
        now = 7.0
        list(collector.collect())
        assert asked() - before == 2 * first
        collector.close()


class Started:
    """`gossamer exporter` as a child process."""

    def __init__(self, server: Server, crawl: str, cwd: Path, *words: str) -> None:
        where = ("--url", server.url, "--crawl", crawl, "--port", "0")
        self.child = subprocess.Popen(
            [*GOSSAMER, "exporter", *where, *words], cwd=cwd, env=environment(), stderr=subprocess.PIPE, text=True
        )
        assert self.child.stderr is not None
        self.said = self.child.stderr.readline()
        self.port = int(re.findall(r":(\d+)/metrics", self.said)[0])

    def ended_by(self, number: signal.Signals) -> tuple[int, str]:
        self.child.send_signal(number)
        _, rest = self.child.communicate(timeout=60)
        return self.child.returncode, rest


@pytest.mark.parametrize(("number", "code", "rest"), [(signal.SIGTERM, 0, ""), (signal.SIGINT, 130, "interrupted\n")])
def test_the_command_serves_until_it_is_told_to_end(
    valkey_server: Server, busy: Busy, tmp_path: Path, number: signal.Signals, code: int, rest: str
) -> None:
    started = Started(valkey_server, busy.frontier.crawl, tmp_path)
    try:
        where = f"http://127.0.0.1:{started.port}/metrics"
        assert started.said == f"metrics of crawl {busy.frontier.crawl} at {where}\n"
        assert value(samples(fetch(started.port)), "gossamer_up") == 1
        assert started.ended_by(number) == (code, rest)
    finally:
        started.child.kill()
        started.child.communicate()


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = run("exporter", "--port", str(port), cwd=tmp_path, code=1).stderr
    assert said == f"error: 127.0.0.1:{port}: Address already in use.\n"


def test_a_slow_reader_does_not_hold_up_others(valkey_server: Server, busy: Busy) -> None:
    with (
        serve(settings_for(valkey_server.url, busy.frontier.crawl), port=0) as port,
        socket.create_connection(("127.0.0.1", port)) as slow,
    ):
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert "gossamer_up" in fetch(port)
