"""`gossamer export` and `gossamer import`: nothing is missed while a crawl runs, nothing doubled when it is restored."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter as Tally
from pathlib import Path
from typing import Any

import pytest
from tests.support import busy_crawl, fork_server
from tests.support.command import Command
from tests.support.fork_server import Program

from gossamer.engine.page.payload import pack
from gossamer.errors import SnapshotError
from gossamer.frontier import codec
from gossamer.frontier.snapshot.line import payload_from, payload_json
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    AddOutcome,
    CounterChange,
    Ending,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Order,
    Request,
    SeenKind,
    SeenPolicy,
    SeenScope,
    Selection,
    Settlement,
    StartState,
    Token,
)
from gossamer.model.page import PageRequest
from gossamer.settings import load
from gossamer.testing.clock import advance
from gossamer.testing.forum import ForumProcess, Layout, Trouble
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Cluster, Server

BEGUN = 60
"""Pages after which a crawl is well under way, and far from its end."""
POLITE = ["CONCURRENT_REQUESTS_PER_DOMAIN=4", "DOWNLOAD_DELAY=0.03", "RANDOMIZE_DOWNLOAD_DELAY=0"]


def worker(forum: str) -> list[str]:
    """A worker that crawls the forum."""
    command = ["work", "forum", "-a", f"forum={forum}", "-s", "SPIDER_MODULES=gossamer.scrapy.demo.spider"]
    return command + [word for setting in [*POLITE, "LOG_LEVEL=WARNING"] for word in ("-s", setting)]


def environ(url: str, crawl: str, partitions: int = 1) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    ours = {"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl, "GOSSAMER_PARTITIONS": str(partitions)}
    return {**kept, **ours}


def gossamer(*words: str, env: dict[str, str], cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = fork_server.run("gossamer", words, env, cwd, 100)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def opened(url: str, crawl: str, partitions: int = 1) -> ValkeyFrontier:
    given = {"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl, "GOSSAMER_PARTITIONS": partitions}
    return ValkeyFrontier.open(load(given, {}))


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def taken(frontier: ValkeyFrontier, want: int = 1000, group: str = "g") -> list[tuple[str, str, bytes]]:
    """Everything that may be leased now, in its order: lane, host, payload."""
    answer = frontier.exchange(Token.fresh(), want=want, selection=Selection(groups=(group,)))
    return [(lease.lane, lease.host, lease.payload) for lease in answer.leases]


@pytest.fixture
def two_names(crawl_name: str) -> tuple[str, str]:
    return crawl_name, f"{crawl_name}-copy"


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("before", "after"), [(1, 5), (4, 1)])
def test_a_crawl_exported_while_it_runs_is_finished_elsewhere(
    before: int, after: int, cluster: Cluster, tmp_path: Path, crawl_name: str
) -> None:
    layout = Layout(
        boards=4, lists=3, posts=5, comments=1, seed=3, trouble=Trouble(redirect=0.1, busy=0.005, missing=0.02)
    )
    file = tmp_path / "crawl.jsonl"
    with ForumProcess(layout, hosts=3) as forum:
        with Server().start(fsync="everysec") as server:
            env = environ(server.url, crawl_name, before)
            with opened(server.url, crawl_name, before) as frontier:
                workers = [Program("gossamer", worker(forum.url), env, tmp_path) for _ in range(2)]
                try:
                    wait_until(
                        lambda: sum(group.pages for group in frontier.counts("forum").groups) > BEGUN,
                        "the crawl to be under way",
                        120,
                    )
                    gossamer("export", str(file), env=env, cwd=tmp_path)
                    crawled = len({(a.host, a.path) for a in forum.arrivals() if a.status == 200})
                    assert BEGUN < crawled < len(forum.expected_pages())
                finally:
                    for process in workers:
                        process.kill()
                    for process in workers:
                        process.wait()
            server.kill()
        written = Tally(row.get("type", "header") for row in rows(file))
        assert written["request"] > 0
        assert written["end"] == 1
        env = environ(cluster.url, crawl_name, after)
        gossamer("import", str(file), env=env, cwd=tmp_path)
        workers = [Program("gossamer", worker(forum.url), env, tmp_path) for _ in range(2)]
        assert [process.wait(240) for process in workers] == [0, 0]
        arrived = {f"http://{a.host}{a.path}" for a in forum.arrivals() if a.status == 200}
        assert arrived == forum.expected_pages()
        with opened(cluster.url, crawl_name) as frontier:
            assert frontier.partitions == after
            assert frontier.drained("forum").drained
            lanes_now = frontier.counts("forum").lanes
            assert sum(lane.queued + lane.delayed + lane.leased for lane in lanes_now) == 0
            assert sum(lane.done for lane in lanes_now) >= len(forum.expected_pages())
            assert frontier.dead_letters("forum") == []


def fill(frontier: ValkeyFrontier) -> None:
    """A bit of everything."""
    once = SeenPolicy(scope=SeenScope.ROUND)
    frontier.define(
        "g",
        {
            "fifo": LanePolicy(max_queued=10_000),
            "lifo": LanePolicy(order=Order.LIFO, tier=1),
            "list": LanePolicy(seen=once, tier=2, weight=2.5),
            "shut": LanePolicy(tier=3),
        },
        GroupPolicy(start=True, max_pages=5000, tasks=("{t}list", "{t}set", "{t}zset")),
    )
    token = Token.fresh()
    assert frontier.start("g", token)[0] is StartState.GRANTED
    frontier.started("g", token)
    frontier.new_round("g", 1)
    frontier.start("g", token)
    frontier.started("g", token)
    frontier.pause(lane="g.shut", reason="later")
    frontier.set_host("slow.example", HostPolicy(delay=2.5, concurrency=1))
    frontier.set_crawl_delay("robots.example", 7)
    frontier.block("blocked.example", 3600, "we were rude")
    frontier.pause(host="paused.example", reason="asked to")
    frontier.exchange(token.next(), counters=[CounterChange("g", "bytes", 12.5)])
    request = codec.encode_request({"url": "http://a.example/", "meta": {"depth": (1, b"\xff")}})
    for number in range(1500):
        frontier.add([Request(number, f"h{number % 3}.example", "g.fifo", b"%d" % number, priority=number % 2)])
    frontier.add([Request(number + 2000, "h.example", "g.lifo", b"%d" % number) for number in range(700)])
    frontier.add(
        [Request(2**64 - 1, "h.example", "g.list", request), Request(2**63, "h.example", "g.list", b"\x00\xff")]
    )
    frontier.add([Request(7, "same.example", "g.list", b"same", dont_filter=True)] * 3)
    frontier.add([Request(9001, "h.example", "g.fifo", b"tomorrow", delay=86400)])
    frontier.add([Request(9002, "h.example", "g.shut", b"shut")])
    connection = frontier.connection
    connection.execute("RPUSH", "{t}list", "one", "two", "three", key="{t}list")
    connection.execute("SADD", "{t}set", b"\xff\xfe", "url", key="{t}set")
    connection.execute("ZADD", "{t}zset", 1, "low", 9, "high", key="{t}zset")


def work(frontier: ValkeyFrontier) -> None:
    """Some pages done, failed, tried again, given back, held."""
    token = Token.fresh()
    answer = frontier.exchange(token, want=8, selection=Selection(lanes=("g.fifo",)))
    done, failed, again, back, *_held = answer.leases
    settle = [
        Settlement(done, items=[b"item"]),
        Settlement(failed, Ending.FAILED, reason="broken", detail="Traceback …"),
        Settlement(again, Ending.RETRY, delay=500.0),
    ]
    frontier.exchange(token.next(), settle=settle)
    frontier.release(token, [back])
    frontier.lease_tasks(token, "{t}list", 1)


@pytest.mark.parametrize("after", [1, 3])
def test_what_was_exported_comes_back_as_it_was(
    after: int, valkey_server: Server, redis_server: Server, tmp_path: Path, two_names: tuple[str, str]
) -> None:
    crawl, file = two_names[0], tmp_path / "crawl.jsonl"
    server, other = (valkey_server, redis_server) if after == 1 else (redis_server, valkey_server)
    for each in (server, other):
        each.call("DEL", "{t}list", "{t}set", "{t}zset")
    with opened(server.url, crawl, 2) as original, opened(other.url, two_names[1], after) as copy:
        fill(original)
        work(original)
        gossamer("export", str(file), "--items", env=environ(server.url, crawl), cwd=tmp_path)
        env = environ(other.url, two_names[1], after)
        said = json.loads(gossamer("import", str(file), "--json", env=env, cwd=tmp_path).stdout)
        assert said["complete"]
        assert (said["before"], said["unplaced"]) == (0, 0)
        mine, theirs = original.counts(), copy.counts()
        for lane, restored in zip(mine.lanes, theirs.lanes, strict=True):
            assert (restored.lane, restored.paused) == (lane.lane, lane.paused)
            # Who holds a lease here will not be heard there: it is queued again, ahead of other work.
            assert (restored.queued, restored.delayed, restored.leased) == (lane.queued + lane.leased, lane.delayed, 0)
            assert restored[4:12] == lane[4:12]
        assert theirs.groups == mine.groups
        assert copy.daily_counts("g") == original.daily_counts("g") != []
        mine_seen, their_seen = original.seen_counts(), copy.seen_counts()
        factor = 1 if after in (1, 2) else after
        assert {m.name: m.known * factor for m in mine_seen} == {m.name: m.known for m in their_seen}
        names = ["slow.example", "robots.example", "blocked.example", "paused.example", "h0.example"]
        for host, restored_host in zip(original.hosts(names), copy.hosts(names), strict=True):
            assert abs(restored_host.blocked_until - host.blocked_until) < 1.1
            told = [(x.host, x.reason, x.paused, x.delay, x.crawl_delay, x.own_policy) for x in (host, restored_host)]
            assert told[0] == told[1]
        letters = [original.dead_letters("g"), copy.dead_letters("g")]
        assert [(x.reason, x.detail, x.at, x.fingerprint, x.host) for x in letters[0]] == [
            (x.reason, x.detail, x.at, x.fingerprint, x.host) for x in letters[1]
        ]
        assert copy.replay(letters[1][0].partition, [letters[1][0].id]) == 1
        execute = copy.connection.execute
        assert execute("LRANGE", "{t}list", 0, -1) == [b"one", b"two", b"three"]
        assert sorted(execute("SMEMBERS", "{t}set")) == sorted([b"\xff\xfe", b"url"])
        assert execute("ZRANGE", "{t}zset", 0, -1, "WITHSCORES") == [b"low", b"1", b"high", b"9"]
        outcomes, _, _ = copy.add([Request(n, f"h{n % 3}.example", "g.fifo", b"") for n in range(1500)])
        assert set(outcomes) == {AddOutcome.DUPLICATE}


def test_order_and_unfiltered_requests_survive(
    valkey_server: Server, tmp_path: Path, two_names: tuple[str, str]
) -> None:
    file = tmp_path / "crawl.jsonl"
    valkey_server.call("DEL", "{t}list", "{t}set", "{t}zset")
    with opened(valkey_server.url, two_names[0]) as original, opened(valkey_server.url, two_names[1], 1) as copy:
        fill(original)
        gossamer("export", str(file), env=environ(valkey_server.url, two_names[0]), cwd=tmp_path)
        env = environ(valkey_server.url, two_names[1])
        gossamer("import", str(file), env=env, cwd=tmp_path)
        again = json.loads(gossamer("import", str(file), "--json", env=env, cwd=tmp_path).stdout)
        assert again["restored"] == 0
        for frontier in (original, copy):
            frontier.set_host("", HostPolicy(concurrency=0))
        expected = taken(original, 5000)
        assert len(expected) == 1500 + 700 + 5
        restored = taken(copy, 5000)
        for lane in ("g.fifo", "g.lifo", "g.list"):
            for host in {host for name, host, _ in expected if name == lane}:
                assert [x for x in restored if x[:2] == (lane, host)] == [x for x in expected if x[:2] == (lane, host)]
        assert Tally(restored) == Tally(expected)


def test_an_import_that_broke_off_goes_on_without_doubles(
    valkey_server: Server, tmp_path: Path, two_names: tuple[str, str]
) -> None:
    file, part = tmp_path / "crawl.jsonl", tmp_path / "part.jsonl"
    with opened(valkey_server.url, two_names[0]) as original, opened(valkey_server.url, two_names[1], 3) as copy:
        original.define("g", {"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER))})
        original.add([Request(1, f"h{n % 7}", "g.a", b"%d" % (n % 5), dont_filter=True) for n in range(2000)])
        gossamer("export", str(file), env=environ(valkey_server.url, two_names[0]), cwd=tmp_path)
        text = file.read_bytes()
        env = environ(valkey_server.url, two_names[1])
        for share in (0.2, 0.6):
            part.write_bytes(text[: text.index(b"\n", int(len(text) * share)) + 9])  # in the middle of a line
            said = gossamer("import", str(part), env=env, cwd=tmp_path)
            assert "is cut off and was left out" in said.stderr
        broken = text.splitlines(keepends=True)
        broken[1500] = b'{"type":"request","lane":"g.a"}\n'
        part.write_bytes(b"".join(broken))
        said = gossamer("import", str(part), env=env, cwd=tmp_path, code=3)
        assert said.stderr.startswith(f"error: {part}, line 1501: 'host' is missing. Correct that and import again")
        gossamer("import", str(file), env=env, cwd=tmp_path)
        assert copy.counts().lanes[0].queued == 2000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: it is empty."),
        ("hello\n", "line 1: this line is not JSON"),
        (
            '{"a": 1}\n',
            "line 1: it does not begin with the header of a snapshot; name a file that `gossamer export` wrote.",
        ),
        (
            '{"gossamer": "snapshot", "format": 99}\n',
            "line 1: its format is 99, this Gossamer reads 1; use a newer one.",
        ),
    ],
)
def test_what_is_no_snapshot_is_named(
    text: str, said: str, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    file = tmp_path / "x"
    file.write_text(text)
    done = gossamer("import", str(file), env=environ(valkey_server.url, crawl_name), cwd=tmp_path, code=3)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("after", [2, 3])
@pytest.mark.parametrize(
    "policy",
    [
        SeenPolicy(),
        SeenPolicy(SeenKind.BLOOM, capacity=2000),
        SeenPolicy(SeenKind.ROLLING, window=3600),
        SeenPolicy(SeenKind.HITS, window_count=40_000),
        SeenPolicy(SeenKind.HITS, window_rounds=6),
    ],
    ids=lambda policy: policy.spec,
)
def test_every_kind_of_memory_is_restored(
    policy: SeenPolicy, after: int, valkey_server: Server, tmp_path: Path, two_names: tuple[str, str]
) -> None:
    file = tmp_path / "crawl.jsonl"
    hosts = [f"h{n}" for n in range(20)]
    known = [Request(n * 0x9E3779B97F4A7C15 % 2**64, hosts[n % 20], "g.a", b"%d" % n) for n in range(6000)]
    with opened(valkey_server.url, two_names[0], 2) as original, opened(valkey_server.url, two_names[1], after) as copy:
        original.set_host("", HostPolicy(concurrency=0))
        original.define("g", {"a": LanePolicy(seen=policy)})
        original.new_round("g", 70)
        added = [r for r, out in zip(known, original.add(known)[0], strict=True) if out is AddOutcome.ADDED]
        assert len(added) > 5900
        token = Token.fresh()
        leases = original.exchange(token, want=2000, selection=Selection(groups=("g",))).leases
        original.exchange(token.next(), settle=[Settlement(lease) for lease in leases])
        forgotten = known[10]
        original.forget("g.a", [forgotten.fingerprint])
        gossamer("export", str(file), env=environ(valkey_server.url, two_names[0]), cwd=tmp_path)
        env = environ(valkey_server.url, two_names[1])
        if policy.kind is SeenKind.BLOOM and after != 2:
            said = gossamer("import", str(file), env=env, cwd=tmp_path, code=3)
            assert "import into a crawl with GOSSAMER_PARTITIONS=2, or with --forget-bloom" in said.stderr
            gossamer("import", str(file), "--forget-bloom", env=env, cwd=tmp_path)
        else:
            gossamer("import", str(file), env=env, cwd=tmp_path)
        copy.new_round("g", 72)
        if after == 2:
            assert abs(copy.seen_counts()[0].known - original.seen_counts()[0].known) <= 1
        left = {(host, payload) for _, host, payload in taken(original, 10_000)}
        copy.set_host("", HostPolicy(concurrency=0))
        assert {(host, payload) for _, host, payload in taken(copy, 10_000)} == left
        expected = [r for r in known if r is not forgotten]
        if policy.kind is SeenKind.BLOOM and after != 2:
            expected = [r for r in expected if (r.host, r.payload) in left]
        assert set(copy.add(expected)[0]) == {AddOutcome.DUPLICATE}
        # Forgotten while it is queued, it is marked again when it is restored; done, it is new.
        queued = (forgotten.host, forgotten.payload) in left
        assert (copy.add([forgotten])[0] == [AddOutcome.DUPLICATE]) is queued
        fresh = [Request(2**40 + n, hosts[n % 20], "g.a", b"") for n in range(1000)]
        assert copy.add(fresh)[0].count(AddOutcome.ADDED) > 990


def test_a_rolling_memory_keeps_its_age(valkey_server: Server, tmp_path: Path, two_names: tuple[str, str]) -> None:
    file = tmp_path / "crawl.jsonl"
    policy = LanePolicy(seen=SeenPolicy(SeenKind.ROLLING, window=1000))
    with opened(valkey_server.url, two_names[0]) as original, opened(valkey_server.url, two_names[1]) as copy:
        original.define("g", {"a": policy})
        original.add([Request(1, "h", "g.a", b"old")])
        advance(original, 700)
        advance(copy, 700)
        original.add([Request(2, "h", "g.a", b"young")])
        token = Token.fresh()
        leases = original.exchange(token, want=2, selection=Selection(groups=("g",))).leases
        original.exchange(token.next(), settle=[Settlement(lease) for lease in leases])
        gossamer("export", str(file), env=environ(valkey_server.url, two_names[0]), cwd=tmp_path)
        gossamer("import", str(file), env=environ(valkey_server.url, two_names[1]), cwd=tmp_path)
        assert copy.seen("g.a", [1, 2]) == [True, True]
        advance(copy, 700)
        assert copy.seen("g.a", [1, 2]) == [False, True]
        advance(copy, 700)
        assert copy.seen("g.a", [1, 2]) == [False, False]


def test_two_snapshots_at_once_do_not_spoil_each_other(valkey_server: Server, crawl_name: str) -> None:
    with opened(valkey_server.url, crawl_name) as frontier:
        frontier.define("g", {"a": LanePolicy()})
        scan = frontier.scan
        scan(0, "begin", snapshot="one")
        scan(0, "begin", snapshot="two")
        frontier.add([Request(1, "h", "g.a", b"1")])
        scan(0, "end", snapshot="one")
        frontier.add([Request(2, "h", "g.a", b"2")])
        assert [row.payload for row in scan(0, "journal", snapshot="two").rows] == [b"1", b"2"]
        scan(0, "end", snapshot="two")
        frontier.add([Request(3, "h", "g.a", b"3")])
        assert scan(0, "journal").rows == []


def test_a_snapshot_that_was_silent_too_long_says_so(valkey_server: Server, crawl_name: str) -> None:
    with opened(valkey_server.url, crawl_name) as frontier:
        scan = frontier.scan
        scan(0, "begin", snapshot="slow")
        advance(frontier, 3600)
        with pytest.raises(SnapshotError, match="silent too long"):
            scan(0, "leased", snapshot="slow")


def test_export_of_no_crawl_and_to_standard_output(valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    env = environ(valkey_server.url, crawl_name)
    said = gossamer("export", "x.jsonl", env=env, cwd=tmp_path, code=2)
    assert said.stderr.startswith(f"error: there is no crawl {crawl_name!r} on redis://127.0.0.1")
    assert list(tmp_path.iterdir()) == []
    with opened(valkey_server.url, crawl_name) as frontier:
        frontier.define("g", {"a": LanePolicy()})
        frontier.add([Request(1, "h", "g.a", codec.encode_request({"url": "http://h/ü"}))])
    written = [json.loads(line) for line in gossamer("export", "-", env=env, cwd=tmp_path).stdout.splitlines()]
    assert written[0]["crawl"] == crawl_name
    assert written[-1] == {"type": "end", "lines": len(written), "requests": 1}
    [request] = [row for row in written if row.get("type") == "request"]
    assert request["request"]["url"] == "http://h/ü"


def test_requests_of_sites_are_readable_and_come_back_the_same() -> None:
    link = PageRequest(
        "http://shop.example/p?a=1",
        method="POST",
        headers={"A": "b"},
        body=b"q=1",
        inherited={"kind": "x"},
        depth=2,
        fingerprint=7,
        trail=["http://shop.example/"],
        hops=["http://shop.example/old"],
        marks=[9],
        round=3,
    )
    request = pack(link, "shop.page")
    shown = payload_json(request.payload)
    assert shown == {
        "request": {
            "url": "http://shop.example/p?a=1",
            "meta": {
                "inherited": {"kind": "x"},
                "depth": 2,
                "trail": ["http://shop.example/"],
                "hops": ["http://shop.example/old"],
                "marks": [9],
                "round": 3,
            },
            "method": "POST",
            "headers": {"A": "b"},
            "body": {"$bytes": "q=1"},
        }
    }
    assert payload_from(json.loads(json.dumps(shown))) == request.payload
    plain = payload_json(pack(PageRequest("http://shop.example/", fingerprint=8), "shop.list").payload)
    assert plain == {"request": {"method": "GET", "url": "http://shop.example/"}}


def test_items_that_are_left_behind_are_named(valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}
    with ValkeyFrontier.open(load(given, {})) as frontier:
        frontier.define("g", {"a": LanePolicy()})
        frontier.add([Request(1, "h", "g.a", b"x")])
        token = Token.fresh()
        [lease] = frontier.exchange(token, want=1).leases
        frontier.exchange(token.next(), settle=[Settlement(lease, items=[b"one", b"two"])])
    said = busy_crawl.run("export", "crawl.jsonl", cwd=tmp_path, **given).stderr
    assert "2 items on the server are not in the file; --items writes them too" in said
    said = busy_crawl.run("export", "with.jsonl", "--items", cwd=tmp_path, **given).stderr
    assert "not in the file" not in said


def test_readers_of_items_go_on_where_a_crawl_is_imported(
    command: Command, frontier: ValkeyFrontier, valkey_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another name: named consumers, and files that have their note of how far they reach."""

    def bring(at: ValkeyFrontier, *items: bytes) -> None:
        at.add([Request(1, "h", "g.a", b"x", dont_filter=True)])
        token = Token.fresh()
        [lease] = at.exchange(token, want=1).leases
        at.exchange(token.next(), settle=[Settlement(lease, items=items)])

    def lines(file: str) -> list[str]:
        return [json.loads(line)["payload"] for line in Path(file).read_text().splitlines()]

    monkeypatch.setenv("GOSSAMER_PARTITIONS", str(frontier.partitions))
    frontier.define("g", {"a": LanePolicy()})
    bring(frontier, b"one", b"two")
    command("items", "export", "g", "lake.jsonl", "--as", "lake")
    command("items", "export", "g", "plain.jsonl")
    frontier.keep_items("g", "feed-r0-x", dict.fromkeys(range(frontier.partitions), ""))
    bring(frontier, b"three")
    command("export", "crawl.jsonl", "--items")
    copy = f"{frontier.crawl}-copy"
    command("import", "crawl.jsonl", "--crawl", copy)
    command("import", "crawl.jsonl", "--crawl", copy)
    there = ("--crawl", copy)
    assert list(command("items", "consumers", "g", "--json", *there).json["consumers"]) == ["lake"]
    command("items", "export", "g", "rest.jsonl", "--as", "lake", *there)
    assert lines("rest.jsonl") == ["three"]
    note = Path("plain.jsonl.position")
    note.write_text(note.read_text().replace(frontier.crawl, copy))
    command("items", "export", "g", "plain.jsonl", *there)
    assert lines("plain.jsonl") == ["one", "two", "three"]
    with ValkeyFrontier.find(load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": copy}, {})) as its:
        bring(its, b"four")
    command("items", "export", "g", "plain.jsonl", *there)
    assert lines("plain.jsonl") == ["one", "two", "three", "four"]


def test_state_that_is_there_is_not_imported_by_another_export(
    command: Command, frontier: ValkeyFrontier, tmp_path: Path
) -> None:
    frontier.define("g", {"a": LanePolicy()})
    frontier.add([Request(1, "h", "g.a", b"x")])
    token = Token.fresh()
    [lease] = frontier.exchange(token, want=1).leases
    frontier.exchange(
        token.next(), settle=[Settlement(lease, items=[b"one"])], counters=[CounterChange("g", "bytes", 2)]
    )
    one, two, back = (str(tmp_path / name) for name in ("one.jsonl", "two.jsonl", "back.jsonl"))
    copy = f"{frontier.crawl}-copy"
    for file in (one, two):
        command("export", file, "--items")
    command("import", one, "--crawl", copy)
    refused = command("import", two, "--crawl", copy, code=3).err
    assert "another export of it was imported before" in refused
    assert "--again" in refused
    assert "0 restored" not in command("import", one, "--crawl", copy).out, "the same file is no other export"
    [row] = command("group", "list", "--json", "--crawl", copy).json
    assert (row["items_waiting"], row["counters"]) == (1, {"bytes": 2})
    assert "it was exported from this crawl" in command("import", two, code=3).err
    command("export", back, "--items", "--crawl", copy)
    assert "another export of it was imported before" not in (said := command("import", back, code=3).err)
    assert "already" in said, "there and back again"
    command("import", two, "--crawl", copy, "--again")
    [row] = command("group", "list", "--json", "--crawl", copy).json
    assert row["items_waiting"] == 2
