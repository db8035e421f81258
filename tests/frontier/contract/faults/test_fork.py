"""Clients that are used on both sides of a fork: each process is a worker and a producer of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gossamer
from gossamer.testing.servers import Server

SCRIPT = """
import os, signal, sys
from gossamer.errors import TokenReused
from gossamer.frontier.seen.memory import ValkeyMemory
from gossamer.frontier.producer import Producer
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request, SeenPolicy, Token, fingerprint
from gossamer.settings import load

settings = load({"GOSSAMER_URL": sys.argv[1], "GOSSAMER_CRAWL": sys.argv[2], "GOSSAMER_PARTITIONS": int(sys.argv[3])}, environ={})
frontier = ValkeyFrontier.open(settings)
frontier.define("g", {"a": LanePolicy()})
producer, memory = Producer(frontier, sys.argv[2] + ":tasks"), ValkeyMemory.open(sys.argv[2], SeenPolicy(), settings)
unused, used = Token.fresh(), Token.fresh()
frontier.exchange(used, want=1)
if sys.argv[4] == "used":
    frontier.add([Request(1, "h.example", "g.a", b"parent", dont_filter=True)])
    producer.push([b"parent"])
    memory.mark([1])

def child(number):
    name = f"child {number}".encode()
    requests = [Request(n, f"h{n}.example", "g.a", name, dont_filter=True) for n in range(10)]
    outcomes = frontier.add(requests)[0]
    assert [one.name for one in outcomes] == ["ADDED"] * 10, outcomes
    producer.push([name])
    assert memory.mark([fingerprint(f"child {number}")]) == [True]
    for token in (unused, used):
        try:
            frontier.exchange(token, want=1)
        except TokenReused as error:
            assert "forked" in str(error)
        else:
            raise AssertionError("a token of the parent was taken")
    frontier.exchange(used.next(), want=1)
    frontier.exchange(used.next().next(), want=1)

# Threads that no child has may hold these at the moment of the fork.
locks = [frontier.verbs.work.adds._lock, frontier.verbs.work.adds.recent._lock]
for lock in locks:
    lock.acquire()
children = []
for number in range(4):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)  # one that hangs ends by itself
        try:
            child(number)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    children.append(pid)
for lock in locks:
    lock.release()
codes = [os.waitpid(pid, 0)[1] for pid in children]
assert codes == [0] * 4, codes
frontier.exchange(unused, want=0)
frontier.exchange(used.next(), want=0)
extra = 1 if sys.argv[4] == "used" else 0
assert frontier.counts("g").groups[0].open == 40 + extra, frontier.counts("g").groups[0].open
assert producer.waiting() == 4 + extra, producer.waiting()
print("well")
"""


@pytest.mark.parametrize("before", ["used", "unused"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_each_child_is_a_client_of_its_own(
    valkey_server: Server, crawl_name: str, partitions: int, before: str
) -> None:
    words = [sys.executable, "-c", SCRIPT, valkey_server.url, crawl_name, str(partitions), before]
    here = {**os.environ, "PYTHONPATH": str(Path(gossamer.__file__).parents[1])}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=here)
    assert (done.stdout, done.stderr, done.returncode) == ("well\n", "", 0)


EMBEDDED = """
import os, signal, sys
from gossamer.frontier.connection import connect
from gossamer.settings import load

connection = connect(load({"GOSSAMER_URL": "embedded", "GOSSAMER_DATA_DIR": sys.argv[1]}, environ={}))
# Threads that no child has may hold these at the moment of the fork.
locks = [connection._pool._lock, connection._closing.__self__._renewing]
for lock in locks:
    lock.acquire()
children = []
for used in (True, False):
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)  # one that hangs ends by itself
        answer = connection.execute("PING") if used else b"PONG"
        connection.close()
        os._exit(answer != b"PONG")
    children.append(pid)
for lock in locks:
    lock.release()
print([os.waitpid(pid, 0)[1] for pid in children], connection.execute("PING"))
connection.close()
"""


def test_a_child_uses_and_closes_a_connection_to_the_embedded_server(tmp_path: Path) -> None:
    here = {**os.environ, "PYTHONPATH": str(Path(gossamer.__file__).parents[1])}
    words = [sys.executable, "-c", EMBEDDED, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False, env=here)
    assert (done.stdout, done.stderr, done.returncode) == ("[0, 0] b'PONG'\n", "", 0)
