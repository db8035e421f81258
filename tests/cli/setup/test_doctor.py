"""`gossamer doctor`: finds what is wrong with a server, names the remedy, and changes nothing."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support import fork_server

from gossamer.cli import exit_codes
from gossamer.doctor import CheckState, clock_check, examine, memory_checks, settings_checks
from gossamer.frontier.connection import Connection, acl
from gossamer.frontier.server import library
from gossamer.frontier.server.info import EMBEDDED, ServerInfo
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request, Selection, Settlement, Token
from gossamer.settings import load
from gossamer.status.overview import memory_trouble
from gossamer.testing.servers import Cluster, Server


def doctor(url: str, crawl: str, cwd: Path, code: int = 0, **more: str) -> dict[str, dict[str, Any]]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")} | more
    words = ["doctor", "--json", "--url", url, "--crawl", crawl]
    done = fork_server.run("gossamer", words, env, cwd, 60)
    assert done.returncode == code, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["ok"] is (code == 0)
    return {check["name"]: check for check in told["checks"]}


def test_a_good_server_is_good_and_no_crawl_is_made(tmp_path: Path, crawl_name: str) -> None:
    with Server().start({"maxmemory": "100mb", "appendonly": "yes"}, fsync="everysec") as server:
        checks = doctor(server.url, crawl_name, tmp_path)
        assert {name: check["state"] for name, check in checks.items() if check["state"] != "good"} == {}
        assert checks["connection"]["found"] == server.url
        assert "does not exist yet" in checks["crawl"]["found"]
        assert server.call("KEYS", "*") == []


@pytest.mark.parametrize(
    ("config", "name", "state", "remedy"),
    [
        ({"maxmemory-policy": "allkeys-lru"}, "eviction", "bad", "maxmemory-policy noeviction"),
        ({"maxmemory-policy": "volatile-ttl"}, "eviction", "doubtful", "maxmemory-policy noeviction"),
        ({"appendonly": "no"}, "persistence", "bad", "appendonly yes"),
        ({"appendfsync": "no"}, "persistence", "doubtful", "appendfsync everysec"),
        ({"set-max-intset-entries": "128"}, "intset limit", "doubtful", "set-max-intset-entries 512"),
        ({"maxmemory": "0"}, "memory", "doubtful", "set maxmemory"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(
    config: dict[str, str], name: str, state: str, remedy: str, tmp_path: Path, crawl_name: str
) -> None:
    with Server("redis").start({"maxmemory": "100mb"}, fsync="everysec") as server:
        for option, value in config.items():
            server.call("CONFIG", "SET", option, value)
        checks = doctor(server.url, crawl_name, tmp_path, exit_codes.FAILED if state == "bad" else 0)
    assert checks[name]["state"] == state
    assert remedy in checks[name]["remedy"]


def test_a_connection_that_fails_is_the_last_check_and_hides_the_password(tmp_path: Path) -> None:
    checks = doctor("redis://ann:hush@127.0.0.1:1/0", "c", tmp_path, exit_codes.FAILED)
    assert list(checks) == ["settings", "connection"]
    assert checks["connection"]["found"].startswith("redis://ann:***@127.0.0.1:1")
    assert checks["connection"]["remedy"] == "check that the server runs and that GOSSAMER_URL points at it"
    assert "hush" not in json.dumps(checks)


def test_a_replica_is_refused(sentinel_pair: Any, tmp_path: Path) -> None:
    checks = doctor(sentinel_pair.replica.url, "c", tmp_path, exit_codes.FAILED)
    assert checks["role"]["state"] == "bad"
    assert "primary" in checks["role"]["remedy"]
    assert doctor(sentinel_pair.url, "c", tmp_path, exit_codes.FAILED)["role"]["state"] == "good"


def test_a_cluster_is_told_about_partitions_and_resharding(cluster: Cluster, crawl_name: str, tmp_path: Path) -> None:
    checks = doctor(cluster.url, crawl_name, tmp_path, exit_codes.FAILED)
    assert checks["cluster"]["state"] == "good"
    assert checks["partitions"]["found"].endswith("on 1 of 3 primaries")
    assert "GOSSAMER_PARTITIONS=12" in checks["partitions"]["remedy"]
    assert checks["resharding"]["state"] == "good"
    checks = doctor(cluster.url, crawl_name, tmp_path, exit_codes.FAILED, GOSSAMER_PARTITIONS="24")
    assert checks["partitions"]["found"].endswith("on 3 of 3 primaries")


def test_an_older_cluster_must_not_be_resharded_under_a_crawl(crawl_name: str, tmp_path: Path) -> None:
    with Cluster(3, kind="redis") as older:
        checks = doctor(older.url, crawl_name, tmp_path, exit_codes.FAILED)
    assert checks["resharding"]["state"] == "doubtful"
    assert checks["resharding"]["remedy"].endswith("use Valkey 9 or newer")


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_the_rights_listed_are_enough_and_each_one_missing_is_named(kind: Any, tmp_path: Path, crawl_name: str) -> None:
    with Server(kind).start({"maxmemory": "100mb"}, fsync="everysec") as server:
        granted = [f"+{name.lower()}" for name in (*acl.NEEDED, *acl.LOADING)]
        server.call("ACL", "SETUSER", "worker", "reset", "on", ">pw", acl.pattern(crawl_name), *granted)
        url = server.url.replace("redis://", "redis://worker:pw@")
        checks = doctor(url, crawl_name, tmp_path)
        assert checks["rights"]["state"] == "doubtful"
        wanted = "+client|id +client|list +config|get +scan"
        why = "for doctor, export, and to know at once that a worker is gone"
        assert checks["rights"]["remedy"] == f"{why}: ACL SETUSER name {wanted}"
        crawl_a_little(url, crawl_name)
        server.call("ACL", "SETUSER", "worker", "+scan", "+config|get", "-xadd", "-hscan")
        checks = doctor(url, crawl_name, tmp_path, exit_codes.FAILED)
        assert checks["rights"]["found"] == "this user may not: HSCAN XADD"
        assert checks["rights"]["remedy"] == "ACL SETUSER name +hscan +xadd"
        server.call("ACL", "SETUSER", "worker", "+xadd", "+hscan", "resetkeys", "~other:*")
        assert doctor(url, "c", tmp_path, exit_codes.FAILED)["rights"]["remedy"] == "ACL SETUSER name ~gossamer:{c/*"
        for name in acl.LOADING:
            server.call("ACL", "SETUSER", "worker", "~*", f"-{name.lower()}")
            settings = load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl_name}, {})
            [found] = [check for check in examine(settings) if check.name == "rights"]
            assert name in found.found
            assert found.state is CheckState.DOUBTFUL
            server.call("ACL", "SETUSER", "worker", f"+{name.lower()}")


def crawl_a_little(url: str, crawl: str) -> None:
    with ValkeyFrontier.open(load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl}, {})) as frontier:
        frontier.define("g", {"a": LanePolicy()})
        frontier.add([Request(1, "h", "g.a", b"1")])
        token = Token.fresh()
        [lease] = frontier.exchange(token, want=1, selection=Selection(groups=("g",))).leases
        frontier.exchange(token.next(), settle=[Settlement(lease, items=[b"i"])])
        assert frontier.drained("g").drained
        assert frontier.read_items("g", 0)
        assert frontier.seen_counts()[0].known == 1


def test_every_command_of_the_functions_is_in_the_table_of_rights() -> None:
    used: set[str] = set()
    for name in (*library.SHARED, *library.VERBS):
        text = library.source(name)
        used |= set(re.findall(r"\bcall(?:_chunked)?\(\s*'([A-Z_]+)'", text))
        used |= {
            word for word in re.findall(r"'([A-Z]{4,})'", text) if word in ("RPOP", "LPOP", "LLEN", "SCARD", "RPUSH")
        }
    known = {name.partition("|")[0] for name in acl.NEEDED}
    assert used - known == set()
    beside = {"FCALL", "FUNCTION", "HLEN", "PING", "XRANGE"}  # said by the client itself
    assert known - beside <= {
        word for name in (*library.SHARED, *library.VERBS) for word in re.findall(r"[A-Z_]{3,}", library.source(name))
    }


def test_settings_that_cannot_work_together_are_found() -> None:
    bad = settings_checks(load({"GOSSAMER_LEASE_SECONDS": 4, "GOSSAMER_SEND_SECONDS": 5}, {}))
    assert [check.state for check in bad] == [CheckState.BAD]
    odd = settings_checks(load({"GOSSAMER_LEASE_SECONDS": 20}, {}))
    assert [check.state for check in odd] == [CheckState.DOUBTFUL]


@pytest.mark.parametrize(("used", "state"), [(10, CheckState.GOOD), (85, CheckState.DOUBTFUL), (96, CheckState.BAD)])
def test_memory_headroom(used: int, state: CheckState) -> None:
    info = ServerInfo("n", "valkey", "9.1", "standalone", "master", True, "always", used, 100, "noeviction", False, 0)
    assert [check.state for check in memory_checks(info)] == [CheckState.GOOD, state]
    own = replace(info, node=EMBEDDED)
    for said, one in (("maxmemory", info), ("GOSSAMER_SERVER_MEMORY", own)):
        assert all(
            f"raise {said}" in check.remedy for check in memory_checks(one) if check.state is not CheckState.GOOD
        )
        assert f"raise {said}" in memory_trouble([one]) or state is not CheckState.BAD


def test_memory_is_said_in_units_that_fit() -> None:
    sizes = 2 << 20, 12 << 30
    info = ServerInfo("n", "valkey", "9.1", "standalone", "master", True, "always", *sizes, "noeviction", False, 0)
    assert [check.found for check in memory_checks(info) if check.name == "memory"] == ["2.0 MiB of 12.0 GiB used (0%)"]


@pytest.mark.parametrize(
    ("off", "state"), [(0, CheckState.GOOD), (-90, CheckState.DOUBTFUL), (3600, CheckState.DOUBTFUL)]
)
def test_a_wrong_clock_is_found(off: int, state: CheckState) -> None:
    class Elsewhere:
        def execute_everywhere(self, *_: str) -> dict[str, list[bytes]]:
            import time

            return {"n": [str(int(time.time()) + off).encode(), b"0"]}

    [check] = clock_check(cast(Connection, Elsewhere()), load({}, {}))
    assert check.state is state


def test_a_crawl_whose_time_is_ahead_is_found(valkey_server: Server, crawl_name: str) -> None:
    """Its server's clock was an hour ahead while a worker called, and was set right since."""
    crawl_a_little(valkey_server.url, crawl_name)
    settings = load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}, {})
    [found] = [check for check in examine(settings) if check.name == "time"]
    assert found.state is CheckState.GOOD
    key = f"gossamer:{{{crawl_name}/0}}:m"
    valkey_server.call("HINCRBY", key, "t", 3_600_000)
    [found] = [check for check in examine(settings) if check.name == "time"]
    assert found.state is CheckState.BAD
    assert re.search(r"is 3,(600|59\d)\.\d s ahead", found.found)
    # What tests do to time is no clock of a server.
    valkey_server.call("HSET", key, "off", 3_600_000)
    [found] = [check for check in examine(settings) if check.name == "time"]
    assert found.state is CheckState.GOOD


def test_a_newer_crawl_is_found(valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    crawl_a_little(valkey_server.url, crawl_name)
    valkey_server.call("HSET", f"gossamer:{{{crawl_name}/0}}:m", "schema", "99")
    checks = doctor(valkey_server.url, crawl_name, tmp_path, exit_codes.FAILED)
    assert checks["crawl"]["remedy"] == "upgrade Gossamer here"


def test_looking_starts_no_embedded_server_and_makes_no_directory(tmp_path: Path) -> None:
    found = doctor("embedded:", "main", tmp_path)["connection"]
    assert found["state"] == "doubtful"
    assert "does not run: there is no crawl 'main'" in found["found"]
    assert "GOSSAMER_DATA_DIR" in found["remedy"]
    assert list(tmp_path.iterdir()) == []
