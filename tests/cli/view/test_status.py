"""`gossamer status`: a crawl at a glance, at a cost that does not grow with it."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter as Tally
from pathlib import Path

import pytest
from tests.support import busy_crawl, fork_server

from gossamer.cli.run.watch import figures
from gossamer.errors import UnknownGroup
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    CounterChange,
    Ending,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Request,
    Selection,
    Settlement,
    Token,
)
from gossamer.settings import load
from gossamer.status import overview as status
from gossamer.status.dead import scan_dead
from gossamer.status.progress import read_progress
from gossamer.testing.servers import Cluster, Server


def opened(url: str, crawl: str, partitions: int = 1) -> ValkeyFrontier:
    given = {"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl, "GOSSAMER_PARTITIONS": partitions}
    return ValkeyFrontier.open(load(given, {}))


def run(*words: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    done = fork_server.run("gossamer", words, env, cwd, 60)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def fill(frontier: ValkeyFrontier) -> None:
    source = f"{frontier.crawl}:start_urls"
    frontier.define(
        "news", {"list": LanePolicy(), "post": LanePolicy(tier=1)}, GroupPolicy(start=True, tasks=(source,))
    )
    frontier.connection.execute("RPUSH", source, "a", "b", key=source)
    frontier.define("shop", {"all": LanePolicy()})
    requests = [Request(n, f"h{n % 5}.example", "news.list", b"x") for n in range(50)]
    frontier.add([*requests, *requests[:7], Request(99, "h.example", "news.post", b"x", delay=600)])
    token = Token.fresh()
    info = {"name": "worker-\x1b[31m1"}
    leases = frontier.exchange(token, want=5, selection=Selection(groups=("news",)), info=info).leases
    settle = [Settlement(leases[0], items=[b"i"]), Settlement(leases[1], Ending.FAILED, reason="odd", detail="d")]
    frontier.exchange(token.next(), settle=settle, counters=[CounterChange("news", "bytes", 2.5)])
    frontier.block("h0.example", 600, "too many requests")
    frontier.pause(group="shop", reason="closed for today")


@pytest.mark.parametrize("topology", ["single", "cluster"])
def test_json_tells_all(topology: str, request: pytest.FixtureRequest, tmp_path: Path, crawl_name: str) -> None:
    server: Server | Cluster = request.getfixturevalue("valkey_server" if topology == "single" else "cluster")
    with opened(server.url, crawl_name, 1 if topology == "single" else 4) as frontier:
        fill(frontier)
    words = ("status", "--json", "--url", server.url, "--crawl", crawl_name, "--host", "h0.example", "--host", "nobody")
    told = json.loads(run(*words, cwd=tmp_path).stdout)
    assert (told["crawl"], told["partitions"]) == (crawl_name, 1 if topology == "single" else 4)
    assert len(told["servers"]) == (1 if topology == "single" else 3)
    lanes = {lane["lane"]: lane for lane in told["lanes"]}
    listed = lanes["news.list"]
    assert (listed["queued"], listed["leased"], listed["done"], listed["failed"], listed["duplicates"]) == (
        45,
        3,
        1,
        1,
        7,
    )
    assert lanes["news.post"]["delayed"] == 1
    groups = {group["group"]: group for group in told["groups"]}
    news = groups["news"]
    assert (news["open"], news["pages"], news["items"], news["dead"], news["start"]) == (50, 2, 1, 1, "owed")
    assert news["counters"] == {"bytes": 2.5}
    assert groups["shop"]["paused"] == "closed for today"
    [worker] = told["workers"]
    assert (worker["held"], worker["info"]["name"]) == (3, "worker-\x1b[31m1")
    assert [(memory["name"], memory["known"]) for memory in told["memories"]] == [("news|exact@forever", 51)]
    assert [host["host"] for host in told["hosts"]] == ["h0.example", "nobody"]
    assert told["hosts"][0]["reason"] == "too many requests"
    assert [host["host"] for host in told["blocked"]] == ["h0.example"]
    assert told["tasks"] == [{"group": "news", "waiting": 2, "leased": 0, "drain_seconds": None}]


def test_people_see_tables(valkey_server: Server, tmp_path: Path, crawl_name: str) -> None:
    with opened(valkey_server.url, crawl_name) as frontier:
        fill(frontier)
    where = ("--url", valkey_server.url, "--crawl", crawl_name)
    shown = run("status", *where, "--host", "h0.example", cwd=tmp_path).stdout
    assert shown.startswith(f"crawl {crawl_name} on redis://127.0.0.1")
    assert "news.list\t45\t0\t3\t1\t0\t0\t1\t0\t7\t\n" in shown
    assert "shop\t0\tnone\t0\t0\t0\t0\t0\t0\tclosed for today\n" in shown
    assert "worker-\\x1b[31m1\t" in shown
    assert "h0.example\t0\t0 s\t0 s\t" in shown
    assert shown.count("too many requests") == 1
    assert "too many requests" in run("status", *where, cwd=tmp_path).stdout, "blocked hosts are shown unasked"
    only = run("status", *where, "--group", "shop", cwd=tmp_path).stdout
    assert "shop.all" in only
    assert "news" not in only
    missing = run("status", *where, "--group", "nope", cwd=tmp_path, code=2)
    assert missing.stderr == f"error: there is no group 'nope' in crawl {crawl_name!r}; `gossamer status` lists them.\n"


def test_a_crawl_that_does_not_exist_is_not_made(valkey_server: Server, tmp_path: Path, crawl_name: str) -> None:
    said = run("status", "--url", valkey_server.url, "--crawl", crawl_name, cwd=tmp_path, code=2)
    assert said.stderr.startswith(f"error: there is no crawl {crawl_name!r} on redis://")
    assert valkey_server.call("KEYS", f"*{crawl_name}*") == []


def test_an_overview_asks_the_same_number_of_commands_whatever_is_queued(
    valkey_server: Server, crawl_name: str
) -> None:
    def commands() -> Tally[str]:
        stats = valkey_server.info("commandstats")
        return Tally(
            {name: int(said.split(",")[0].removeprefix("calls=")) for name, said in stats.items() if "calls=" in said}
        )

    with opened(valkey_server.url, crawl_name) as frontier:
        frontier.set_host("", HostPolicy(concurrency=0))
        frontier.define("g", {"a": LanePolicy()})
        costs = []
        for count in (10, 20_000):
            frontier.add([Request(n, f"h{n % 1000}", "g.a", b"x") for n in range(count)])
            before = commands()
            status.overview(frontier)
            costs.append(commands() - before)
        assert not [
            name for name in costs[1] if name.endswith(("scan", "keys", "smembers")) and costs[1][name] > costs[0][name]
        ]
        # A memory's size is told from a sample of at most 16 buckets.
        assert costs[1].total() <= costs[0].total() + 16


def test_dead_letters_are_scanned_page_by_page(valkey_server: Server, crawl_name: str) -> None:
    with opened(valkey_server.url, crawl_name, 3) as frontier:
        frontier.define("g", {"a": LanePolicy()})
        for number in range(25):
            frontier.bury("g", b"x", reason="bad_task", key=str(number), detail=str(number))
        assert sorted(int(letter.detail) for letter in scan_dead(frontier, "g", page=4)) == list(range(25))
        with pytest.raises(UnknownGroup):
            status.counts_of(frontier, "nope")


def test_a_server_at_its_memory_limit_is_named(tmp_path: Path) -> None:
    with Server().start({"maxmemory": "256mb"}) as server:
        given = {"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": "full"}
        with ValkeyFrontier.open(load(given, {})) as frontier:
            frontier.define("g", {"a": LanePolicy()})
            assert status.overview(frontier).memory == ""
            used = frontier.connection.server_infos()[0].memory_used
            frontier.connection.execute("CONFIG", "SET", "maxmemory", round(used * 0.9), key="any")
            assert "of the limit of" in status.overview(frontier).memory
            assert figures(read_progress(frontier, "g"), 0, status.overview(frontier).memory)["memory"]
        for words in (["status"], ["top", "--count", "1"]):
            assert (
                "MEMORY: "
                in busy_crawl.run(*words, cwd=tmp_path, GOSSAMER_URL=server.url, GOSSAMER_CRAWL="full").stdout
            )
