"""`gossamer task`: tasks pushed from the command line, from files and from streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import fork_server
from tests.support.command import Command

from gossamer.frontier.producer import BATCH_BYTES, BATCH_TASKS, batches, checked
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy, Token
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.servers import Cluster, Server

GOOD = ["http://h/1", '{"url": "https://h/2", "meta": {"a": [1]}}', "https://пример.example/x?y=1#z"]


@pytest.fixture
def key(crawl_name: str) -> str:
    return f"{crawl_name}:start_urls"


def stored(frontier: ValkeyFrontier, key: str) -> list[bytes]:
    """All that waits in a list."""
    found: list[bytes] = frontier.connection.execute("LRANGE", key, 0, -1, key=key)
    return found


def test_a_worker_gets_what_was_pushed(command: Command, frontier: ValkeyFrontier, key: str) -> None:
    said = command("task", "push", key, *GOOD)
    assert said.out == f"3 tasks pushed to {key}; 3 wait in this list\n"
    assert [task.data.decode() for task in frontier.lease_tasks(Token.fresh(), key, 5)] == GOOD


def test_json_tells_what_became_of_it(command: Command, key: str) -> None:
    first = command("task", "push", key, "http://h/1", "--kind", "set")
    assert first.out == f"1 task pushed to {key}; 1 wait in this set\n"
    said = command("task", "push", key, "http://h/1", "http://h/2", "--json").json
    assert said == {"key": key, "kind": "set", "pushed": 2, "new": 1, "waiting": 2}
    assert "2 tasks pushed" in command("task", "push", key, "http://h/1", "http://h/2").out


def test_a_sorted_set_goes_by_priority(command: Command, frontier: ValkeyFrontier, key: str) -> None:
    command("task", "push", key, "http://h/low", "--priority", "-1.5")
    command("task", "push", key, "http://h/high", "--kind", "zset", "--priority", "10")
    command("task", "push", key, "http://h/middle")
    tasks = frontier.lease_tasks(Token.fresh(), key, 5)
    assert [task.data for task in tasks] == [b"http://h/high", b"http://h/middle", b"http://h/low"]


def test_a_file_is_pushed_line_by_line(command: Command, frontier: ValkeyFrontier, key: str, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n\n".join(GOOD).encode())
    assert command("task", "push", key, "--file", file).out.startswith("3 tasks pushed")
    assert [task.decode() for task in stored(frontier, key)] == GOOD


def test_many_go_in_batches(
    command: Command, frontier: ValkeyFrontier, valkey_server: Server, key: str, tmp_path: Path
) -> None:
    file = tmp_path / "many.txt"
    file.write_text("".join(f"http://h/{n}\n" for n in range(25_000)))
    before = int(valkey_server.info("stats")["total_commands_processed"])
    command("task", "push", key, "--file", file)
    assert int(valkey_server.info("stats")["total_commands_processed"]) - before < 1000
    assert stored(frontier, key) == [b"http://h/%d" % n for n in range(25_000)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "'nonsense' is neither a URL nor a JSON object"),
        ("www.example.com/x", "is neither a URL nor a JSON object"),
        ("http://", "is neither a URL nor a JSON object"),
        ("http://h/a b", "has blanks in it"),
        ("http://[::1/", "its URL cannot be read"),
        ("http://h:port/", "its URL cannot be read"),
        ("{", "it is no JSON"),
        ("[]", "it is JSON but no object"),
        ('{"URL": "http://h"}', "it has no url"),
        ('{"url": 5}', "it has no url"),
        ('{"url": ""}', "it has no url"),
        ('{"url": "h/1"}', "'h/1' is neither a URL nor a JSON object"),
        (b"http://h/\xff", "it is no text in UTF-8"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_and_nothing_of_its_file_is_pushed(
    command: Command, frontier: ValkeyFrontier, key: str, tmp_path: Path, line: str | bytes, why: str
) -> None:
    file = tmp_path / "tasks"
    data = line if isinstance(line, bytes) else line.encode()
    file.write_bytes(b"http://h/1\n\nhttp://h/2\n" + data + b"\nhttp://h/3\n")
    said = command("task", "push", key, "--file", file, code=1)
    assert said.err.startswith("error: line 4: ")
    assert why in said.err
    assert "Nothing was pushed" in said.err
    assert stored(frontier, key) == []
    command("task", "push", key, "--file", file, "--raw")
    assert stored(frontier, key) == [b"http://h/1", b"http://h/2", data, b"http://h/3"]


def test_of_a_stream_what_stands_before_a_bad_line_is_pushed(
    command: Command, frontier: ValkeyFrontier, key: str
) -> None:
    said = command("task", "push", key, "--file", "-", given="http://h/1\nhttp://h/2\nwrong\nhttp://h/3\n", code=1)
    assert said.err.startswith(
        "error: line 3: 'wrong' is neither a URL nor a JSON object. 2 tasks before it were pushed;"
    )
    assert stored(frontier, key) == [b"http://h/1", b"http://h/2"]


@pytest.mark.timeout(400)
def test_a_slow_stream_is_not_kept_waiting(valkey_server: Server, key: str, tmp_path: Path) -> None:
    """Each line is there for a worker before the next one comes."""
    words = [sys.executable, "-m", "gossamer", "task", "push", key, "--file", "-", "--url", valkey_server.url]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path, env=env) as pushing:
        assert pushing.stdin is not None
        assert pushing.stdout is not None
        for number in range(3):
            pushing.stdin.write(b"http://h/%d\n" % number)
            pushing.stdin.flush()
            # The command takes its time to start on a machine with other things to do.
            assert valkey_server.call("BLPOP", key, "120", timeout=130) == [key, f"http://h/{number}"]
        pushing.stdin.close()
        assert pushing.stdout.read() == f"3 tasks pushed to {key}; 0 wait in this list\n".encode()
    assert pushing.returncode == 0


@pytest.mark.parametrize("lose", ["lose_replies", "lose_requests"])
def test_an_answer_that_is_lost_doubles_nothing(
    command: Command, frontier: ValkeyFrontier, fault_proxy: FaultProxy, key: str, lose: str
) -> None:
    getattr(fault_proxy, lose)(1, match=b"gossamer_1_push")
    assert command("task", "push", key, *GOOD, "--url", fault_proxy.url).out.startswith("3 tasks pushed")
    assert fault_proxy.counters.lost == 1
    assert [task.decode() for task in stored(frontier, key)] == GOOD


def test_a_line_without_end_is_refused(command: Command, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOSSAMER_PAYLOAD_MAX_BYTES", "5000")
    for data in ("http://h/" + "x" * 3_000_000, "http://h/" + "x" * 5000 + "\n"):
        said = command("task", "push", key, "--file", "-", "--raw", given=f"http://h/1\n{data}", code=1)
        assert "line 2: it is longer than GOSSAMER_PAYLOAD_MAX_BYTES allows (5,000 bytes). 1 task before" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give DATA, or --file"),
        (("http://h/1", "--file", "-"), "give DATA, or --file"),
        (("http://h/1", "--kind", "hash"), "'hash' is not one of"),
        (("http://h/1", "--kind", "set", "--priority", "1"), "only a sorted set (zset) has"),
    ],
)
def test_misuse_pushes_nothing(
    command: Command, valkey_server: Server, key: str, words: tuple[str, ...], said: str
) -> None:
    assert said in command("task", "push", key, *words, code=2).err
    assert valkey_server.call("EXISTS", key) == 0


def test_a_key_of_another_kind_is_left_alone(command: Command, valkey_server: Server, key: str) -> None:
    valkey_server.call("SET", key, "text")
    assert f"key '{key}' is a string on this server" in command("task", "push", key, "http://h/1", code=2).err
    valkey_server.call("DEL", key)
    valkey_server.call("SADD", key, "x")
    assert (
        "is a set on this server, not a list" in command("task", "push", key, "http://h", "--kind", "list", code=2).err
    )


def test_a_missing_file_is_named(key: str, tmp_path: Path) -> None:
    done = fork_server.run("gossamer", ["task", "push", key, "--file", "absent"], os.environ, tmp_path, 60)
    assert (done.returncode, done.stderr) == (1, "error: absent: No such file or directory.\n")


def test_on_a_cluster_too(command: Command, cluster: Cluster, key: str) -> None:
    for kind in ("list", "set", "zset"):
        said = command("task", "push", f"{key}:{kind}", *GOOD, "--kind", kind, "--url", cluster.url, "--json").json
        assert (said["kind"], said["new"], said["waiting"]) == (kind, 3, 3)


def test_the_keys_that_feed_groups_are_listed(command: Command, frontier: ValkeyFrontier, key: str) -> None:
    frontier.define("news", {"a": LanePolicy()}, GroupPolicy(tasks=(key, f"{key}:2")))
    frontier.define("shop", {"a": LanePolicy()})
    command("task", "push", key, *GOOD)
    frontier.lease_tasks(Token.fresh(), key, 1)
    assert command("task", "list", "--json").json == [
        {"group": "news", "key": key, "waiting": 2, "leased": 1},
        {"group": "news", "key": f"{key}:2", "waiting": 0, "leased": 0},
    ]
    assert command("task", "list").rows[0] == ["news", key, "2", "1"]


def test_batches_are_bounded_in_number_and_size() -> None:
    assert [len(batch) for batch in batches([b"x"] * (BATCH_TASKS * 2 + 1))] == [BATCH_TASKS, BATCH_TASKS, 1]
    assert [len(batch) for batch in batches([b"x" * (BATCH_BYTES // 2)] * 3)] == [2, 1]
    assert list(batches([])) == []


def test_a_good_task_is_pushed_without_the_blanks_around_it() -> None:
    assert checked(b"  http://h/1\t\r") == b"http://h/1"
    assert json.loads(checked(b' {"url": "http://h/1"} ')) == {"url": "http://h/1"}
