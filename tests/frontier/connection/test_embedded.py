"""The embedded server: one per directory, there while anyone uses it, never left behind, never without its data."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gossamer.errors import (
    DataDirectoryInUse,
    EmbeddedServerError,
    FrontierError,
    FrontierUnavailable,
    ServerBinaryMissing,
)
from gossamer.frontier.connection import Connection, connect, connect_async, embedded
from gossamer.frontier.connection.embedded import (
    Attachment,
    attach,
    find_binary,
    machine_memory,
    memory_bytes,
)
from gossamer.settings import Settings, load

GRACE = 0.2
USER = """
import json, sys
from gossamer.frontier.connection.embedded import attach
with attach(sys.argv[1], grace_seconds=float(sys.argv[2])) as attachment:
    print(json.dumps([attachment.pid, attachment.supervisor_pid]), flush=True)
    sys.stdin.read()
"""


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)
    return result


def gone(pid: int) -> bool:
    """No such process, or one that has ended and waits to be reaped by whoever runs as process 1 here. While another of its threads is
    still ending, its sockets are open."""
    try:
        os.kill(pid, 0)
        ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return ended and len(os.listdir(f"/proc/{pid}/task")) == 1
    except ProcessLookupError:
        return True
    except FileNotFoundError:  # it ended between the two lines, or this system has no /proc
        return sys.platform == "linux"


def settings(directory: Path, **more: Any) -> Settings:
    return load({"GOSSAMER_URL": f"embedded:{directory}", "GOSSAMER_GRACE_SECONDS": GRACE, **more}, environ={})


class User:
    """A process of its own, attached to the directory until it ends."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, str(directory), str(GRACE)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def pids(self) -> tuple[int, int]:
        assert self.process.stdout is not None
        server, supervisor = json.loads(self.process.stdout.readline())
        return server, supervisor

    def leave(self) -> None:
        self.process.communicate()

    def send(self, number: int) -> None:
        os.killpg(self.process.pid, number)
        self.process.communicate()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A data directory whose server, if any, is gone at the end of the test."""
    path = tmp_path / "data"
    yield path
    try:
        supervisor = json.loads((path / "state.json").read_bytes())["supervisor"]
    except (OSError, ValueError):
        return
    until(lambda: gone(supervisor) or not (path / "state.json").exists())


def ping(attachment: Attachment) -> bytes:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(30)
        line.connect(attachment.socket_path)
        line.sendall(b"PING\r\n")
        return line.recv(100)


def eventually(connection: Connection, *command: str) -> Any:
    """The answer, once the server is back; until then only FrontierUnavailable may be seen."""

    def attempt() -> list[Any]:
        try:
            return [connection.execute(*command)]
        except FrontierUnavailable:
            return []

    return until(attempt)[0]


def test_ten_processes_at_once_share_one_server(directory: Path) -> None:
    users = [User(directory) for _ in range(10)]
    pids = {user.pids() for user in users}
    assert len(pids) == 1
    [(server, supervisor)] = pids
    for user in users[1:]:
        user.leave()
    assert not gone(server)
    users[0].leave()
    until(lambda: gone(server) and gone(supervisor))
    assert not list(directory.glob("*.sock"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_one_user_never_takes_the_server_of_another(directory: Path, number: int) -> None:
    user = User(directory)
    server, supervisor = user.pids()
    with attach(directory) as attachment:
        assert (attachment.pid, attachment.supervisor_pid) == (server, supervisor)
        user.send(number)
        assert ping(attachment) == b"+PONG\r\n"
        assert attachment.alive()
    until(lambda: gone(server) and gone(supervisor))


def test_killing_the_only_user_leaves_no_orphan(directory: Path) -> None:
    user = User(directory)
    server, supervisor = user.pids()
    user.send(signal.SIGKILL)
    until(lambda: gone(server) and gone(supervisor))


def test_user_who_comes_in_the_grace_time_keeps_the_server(directory: Path) -> None:
    first = attach(directory, grace_seconds=30)
    first.close()
    with attach(directory) as second:
        assert second.pid == first.pid
        os.kill(second.supervisor_pid, signal.SIGTERM)
        until(lambda: gone(second.pid) and gone(second.supervisor_pid))
        assert not second.alive()


def test_attaching_while_the_server_is_leaving_gets_a_new_one(directory: Path) -> None:
    pids = set()
    for _ in range(10):
        with attach(directory, grace_seconds=0) as attachment:
            assert ping(attachment) == b"+PONG\r\n"
            pids.add(attachment.pid)
    until(lambda: all(map(gone, pids)))


def test_supervisor_killed_takes_the_server_along_and_the_data_is_still_there(directory: Path) -> None:
    with connect(settings(directory)) as connection:
        connection.execute("SET", "k", "v")
        with attach(directory) as attachment:
            os.kill(attachment.supervisor_pid, signal.SIGKILL)
            if sys.platform == "linux":  # elsewhere the next supervisor ends it
                until(lambda: gone(attachment.pid))
            until(lambda: not attachment.alive())
        with attach(directory, grace_seconds=GRACE) as other:
            assert other.pid != attachment.pid
            assert eventually(connection, "GET", "k") == b"v"


def test_connection_attaches_again_by_itself_after_its_supervisor_was_killed(directory: Path) -> None:
    async def scenario() -> None:
        async with await connect_async(settings(directory)) as connection:
            await connection.drive(connection.commands.execute("SET", "k", "v"))
            state = json.loads((directory / "state.json").read_bytes())
            os.kill(state["supervisor"], signal.SIGKILL)
            while not gone(state["pid"]):
                await asyncio.sleep(0.02)
            assert await connection.drive(connection.commands.execute("GET", "k")) == b"v"

    asyncio.run(scenario())


def test_a_closed_connection_starts_no_server(directory: Path) -> None:
    connection = connect(settings(directory))
    state = json.loads((directory / "state.json").read_bytes())
    connection.close()
    with pytest.raises(FrontierError, match="was closed"):
        connection.execute("PING")
    until(lambda: gone(state["pid"]) and gone(state["supervisor"]))
    with pytest.raises(FrontierError, match="was closed"):
        connection.execute("PING")
    assert not (directory / "state.json").exists()


def test_server_killed_is_started_again_with_its_data(directory: Path) -> None:
    with connect(settings(directory)) as connection, attach(directory) as before:
        for round_number in range(3):
            pid = json.loads((directory / "state.json").read_bytes())["pid"]
            connection.execute("SET", f"k{round_number}", "v")
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: gone(pid))  # type: ignore[misc]
            assert eventually(connection, "GET", f"k{round_number}") == b"v"
        assert before.alive()
        with attach(directory) as after:
            assert after.pid != before.pid
            assert after.supervisor_pid == before.supervisor_pid
    assert "starting it again" in (directory / "supervisor.log").read_text()


def test_files_left_by_a_power_cut_mean_nothing(directory: Path) -> None:
    directory.mkdir()
    for name in ("lock", "server.lock", "starting.lock"):
        (directory / name).write_text(str(os.getpid()))
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(directory / "supervisor.sock"))
    left.close()
    state = {"control": str(directory / "supervisor.sock"), "socket": "x", "pid": os.getpid(), "supervisor": 1}
    (directory / "state.json").write_text(json.dumps(state))
    with attach(directory, grace_seconds=GRACE) as attachment:
        assert ping(attachment) == b"+PONG\r\n"


def test_truncated_log_is_accepted(directory: Path) -> None:
    with connect(settings(directory)) as connection:
        connection.execute("SET", "kept", "v")
        state = json.loads((directory / "state.json").read_bytes())
    until(lambda: gone(state["supervisor"]))
    [log] = (directory / "appendonlydir").glob("*.incr.aof")
    with log.open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$4\r\ncu")
    with connect(settings(directory)) as connection:
        assert connection.execute("GET", "kept") == b"v"


def test_server_without_supervisor_is_stopped_before_another_starts(directory: Path) -> None:
    directory.mkdir()
    lock = os.open(directory / "server.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    leftover = subprocess.Popen(
        [find_binary(), "--port", "0", "--unixsocket", str(directory / "server.sock"), "--appendonly", "yes"],
        cwd=directory, stdout=subprocess.DEVNULL, pass_fds=(lock,),
    )  # fmt: skip
    os.close(lock)
    try:
        state = {"control": "x", "socket": str(directory / "server.sock"), "pid": leftover.pid, "supervisor": 1}
        (directory / "state.json").write_text(json.dumps(state))
        until(lambda: (directory / "server.sock").exists())
        with socket.socket(socket.AF_UNIX) as line:
            until(lambda: line.connect_ex(str(directory / "server.sock")) == 0)
            line.sendall(b"SET k v\r\n")
            assert line.recv(100) == b"+OK\r\n"
        with connect(settings(directory)) as connection:
            assert leftover.wait(60) == 0
            assert connection.execute("GET", "k") == b"v"
    finally:
        leftover.kill()
        leftover.wait()


def test_forked_child_neither_takes_the_server_nor_breaks_the_connection(directory: Path) -> None:
    with connect(settings(directory)) as connection:
        connection.execute("SET", "k", "v")
        child = os.fork()
        if child == 0:
            try:
                right = connection.execute("GET", "k") == b"v"
                connection.close()
            except BaseException:
                os._exit(1)
            os._exit(0 if right else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert connection.execute("GET", "k") == b"v"


def test_only_the_owner_may_enter(directory: Path) -> None:
    with attach(directory, grace_seconds=GRACE):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        for path in directory.rglob("*"):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_path_too_long_for_a_socket_works_and_leaves_nothing(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 110)
    with attach(directory, grace_seconds=0) as attachment:
        assert ping(attachment) == b"+PONG\r\n"
        place = Path(attachment.socket_path).parent
        assert directory not in place.parents
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
    until(lambda: gone(attachment.supervisor_pid) and not place.exists())


def test_path_with_quotes_spaces_and_umlauts(tmp_path: Path) -> None:
    with attach(tmp_path / "a \"b\" 'ü' \\ #", grace_seconds=0) as attachment:
        assert ping(attachment) == b"+PONG\r\n"
    until(lambda: gone(attachment.supervisor_pid))


def test_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(EmbeddedServerError, match="is not a directory"):
            attach(path)


def test_binary_that_cannot_run(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tmp_path / "server"
    plain.write_text("#!/bin/sh\n")
    for binary in (plain, tmp_path / "missing"):
        with pytest.raises(ServerBinaryMissing, match="GOSSAMER_SERVER_BINARY"):
            attach(directory, binary=str(binary))
    monkeypatch.setattr(embedded, "wheel_binary", lambda: plain)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerBinaryMissing, match="is not executable"):
        attach(directory)
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=6.2.7 sha=0'\n")
    old.chmod(0o700)
    with pytest.raises(ServerBinaryMissing, match=r"older than 7\.0"):
        attach(directory)


def test_binary_that_is_no_server_is_told_with_the_log(directory: Path, tmp_path: Path) -> None:
    broken = tmp_path / "server"
    broken.write_text("#!/bin/sh\necho '# out of luck' >&2\nexit 3\n")
    broken.chmod(0o700)
    with pytest.raises(EmbeddedServerError, match=r"out of luck.*server\.log"):
        attach(directory, binary=str(broken))


def test_data_of_a_newer_server_is_refused_with_its_reason(directory: Path) -> None:
    logs = directory / "appendonlydir"
    logs.mkdir(parents=True)
    (logs / "appendonly.aof.manifest").write_text("file appendonly.aof.1.base.rdb seq 1 type b\n")
    (logs / "appendonly.aof.1.base.rdb").write_bytes(b"REDIS9999" + b"\xff" + bytes(8))
    with pytest.raises(EmbeddedServerError, match=r"(?i)(rdb|aof).*server\.log") as caught:
        attach(directory)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk_is_said(directory: Path) -> None:
    directory.mkdir()
    (directory / "state.json.new").symlink_to("/dev/full")
    with pytest.raises(EmbeddedServerError, match="No space left"):
        attach(directory)


def test_silent_supervisor_is_not_replaced(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "START_SECONDS", 0.3)
    directory.mkdir()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(directory / "supervisor.sock"))
        silent.listen()
        (directory / "state.json").write_text(json.dumps({"control": str(directory / "supervisor.sock")}))
        with pytest.raises(DataDirectoryInUse, match="does not answer"):
            attach(directory)
    (directory / "state.json").unlink()


def config(connection: Connection, name: str) -> str:
    [_, value] = connection.execute("CONFIG", "GET", name)
    return str(value.decode())


def test_what_is_acknowledged_is_on_disk_and_its_memory_has_a_limit(directory: Path) -> None:
    """As the settings are without anybody's doing; what that means for a killed server is in docs/explanation/embedded-server.md."""
    with connect(settings(directory)) as connection:
        assert config(connection, "appendfsync") == "always"
        assert config(connection, "no-appendfsync-on-rewrite") == "no"
        assert config(connection, "maxmemory-policy") == "noeviction"
        assert int(config(connection, "maxmemory")) == machine_memory() // 2 > 0


