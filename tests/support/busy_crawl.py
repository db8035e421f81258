"""A crawl that has something of everything that can be watched from outside, for the tests of exporter, top and deploy files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support import fork_server

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    CounterChange,
    CounterOp,
    Ending,
    GroupPolicy,
    LanePolicy,
    Request,
    Selection,
    Settlement,
    Token,
)
from gossamer.settings import Settings, load

GOSSAMER = [sys.executable, "-m", "gossamer"]

COUNTERS: Mapping[str, float] = {
    "gossamer/requests": 12,
    "gossamer/request_bytes": 3400,
    "gossamer/response_bytes": 56000,
    "downloader/response_count": 11,
    "gossamer/responses/200": 9,
    "gossamer/responses/404": 2,
    "gossamer/download_errors/twisted.internet.error.TimeoutError": 1,
    "gossamer/exchange_seconds": 0.5,
    "gossamer/exchange_count": 40,
    "gossamer/metric/histogram/fetch_latency_seconds||le=0.1": 6,
    "gossamer/metric/histogram/fetch_latency_seconds||le=1.0": 4,
    "gossamer/metric/histogram/fetch_latency_seconds||sum": 7.5,
    "gossamer/metric/histogram/fetch_latency_seconds||count": 11,
    "gossamer/filtered": 70,
    "gossamer/retries": 3,
    "retry/count": 3,
    "downloader/request_count": 12,
    "metric/counter/prices|currency=EUR": 5,
    "metric/counter/bad name": 1,
}


def settings_for(url: str, crawl: str, **others: object) -> Settings:
    return load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl, **others}, {})


def environment(**others: str) -> dict[str, str]:
    """This process's environment without settings of ours, but with these."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")} | others


def run(*words: str, cwd: Path, code: int = 0, **others: str) -> subprocess.CompletedProcess[str]:
    """Run `gossamer` to its end."""
    done = fork_server.run("gossamer", words, environment(**others), cwd, 90)
    assert done.returncode == code, done.stdout + done.stderr
    return done


class Busy:
    """A crawl with a group `news` (two lanes, tasks, a worker, dead letters, a blocked host) and a paused group `shop`."""

    def __init__(self, frontier: ValkeyFrontier) -> None:
        self.frontier = frontier
        self.token = Token.fresh()
        self._next = 1000
        source = f"{frontier.crawl}:start_urls"
        frontier.define("news", {"list": LanePolicy(), "post": LanePolicy(tier=1)}, GroupPolicy(tasks=(source,)))
        frontier.define("shop", {"all": LanePolicy()})
        frontier.connection.execute("RPUSH", source, "a", "b", "c", key=source)
        frontier.lease_tasks(Token.fresh(), source, 1)
        requests = [Request(n, f"h{n % 5}.example", "news.list", b"x") for n in range(50)]
        frontier.add([*requests, *requests[:7], Request(99, "h.example", "news.post", b"x", delay=600)])
        leases = frontier.exchange(
            self.token, want=5, selection=Selection(groups=("news",)), info={"name": "crawler-1", "group": "news"}
        ).leases
        self.leases = leases[2:]
        counters = [
            CounterChange("news", name, value, CounterOp.SET if "gauge" in name else CounterOp.ADD)
            for name, value in COUNTERS.items()
        ]
        settle = [Settlement(leases[0], items=[b"i"]), Settlement(leases[1], Ending.FAILED, reason="odd", detail="d")]
        self.exchange(settle=settle, counters=counters)
        frontier.block("blocked.example", 6000, "too many requests")
        frontier.block("other.example", 60, "too many requests")
        frontier.pause(group="shop", reason="closed for today")

    def exchange(self, **what: object) -> None:
        self.token = self.token.next()
        self.frontier.exchange(self.token, **what)  # type: ignore[arg-type]

    def work(self, pages: int = 5) -> None:
        """Some pages more, each with an item and a child."""
        self.token = self.token.next()
        leases = self.frontier.exchange(self.token, want=pages, selection=Selection(groups=("news",))).leases
        settle = []
        for lease in leases:
            self._next += 1
            child = Request(self._next, f"h{self._next % 5}.example", "news.list", b"x")
            settle.append(Settlement(lease, add=[child], items=[b"i"]))
        counted = {
            "gossamer/requests": len(leases),
            "gossamer/response_bytes": 900.0 * len(leases),
            "gossamer/responses/200": len(leases),
            "gossamer/exchange_seconds": 0.01,
            "gossamer/exchange_count": 1,
            "gossamer/metric/histogram/fetch_latency_seconds||le=0.1": len(leases),
            "gossamer/metric/histogram/fetch_latency_seconds||sum": 0.05 * len(leases),
            "gossamer/metric/histogram/fetch_latency_seconds||count": len(leases),
        }
        self.exchange(settle=settle, counters=[CounterChange("news", name, value) for name, value in counted.items()])
