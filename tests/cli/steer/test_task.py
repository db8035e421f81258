"""`gossamer task`: tasks pushed from the command line, from files and from streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import fork_server
from tests.support.command import Command

from gossamer.cli.steer.task_input import checked
from gossamer.frontier.producer import BATCH_BYTES, BATCH_TASKS, batches
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy, Token
from gossamer.testing import process
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
    assert "0 tasks pushed" in command("task", "push", key, "http://h/1", "http://h/2").out


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
    getattr(fault_proxy, lose)(1, match=b"gossamer_1_push_tasks")
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
        (("http://h/1", "--max-waiting", "0"), "greater than or equal to 1"),
        (("http://h/1", "--no-wait"), "goes with --max-waiting"),
        (("http://h/1", "--key", "url"), "goes with --unique"),
        (("http://h/1", "--unique-for", "soon"), "'soon' is not a duration"),
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
        {"group": "news", "key": key, "waiting": 2, "leased": 1, "drain_seconds": None},
        {"group": "news", "key": f"{key}:2", "waiting": 0, "leased": 0, "drain_seconds": 0.0},
    ]
    assert command("task", "list").rows[0] == ["news", key, "2", "1", "never at this pace"]


def test_no_more_wait_than_may(command: Command, frontier: ValkeyFrontier, key: str, tmp_path: Path) -> None:
    """A file and a stream: the rest is named, and nothing is pushed beyond the limit."""
    file = tmp_path / "tasks"
    file.write_text("\n".join(f"http://h/{n}" for n in range(7)))
    few = "--max-waiting", "5", "--no-wait"
    said = command("task", "push", key, "--file", file, *few, code=1)
    assert said.out == f"5 tasks pushed to {key}; 5 wait in this list, room for 0 more\n"
    assert said.err.startswith(f"error: 2 tasks were not pushed, from line 6 on: no room in {key}.")
    file.write_text("\n".join(f"http://h/{n}" for n in (*range(8), *range(8))))
    said = command("task", "push", f"{key}:unique", "--file", file, "--unique", *few, code=1)
    assert said.out.startswith(f"5 tasks pushed to {key}:unique; 5 wait")
    assert "11 tasks were not pushed, from line 6 on" in said.err, "also those that are known: the rest is one piece"
    frontier.lease_tasks(Token.fresh(), key, 2)
    said = command(
        "task", "push", key, "--file", "-", *few, "--json", given="http://h/5\n\nhttp://h/6\nhttp://h/7\n", code=1
    )
    assert said.json == {"key": key, "kind": "list", "pushed": 2, "new": 2, "waiting": 5, "room": 0, "left": None}
    assert "The rest was not pushed, from line 4 on" in said.err
    assert stored(frontier, key) == [b"http://h/%d" % n for n in range(2, 7)]


def test_waits_for_room_and_tells_what_was_pushed_when_interrupted(
    valkey_server: Server, key: str, tmp_path: Path
) -> None:
    """Room is used as it comes, in order; Ctrl-C names exactly what was pushed."""
    words = [sys.executable, "-m", "gossamer", "task", "push", key, *(f"http://h/{n}" for n in range(9))]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    words += ["--max-waiting", "2", "--url", valkey_server.url]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=env) as pushing:
        for number in range(4):
            assert valkey_server.call("BLPOP", key, "120", timeout=130) == [key, f"http://h/{number}"]
            assert valkey_server.call("LLEN", key) in (0, 1, 2)
        process.wait_until(lambda: valkey_server.call("LLEN", key) == 2, "the room to be used", 60)
        pushing.send_signal(signal.SIGINT)
        out, err = pushing.communicate(timeout=60)
    assert (pushing.returncode, out) == (130, b"")
    assert "6 tasks were pushed\ninterrupted\n" in err.decode()


def test_unique_tasks_are_known_by_their_key(command: Command, frontier: ValkeyFrontier, key: str) -> None:
    tasks = [json.dumps({"url": f"http://h/{n}", "meta": {"id": n % 2, "n": n}}) for n in range(4)]
    said = command("task", "push", key, *tasks, "--unique", "--key", "meta.id")
    assert said.out == f"2 tasks pushed to {key}, 2 known already; 2 wait in this list\n"
    assert "task 2: it has no meta.id" in command(
        "task", "push", key, tasks[3], "http://h/", "--unique-for", "1h", "--key", "meta.id", code=1
    ).err  # fmt: skip
    assert [json.loads(task)["meta"]["n"] for task in stored(frontier, key)] == [0, 1]


CSV = """url,priority,meta.section,layer,filter
http://h/1,5,"home, ""new"" ",list,true
,,,,
http://h/2,,,,
"""


def test_a_table_is_pushed_row_by_row(command: Command, frontier: ValkeyFrontier, key: str, tmp_path: Path) -> None:
    file = tmp_path / "tasks.csv"
    file.write_text("\ufeff" + CSV, encoding="utf-8")
    assert command("task", "push", key, "--file", file).out.startswith("2 tasks pushed")
    assert [json.loads(task) for task in stored(frontier, key)] == [
        {"url": "http://h/1", "priority": 5, "meta": {"section": 'home, "new" '}, "layer": "list", "filter": True},
        {"url": "http://h/2"},
    ]
    for bad, why in {
        "http://h/3,high,,,": "line 5: its priority is 'high'",
        "http://h/3,1": "line 5: it has 2 cells for 5 columns",
        "h/3,1,,,": "line 5: 'h/3' is neither a URL",
        '"http://h/3': "line 5: it is no CSV",
    }.items():
        assert why in command("task", "push", key, "--file", "-", "--csv", given=CSV + bad, code=1).err
        assert (
            "2 tasks before it were pushed"
            in command("task", "push", key, "--file", "-", "--csv", given=CSV + bad, code=1).err
        )
    assert (
        "line 1: the first line must name"
        in command("task", "push", key, "--csv", "--file", "-", given="http://h", code=1).err
    )


def test_batches_are_bounded_in_number_and_size() -> None:
    assert [len(batch) for batch in batches([b"x"] * (BATCH_TASKS * 2 + 1))] == [BATCH_TASKS, BATCH_TASKS, 1]
    assert [len(batch) for batch in batches([b"x" * (BATCH_BYTES // 2)] * 3)] == [2, 1]
    assert list(batches([])) == []


def test_a_good_task_is_pushed_without_the_blanks_around_it() -> None:
    assert checked(b"  http://h/1\t\r") == b"http://h/1"
    assert json.loads(checked(b' {"url": "http://h/1"} ')) == {"url": "http://h/1"}