@pytest.mark.parametrize(
    ("given", "limit"), [("0", 0), ("300mb", 300 * 2**20), ("100%", machine_memory()), ("2gb", 2 * 2**30), ("9", 9)]
)
def test_a_limit_of_ones_own(given: str, limit: int) -> None:
    assert memory_bytes(load({"GOSSAMER_SERVER_MEMORY": given}, {})["GOSSAMER_SERVER_MEMORY"]) == limit


@pytest.mark.parametrize("removed", ["all", "what is in it"])
def test_a_directory_that_was_removed_is_begun_anew_at_once(directory: Path, removed: str) -> None:
    """The supervisor that is still there leaves without taking the sockets of the next one with it."""
    first = attach(directory, grace_seconds=30)
    first.close()
    if removed == "all":
        shutil.rmtree(directory)
    else:
        for path in directory.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    began = time.monotonic()
    with attach(directory, grace_seconds=GRACE) as second:
        assert time.monotonic() - began < 30, "it waits for nobody"
        assert second.supervisor_pid != first.supervisor_pid
        until(lambda: gone(first.supervisor_pid) and gone(first.pid))
        assert ping(second) == b"+PONG\r\n"
        with attach(directory, grace_seconds=GRACE) as third:
            assert third.pid == second.pid


def test_a_connection_goes_on_with_a_new_server_when_its_directory_is_removed(directory: Path) -> None:
    with connect(settings(directory)) as connection:
        connection.execute("SET", "kept", "1")
        shutil.rmtree(directory)
        assert until(lambda: eventually(connection, "DBSIZE") == 0)
